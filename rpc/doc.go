// Package rpc is the wire of Muster: what surrounds the messages of rpc/pb.
//
// A client makes a [Pool] for a server's address and gives it to the generated client;
// [ClientContext] says who calls. A server gives its handlers to [NewServer], which
// knows the caller ([Caller]), carries deadlines, recovers panics, keeps the limits and
// stops gracefully. It may have more services than one; those for peers are open to
// connections alone that have proven the cluster key ([PeerKey], [Peer]). Both speak dRPC
// after a short preface, one call at a time on a connection.
//
// The rest converts: errors ([ToWire], [FromWire]), paths ([AppendPath], [UnpackPaths]),
// commands, entries, and the messages of a listing ([ListRequest], [ListReply]), which are
// read and written without the generated code: [SendRaw], [ReceiveRaw], [Server.HandleRaw].
// The large ones are copied by neither side on their way between the program and the
// system: [SendParts], [Keeper].
//
// So are those that carry the data of blocks. A reader calls [ReadChunk] or [ReadBlock] and
// a writer [WriteBlock], with a Pool or any other drpc.Conn; a datanode has
// [Server.HandleReadChunk], [SendReadReply] and [ReceiveWriteRequest]. What is received lies
// in pooled memory until Release ([ReadReply], [WriteRequest]), what is sent is the caller's
// again when the call returns. They check no tokens, checksums or bounds. ReadChunk with a
// Pool is made without dRPC's goroutines, and served without them: a client that gives one up
// closes its connection, and the handler's context does not end with the client.
//
// Whatever comes from the wire is checked here, and what an
// older or newer side cannot know is refused with an error that names it.
//
// Pool and Server are safe for concurrent use; the conversions are pure.
package rpc

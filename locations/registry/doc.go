// Package registry is what the location service knows: datanodes, containers, and which are where.
//
// # Contract
//
// [Open] gives a [Registry], which has one owner at a time: the folder is locked. Everything on it
// is safe for concurrent use, but Close, which comes last.
//
// A datanode calls [Registry.Register] first, and again whenever a heartbeat is ErrNotFound: then
// the registry was restarted. It then sends heartbeats, a full report of its containers when a
// heartbeat asks for one, and others when containers come and go. Namespace servers call
// [Registry.Lookup], and follow the topology by [Registry.Topology]. Writers call
// [Registry.Allocate].
//
// # State
//
// On the disk is what cannot be learnt again: containers with their replication, members and
// local ids, who the datanodes are, and what the operator wants of them. All of that is in memory
// too, with what reports and heartbeats say, which is in memory alone. A change is shown to
// nobody before it is durable. Local ids are reserved on the disk in ranges and given from memory;
// of a range that was begun before a crash, no more is given.
//
// # Where a container is
//
// A member, chosen when the container was made, counts as having a replica until its datanode
// says otherwise: by a report that it is gone, or, once the container is closed, by a full
// report that began after the container was made or closed and does not name it. So after a restart
// answers are those from before until reports correct them. What others report counts too. A
// dead datanode never counts, and a stale one comes last. Shortly after the start, a container
// of which no usable replica is known is ErrUnavailable, since reports are still coming in;
// later it is an answer that there are none.
//
// # Where blocks go
//
// To open containers, in turn, whose members are all in service. A container that is full, or of
// which a member is drained, in maintenance, dead, or has closed or lost it, gets none, and is
// closed when there is need of others. Members of a new one are the datanodes with the fewest open
// containers, by rack: the second replica on another rack than the first, the third on the rack of
// the second, all others, and those of erasure-coded containers, where the fewest are so far. If
// there is one rack, all are on it. Fewer datanodes than replicas is ErrUnavailable.
//
// # Failure
//
// As with the namespace: a write to the log that fails is final, every call is refused with
// ErrUnavailable, and Options.OnFatal is called.
package registry

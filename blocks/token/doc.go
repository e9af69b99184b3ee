// Package token makes and checks block tokens: what shows a datanode that the namespace server
// lets somebody read, write or delete a block.
//
// # Contract
//
// The location service makes keys, which it shares with the servers of the cluster alone. Each of
// them makes a [Ring] of the keys and replaces it when there are new ones. Whoever has a ring can sign:
// the namespace server for readers and writers, and servers for their own calls. [Ring.Signer]
// gives a [Signer] for one owner and some modes; it signs any number of blocks. Answers with many
// blocks have the grant once and a MAC for each block, and the client joins them by [Compose].
// Datanodes check by [Verify].
//
// A ring and a signer are immutable and safe for concurrent use. Tokens are for one call or one
// answer: nobody stores or logs them. A [Secret] prints as a mark in its place, however it is
// printed, and so does all that has one.
//
// # Tokens
//
// All numbers are little-endian.
//
//	grant:  version u8 (1) | modes u8 | key id u32 | expires i64, ms since the epoch | owner length u8 | owner
//	token:  grant | max length u64 | file u64 | MAC, 32 bytes
//	MAC:    HMAC-SHA256 with the key over: grant | container u64 | local id u64 | max length u64 | file u64
//
// The block is not in the token: the call names it, and the MAC is of no other. Max length is up to which
// offset the block may be read or written, file is the inode id of the file that the block is of; the
// one who verifies gets both and has to keep to them. Local id 0 is no block: a token for it is of
// the container, to list what is in it, and of no use for any block.
//
// # Keys
//
// A key signs for a day or so, and stays good for tokens signed before until it expires. No token is valid
// for longer than its key. Clocks may differ by [ClockSkew]: for so long after they have expired
// tokens and keys are taken.
package token

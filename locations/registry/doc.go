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
// Heartbeats carry what datanodes say of their disks and of unfinished blocks, and the results of
// orders; the answer names all orders that a datanode is to carry out, until it has told the result.
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
// To open containers, in turn, whose members are all in service and have a disk with room. A
// container that is full, or of which a member is drained, in maintenance, dead, or has closed,
// lost or damaged it, gets none, and is closed when there is need of others. Members of a new one
// are the datanodes with the fewest open containers, by rack: the second replica on another rack
// than the first, the third on the rack of the second, all others, and those of erasure-coded
// containers, where the fewest are so far. If there is one rack, all are on it. Fewer datanodes
// than replicas is ErrUnavailable.
//
// # Orders
//
// Every Options.PlanEvery, closed containers of whole copies are looked at. One that has too few
// replicas is copied: those on dead datanodes are not there, nor are those on datanodes that are
// drained, nor, once Options.ReplicaGrace is over, those that have fewer blocks than others and
// cannot be completed where they are; maintenance is planned absence, and changes nothing. One
// with damaged blocks, or with fewer than others for that long, is completed where it is. Of too
// many replicas the surplus is dropped, when as many complete ones as are needed have been there
// for that long, on datanodes in service that have reported all they have: first those that are
// not complete, then those on the rack with the most. Open containers that take no more blocks, or of
// which a replica lacks for Options.ReplicaGrace what another has, are closed, since only closed ones
// are copied. Erasure-coded ones are never copied, nor is one
// without any block.
//
// What is needed is decided by a function of a snapshot (planning.decide). Copies are bounded, in
// all and for each datanode; containers with the fewest replicas come first. An order without
// progress, by reports, for Options.OrderTimeout is withdrawn, and another one made, of another
// datanode if there is one. Orders are in memory alone; but where copies may have come to be, or still
// may, is durable before a datanode hears of an order (Container.Targets), so that who deletes blocks
// asks there too. After a start none is given before all
// datanodes that are not dead have reported, or Options.DeadAfter is over, so that a restart
// copies nothing.
//
// # Failure
//
// As with the namespace: a write to the log that fails is final, every call is refused with
// ErrUnavailable, and Options.OnFatal is called.
package registry

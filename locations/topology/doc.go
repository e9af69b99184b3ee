// Package topology says how far datanodes are from a reader, and orders replicas by it.
//
// A Tree is an immutable snapshot: the schema of levels, the datanodes, and the mapping of
// hosts to racks. Whoever learns of a change builds another Tree and hands it to the Map,
// whose readers go on with what they have. A Reader holds the costs from one client to
// everything in one Tree; Map.ReaderFor finds the one of a host, and Reader.Sort orders
// replicas: it is a function of its arguments alone, and takes no lock and no memory.
//
// Nodes are named by number everywhere, so a replica that a cache or the wire brings is
// found in the tree by an index into a slice: there is no replica whose node is not linked
// to the tree, other than one that the tree does not have.
//
// All types are safe for concurrent use. Costs are those of Apache Ozone's NetworkTopology,
// see Tree.Distance.
package topology

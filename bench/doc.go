// Package bench holds Muster's experiments: each idea against what it replaces, in
// one run, with both arms returning the same rows. It also makes the trees that they
// run on.
//
// An experiment with listings fills a tree through a client (Fill), lists it by its arms and
// compares what they saw by a digest that does not depend on the order of rows.
// Others have entrants take turns at one operation (contest) and answer with Measurements.
// Whoever runs an experiment owns the server it runs against.
package bench

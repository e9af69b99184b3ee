// Package muster is the vocabulary that all parts of Muster share: error codes,
// kinds of inodes, the rules for names and paths, the caller's identity, the
// entries of a listing and the commands that change the tree.
//
// It holds values and pure functions only: nothing here does I/O, keeps state
// or starts a goroutine, so everything is safe for concurrent use as far as its
// callers do not change what they share. It imports nothing of Muster, and
// every other package may import it.
package muster

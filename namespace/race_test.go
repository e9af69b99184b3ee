//go:build race

package namespace

// The race detector makes pools forget at random, and so calls allocate.
const raceEnabled = true

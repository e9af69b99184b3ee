//go:build race

package server_test

// The race detector makes pools forget at random, and so calls allocate.
const raceEnabled = true

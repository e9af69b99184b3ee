//go:build race

package client_test

// The race detector makes pools forget at random, and so calls allocate.
const raceEnabled = true

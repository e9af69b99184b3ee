//go:build race

package locations_test

// The race detector takes memory and time that the product does not.
const raceEnabled = true

//go:build !race

package locations_test

const raceEnabled = false

//go:build !race

package listing_test

const raceEnabled = false

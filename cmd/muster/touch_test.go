package main

import (
	"testing"
	"time"
)

func TestDatesAreReadInTheLocalZone(t *testing.T) {
	zone := time.FixedZone("X", 2*3600)
	now := time.Date(2026, 11, 30, 12, 0, 0, 5e6, zone)
	for text, want := range map[string]time.Time{
		"now":                       now,
		"@0":                        time.Unix(0, 0),
		"@-1.5":                     time.UnixMilli(-1500),
		"@1796050000.25":            time.UnixMilli(1796050000250),
		"2026-11-30":                time.Date(2026, 11, 30, 0, 0, 0, 0, zone),
		"2026-11-30 15:04":          time.Date(2026, 11, 30, 15, 4, 0, 0, zone),
		"2026-11-30 15:04:05":       time.Date(2026, 11, 30, 15, 4, 5, 0, zone),
		"2026-11-30 15:04:05.125":   time.Date(2026, 11, 30, 15, 4, 5, 125e6, zone),
		"2026-11-30 15:04:05 -0100": time.Date(2026, 11, 30, 16, 4, 5, 0, time.UTC),
		"2026-11-30T15:04:05Z":      time.Date(2026, 11, 30, 15, 4, 5, 0, time.UTC),
		"2026-11-30T15:04:05.5Z":    time.Date(2026, 11, 30, 15, 4, 5, 5e8, time.UTC),
	} {
		if ms, err := parseDate(text, now); err != nil || ms != want.UnixMilli() {
			t.Errorf("%q is %d, %v; want %d", text, ms, err, want.UnixMilli())
		}
	}
	for _, text := range []string{"", "yesterday", "@", "@x", "@1e300", "@NaN", "2026-13-01", "2026-02-30", "30.11.2026"} {
		if ms, err := parseDate(text, now); err == nil {
			t.Errorf("%q is taken as %d", text, ms)
		}
	}
}

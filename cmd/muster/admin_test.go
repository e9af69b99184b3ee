package main

import (
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

type locationsKey struct{}

func startLocations(ts *testscript.TestScript, neg bool, flags []string) {
	args := append([]string{"locations", "--data", ts.MkAbs("locations"), "--listen", "127.0.0.1:0"}, flags...)
	ts.Value(locationsKey{}).(*testServer).start(ts, neg, args, "locations.log", "LOCATIONS")
	ts.Defer(func() { stopLocations(ts, false, nil) })
}

func stopLocations(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Value(locationsKey{}).(*testServer).end(ts, neg, args, syscall.SIGTERM); err != nil {
		ts.Fatalf("locations: %v; log:\n%s", err, ts.ReadFile("locations.log"))
	}
}

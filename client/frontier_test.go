package client

import (
	"fmt"
	"testing"
)

func TestFrontierTakesTheOldestUntilTooManyWait(t *testing.T) {
	f := newFrontier("/")
	for i := range maxFrontier + 1 {
		f.waiting = append(f.waiting, fmt.Sprint(i))
	}
	f.open = len(f.waiting)
	for _, want := range []string{fmt.Sprint(maxFrontier), fmt.Sprint(maxFrontier - 1), "/", "0"} {
		if got, some, complete := f.take(); got != want || !some || complete {
			t.Fatalf("took %q, want %q", got, want)
		}
	}
	f.waiting = nil
	if _, some, complete := f.take(); some || complete {
		t.Fatal("complete while directories have no outcome")
	}
	f.open = 0
	if _, _, complete := f.take(); !complete {
		t.Fatal("not complete")
	}
}

package bench

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// TestResolvingIsMeasured runs the experiment for moments: what it finds is noise, but each arm must
// move and give right answers, and reads of the store are no noise.
func TestResolvingIsMeasured(t *testing.T) {
	e := NewResolve()
	e.Files, e.Goroutines, e.Rounds, e.RoundTime, e.Dir = 30, []int{1, 4}, 2, 10*time.Millisecond, t.TempDir()
	r, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, m := range r {
		seen = append(seen, fmt.Sprint(m.Case, " ", m.Goroutines, " ", m.Arm))
		if m.Bench != "resolve" || !m.Equal || m.OpsPerSecond <= 0 || m.P50 <= 0 || m.P99 < m.P50 || m.Arm == "steps" && m.Ratio != 1 {
			t.Errorf("%+v", m)
		}
		want := map[string]Figure{"steps": 2 * r[1].StoreReadsCold, "once": r[1].StoreReadsCold}[m.Arm]
		if m.StoreReads != 0 || m.StoreReadsCold != want || want <= 0 {
			t.Errorf("%s takes %v reads of the store, and with nothing in memory %v, not %v", m.Arm, m.StoreReads, m.StoreReadsCold, want)
		}
	}
	if got := strings.Join(seen, ", "); got != "in-process 1 steps, in-process 1 once, in-process 4 steps, in-process 4 once, "+
		"loopback 1 steps, loopback 1 once, loopback 4 steps, loopback 4 once" {
		t.Error(got)
	}
}

// TestTheArmsOfResolvingRefuseAlike whatever cannot be opened.
func TestTheArmsOfResolvingRefuseAlike(t *testing.T) {
	e := NewResolve()
	e.Files = 3
	err := e.with(t.Context(), t.TempDir(), namespace.Options{}, func(o *opening) error {
		for _, place := range []string{inProcess, loopback} {
			for path, want := range map[string]error{
				resolveLink:                        muster.ErrIsDirectory,
				resolveLink + "/missing":           muster.ErrNotFound,
				o.paths[0] + "/below":              muster.ErrNotDirectory,
				resolveLink + "/day=2023-01-01/..": muster.ErrInvalid,
			} {
				for arm := range resolveArms {
					if _, err := o.told(t.Context(), place, resolveArm(arm), &o.caller, path); !errors.Is(err, want) {
						t.Errorf("%s, %s, %s: %v", place, resolveArms[arm].name, path, err)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestResolvingThatCannotBeMeasured(t *testing.T) {
	for says, change := range map[string]func(*Resolve){
		"0 files":      func(e *Resolve) { e.Files = 0 },
		"goroutines":   func(e *Resolve) { e.Goroutines = nil },
		"[4 0]":        func(e *Resolve) { e.Goroutines = []int{4, 0} },
		"0 rounds":     func(e *Resolve) { e.Rounds = 0 },
		"rounds of 0s": func(e *Resolve) { e.RoundTime = 0 },
	} {
		e := NewResolve()
		change(&e)
		if _, err := e.Run(t.Context()); !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

// BenchmarkResolve is muster bench resolve, without percentiles.
func BenchmarkResolve(b *testing.B) {
	e := NewResolve()
	err := e.with(b.Context(), b.TempDir(), namespace.Options{}, func(o *opening) error {
		for _, place := range []string{inProcess, loopback} {
			if equal, err := o.compare(b.Context(), place); err != nil || !equal {
				return fmt.Errorf("equal: %v, %w", equal, err)
			}
			for arm := range resolveArms {
				for _, goroutines := range e.Goroutines {
					b.Run(fmt.Sprintf("place=%s/arm=%s/goroutines=%d", place, resolveArms[arm].name, goroutines), func(b *testing.B) {
						b.ReportAllocs()
						benchmarkEntrant(b, o.entrant(place, resolveArm(arm), true), goroutines)
					})
				}
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

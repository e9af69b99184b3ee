package bench

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// counting is an entrant that counts, and takes a time for each operation.
func counting(name string, begun, done *atomic.Int64, each time.Duration) entrant {
	return entrant{name: name, equal: true, begin: func(context.Context) func() error {
		begun.Add(1)
		return func() error {
			for begin := time.Now(); time.Since(begin) < each; {
			}
			done.Add(1)
			return nil
		}
	}}
}

func TestEntrantsTakeTurns(t *testing.T) {
	var begun, done [2]atomic.Int64
	c := contest{bench: "b", of: "c", goroutines: 3, rounds: 4, roundTime: 20 * time.Millisecond, entrants: []entrant{
		counting("slow", &begun[0], &done[0], time.Millisecond), counting("fast", &begun[1], &done[1], 10*time.Microsecond),
	}}
	c.entrants[1].sample = 16
	var besides, ops int
	c.entrants[1].beside = func(context.Context) (func(int) error, error) {
		besides++
		return func(n int) error { ops += n; return nil }, nil
	}
	steps := 0
	results, err := c.run(t.Context(), func() { steps++ })
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	slow, fast := results[0], results[1]
	if slow.Ratio != 1 || fast.Ratio != fast.OpsPerSecond/slow.OpsPerSecond || slow.P50 < 1000 || fast.P50 < 10 || slow.P99 < slow.P50 || fast.P99 < fast.P50 || slow.OpsPerSecond <= 0 {
		t.Errorf("%+v\n%+v", slow, fast)
	}
	if slow.Arm != "slow" || fast.Arm != "fast" || slow.Bench != "b" || slow.Case != "c" || slow.Goroutines != 3 || !slow.Equal {
		t.Errorf("%+v", slow)
	}
	if rounds := c.rounds + 1; steps != rounds || besides != rounds || begun[0].Load() != int64(3*rounds) || int64(ops) != done[1].Load() {
		t.Errorf("%d steps, %d besides, %d begun, %d ops told, %d done", steps, besides, begun[0].Load(), ops, done[1].Load())
	}
	text, err := json.Marshal(Measurement{Bench: "topology", Case: "edge", Arm: "snapshot", Goroutines: 2, OpsPerSecond: 1.5, P50: 0.25, P99: 1, Ratio: 2, Equal: true})
	if want := `{"bench":"topology","case":"edge","arm":"snapshot","goroutines":2,"ops_per_s":1.5,"p50_us":0.25,"p99_us":1,"ratio":2,"equal":true}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// TestAContestEndsWithItsFirstError, and with its context.
func TestAContestEndsWithItsFirstError(t *testing.T) {
	bad := errors.New("it went wrong")
	failing := entrant{name: "failing", begin: func(context.Context) func() error {
		n := 0
		return func() error {
			if n++; n == 100 {
				return bad
			}
			return nil
		}
	}}
	ended := 0
	failing.beside = func(context.Context) (func(int) error, error) { return func(int) error { ended++; return nil }, nil }
	c := contest{goroutines: 2, rounds: 1, roundTime: time.Hour, entrants: []entrant{failing}}
	if _, err := c.run(t.Context(), func() {}); !errors.Is(err, bad) || ended != 1 {
		t.Errorf("%v; what was beside ended %d times", err, ended)
	}
	worse := errors.New("it went worse")
	c.entrants[0].beside = func(context.Context) (func(int) error, error) { return func(int) error { return worse }, nil }
	if _, err := c.run(t.Context(), func() {}); !errors.Is(err, bad) || !errors.Is(err, worse) {
		t.Error(err)
	}
	c.entrants[0].beside = func(context.Context) (func(int) error, error) { return nil, bad }
	if _, err := c.run(t.Context(), func() {}); !errors.Is(err, bad) {
		t.Error(err)
	}
	var begun, done atomic.Int64
	c.entrants[0] = counting("endless", &begun, &done, time.Microsecond)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.run(ctx, func() {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
)

// contest has entrants take turns at doing the same thing over and over.
type contest struct {
	bench, of  string // for the results: the experiment, and its case
	goroutines int
	rounds     int
	roundTime  time.Duration
	entrants   []entrant // the first is what the others are held against
}

// entrant is an arm of a contest.
type entrant struct {
	name  string
	equal bool // its answers have been compared already, outside of all timing

	// begin returns what one goroutine does over and over in a round. It is called before the
	// clock is started.
	begin func(ctx context.Context) func() error
	// sample says that one operation of so many is timed by itself; 0: each. Reading the clock
	// takes some 50 ns, which fast ones should not be charged with.
	sample int
	// beside begins what goes on beside a round; end ends it and is told how many operations
	// the round had. nil: nothing.
	beside func(ctx context.Context) (end func(ops int) error, err error)
}

// pace is what an entrant did in a round.
type pace struct {
	ops            int
	rate, p50, p99 float64 // operations a second; µs
}

// validateRounds says what is wrong with the numbers that all experiments have.
func validateRounds(rounds int, roundTime time.Duration) error {
	switch {
	case rounds < 1:
		return fmt.Errorf("%w: %d rounds; at least 1", muster.ErrInvalid, rounds)
	case roundTime <= 0:
		return fmt.Errorf("%w: rounds of %v; use a time above 0", muster.ErrInvalid, roundTime)
	}
	return nil
}

// run runs all rounds, and calls step after each. A round that is not timed comes first: it
// makes connections and fills caches.
func (c *contest) run(ctx context.Context, step func()) ([]Measurement, error) {
	paces := make([][]pace, len(c.entrants))
	for n := range c.rounds + 1 {
		for k := range c.entrants {
			i := (n + k) % len(c.entrants) // each is first in turn
			duration := c.roundTime
			if n == 0 {
				duration /= 10
			}
			p, err := c.round(ctx, &c.entrants[i], duration)
			if err != nil {
				return nil, fmt.Errorf("%s, %s, %s: %w", c.bench, c.of, c.entrants[i].name, err)
			}
			if n > 0 {
				paces[i] = append(paces[i], p)
			}
		}
		step()
	}
	return c.results(paces), nil
}

// results are the medians of the rounds.
func (c *contest) results(paces [][]pace) []Measurement {
	results := make([]Measurement, len(c.entrants))
	for i, e := range c.entrants {
		of := func(value func(pace) float64) Figure {
			var values []float64
			for _, p := range paces[i] {
				values = append(values, value(p))
			}
			return median(values)
		}
		results[i] = Measurement{
			Bench: c.bench, Case: c.of, Arm: e.name, Goroutines: c.goroutines, Equal: e.equal,
			OpsPerSecond: of(func(p pace) float64 { return p.rate }),
			P50:          of(func(p pace) float64 { return p.p50 }),
			P99:          of(func(p pace) float64 { return p.p99 }),
		}
		results[i].Ratio = results[i].OpsPerSecond / results[0].OpsPerSecond
	}
	return results
}

// round has one entrant run for a time.
func (c *contest) round(ctx context.Context, e *entrant, duration time.Duration) (p pace, err error) {
	runtime.GC() // what earlier rounds left is not this one's to clean up
	if e.beside != nil {
		var end func(int) error
		if end, err = e.beside(ctx); err != nil {
			return p, err
		}
		defer func() { err = errors.Join(err, end(p.ops)) }()
	}
	workers := make([]worker, c.goroutines)
	for i := range workers {
		workers[i] = worker{do: e.begin(ctx), sample: max(1, e.sample)}
	}
	var over atomic.Bool
	defer time.AfterFunc(duration, func() { over.Store(true) }).Stop()
	defer context.AfterFunc(ctx, func() { over.Store(true) })()
	var g errgroup.Group
	begin := time.Now()
	for i := range workers {
		g.Go(func() error { return workers[i].run(&over) })
	}
	err = g.Wait()
	took := time.Since(begin)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return p, err
	}
	return paceOf(workers, took), nil
}

// worker is one goroutine of a round.
type worker struct {
	do     func() error
	sample int

	ops   int
	times []int64 // ns that single operations took
}

// maxTimes bounds the times that a worker keeps: the last ones.
const maxTimes = 1 << 16

// run works until the round is over, which ends with the first error.
func (w *worker) run(over *atomic.Bool) error {
	ops, timed, wait := 0, 0, 1
	times := make([]int64, 0, 1024) // others' are not on the same cache line
	for {
		ops++
		wait--
		var err error
		if wait > 0 {
			err = w.do()
		} else {
			begin := time.Now()
			err = w.do()
			took := int64(time.Since(begin))
			if timed < maxTimes {
				times = append(times, took)
			} else {
				times[timed%maxTimes] = took
			}
			timed++
			wait = w.sample
		}
		if err != nil {
			over.Store(true)
		}
		if err != nil || over.Load() {
			w.ops, w.times = ops, times
			return err
		}
	}
}

func paceOf(workers []worker, took time.Duration) pace {
	var p pace
	var times []int64
	for i := range workers {
		p.ops += workers[i].ops
		times = append(times, workers[i].times...)
	}
	slices.Sort(times)
	at := func(part float64) float64 { return float64(times[int(part*float64(len(times)-1))]) / 1e3 }
	p.rate, p.p50, p.p99 = float64(p.ops)/took.Seconds(), at(0.5), at(0.99)
	return p
}

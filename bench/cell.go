package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"
)

// cell is one shape in one place: its arms are compared with each other.
type cell struct {
	shape    Shape
	place    Place
	paths    []string
	listings []listed // each arm makes each of them

	carried func() int64 // bytes that the checked source has moved; nil: it has no wire

	server func(context.Context) (usage, error) // what the server has used; nil: it is this process
	empty  func(context.Context) error          // a call that does nothing; nil: there is no wire

	roundTime time.Duration
	cold      bool
}

// listed is a listing with or without locations.
type listed struct {
	located  bool
	timed    source   // where the timed rounds list
	checked  source   // where the rows are compared; the same server
	expected prefixes // what every arm must see
}

// entry is an arm with one of the listings.
type entry struct {
	Arm
	*listed
	plan plan
}

// entries are the arms, each with all listings.
func (c *cell) entries(arms []Arm) []entry {
	var all []entry
	for _, a := range arms {
		for i := range c.listings {
			all = append(all, entry{Arm: a, listed: &c.listings[i]})
		}
	}
	return all
}

// plan is how much an arm lists in a round.
type plan struct {
	directories int // the first of all
	times       int // one after another
}

// leastRound is how long a round should take at least, so that what is measured is more
// than the noise of the clocks: small tables are listed several times.
const leastRound = 100 * time.Millisecond

// plan finds out how much an arm lists in a round by listing more and more; that also
// makes its connections.
func (c *cell) plan(ctx context.Context, a entry) (plan, error) {
	n := min(len(c.paths), 8*a.Goroutines*a.unit)
	for {
		took, err := c.try(ctx, a, n)
		if err != nil {
			return plan{}, err
		}
		if n < len(c.paths) && took < c.roundTime/4 {
			n = min(len(c.paths), 4*n)
			continue
		}
		again, err := c.try(ctx, a, n) // the first time may have met something cold
		if err != nil {
			return plan{}, err
		}
		took = min(took, again)
		each := took.Seconds() / float64(n)
		fit := int(min(c.roundTime.Seconds()/each, float64(len(c.paths))))
		p := plan{min(len(c.paths), max(a.unit, fit/a.unit*a.unit)), 1}
		if fit == len(c.paths) {
			p = plan{fit, max(1, int(min(leastRound, c.roundTime).Seconds()/(each*float64(fit))))}
		}
		return p, nil
	}
}

// try times the listing of the first n directories.
func (c *cell) try(ctx context.Context, a entry, n int) (time.Duration, error) {
	begin := time.Now()
	_, err := a.list(ctx, a.timed, c.paths[:n], func(part) {})
	return max(time.Since(begin), time.Microsecond), err
}

// check compares what the arm sees with what it must see, outside of all timing.
func (c *cell) check(ctx context.Context, a entry) (equal bool, bytesPerRow float64, err error) {
	seen := census{hasher: hasher{located: a.located}}
	before := c.bytes(&seen)
	if _, err := a.list(ctx, a.checked, c.paths[:a.plan.directories], seen.take); err != nil {
		return false, 0, err
	}
	if seen.err != nil {
		return false, 0, seen.err
	}
	bytes := c.bytes(&seen) - before
	return seen.digest == a.expected[a.plan.directories], float64(bytes) / float64(max(1, seen.digest.rows)), nil
}

func (c *cell) bytes(seen *census) int64 {
	if c.carried == nil {
		return seen.bytes
	}
	return c.carried()
}

// round times one round.
func (c *cell) round(ctx context.Context, a entry) (round, error) {
	runtime.GC() // what earlier rounds left is not this one's to clean up
	before, err := c.served(ctx)
	if err != nil {
		return round{}, err
	}
	own := ownUsage()
	var t tally
	r := round{empty: math.NaN()}
	take := func(p part) { t.take(p); p.release() }
	t.begin = time.Now()
	for range a.plan.times {
		calls, err := a.list(ctx, a.timed, c.paths[:a.plan.directories], take)
		if err != nil {
			return round{}, err
		}
		r.calls += calls
	}
	r.seconds = time.Since(t.begin).Seconds()
	r.client = ownUsage().since(own)
	after, err := c.served(ctx)
	if err != nil {
		return round{}, err
	}
	r.server = after.since(before)
	if c.server == nil {
		r.server, r.client = r.client, unknown()
	}
	r.rows, r.first = int(t.rows.Load()), time.Duration(t.first.Load()).Seconds()
	if want := a.expected[a.plan.directories].rows * a.plan.times; r.rows != want {
		return round{}, fmt.Errorf("%v, %v: %v listed %d rows, and %d before", c.shape, c.place, a, r.rows, want)
	}
	r.server, r.client = r.server.per(r.rows), r.client.per(r.rows)
	return r, nil
}

// served is what the server has used, if it is another process.
func (c *cell) served(ctx context.Context) (usage, error) {
	if c.server == nil {
		return unknown(), nil
	}
	return c.server(ctx)
}

// emptyCalls times calls that do nothing, about a tenth as long as the round before took.
func (c *cell) emptyCalls(ctx context.Context, r *round) error {
	until := time.Duration(r.seconds * float64(time.Second) / 10)
	begin, calls := time.Now(), 0
	for calls < 20 || time.Since(begin) < until {
		if err := c.empty(ctx); err != nil {
			return err
		}
		calls++
	}
	r.empty = time.Since(begin).Seconds() / float64(calls)
	return nil
}

// run compares the arms: each is checked, then they take turns.
func (c *cell) run(ctx context.Context, arms []Arm, rounds int, step func(done int)) ([]Result, error) {
	all := c.entries(arms)
	results, timed := make([]Result, len(all)), make([][]round, len(all))
	for i := range all {
		a := &all[i]
		var err error
		if a.plan, err = c.plan(ctx, *a); err != nil {
			return nil, err
		}
		r := Result{Shape: c.shape.String(), Place: c.place.String(), Arm: a.Name, Goroutines: a.Goroutines, Located: a.located, Cold: c.cold, Directories: a.plan.directories}
		bytes := 0.0
		if r.RowsEqual, bytes, err = c.check(ctx, *a); err != nil {
			return nil, err
		}
		r.Bytes = Figure(bytes)
		results[i] = r
	}
	for n := range rounds {
		for k := range all {
			i := (n + k) % len(all) // each is first in turn
			r, err := c.round(ctx, all[i])
			if err == nil && c.empty != nil && all[i].sequentialIterator() && !all[i].located {
				err = c.emptyCalls(ctx, &r)
			}
			if err != nil {
				return nil, err
			}
			timed[i] = append(timed[i], r)
		}
		step(n + 1)
	}
	for i := range results {
		results[i].summarize(timed[i])
	}
	compare(results)
	return results, nil
}

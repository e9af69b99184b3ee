package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// Scale is the experiment of a tree that is large for its machine: how fast it is filled, how
// long a server takes to open it, and what listing all of it costs, first cold and then hot.
type Scale struct {
	Table   Table // in batches of whole partitions: see MaxScaleFiles
	Callers int   // that fill the table at the same time; at least 1
	Hot     int   // listings after the cold one; at least 1

	// Dir is an empty folder for the store. Serve starts a server on it, in a process of
	// its own that can be killed, and returns when it is ready.
	Dir      string
	Serve    func(ctx context.Context, dir string) (*Process, error)
	Progress Progress
}

// ScaleResult is what a Scale found. Hot figures are medians.
type ScaleResult struct {
	Directories int
	Files       int
	Callers     int

	Fill       Figure
	FillRate   Figure
	FillMemory Figure
	StoreBytes Figure
	OpenKilled Figure // start of the process included
	Stop       Figure
	Open       Figure // after a clean stop; start of the process included

	Cold ScaleListing
	Hot  ScaleListing

	Memory     Figure // of the server that listed
	ImageBytes Figure
	Images     Figure
	RowsEqual  bool // all listings brought what was filled in
}

// ScaleListing is one listing of all directories by one stream.
type ScaleListing struct {
	Took         Figure
	Rate         Figure
	Micros       Figure
	CPUServer    Figure
	CPUClient    Figure
	AllocsServer Figure
	First        Figure

	equal bool
}

// MaxScaleFiles is how many files a partition has at most, so that it is made by one batch.
const MaxScaleFiles = 2000

// Validate names the first thing that cannot be run.
func (s *Scale) Validate() error {
	switch {
	case s.Table.Partitions < 1 || s.Table.Files < 1 || s.Table.Files > MaxScaleFiles || s.Table.Directories != 0:
		return fmt.Errorf("%d directories of %d files; at least one of at least 1, and at most %d files in each", s.Table.Partitions, s.Table.Files, MaxScaleFiles)
	case s.Callers < 1 || s.Hot < 1:
		return fmt.Errorf("%d callers, %d hot listings; at least 1", s.Callers, s.Hot)
	}
	return nil
}

// Run runs the experiment. It stops the servers that it starts.
func (s *Scale) Run(ctx context.Context) (ScaleResult, error) {
	r := ScaleResult{Directories: s.Table.Partitions, Files: s.Table.Partitions * s.Table.Files, Callers: s.Callers}
	if err := s.Validate(); err != nil {
		return r, err
	}
	sum, err := s.fill(ctx, &r)
	if err != nil {
		return r, err
	}
	if err := s.reopen(ctx, &r); err != nil {
		return r, err
	}
	return r, s.served(ctx, &r.Open, func(c *client.Client, p *Process) error {
		if err := s.list(ctx, c, &r, sum); err != nil {
			return err
		}
		if err := r.memory(ctx, c, &r.Memory); err != nil {
			return err
		}
		return p.Stop()
	})
}

// served starts a server, notes how long that took, and calls do, which ends the process unless it
// fails.
func (s *Scale) served(ctx context.Context, took *Figure, do func(*client.Client, *Process) error) error {
	start := time.Now()
	p, err := s.Serve(ctx, s.Dir)
	if err != nil {
		return err
	}
	*took = Figure(time.Since(start).Seconds())
	c, err := client.Dial(ctx, p.Addr, client.Options{})
	if err != nil {
		return errors.Join(err, p.Stop())
	}
	if err = do(c, p); err != nil {
		err = errors.Join(err, p.Stop())
	}
	return errors.Join(err, c.Close())
}

// fill makes the table and kills the server in the moment in which all is acknowledged.
func (s *Scale) fill(ctx context.Context, r *ScaleResult) (sum int64, err error) {
	var opened Figure
	return sum, s.served(ctx, &opened, func(c *client.Client, p *Process) error {
		set, stop := s.Progress.begin("filling the table", s.Table.Entries())
		start := time.Now()
		sum, err = fillScale(ctx, c, s.Table, s.Callers, set)
		took := time.Since(start).Seconds()
		if stop(); err != nil {
			return err
		}
		r.Fill, r.FillRate = Figure(took), Figure(float64(s.Table.Entries())/took)
		if err := r.memory(ctx, c, &r.FillMemory); err != nil {
			return err
		}
		return p.Kill()
	})
}

// reopen opens what the killed server left, and stops that server in good order.
func (s *Scale) reopen(ctx context.Context, r *ScaleResult) error {
	return s.served(ctx, &r.OpenKilled, func(_ *client.Client, p *Process) error {
		start := time.Now()
		err := p.Stop()
		r.Stop = Figure(time.Since(start).Seconds())
		return err
	})
}

// list lists all directories, the first time with nothing in memory.
func (s *Scale) list(ctx context.Context, c *client.Client, r *ScaleResult, sum int64) (err error) {
	paths := slices.Collect(s.Table.Paths())
	if r.Cold, err = s.listing(ctx, c, "listing, cold", paths, sum); err != nil {
		return err
	}
	hot := make([]ScaleListing, s.Hot)
	for i := range hot {
		if hot[i], err = s.listing(ctx, c, fmt.Sprintf("listing, hot (%d of %d)", i+1, s.Hot), paths, sum); err != nil {
			return err
		}
	}
	r.Hot = medianListing(hot)
	r.RowsEqual = r.Cold.equal && r.Hot.equal
	return nil
}

// listing lists all directories once. What came is held against the number of rows and the sum
// of what was filled in.
func (s *Scale) listing(ctx context.Context, c *client.Client, title string, paths []string, sum int64) (ScaleListing, error) {
	set, stop := s.Progress.begin(title, len(paths))
	defer stop()
	server, err := serverUsage(ctx, c)
	if err != nil {
		return ScaleListing{}, err
	}
	own := ownUsage()
	listed, t, done := error(nil), tally{begin: time.Now()}, 0
	_, err = stream(ctx, wire{client: c, columns: rows.DefaultColumns}, paths, func(p part) {
		t.take(p)
		for _, o := range p.batch.Outcomes {
			if err := o.Err(); err != nil && listed == nil {
				listed = err
			}
		}
		done += len(p.batch.Outcomes)
		p.release()
		set(done)
	})
	took := time.Since(t.begin).Seconds()
	if err = errors.Join(err, listed); err != nil {
		return ScaleListing{}, err
	}
	own = ownUsage().since(own)
	after, err := serverUsage(ctx, c)
	if err != nil {
		return ScaleListing{}, err
	}
	n := s.Table.Partitions * s.Table.Files
	server = after.since(server).per(n)
	return ScaleListing{
		Took: Figure(took), Rate: Figure(float64(n) / took), Micros: Figure(took * 1e6 / float64(n)),
		CPUServer: Figure(server.cpu * 1e6), CPUClient: Figure(own.per(n).cpu * 1e6), AllocsServer: Figure(server.mallocs),
		First: Figure(float64(t.first.Load()) / float64(time.Millisecond)),
		equal: t.rows.Load() == int64(n) && t.sum.Load() == sum,
	}, nil
}

func medianListing(all []ScaleListing) ScaleListing {
	of := func(value func(*ScaleListing) Figure) Figure {
		values := make([]float64, len(all))
		for i := range all {
			values[i] = float64(value(&all[i]))
		}
		return median(values)
	}
	return ScaleListing{
		Took:         of(func(l *ScaleListing) Figure { return l.Took }),
		Rate:         of(func(l *ScaleListing) Figure { return l.Rate }),
		Micros:       of(func(l *ScaleListing) Figure { return l.Micros }),
		CPUServer:    of(func(l *ScaleListing) Figure { return l.CPUServer }),
		CPUClient:    of(func(l *ScaleListing) Figure { return l.CPUClient }),
		AllocsServer: of(func(l *ScaleListing) Figure { return l.AllocsServer }),
		First:        of(func(l *ScaleListing) Figure { return l.First }),
		equal:        !slices.ContainsFunc(all, func(l ScaleListing) bool { return !l.equal }),
	}
}

// memory notes how much memory the server has taken at most, and what it holds.
func (r *ScaleResult) memory(ctx context.Context, c *client.Client, resident *Figure) error {
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	counters := map[string]float64{}
	for _, counter := range s.Counters {
		counters[counter.Name] = counter.Value
	}
	known := func(name string) Figure {
		if v := counters[name]; v > 0 {
			return Figure(v)
		}
		return Figure(math.NaN()) // a server that is older, or does not know
	}
	*resident, r.StoreBytes = known("resident_max_bytes"), Figure(s.StoreBytes)
	r.ImageBytes, r.Images = known("image_bytes"), known("images")
	return nil
}

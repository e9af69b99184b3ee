package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/muster-fs/muster"
)

// Preads holds positioned reads without a lock against the lock that HDDS-17399 has removed, and both
// against bare TCP. One file of one block is open once, and shared by one sequential reader and by
// any number of goroutines that read at random offsets.
//
// The namespace server, three datanodes and a FileServer, which has the same bytes in a file of its
// own, are processes of their own.
type Preads struct {
	Size       int64    // bytes of the file
	Positioned int      // bytes of a positioned read
	Sequential int      // bytes of a sequential read
	Beside     []int    // goroutines that read beside the sequential reader, each number measured by itself
	Alone      []int    // goroutines that read alone
	Paths      []string // of the blocks: chunk and stream
	Write      bool     // measure also how such files are written
	Rounds     int
	RoundTime  time.Duration

	// Profile takes a CPU profile of this process while it reads; nil: none is made.
	Profile io.Writer

	// Dir is an empty folder. The others start servers in processes of their own.
	Dir            string
	ServeNamespace func(ctx context.Context, dir, keyFile string) (*Process, error)
	ServeDatanode  func(ctx context.Context, dir, keyFile, locations string) (*Process, error)
	ServeFile      func(ctx context.Context, file string) (*Process, error)

	Progress Progress
}

// PreadsMeasurement adds what went on beside, and how it is to bare TCP.
type PreadsMeasurement struct {
	Measurement
	Beside   Figure `json:"sequential_mb_per_s"` // of the sequential reader beside
	Total    Figure `json:"mb_per_s"`            // of all together
	ToTCP    Figure `json:"to_tcp"`              // operations a second, to those of bare TCP
	TotalTCP Figure `json:"mb_to_tcp"`           // bytes of all together, to those of bare TCP
}

// NewPreads returns the experiment of HDDS-17399.
func NewPreads() Preads {
	return Preads{
		Size: 256 << 20, Positioned: 64 << 10, Sequential: 1 << 20, Beside: []int{1, 8}, Alone: []int{1, 8, 32},
		Paths: []string{chunkPath, streamPath}, Write: true, Rounds: 3, RoundTime: 10 * time.Second,
	}
}

// Validate says what cannot be measured.
func (e *Preads) Validate() error {
	numbers := slices.Concat(e.Beside, e.Alone)
	switch {
	case e.Size < 1<<20 || e.Size > 1<<30:
		return fmt.Errorf("%w: a file of %d bytes; use 1 MiB to 1 GiB", muster.ErrInvalid, e.Size)
	case e.Positioned < 1 || int64(e.Positioned) > e.Size:
		return fmt.Errorf("%w: positioned reads of %d bytes; use 1 to the size of the file", muster.ErrInvalid, e.Positioned)
	case e.Sequential < 1 || int64(e.Sequential) > e.Size:
		return fmt.Errorf("%w: sequential reads of %d bytes; use 1 to the size of the file", muster.ErrInvalid, e.Sequential)
	case len(numbers) > 0 && (slices.Min(numbers) < 1 || slices.Max(numbers) > maxCallers):
		return fmt.Errorf("%w: %d goroutines; use numbers from 1 to %d", muster.ErrInvalid, numbers, maxCallers)
	}
	for _, path := range e.Paths {
		if path != chunkPath && path != streamPath {
			return fmt.Errorf("%w: path %q; use chunk or stream", muster.ErrInvalid, path)
		}
	}
	return validateRounds(e.Rounds, e.RoundTime)
}

// Run starts the servers, writes the file, measures all cases and ends the servers.
func (e *Preads) Run(ctx context.Context) (all []PreadsMeasurement, err error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	r, err := e.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if e.Profile != nil {
		if err := pprof.StartCPUProfile(e.Profile); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	cases := e.cases()
	set, stop := e.Progress.begin("reading a block", (len(cases)+1)*(e.Rounds+1))
	defer stop()
	done := 0
	step := func() { done++; set(done) }
	for _, c := range cases {
		results, err := r.measure(ctx, c, step)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	if e.Write {
		results, err := r.measureWriting(ctx, step)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

// preadsCase is what is measured at one time.
type preadsCase struct {
	path       string // chunk or stream
	goroutines int    // that read at random offsets; 0: the sequential reader is measured
	sequential bool   // there is a sequential reader
}

func (c preadsCase) String() string {
	switch {
	case c.goroutines == 0:
		return c.path + ", sequential"
	case c.sequential:
		return c.path + ", beside"
	}
	return c.path + ", alone"
}

func (e *Preads) cases() (all []preadsCase) {
	for _, path := range e.Paths {
		for _, n := range e.Beside {
			all = append(all, preadsCase{path, n, true})
		}
		for _, n := range e.Alone {
			all = append(all, preadsCase{path, n, false})
		}
		all = append(all, preadsCase{path, 0, true})
	}
	return all
}

// measure measures a case. The arms come in turn.
func (r *reading) measure(ctx context.Context, of preadsCase, step func()) ([]PreadsMeasurement, error) {
	c := contest{bench: "preads", of: of.String(), goroutines: max(1, of.goroutines), rounds: r.Rounds, roundTime: r.RoundTime}
	beside := make([]sequentially, len(preadsArms))
	for i, name := range preadsArms {
		file, err := r.open(ctx, name, of.path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it is read only
		equal, err := r.compare(file)
		if err != nil {
			return nil, err
		}
		one := entrant{name: name, equal: equal, begin: r.positioned(file)}
		if of.goroutines == 0 {
			one.begin = r.sequential(file)
		} else if of.sequential {
			beside[i] = sequentially{file: file, size: r.Sequential}
			one.beside = beside[i].run
		}
		c.entrants = append(c.entrants, one)
	}
	results, err := c.run(ctx, step)
	if err != nil {
		return nil, err
	}
	size := r.Positioned
	if of.goroutines == 0 {
		size = r.Sequential
	}
	return toTCP(results, beside, size), nil
}

// toTCP adds the sequential readers beside, and holds all against bare TCP.
func toTCP(results []Measurement, beside []sequentially, size int) []PreadsMeasurement {
	all := make([]PreadsMeasurement, len(results))
	for i, m := range results {
		all[i] = PreadsMeasurement{Measurement: m, Total: m.OpsPerSecond * Figure(size) / 1e6}
		if beside[i].file != nil {
			all[i].Beside = median(beside[i].paces)
			all[i].Total += all[i].Beside
		} else {
			all[i].Beside = unmeasured
		}
	}
	tcp := &all[slices.Index(preadsArms, bareTCP)]
	for i := range all {
		all[i].ToTCP, all[i].TotalTCP = all[i].OpsPerSecond/tcp.OpsPerSecond, all[i].Total/tcp.Total
	}
	return all
}

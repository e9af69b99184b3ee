package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// Contention is the experiment of a stream beside writers at full speed in other directories:
// whether each is slowed down by more than the CPU time that the other one takes. For that,
// each also runs beside clients that burn as much CPU in calls that read and write nothing.
type Contention struct {
	Client  *client.Client // of a server in a process of its own
	Table   Table          // filled; the stream lists it again and again
	Root    string         // a folder that does not exist yet, for what the writers make
	Writers int            // at least 1
	Batch   int            // creations in a writer's call; at least 1

	Rounds    int           // at least 1; each runs all five arms, each time another one first
	RoundTime time.Duration // of an arm
	Progress  Progress

	paths []string
	files atomic.Int64 // made so far
	call  float64      // seconds of CPU of a call that does nothing

	last      [contentionArms]together
	asWriters float64 // calls a second that were to burn what writers do, when that arm ran last
	asStream  float64 // the same for the stream
}

// The arms of a Contention.
const (
	writersAlone = iota
	streamAlone
	streamAndWriters
	streamAndBurners
	writersAndBurners
	contentionArms
)

// ContentionResult is what a Contention found: medians of its rounds.
type ContentionResult struct {
	Writers, Batch, Rounds int

	// Statuses a second.
	StreamAlone, StreamWriters, StreamBurners Figure
	StreamRatio                               Figure // beside writers, to beside what burns their CPU

	// Inodes a second.
	WritersAlone, WritersStream, WritersBurners Figure
	WritersRatio                                Figure

	// What burnt CPU, of what it was to burn: 1, or the ratios are too low.
	StreamBurnt, WritersBurnt Figure

	CPUWriter Figure // µs an inode
	CPUStream Figure // µs a status
}

// contentionRound is what one round found: paces in rows and creations a second, CPU in
// seconds for each.
type contentionRound struct {
	streamAlone, streamWriters, streamBurners    float64
	writersAlone, writersStream, writersBurners  float64
	cpuRow, cpuCreate, streamRatio, writersRatio float64
	streamBurnt, writersBurnt                    float64
}

// Run runs the experiment.
func (e *Contention) Run(ctx context.Context) (ContentionResult, error) {
	r := ContentionResult{Writers: e.Writers, Batch: e.Batch, Rounds: e.Rounds}
	if err := e.Validate(); err != nil {
		return r, err
	}
	e.paths = slices.Collect(e.Table.Paths())
	for i := range e.Writers {
		if err := e.Client.MkdirAll(ctx, e.folder(i), 0o755); err != nil {
			return r, err
		}
	}
	burn, err := e.together(ctx, e.burners(0))
	if err != nil {
		return r, err
	}
	e.call = burn.cpu / burn.pace[0]
	if err := e.round(ctx, 0); err != nil { // warms up, and finds what is to be burnt
		return r, err
	}
	set, stop := e.Progress.begin("a stream beside writers", e.Rounds)
	defer stop()
	rounds := make([]contentionRound, e.Rounds)
	for i := range rounds {
		if err := e.round(ctx, i); err != nil {
			return r, err
		}
		rounds[i] = e.compare()
		set(i + 1)
	}
	r.summarize(rounds)
	return r, nil
}

// Validate names the first thing that cannot be run.
func (e *Contention) Validate() error {
	switch {
	case e.Table.Partitions < 1 || e.Table.Files < 1:
		return fmt.Errorf("%d directories of %d files; at least 1 of each", e.Table.Partitions, e.Table.Files)
	case e.Writers < 1 || e.Batch < 1 || e.Batch > muster.MaxBatchCommands/2:
		return fmt.Errorf("%d writers with %d creations a call; at least 1 of each, and at most %d a call", e.Writers, e.Batch, muster.MaxBatchCommands/2)
	case e.Rounds < 1 || e.RoundTime < time.Millisecond:
		return fmt.Errorf("%d rounds of %v; at least 1 of at least 1ms", e.Rounds, e.RoundTime)
	}
	return nil
}

func (e *Contention) folder(writer int) string { return fmt.Sprintf("%s/%d", e.Root, writer) }

// round runs each arm once, beginning with the n-th.
func (e *Contention) round(ctx context.Context, n int) (err error) {
	for k := range contentionArms {
		arm := (n + k) % contentionArms
		if e.last[arm], err = e.together(ctx, e.works(arm)...); err != nil {
			return err
		}
	}
	return nil
}

// works are what runs in an arm. Burners burn what was found last.
func (e *Contention) works(arm int) []work {
	switch arm {
	case writersAlone:
		return []work{e.writers}
	case streamAlone:
		return []work{e.stream}
	case streamAndWriters:
		return []work{e.stream, e.writers}
	case streamAndBurners:
		e.asWriters = e.last[streamAndWriters].pace[1] * e.cpuEach(writersAlone) / e.call
		return []work{e.stream, e.burners(e.asWriters)}
	default:
		e.asStream = e.last[streamAndWriters].pace[0] * e.cpuEach(streamAlone) / e.call
		return []work{e.writers, e.burners(e.asStream)}
	}
}

// cpuEach is how many seconds of CPU what ran alone took each time.
func (e *Contention) cpuEach(alone int) float64 { return e.last[alone].cpu / e.last[alone].pace[0] }

// compare holds the arms of a round against each other.
func (e *Contention) compare() contentionRound {
	stream, writers := e.last[streamAlone].pace[0], e.last[writersAlone].pace[0]
	both, burnt, beside := e.last[streamAndWriters], e.last[streamAndBurners], e.last[writersAndBurners]
	return contentionRound{
		streamAlone: stream, streamWriters: both.pace[0], streamBurners: burnt.pace[0],
		writersAlone: writers, writersStream: both.pace[1], writersBurners: beside.pace[0],
		cpuCreate: e.cpuEach(writersAlone), cpuRow: e.cpuEach(streamAlone),
		streamRatio: both.pace[0] / burnt.pace[0], writersRatio: both.pace[1] / beside.pace[0],
		streamBurnt: burnt.pace[1] / e.asWriters, writersBurnt: beside.pace[1] / e.asStream,
	}
}

// together is what ran side by side for a while.
type together struct {
	pace []float64 // of each, in rows, creations or calls a second
	cpu  float64   // seconds of CPU a second of all
}

// work does something again and again until ctx ends, and counts what it does.
type work func(ctx context.Context, done *atomic.Int64) error

// together runs works side by side for the time of a round. It fails if ctx ends before that.
func (e *Contention) together(outer context.Context, works ...work) (together, error) {
	ctx, cancel := context.WithCancel(outer) // no deadline, lest calls near it are refused
	defer cancel()
	defer time.AfterFunc(e.RoundTime, cancel).Stop()
	done := make([]atomic.Int64, len(works))
	before, err := e.cpu(outer)
	if err != nil {
		return together{}, err
	}
	begin := time.Now()
	var g errgroup.Group
	for i, work := range works {
		g.Go(func() error {
			defer cancel() // when one fails
			err := work(ctx, &done[i])
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	<-ctx.Done()
	var r together
	took := time.Since(begin).Seconds()
	for i := range done {
		r.pace = append(r.pace, float64(done[i].Load())/took)
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	after, err := e.cpu(outer)
	r.cpu = (after - before) / took
	return r, err
}

// cpu is how much CPU time both processes have taken, in seconds.
func (e *Contention) cpu(ctx context.Context) (float64, error) {
	server, err := serverUsage(ctx, e.Client)
	return server.cpu + ownUsage().cpu, err
}

// stream lists the table, and fails if there are other rows than it has.
func (e *Contention) stream(ctx context.Context, done *atomic.Int64) error {
	for {
		listed := 0
		_, err := stream(ctx, wire{client: e.Client, columns: rows.DefaultColumns}, e.paths, func(p part) {
			listed += p.rows()
			done.Add(int64(p.rows()))
			p.release()
		})
		if err != nil {
			return err
		}
		if want := e.Table.Partitions * e.Table.Files; listed != want {
			return fmt.Errorf("the stream listed %d rows of %d", listed, want)
		}
	}
}

// writers create files, each in a directory of its own, one call after another.
func (e *Contention) writers(ctx context.Context, done *atomic.Int64) error {
	return each(e.Writers, func(writer int) error {
		commands := make([]muster.Command, e.Batch)
		for ctx.Err() == nil {
			for i := range commands {
				commands[i] = muster.Create{Path: fmt.Sprintf("%s/file-%012d", e.folder(writer), e.files.Add(1)), Mode: 0o644}
			}
			if _, err := e.Client.Apply(ctx, commands...); err != nil {
				return err
			}
			done.Add(int64(e.Batch))
		}
		return nil
	})
}

// burnersEach is how many clients burn CPU in the place of one writer: their calls are short, and
// wait for a processor as often as a writer's do.
const burnersEach = 8

// burners make calls that do nothing, so many a second in all; 0: as many as they can.
func (e *Contention) burners(rate float64) work {
	return func(ctx context.Context, done *atomic.Int64) error {
		clients := burnersEach * e.Writers
		return each(clients, func(int) error {
			for due := time.Now(); ctx.Err() == nil; done.Add(1) {
				if rate > 0 {
					due = due.Add(time.Duration(float64(clients) / rate * float64(time.Second)))
					pause(ctx, time.Until(due))
				}
				if _, err := e.Client.Capabilities(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// pause waits unless it is late already.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// each runs do for each of n clients at the same time.
func each(n int, do func(i int) error) error {
	var g errgroup.Group
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

func (r *ContentionResult) summarize(rounds []contentionRound) {
	of := func(value func(*contentionRound) float64) Figure {
		values := make([]float64, len(rounds))
		for i := range rounds {
			values[i] = value(&rounds[i])
		}
		return median(values)
	}
	r.StreamAlone = of(func(r *contentionRound) float64 { return r.streamAlone })
	r.StreamWriters = of(func(r *contentionRound) float64 { return r.streamWriters })
	r.StreamBurners = of(func(r *contentionRound) float64 { return r.streamBurners })
	r.StreamRatio = of(func(r *contentionRound) float64 { return r.streamRatio })
	r.WritersAlone = of(func(r *contentionRound) float64 { return r.writersAlone })
	r.WritersStream = of(func(r *contentionRound) float64 { return r.writersStream })
	r.WritersBurners = of(func(r *contentionRound) float64 { return r.writersBurners })
	r.WritersRatio = of(func(r *contentionRound) float64 { return r.writersRatio })
	r.StreamBurnt = of(func(r *contentionRound) float64 { return r.streamBurnt })
	r.WritersBurnt = of(func(r *contentionRound) float64 { return r.writersBurnt })
	r.CPUWriter = 1e6 * of(func(r *contentionRound) float64 { return r.cpuCreate })
	r.CPUStream = 1e6 * of(func(r *contentionRound) float64 { return r.cpuRow })
}

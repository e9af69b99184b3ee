package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc/pb"
)

// Resolve holds resolving a path once against each step of a call resolving it for itself, as Apache
// Ozone's did before HDDS-9297. An operation opens a file through a link to another directory: it
// checks that there is a file and that the caller may read it, and reads its status and blocks.
// Where these are is asked of nobody. Two steps are the fewest: Ozone's calls had three.
type Resolve struct {
	Files      int // each in a directory of its own
	Goroutines []int
	Rounds     int
	RoundTime  time.Duration

	Dir      string // an empty folder for the store
	Progress Progress
}

// ResolveMeasurement adds reads of the store by an operation, which are the same over a wire and
// without one: with directories in memory, and with none.
type ResolveMeasurement struct {
	Measurement
	StoreReads     Figure `json:"store_reads"`
	StoreReadsCold Figure `json:"store_reads_cold"`
}

// NewResolve returns the experiment of HDDS-9297: 1 and 16 threads.
func NewResolve() Resolve {
	return Resolve{Files: 240, Goroutines: []int{1, 16}, Rounds: 5, RoundTime: time.Second}
}

// Validate says what cannot be measured.
func (e *Resolve) Validate() error {
	switch {
	case e.Files < 1 || e.Files > 100_000:
		return fmt.Errorf("%w: %d files; use 1 to 100,000", muster.ErrInvalid, e.Files)
	case len(e.Goroutines) == 0 || slices.Min(e.Goroutines) < 1 || slices.Max(e.Goroutines) > maxCallers:
		return fmt.Errorf("%w: %d goroutines; use numbers from 1 to %d", muster.ErrInvalid, e.Goroutines, maxCallers)
	}
	return validateRounds(e.Rounds, e.RoundTime)
}

// The tree: a link in a folder of tables leads to the table itself. Nobody but its owner and group
// may see it.
const (
	resolveTable = "/warehouse/finance/events"
	resolveLink  = "/tables/events"
)

// Run makes the tree, measures both places and counts reads of the store.
func (e *Resolve) Run(ctx context.Context) (all []ResolveMeasurement, err error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	var hot, cold []Figure
	dir := filepath.Join(e.Dir, "namespace")
	err = e.with(ctx, dir, namespace.Options{}, func(o *opening) error {
		if all, err = e.measure(ctx, o); err != nil {
			return err
		}
		hot, err = o.reads(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = e.with(ctx, dir, namespace.Options{ImageBytes: 1}, func(o *opening) error {
		cold, err = o.reads(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		arm := i % len(resolveArms)
		all[i].StoreReads, all[i].StoreReadsCold = hot[arm], cold[arm]
	}
	return all, nil
}

// measure measures both places. The arms come in turn.
func (e *Resolve) measure(ctx context.Context, o *opening) (all []ResolveMeasurement, err error) {
	set, stop := e.Progress.begin("opening through a link", 2*len(e.Goroutines)*(e.Rounds+1))
	defer stop()
	done := 0
	for _, place := range []string{inProcess, loopback} {
		equal, err := o.compare(ctx, place)
		if err != nil {
			return nil, err
		}
		for _, goroutines := range e.Goroutines {
			c := contest{bench: "resolve", of: place, goroutines: goroutines, rounds: e.Rounds, roundTime: e.RoundTime}
			for arm := range resolveArms {
				c.entrants = append(c.entrants, o.entrant(place, resolveArm(arm), equal))
			}
			results, err := c.run(ctx, func() { done++; set(done) })
			if err != nil {
				return nil, err
			}
			for _, r := range results {
				all = append(all, ResolveMeasurement{Measurement: r})
			}
		}
	}
	return all, nil
}

// with calls do with the tree in a folder, which it makes if it is not there.
func (e *Resolve) with(ctx context.Context, dir string, options namespace.Options, do func(*opening) error) (err error) {
	tree, err := namespace.Open(dir, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	o := &opening{tree: tree, caller: muster.Identity{User: tableOwner, Groups: []string{tableGroup}}}
	if err := e.fill(ctx, o); err != nil {
		return err
	}
	if o.server, err = serveOpening(ctx, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.server.close()) }()
	return do(o)
}

// fill makes the tree unless it is there, and notes the paths.
func (e *Resolve) fill(ctx context.Context, o *opening) error {
	t := Table{Root: resolveTable, Partitions: e.Files, Files: 1, Owner: tableOwner, Group: tableGroup}
	for cmd := range t.Commands() {
		if file, ok := cmd.(muster.Create); ok {
			o.paths = append(o.paths, resolveLink+file.Path[len(resolveTable):])
		}
	}
	if tree := o.tree.Stats(); tree.Txid > 0 {
		return nil
	}
	admin := muster.Identity{User: "root", Groups: []string{muster.Supergroup}}
	closed := muster.Mkdir{Path: resolveTable, Mode: 0o750, Parents: true, Owner: tableOwner, Group: tableGroup}
	link := []muster.Command{closed, muster.Mkdir{Path: "/tables", Mode: 0o755}, muster.Symlink{Path: resolveLink, Target: "../warehouse/finance/events"}}
	if _, err := o.tree.Apply(ctx, namespace.Request{Caller: admin, Commands: link}); err != nil {
		return err
	}
	return FillTree(ctx, o.tree, admin, t, nil)
}

// opening is what opens files.
type opening struct {
	tree   *namespace.Tree
	caller muster.Identity
	paths  []string
	server *openingServer
}

// open opens a file by an arm, with no wire.
func (o *opening) open(arm resolveArm, caller *muster.Identity, path string, row *muster.Row, reply func(*muster.Row)) error {
	view, err := o.tree.View()
	if err != nil {
		return err
	}
	defer view.Release()
	return resolveArms[arm].open(view, caller, path, row, reply)
}

// over returns what one goroutine does: it goes through the files, beginning anywhere.
func (o *opening) over(place string, arm resolveArm) func(context.Context) func() error {
	var begun atomic.Int64
	return func(ctx context.Context) func() error {
		at := int(begun.Add(1)) * 7
		if place == loopback {
			call, ctx := o.server.call(arm), o.server.as(ctx, o.caller)
			return func() error {
				at++
				_, err := call(ctx, &pb.OpenRequest{Path: []byte(o.paths[at%len(o.paths)])})
				return err
			}
		}
		var row muster.Row
		blocks := 0
		count := func(row *muster.Row) { blocks += len(row.Blocks) }
		return func() error {
			at++
			return o.open(arm, &o.caller, o.paths[at%len(o.paths)], &row, count)
		}
	}
}

// entrant is an arm in a place.
func (o *opening) entrant(place string, arm resolveArm, equal bool) entrant {
	e := entrant{name: resolveArms[arm].name, equal: equal, begin: o.over(place, arm)}
	if place == inProcess {
		e.sample = 16 // they are fast
	}
	return e
}

// compare says whether both arms give the same answers, to one who may read the files and to one
// who may not.
func (o *opening) compare(ctx context.Context, place string) (bool, error) {
	denied := muster.Identity{User: "mallory"}
	for _, path := range o.paths {
		a, err := o.told(ctx, place, steps, &o.caller, path)
		if err != nil {
			return false, err
		}
		b, err := o.told(ctx, place, once, &o.caller, path)
		if err != nil {
			return false, err
		}
		_, one := o.told(ctx, place, steps, &denied, path)
		_, other := o.told(ctx, place, once, &denied, path)
		if a != b || !errors.Is(one, muster.ErrPermission) || !errors.Is(other, muster.ErrPermission) {
			return false, nil
		}
	}
	return true, nil
}

// told is the text of an answer.
func (o *opening) told(ctx context.Context, place string, arm resolveArm, caller *muster.Identity, path string) (text string, err error) {
	if place == loopback {
		reply, err := o.server.call(arm)(o.server.as(ctx, *caller), &pb.OpenRequest{Path: []byte(path)})
		return reply.String(), err
	}
	err = o.open(arm, caller, path, new(muster.Row), func(row *muster.Row) { text = fmt.Sprintf("%+v", row.Entry()) })
	return text, err
}

// reads counts the reads of the store by an operation of each arm, in process.
func (o *opening) reads(ctx context.Context) (each []Figure, err error) {
	for arm := range resolveArms {
		var before namespace.Stats
		for pass := range 2 { // the first one brings into memory what is kept there
			if pass == 1 {
				before = o.tree.Stats()
			}
			do := o.over(inProcess, resolveArm(arm))(ctx)
			for range o.paths {
				if err := do(); err != nil {
					return nil, err
				}
			}
		}
		after := o.tree.Stats()
		each = append(each, Figure(float64(after.Gets+after.Seeks-before.Gets-before.Seeks)/float64(len(o.paths))))
	}
	return each, nil
}

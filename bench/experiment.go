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
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

// Experiment holds the arms of batched listing against each other, in every shape and
// place. It runs on a server of its own, or on a running one if Server is set.
type Experiment struct {
	Shapes []Shape
	Places []Place
	Arms   []Arm

	// Rounds is how often each arm lists; the arms take turns.
	Rounds int
	// RoundTime bounds about how long an arm lists in a round: one that would take
	// longer lists only the first of the directories. Results say how many.
	RoundTime time.Duration

	// Located has each arm list with locations too: a status then says where its blocks are. They
	// are in containers on a simulated cluster of datanodes in this process. It is for a server of
	// our own. Sorted asks for the replicas that are nearest to a datanode first.
	Located, Sorted bool

	// Dir is an empty folder for the store of a server of the experiment's own. Serve
	// starts that in a process of its own, when the tree is filled; in-process listings
	// need none.
	Dir   string
	Serve func(ctx context.Context, dir string) (*Process, error)
	// Cold says that the server of our own keeps no directory in memory, so that each is
	// read from the store each time; Serve sees to that. The store's own cache is warm.
	Cold bool
	// Delay starts a Proxy in a process of its own, so that its work is not taken for
	// the client's.
	Delay func(ctx context.Context, target string, roundTrip time.Duration) (*Process, error)

	// Server is the address of a running server, which is called as Client says. The
	// tables are made below Root there, which must not exist, and removed afterwards.
	Server string
	Root   string
	Client client.Options

	// Profile takes a CPU profile of this process while it lists; nil: none is made.
	Profile io.Writer
	// Report takes the results of one shape in one place.
	Report   func([]Result) error
	Progress Progress

	placed   *placed                  // the tables' containers; nil: without locations
	expected map[expectation]prefixes // of what was listed so far
}

// expectation is what the arms list alike in all places.
type expectation struct {
	Shape
	located bool
}

// Process is a process that an experiment uses and that it ends, once.
type Process struct {
	Addr string       // where it listens
	Stop func() error // lets it finish its work
	Kill func() error // as a crash would; nil where nobody needs that
}

// The entries of a table on a server of our own belong to a job's user, who also lists
// them: a superuser's listing would skip the checks of permissions.
const (
	tableOwner = "etl"
	tableGroup = "analytics"
	tableRoot  = "/bench"
)

// Validate names the first thing that cannot be run.
func (e *Experiment) Validate() error {
	switch {
	case e.Rounds < 1:
		return fmt.Errorf("%d rounds; at least 1", e.Rounds)
	case e.RoundTime < time.Millisecond:
		return fmt.Errorf("rounds of %v; at least 1ms", e.RoundTime)
	case len(e.Shapes) == 0 || len(e.Places) == 0 || len(e.Arms) == 0:
		return errors.New("no shape, no place or no arm")
	}
	if e.Cold && e.Server != "" {
		return errors.New("cold, on a server that runs already: it keeps in memory what it was told to when it started (namespace.image_size)")
	}
	if e.Located && e.Server != "" {
		return errors.New("with locations, on a server that runs already: its datanodes would have to take the tables' containers; leave out the server")
	}
	if e.Sorted && !e.Located {
		return errors.New("replicas in order, and no locations; ask for these too")
	}
	for _, p := range e.Places {
		if own := e.Server == ""; own != (p.Name != running) {
			if own {
				return fmt.Errorf("place %v: no running server is named; without one the places are in-process, loopback, loopback+1ms and so on", p)
			}
			return fmt.Errorf("place %v: on a running server the places are server, server+1ms and so on", p)
		}
	}
	for _, s := range e.Shapes {
		if len(e.arms(s)) > 0 {
			return nil
		}
	}
	return fmt.Errorf("no shape is large enough for any arm: %v has fewer directories than %v has goroutines", e.Shapes[0], e.Arms[0])
}

// arms are those that list a shape.
func (e *Experiment) arms(s Shape) []Arm {
	return slices.DeleteFunc(slices.Clone(e.Arms), func(a Arm) bool { return !s.suits(a) })
}

// Run fills the tables and lists them in all places. It ends when ctx does, and leaves
// nothing behind but what is in Dir.
func (e *Experiment) Run(ctx context.Context) (err error) {
	if err := e.Validate(); err != nil {
		return err
	}
	e.expected = map[expectation]prefixes{}
	defer pprof.StopCPUProfile()
	if e.Server != "" {
		return e.runOnServer(ctx)
	}
	if e.Located {
		if e.placed, err = place(ctx, e.Dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.placed.close()) }()
	}
	if err := e.runInProcess(ctx); err != nil || !e.has(loopback) {
		return err
	}
	return e.runLoopback(ctx)
}

// runLoopback lists on a server of our own, whose store is filled.
func (e *Experiment) runLoopback(ctx context.Context) (err error) {
	if e.placed != nil {
		if err := e.placed.leave(); err != nil {
			return err
		}
	}
	s, err := e.Serve(ctx, e.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	e.Client = client.Options{User: tableOwner, Groups: []string{tableGroup}}
	if e.placed != nil {
		if err := e.placed.join(ctx, s.Addr, e.Client); err != nil {
			return err
		}
	}
	return e.listOver(ctx, loopback, s.Addr, tableRoot)
}

// has says whether one of the places is of this name.
func (e *Experiment) has(name string) bool {
	return slices.ContainsFunc(e.Places, func(p Place) bool { return p.Name == name })
}

// runInProcess fills the tables of a store of our own, and lists them if that is asked for.
func (e *Experiment) runInProcess(ctx context.Context) (err error) {
	options := namespace.Options{}
	if e.Cold {
		options.ImageBytes = 1
	}
	tree, err := namespace.Open(e.Dir, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	admin := muster.Identity{User: "root", Groups: []string{muster.Supergroup}}
	for _, t := range e.tables(tableRoot) {
		t.Owner, t.Group = tableOwner, tableGroup
		set, stop := e.Progress.begin("filling "+t.Root, t.Entries())
		err := FillTree(ctx, tree, admin, t, set)
		if stop(); err != nil {
			return err
		}
	}
	if err := e.startProfile(); err != nil || !e.has(inProcess) {
		return err
	}
	config := listing.Config{Key: make([]byte, 32)}
	if e.placed != nil {
		config.Places, config.Topology = e.placed.cache, &e.placed.topology
	}
	lister, err := listing.New(tree, config)
	if err != nil {
		return err
	}
	at := func(columns rows.Columns, located bool) source {
		return direct{lister, muster.Identity{User: tableOwner, Groups: []string{tableGroup}}, columns, located, e.reader()}
	}
	for _, s := range e.Shapes {
		if err := e.compare(ctx, tableRoot, cell{shape: s, place: Place{Name: inProcess}}, at, at); err != nil {
			return err
		}
	}
	return nil
}

// tables are those that the shapes need.
func (e *Experiment) tables(root string) []Table {
	var all []Table
	for _, s := range e.Shapes {
		t := s.table(root)
		if e.placed != nil {
			t.Containers = e.placed.containers
		}
		if !slices.ContainsFunc(all, func(o Table) bool { return o.Root == t.Root }) {
			all = append(all, t)
		}
	}
	return all
}

func (e *Experiment) startProfile() error {
	if e.Profile == nil {
		return nil
	}
	return pprof.StartCPUProfile(e.Profile)
}

// reader is whose nearest replicas come first: one of the datanodes; "": they come in no order.
func (e *Experiment) reader() string {
	if !e.Sorted {
		return ""
	}
	return e.placed.cluster.Host(0)
}

// compare runs a cell and reports it: timed rounds list at one source, and rows are compared at
// the other.
func (e *Experiment) compare(ctx context.Context, root string, c cell, timed, checked sources) error {
	arms := e.arms(c.shape)
	if len(arms) == 0 {
		return nil
	}
	c.paths, c.roundTime, c.cold = c.shape.paths(root), e.RoundTime, e.Cold
	columns := c.shape.columns()
	for _, located := range [...]bool{false, true} {
		if located && !e.Located {
			break
		}
		l := listed{located: located, timed: timed(columns, located), checked: checked(columns, located)}
		var err error
		if l.expected, err = e.expect(ctx, &c, located, checked); err != nil {
			return err
		}
		c.listings = append(c.listings, l)
	}
	set, stop := e.Progress.begin(fmt.Sprintf("%v, %v", c.shape, c.place), e.Rounds)
	results, err := c.run(ctx, arms, e.Rounds, set)
	if stop(); err != nil {
		return err
	}
	return e.Report(results)
}

// expect returns what the arms must see, which is the same in all places. Where blocks are the
// cluster knows: no location that was listed is taken for right.
func (e *Experiment) expect(ctx context.Context, c *cell, located bool, at sources) (prefixes, error) {
	if known, ok := e.expected[expectation{c.shape, located}]; ok {
		return known, nil
	}
	columns, h := c.shape.columns(), hasher{located: located}
	if located {
		columns |= rows.ColBlocks
		h.hosts = e.placed.hosts
	}
	var failed error
	each, next := make([]digest, len(c.paths)), 0
	_, err := stream(ctx, at(columns, false), c.paths, func(p part) {
		if err := h.addTo(each, c.paths, &next, p); err != nil && failed == nil {
			failed = err
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	expected := sums(each)
	if n := expected[len(each)].rows; n != c.shape.Statuses() {
		return nil, fmt.Errorf("%v: %d rows were listed of a table of %d", c.shape, n, c.shape.Statuses())
	}
	e.expected[expectation{c.shape, located}] = expected
	return expected, nil
}

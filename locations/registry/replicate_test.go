package registry_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// disk is a datanode with what it has: blocks by container.
type disk struct {
	registry.Registered
	g      registry.Registration
	up     bool
	wanted muster.NodeState
	has    map[uint64]*registry.Replica
	orders []muster.Order // as they were heard last
	doing  map[uint64]int // and for how many heartbeats more
	ended  []registry.OrderResult
}

// farm is a registry, and datanodes that do what it orders.
type farm struct {
	t          *testing.T
	rng        *rand.Rand
	r          *registry.Registry
	fs         vfs.FS
	options    registry.Options
	disks      []*disk
	containers int
	given      map[uint64]muster.Order // all orders seen
	slow       bool                    // orders take long, and fail
}

const farmReplicas = 3

func newFarm(t *testing.T, rng *rand.Rand) *farm {
	f := &farm{t: t, rng: rng, fs: vfs.NewMem(), given: map[uint64]muster.Order{}, slow: true}
	f.options = registry.Options{FS: f.fs, MaxCopies: 1 + rng.IntN(5), MaxCopiesPerNode: 1 + rng.IntN(2)}
	f.open()
	for i := range 5 + rng.IntN(5) {
		f.disks = append(f.disks, &disk{g: registration(i, fmt.Sprint("/r", i%3)), up: true, has: map[uint64]*registry.Replica{}, doing: map[uint64]int{}})
	}
	f.beat()
	f.containers = 1 + rng.IntN(12)
	var all []registry.Imported
	for id := range uint64(f.containers) {
		var on []muster.NodeNumber
		for _, n := range rng.Perm(len(f.disks))[:farmReplicas] {
			on = append(on, muster.NodeNumber(n))
		}
		all = append(all, registry.Imported{Container: id + 1, Replication: muster.Replicated(farmReplicas), Closed: id%4 != 0, Members: on})
		for _, n := range on {
			f.disks[n].has[id+1] = &registry.Replica{Container: id + 1, Blocks: 10, Bytes: 1000}
		}
	}
	if err := f.r.Import(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, d := range f.disks {
		f.report(d)
	}
	return f
}

func (f *farm) open() {
	r, err := registry.Open("locations", f.options)
	if err != nil {
		f.t.Fatal(err)
	}
	f.r = r
}

// beat is 3 s, and then a round of heartbeats, so that orders are heard before anything else
// happens.
func (f *farm) beat() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
	for _, d := range f.disks {
		d.orders = nil
		if d.up {
			f.speak(d)
		}
	}
	f.check()
	f.named()
}

// named checks that all are named that have a container, or are copying it, whatever has become of
// orders, datanodes and the registry since.
func (f *farm) named() {
	for id := range uint64(f.containers) {
		c, err := f.r.Container(id + 1)
		if err != nil {
			f.t.Fatal(err)
		}
		all := slices.Concat(c.Members, c.Targets)
		for _, d := range f.disks {
			copies := func(o muster.Order) bool { _, is := d.doing[o.ID]; return is && o.Container == id+1 }
			if (d.has[id+1] != nil || slices.ContainsFunc(d.orders, copies)) && !slices.Contains(all, d.Number) {
				f.t.Fatalf("datanode %d has container %d, or will have it, and is not among %v and %v", d.Number, id+1, c.Members, c.Targets)
			}
		}
	}
}

func (f *farm) speak(d *disk) {
	wishes, err := f.r.Heartbeat(d.Number, d.Session, registry.Beat{Results: d.ended})
	if err != nil {
		known, err := f.r.Register(f.t.Context(), d.g)
		if err != nil {
			f.t.Fatal(err)
		}
		d.Registered = known
		f.report(d)
		return
	}
	d.ended = nil
	if wishes.Report {
		f.report(d)
	}
	f.work(d, wishes.Orders)
}

func (f *farm) report(d *disk) {
	var all []registry.Replica
	for _, p := range d.has {
		all = append(all, *p)
	}
	if _, err := f.r.Report(d.Number, d.Session, true, all); err != nil {
		f.t.Fatal(err)
	}
}

// work carries out what is ordered, sooner or later, or not.
func (f *farm) work(d *disk, orders []muster.Order) {
	d.orders = orders
	for id := range d.doing {
		if !slices.ContainsFunc(orders, func(o muster.Order) bool { return o.ID == id }) {
			delete(d.doing, id)
		}
	}
	for _, o := range orders {
		left, known := d.doing[o.ID]
		if !known && f.slow {
			left = f.rng.IntN(301)
		}
		if _, seen := f.given[o.ID]; !seen {
			f.given[o.ID] = o
			f.mayBeGiven(o, d)
		}
		if d.doing[o.ID] = left - 1; left > 0 {
			continue
		}
		f.end(d, o)
	}
}

func (f *farm) end(d *disk, o muster.Order) {
	if f.slow && f.rng.IntN(5) == 0 {
		d.ended = append(d.ended, registry.OrderResult{ID: o.ID, Err: muster.ErrUnavailable})
		return
	}
	p := registry.Replica{Container: o.Container, Gone: true}
	if o.Kind == muster.OrderDrop {
		delete(d.has, o.Container)
	} else {
		blocks := uint64(0)
		for _, s := range o.Sources {
			if from := f.disks[s.Number]; from.up && from.has[o.Container] != nil {
				blocks = max(blocks, from.has[o.Container].Blocks-from.has[o.Container].Damaged)
			}
		}
		if blocks == 0 {
			d.ended = append(d.ended, registry.OrderResult{ID: o.ID, Err: muster.ErrNoData})
			return
		}
		if old := d.has[o.Container]; old != nil {
			blocks = max(blocks, old.Blocks)
		}
		p = registry.Replica{Container: o.Container, Blocks: blocks, Bytes: 100 * blocks}
		d.has[o.Container] = &p
	}
	if _, err := f.r.Report(d.Number, d.Session, false, []registry.Replica{p}); err != nil {
		f.t.Fatal(err)
	}
	d.ended = append(d.ended, registry.OrderResult{ID: o.ID})
}

// complete is how many datanodes that are heard of, but for one, have all blocks of a container.
// One that has been late since the last look may count.
func (f *farm) complete(container uint64, but *disk) (n int) {
	known := f.r.Datanodes()
	for i, d := range f.disks {
		p, age := d.has[container], known[i].HeartbeatAge
		if d != but && d.wanted == muster.InService && age >= 0 && age <= 33*time.Second && p != nil && p.Blocks == 10 && p.Damaged == 0 {
			n++
		}
	}
	return n
}

// mayBeGiven checks that a drop leaves enough.
func (f *farm) mayBeGiven(o muster.Order, d *disk) {
	if o.Kind != muster.OrderDrop {
		return
	}
	if n := f.complete(o.Container, d); n < farmReplicas {
		f.t.Fatalf("dropping container %d on %s leaves %d", o.Container, d.g.ID, n)
	}
}

// check checks the bounds of what was heard at one time, between two looks of the registry.
func (f *farm) check() {
	from := map[muster.NodeNumber]int{}
	all := 0
	for _, d := range f.disks {
		here := 0
		for _, o := range d.orders {
			if o.Kind == muster.OrderCopy {
				from[o.Sources[0].Number]++
				here++
			}
		}
		if all += here; here > f.options.MaxCopiesPerNode {
			f.t.Fatalf("%d copies to one datanode", here)
		}
	}
	for n, copies := range from {
		if copies > f.options.MaxCopiesPerNode {
			f.t.Fatalf("%d copies from datanode %d", copies, n)
		}
	}
	if all > f.options.MaxCopies || f.r.Stats().Copies > f.options.MaxCopies {
		f.t.Fatalf("%d copies, at most %d", all, f.options.MaxCopies)
	}
}

// step does something to the farm.
func (f *farm) step() {
	d := f.disks[f.rng.IntN(len(f.disks))]
	container := 1 + f.rng.Uint64N(uint64(f.containers))
	p := d.has[container]
	switch f.rng.IntN(10) {
	case 0, 1:
		down := 0
		for _, d := range f.disks {
			if !d.up {
				down++
			}
		}
		d.up = down >= 2 || !d.up // so one replica of three is never lost
		if !d.up {
			d.doing, d.ended = map[uint64]int{}, nil
		}
	case 2:
		d.wanted = muster.NodeState(f.rng.IntN(3)) // in service, draining or maintenance
		if _, err := f.r.SetNodeState(f.t.Context(), d.g.ID, d.wanted); err != nil {
			f.t.Fatal(err)
		}
	case 3, 4: // some of its blocks are gone, or damaged, as long as others are there
		if p == nil || !d.up || f.complete(container, d) < 2 {
			return
		}
		if f.rng.IntN(2) == 0 {
			p.Damaged = 1
		} else {
			p.Blocks = 4
		}
		f.told(d, *p)
	case 5:
		if p == nil || !d.up || f.complete(container, d) < 2 {
			return
		}
		delete(d.has, container)
		f.told(d, registry.Replica{Container: container, Gone: true})
	case 6:
		if err := f.r.Close(); err != nil {
			f.t.Fatal(err)
		}
		f.open()
	default:
		for range 1 + f.rng.IntN(250) {
			f.beat()
		}
	}
}

// told reports one replica, if the registry knows the datanode.
func (f *farm) told(d *disk, p registry.Replica) {
	if _, err := f.r.Report(d.Number, d.Session, false, []registry.Replica{p}); err != nil {
		d.Session = 0 // it was restarted: all is reported with the next heartbeat
	}
}

// TestReplicasComeBackToTheirNumber whatever happens, once datanodes are left alone; no drop leaves
// too little on the way, and no more copies are under way than may be.
func TestReplicasComeBackToTheirNumber(t *testing.T) {
	overSeeds(t, 150, func(t *testing.T, rng *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			f := newFarm(t, rng)
			defer func() { _ = f.r.Close() }()
			for range 5 + rng.IntN(50) {
				f.step()
			}
			f.settle()
		})
	})
}

// settle leaves the datanodes alone, and says what is not as it should be in the end.
func (f *farm) settle() {
	f.slow = false
	for _, d := range f.disks {
		if d.up = true; d.wanted != muster.InService {
			d.wanted = muster.InService
			if _, err := f.r.SetNodeState(f.t.Context(), d.g.ID, d.wanted); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	for range 1000 { // 50 minutes
		f.beat()
	}
	for id := range uint64(f.containers) {
		var on []string
		for _, d := range f.disks {
			if p := d.has[id+1]; p != nil {
				on = append(on, fmt.Sprintf("%s %d-%d", d.g.ID, p.Blocks, p.Damaged))
			}
		}
		c, err := f.r.Container(id + 1)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, n := range c.Targets {
			if f.disks[n].has[id+1] == nil {
				f.t.Errorf("container %d has the target %d, and is on %v", id+1, n, on)
			}
		}
		if n := f.complete(id+1, nil); c.Closed && (n != farmReplicas || len(on) != farmReplicas) {
			f.t.Errorf("container %d is on %v", id+1, on)
		}
	}
	s := f.r.Stats()
	if s.UnderReplicated+s.Surplus+s.Missing+s.Copies+s.Drops != 0 {
		f.t.Errorf("%+v", s)
	}
}

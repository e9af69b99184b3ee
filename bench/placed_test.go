package bench

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/server"
)

// TestEachArmListsWithLocationsToo and sees in every place what the datanodes have.
func TestEachArmListsWithLocationsToo(t *testing.T) {
	e := experiment(t, Shape{Partitions: 70, Entries: 2}, Shape{Partitions: 1, Entries: 60, Directories: true, NoMTime: true})
	e.Located, e.Places, e.Arms = true, e.Places[:2], []Arm{iterator(1), iterator(16), pages(100), {Name: "stream", Goroutines: 1, unit: 1000, list: stream}}
	var got []string
	results := run(t, e)
	for _, r := range results {
		got = append(got, r.Shape+" "+r.Place+" "+r.Label())
		if !r.RowsEqual || !r.StatusesPerSecond.Known() {
			t.Errorf("%+v", r)
		}
		if r.CostOfLocations(results).Known() != r.Located {
			t.Errorf("%s: locations cost %v", r.Label(), r.CostOfLocations(results))
		}
		if r.Arm == "iterator" && r.Goroutines == 1 && r.Ratio != 1 {
			t.Errorf("%s: ratio %v to itself", r.Label(), r.Ratio)
		}
	}
	var want []string
	for _, place := range e.Places {
		for _, s := range e.Shapes {
			for _, a := range e.arms(s) {
				name := s.String() + " " + place.String() + " " + a.String()
				want = append(want, name, name+" located")
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTheNearestReplicaIsListedFirst if that is asked for.
func TestTheNearestReplicaIsListedFirst(t *testing.T) {
	e := experiment(t, Shape{Partitions: 300, Entries: 1})
	e.Located, e.Sorted = true, true
	p, err := place(t.Context(), e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	e.placed = p
	tree, err := namespace.Open(filepath.Join(e.Dir, "tree"), namespace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	table := e.tables("/t")[0]
	if err := FillTree(t.Context(), tree, admin(), table, nil); err != nil {
		t.Fatal(err)
	}
	lister, err := listing.New(tree, listing.Config{Key: make([]byte, 32), Places: p.cache, Topology: &p.topology})
	if err != nil {
		t.Fatal(err)
	}
	for _, reader := range []string{e.reader(), ""} {
		near, has := 0, 0
		from := direct{lister, admin(), rows.DefaultColumns, true, reader}
		if err := from.stream(t.Context(), slices.Collect(table.Paths()), func(part part) {
			b, _, err := part.decoded()
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Len() {
				hosts, _ := part.hosts(b, i, 0)
				if slices.Contains(hosts, e.reader()) {
					has++
				}
				if hosts[0] == e.reader() {
					near++
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		if has == 0 || (near == has) != (reader != "") {
			t.Errorf("for %q %d of %d replicas on the datanode come first", reader, near, has)
		}
	}
}

// misled leaves a replica of some containers out.
type misled struct{ locations.Source }

func (m misled) Lookup(ctx context.Context, containers []uint64) (locations.Answer, error) {
	a, err := m.Source.Lookup(ctx, containers)
	for i := range a.Outcomes {
		if containers[i]%100 == 0 {
			a.Outcomes[i].Placement.Nodes = a.Outcomes[i].Placement.Nodes[:2]
		}
	}
	return a, err
}

// ignorant returns a source that knows nothing of some containers.
func ignorant(s locations.Source) locations.Source {
	tap := NewTap(s)
	tap.Spoil(func(container uint64) error {
		if container%100 == 0 {
			return muster.ErrUnavailable
		}
		return nil
	})
	return tap
}

func TestOtherLocationsAreNoticed(t *testing.T) {
	for name, wrap := range map[string]func(locations.Source) locations.Source{
		"wrong":   func(s locations.Source) locations.Source { return misled{s} },
		"unknown": ignorant,
	} {
		e := experiment(t, Shape{Partitions: 200, Entries: 1})
		e.Located, e.Places, e.Arms = true, e.Places[1:2], []Arm{pages(100), {Name: "stream", Goroutines: 1, unit: 1000, list: stream}}
		e.Serve = func(ctx context.Context, dir string) (*Process, error) {
			s, err := server.Start(ctx, server.Options{Dir: dir, Locations: server.Locating{Wrap: wrap}})
			if err != nil {
				return nil, err
			}
			return &Process{Addr: s.Addr().String(), Stop: func() error { return s.Shutdown(context.Background()) }}, nil
		}
		for _, r := range run(t, e) {
			if r.RowsEqual == r.Located {
				t.Errorf("%s: %s sees the rows that there are: %v", name, r.Label(), r.RowsEqual)
			}
		}
	}
}

func TestLocationsAreForAServerOfOurOwn(t *testing.T) {
	e := experiment(t, Shape{Partitions: 1, Entries: 1})
	e.Located, e.Server, e.Places = true, "127.0.0.1:1", []Place{{Name: running}}
	if err := e.Validate(); err == nil || !strings.Contains(err.Error(), "with locations") {
		t.Errorf("%v", err)
	}
	e = experiment(t, Shape{Partitions: 1, Entries: 1})
	e.Sorted = true
	if err := e.Validate(); err == nil || !strings.Contains(err.Error(), "no locations") {
		t.Errorf("%v", err)
	}
}

// BenchmarkListLocated is BenchmarkList with where each block is.
//
//	go test -run '^$' -bench ListLocated -benchtime 3x -count 5 ./bench
func BenchmarkListLocated(b *testing.B) {
	dir := b.TempDir()
	p, err := place(b.Context(), dir)
	if err != nil {
		b.Fatal(err)
	}
	defer p.close()
	if err := p.leave(); err != nil {
		b.Fatal(err)
	}
	c, addr := startServerOn(b, dir)
	if err := p.join(b.Context(), addr, client.Options{}); err != nil {
		b.Fatal(err)
	}
	benchmarkArms(b, Place{Name: loopback}, func(t Table) error {
		t.Containers = p.containers
		return Fill(b.Context(), c, t, nil)
	}, func(s Shape) source { return wire{client: c, columns: s.columns(), located: true} })
}

package locations_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
	"pgregory.net/rapid"
)

// model is what a cache must be to one caller at a time: a map with times. Containers are
// 0 to 9; a container's version is its first node, and -1 is unusable, -2 unknown.
type model struct {
	now      time.Duration
	versions map[uint64]int
	down     bool
	kept     map[uint64]*keptValue
	loads    int               // that answered, or failed
	order    map[Seen]int      // number of the load that a mark is of
	marks    map[uint64][]Seen // that were given for each container
}

type keptValue struct {
	version int
	load    int
	written time.Duration
}

const modelTTL = time.Minute

// TestAgainstAMap runs random calls one after another, and compares each answer and each
// call to the service with what a map would make of it.
func TestAgainstAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newService(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
			c, err := New(s, Options{TTL: modelTTL})
			if err != nil {
				rt.Fatal(err)
			}
			defer c.Close()
			m := &model{versions: map[uint64]int{}, kept: map[uint64]*keptValue{}, order: map[Seen]int{}, marks: map[uint64][]Seen{}}
			for id := range uint64(10) {
				m.set(s, id, int(id)%5)
			}
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				m.step(t, rt, s, c)
			}
		})
	})
}

func (m *model) set(s *service, id uint64, version int) {
	m.versions[id] = version
	switch version {
	case -2:
		s.failOne(id, muster.ErrNotFound)
	case -1:
		s.failOne(id, nil)
		s.move(id)
	default:
		s.failOne(id, nil)
		s.move(id, muster.NodeNumber(version))
	}
}

func (m *model) step(t *testing.T, rt *rapid.T, s *service, c *Cache) {
	ids := rapid.SliceOfN(rapid.Uint64Range(0, 9), 1, 6)
	switch rapid.SampledFrom([]string{"get", "get", "refresh", "refresh", "reload", "change", "sleep", "down"}).Draw(rt, "step") {
	case "get":
		asked := ids.Draw(rt, "ids")
		m.check(rt, s, asked, func(uint64, int) int { return 0 }, get(t, c, asked...))
	case "reload":
		asked := ids.Draw(rt, "ids")
		m.check(rt, s, asked, func(uint64, int) int { return m.loads }, reload(t, c, asked...))
	case "refresh":
		asked := ids.Draw(rt, "ids")
		stale := make([]Stale, len(asked))
		for i, id := range asked {
			stale[i].Container = id
			if marks := m.marks[id]; len(marks) > 0 {
				stale[i].Seen = rapid.SampledFrom(marks).Draw(rt, "seen")
			}
		}
		m.check(rt, s, asked, func(_ uint64, i int) int { return m.order[stale[i].Seen] }, refresh(t, c, stale...))
	case "change":
		m.set(s, rapid.Uint64Range(0, 9).Draw(rt, "id"), rapid.IntRange(-2, 4).Draw(rt, "version"))
	case "sleep":
		d := time.Duration(rapid.IntRange(1, 40).Draw(rt, "seconds")) * time.Second
		m.now += d
		time.Sleep(d)
	case "down":
		m.down = !m.down
		s.fail(nil)
		if m.down {
			s.fail(errDown)
		}
	}
}

// check works out which containers a call had to have loaded, given the floor of each
// place, and compares calls and answers.
func (m *model) check(rt *rapid.T, s *service, ids []uint64, floor func(uint64, int) int, out []Located) {
	load := map[uint64]bool{}
	for i, id := range ids {
		if k := m.kept[id]; k == nil || m.now-k.written >= modelTTL || k.load <= floor(id, i) {
			load[id] = true
		}
	}
	before := maps.Clone(m.kept)
	if len(load) > 0 {
		m.loads++
		want := [][]uint64{slices.Sorted(maps.Keys(load))}
		if got := s.taken(); !slices.EqualFunc(got, want, slices.Equal) {
			rt.Fatalf("calls for %v, want %v", got, want)
		}
	} else if got := s.taken(); len(got) > 0 {
		rt.Fatalf("calls for %v, want none", got)
	}
	for id := range load {
		if !m.down {
			delete(m.kept, id)
			if v := m.versions[id]; v >= 0 {
				m.kept[id] = &keptValue{v, m.loads, m.now}
			}
		}
	}
	for i, id := range ids {
		// A place that memory answers before the load: another place of the same id had a
		// higher floor.
		version, number := m.versions[id], m.loads
		if k := before[id]; k != nil && m.now-k.written < modelTTL && k.load > floor(id, i) {
			version, number = k.version, k.load
		} else if m.down {
			version = -3
		}
		if err := m.compare(id, version, number, out[i]); err != nil {
			rt.Fatalf("container %d, place %d of %v: %v", id, i, ids, err)
		}
	}
}

func (m *model) compare(id uint64, version, load int, l Located) error {
	switch version {
	case -3, -2:
		want := map[int]error{-3: errDown, -2: muster.ErrNotFound}[version]
		if !errors.Is(l.Err, want) || l.Placement != nil {
			return fmt.Errorf("%+v, want %v", l, want)
		}
		return nil
	case -1:
		if l.Err != nil || len(l.Placement.Nodes) != 0 {
			return fmt.Errorf("%+v, want an empty placement", l)
		}
	default:
		if l.Err != nil || l.Placement.Nodes[0] != muster.NodeNumber(version) {
			return fmt.Errorf("%+v, want node %d", l, version)
		}
	}
	if number, known := m.order[l.Seen]; known && number != load {
		return fmt.Errorf("the mark of load %d, want %d", number, load)
	} else if !known {
		m.order[l.Seen] = load
	}
	m.marks[id] = append(m.marks[id], l.Seen)
	return nil
}

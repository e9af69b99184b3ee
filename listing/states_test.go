package listing_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

// stateColumns are those that the model knows.
const stateColumns = rows.ColName | rows.ColKind | rows.ColLength | rows.ColMTime | rows.ColMode | rows.ColInodeID

// place is where a walk stands.
type place struct {
	index  int
	inside bool // of the path at index; else before it
	id     uint64
	name   string
	rows   uint64 // of the path before
}

// expect returns the page from p on with up to limit entries, by the rules of listing, of one state.
func expect(state map[string]*shown, paths []string, p place, limit int, txid uint64) (*listed, place) {
	var got listed
	for ; p.index < len(paths) && len(got.rows) < limit; p = (place{index: p.index + 1}) {
		out := muster.Outcome{Index: uint64(p.index), Txid: txid}
		path := paths[p.index]
		if path == link {
			path = linkTarget
		}
		dir, isDir := state[path]
		parent, name := muster.SplitPath(path)
		switch {
		case isDir && p.inside && dir.id != p.id:
			out.ID, out.Code, out.Message = dir.id, muster.ErrChanged, "set"
		case isDir:
			out.ID, out.ChangedAt = dir.id, dir.changedAt
			for _, e := range dir.entries {
				if e.Name <= p.name {
					continue
				}
				if len(got.rows) == limit {
					p.id, p.inside = dir.id, true
					return &got, p
				}
				got.rows = append(got.rows, row{uint32(p.index), project(e, stateColumns)})
				p.name = e.Name
				p.rows++
			}
		default:
			file := entryOf(state[parent], name)
			if file == nil {
				out.Code, out.Message = muster.ErrNotFound, "set"
				break
			}
			e := project(*file, stateColumns)
			e.Name, out.ID, p.rows = "", file.ID, 1
			got.rows = append(got.rows, row{uint32(p.index), e})
		}
		out.Rows = p.rows
		got.outcomes = append(got.outcomes, out)
	}
	return &got, p
}

func entryOf(dir *shown, name string) *muster.Entry {
	if dir == nil {
		return nil
	}
	for i := range dir.entries {
		if dir.entries[i].Name == name {
			return &dir.entries[i]
		}
	}
	return nil
}

// sighting is what a reader saw: the pages of one walk, or a snapshot stream as one page
// without end.
type sighting struct {
	paths []string
	limit int
	pages []*listed
	txids []uint64
}

// check wants every page to show exactly one state.
func (m *model) check(s *sighting) {
	m.Helper()
	var p place
	for i, page := range s.pages {
		var want *listed
		want, p = expect(m.at(s.txids[i]), s.paths, p, s.limit, s.txids[i])
		sameListing(m, fmt.Sprintf("page %d of %q at %d, limit %d", i, s.paths, s.txids[i], s.limit), page.mask(), want)
	}
	if p.index != len(s.paths) {
		m.Errorf("the walk ended before path %d of %d", p.index, len(s.paths))
	}
}

// walkPages walks paths by pages, and keeps what it sees.
func (m *model) walkPages(l *listing.Lister, paths []string, limit int) *sighting {
	s := &sighting{paths: paths, limit: limit}
	o := listing.Options{Limit: limit, Columns: stateColumns}
	var cursor []byte
	for done := false; !done; {
		err := l.Page(context.Background(), root, paths, o, cursor, func(message *listing.Message) error {
			s.pages, s.txids = append(s.pages, m.decode(message)), append(s.txids, message.Txid)
			cursor, done = append(cursor[:0], message.Cursor...), message.Done
			return nil
		})
		if err != nil {
			m.Error(err)
			return s
		}
	}
	return s
}

// walkSnapshot walks paths by a snapshot stream, whose messages must be of one state.
func (m *model) walkSnapshot(l *listing.Lister, paths []string, limit int) *sighting {
	all := &listed{}
	s := &sighting{paths: paths, limit: 1 << 30, pages: []*listed{all}, txids: []uint64{0}}
	o := listing.Options{Limit: limit, Columns: stateColumns, Consistency: muster.ConsistencySnapshot}
	err := l.Stream(context.Background(), root, o, nil, feedOf(paths, 3), func(message *listing.Message) error {
		part := m.decode(message)
		all.rows, all.outcomes = append(all.rows, part.rows...), append(all.outcomes, part.outcomes...)
		if s.txids[0] != 0 && message.Txid != s.txids[0] {
			m.Errorf("states %d and %d in one snapshot", s.txids[0], message.Txid)
		}
		s.txids[0] = message.Txid
		return nil
	})
	if err != nil {
		m.Error(err)
	}
	return s
}

func (m *model) decode(message *listing.Message) *listed {
	batch, err := rows.Decode(slices.Clone(message.Frame), stateColumns)
	if err != nil {
		m.Fatal(err)
	}
	got := &listed{outcomes: slices.Clone(message.Outcomes)}
	for i := range batch.Len() {
		got.rows = append(got.rows, row{batch.PathIndex(i), batch.Entry(i)})
	}
	return got
}

// statePaths are random paths of the model, present or not.
func statePaths(random *rand.Rand) []string {
	all := []string{
		"/p/a", "/p/b", "/p/c", "/q/d", "/q/big", "/p", "/q", "/", link, "/missing", "/p-/a", "/q-/big",
		"/p/a/s0", "/p/b/s1", "/q/d/s2", "/p/s0", "/q/big/f00001", "/p-", "/q-/d",
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+random.IntN(len(all))]
}

// While a writer goes through a history of states, each page shows exactly one of them, and
// each snapshot stream exactly one in all its pages: rows, directories' own times and what
// outcomes say of the last change.
func TestEveryPageShowsExactlyOneStateOfTheHistory(t *testing.T) {
	commits, large := 600, 2500
	if testing.Short() {
		commits, large = 150, 1200
	}
	seed := rand.Uint64()
	m := newModel(t, seed, large)
	l := m.lister(listing.Config{})
	seen := make([][]*sighting, 3)
	var group sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for i := range seen {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		group.Go(func() {
			for rounds := 0; (ctx.Err() == nil || rounds < 3) && !t.Failed() && rounds < 100; rounds++ {
				paths, limit := statePaths(random), 1+random.IntN(1<<(1+random.IntN(11)))
				if slices.Contains(paths, "/q/big") {
					limit += 100
				}
				if random.IntN(3) == 0 {
					seen[i] = append(seen[i], m.walkSnapshot(l, paths, limit))
				} else {
					seen[i] = append(seen[i], m.walkPages(l, paths, limit))
				}
			}
		})
	}
	for range commits {
		for range 1 + m.random.IntN(3) {
			m.step()
		}
		m.commit()
	}
	stop()
	group.Wait()
	for _, sightings := range seen {
		for _, s := range sightings {
			m.check(s)
		}
	}
}

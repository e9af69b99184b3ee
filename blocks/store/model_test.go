package store_test

import (
	"bytes"
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// model is what a store should hold, and the store.
type model struct {
	t      *testing.T
	rng    *rand.Rand
	o      store.Options
	dirs   []string
	s      *store.Store
	now    *clock
	blocks map[muster.BlockID]*modelBlock
	closed map[uint64]bool
	dead   map[muster.BlockID]time.Time // tombstones
	seen   map[uint64]store.Container   // what changes told
}

type modelBlock struct {
	w         *store.Writer
	data      []byte // durable
	more      []byte // written and not durable
	ended     bool   // no more may be written: it has a last piece that is not whole
	committed bool
	touched   time.Time
}

func newModel(t *testing.T, rng *rand.Rand, dirs ...string) *model {
	m := &model{
		t: t, rng: rng, dirs: dirs, now: newClock(),
		blocks: map[muster.BlockID]*modelBlock{}, closed: map[uint64]bool{}, dead: map[muster.BlockID]time.Time{}, seen: map[uint64]store.Container{},
	}
	m.o = store.Options{FS: vfs.NewMem(), Handles: 1 + rng.IntN(6), Now: m.now.Now}
	return m
}

// TestModel compares a store with maps and byte slices through random operations.
func TestModel(t *testing.T) {
	overSeeds(t, 20, func(t *testing.T, rng *rand.Rand) {
		m := newModel(t, rng, []string{"a", "b", "c"}[:1+rng.IntN(3)]...)
		m.run(600)
	})
}

// TestModelOnADisk is TestModel with files of the system.
func TestModelOnADisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the disk")
	}
	overSeeds(t, 2, func(t *testing.T, rng *rand.Rand) {
		m := newModel(t, rng, t.TempDir(), t.TempDir())
		m.o.FS = nil
		m.run(200)
	})
}

func (m *model) run(steps int) {
	m.open()
	for range steps {
		m.step()
		m.now.Add(time.Duration(m.rng.IntN(1000)) * time.Millisecond)
	}
	m.compare()
	must(m.t, m.s.Close())
}

func (m *model) open() {
	var err error
	m.s, err = store.Open(m.dirs, m.o)
	must(m.t, err)
}

// randomID returns the id of a block: one that exists, mostly one that is written, or any.
func (m *model) randomID() muster.BlockID {
	all := slices.SortedFunc(maps.Keys(m.blocks), func(a, b muster.BlockID) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.LocalID, b.LocalID))
	})
	some := slices.DeleteFunc(all, func(id muster.BlockID) bool { return m.blocks[id].w == nil && m.rng.IntN(8) > 0 })
	if len(some) == 0 || m.rng.IntN(4) == 0 {
		return id(1+m.rng.Uint64N(4), 1+m.rng.Uint64N(200))
	}
	return some[m.rng.IntN(len(some))]
}

// exists says whether a container has something durable.
func (m *model) exists(container uint64) bool { _, ok := m.closed[container]; return ok }

func (m *model) step() {
	b := m.randomID()
	switch op := m.rng.IntN(100); {
	case op < 20:
		m.create(b)
	case op < 45:
		m.write(b)
	case op < 55:
		m.sync(b)
	case op < 62:
		m.commit(b)
	case op < 65:
		m.closeWriter(b)
	case op < 69:
		m.recover(b)
	case op < 73:
		m.delete(b)
	case op < 74 && m.rng.IntN(3) == 0:
		m.closeContainer(b.Container)
	case op < 75 && m.rng.IntN(3) == 0:
		m.drop(b.Container)
	case op < 77:
		m.reopen()
	case op < 80:
		m.compare()
	default:
		m.read(b)
	}
}

func (m *model) want(err error, want muster.Code) bool {
	m.t.Helper()
	wantCode(m.t, err, want)
	return err == nil
}

func (m *model) create(b muster.BlockID) {
	copied := m.rng.IntN(3) == 0
	create := m.s.Create
	if copied {
		create = m.s.CreateCopy
	}
	w, err := create(b, 5)
	died, dead := m.dead[b]
	switch {
	case m.closed[b.Container] && !copied:
		m.want(err, muster.ErrChanged)
	case m.blocks[b] != nil, dead && m.now.Now().Sub(died) < store.TombstoneLife:
		m.want(err, muster.ErrExists)
	case m.want(err, 0):
		m.blocks[b] = &modelBlock{w: w}
	}
}

func (m *model) write(id muster.BlockID) {
	b := m.blocks[id]
	if b == nil || b.w == nil {
		return
	}
	data := random(m.rng, piece*m.rng.IntN(4))
	if m.rng.IntN(6) == 0 {
		data = random(m.rng, 1+m.rng.IntN(3*piece))
	}
	at := int64(len(b.data) + len(b.more))
	err := b.w.Write(at, data, sumsOf(data))
	switch {
	case b.ended && len(data) > 0:
		m.want(err, muster.ErrInvalid)
	case err != nil: // not of a copy
		m.want(err, muster.ErrChanged)
		if !m.closed[id.Container] {
			m.t.Fatal("the container is not closed")
		}
	default:
		b.more = append(b.more, data...)
		b.ended = len(b.more)%piece != 0 || b.ended
	}
}

// settled notes that what was written of a block is durable.
func (m *model) settled(id muster.BlockID, b *modelBlock) {
	if len(b.more) > 0 || b.committed {
		b.touched = m.now.Now()
		if !m.exists(id.Container) {
			m.closed[id.Container] = false
		}
	}
	b.data, b.more = append(b.data, b.more...), nil
}

func (m *model) sync(id muster.BlockID) {
	if b := m.blocks[id]; b != nil && b.w != nil {
		n, err := b.w.Sync()
		m.want(err, 0)
		m.settled(id, b)
		if n != int64(len(b.data)) {
			m.t.Fatalf("block %v: %d bytes durable of %d", id, n, len(b.data))
		}
	}
}

func (m *model) commit(id muster.BlockID) {
	if b := m.blocks[id]; b != nil && b.w != nil {
		m.want(b.w.Commit(), 0)
		b.w, b.committed = nil, true
		m.settled(id, b)
	}
}

func (m *model) closeWriter(id muster.BlockID) {
	if b := m.blocks[id]; b != nil && b.w != nil {
		m.want(b.w.Close(), 0)
		m.leave(id, b)
	}
}

// leave ends writing a block without a commit.
func (m *model) leave(id muster.BlockID, b *modelBlock) {
	if b.w == nil {
		return
	}
	if b.w, b.more = nil, nil; len(b.data) == 0 {
		delete(m.blocks, id)
	}
}

func (m *model) recover(id muster.BlockID) {
	length := m.rng.IntN(6 * piece)
	b := m.blocks[id]
	if b != nil && m.rng.IntN(2) == 0 {
		length = len(b.data)
	}
	err := m.s.Commit(id, int64(length))
	switch {
	case !m.exists(id.Container):
		m.want(err, muster.ErrNotFound)
	case b == nil || !b.committed && len(b.data) == 0:
		m.want(err, muster.ErrNoData)
	case b.committed && length != len(b.data):
		m.want(err, muster.ErrExists)
	case length > len(b.data):
		m.want(err, muster.ErrInvalid)
	default:
		m.want(err, 0)
		if b.w != nil {
			m.want(b.w.Commit(), muster.ErrExists)
			must(m.t, b.w.Close())
		}
		if !b.committed {
			b.touched = m.now.Now()
		}
		b.w, b.more, b.data, b.committed = nil, nil, b.data[:length], true
	}
}

func (m *model) delete(id muster.BlockID) {
	b := m.blocks[id]
	must(m.t, m.s.Delete(id))
	if b != nil && b.w != nil {
		m.want(b.w.Commit(), muster.ErrNoData)
		must(m.t, b.w.Close())
	}
	if m.s.Deleted(id) {
		m.dead[id] = m.now.Now()
	} else if b != nil || m.exists(id.Container) {
		m.t.Fatalf("block %v left no tombstone", id)
	}
	delete(m.blocks, id)
}

func (m *model) closeContainer(container uint64) {
	err := m.s.CloseContainer(container)
	if !m.exists(container) {
		m.want(err, muster.ErrNotFound)
	} else if m.want(err, 0) {
		m.closed[container] = true
	}
}

func (m *model) drop(container uint64) {
	must(m.t, m.s.Drop(container))
	for id, b := range m.blocks {
		if id.Container != container {
			continue
		}
		if b.w != nil {
			_, err := b.w.Sync()
			m.want(err, muster.ErrNotFound)
			must(m.t, b.w.Close())
		}
		delete(m.blocks, id)
	}
	delete(m.closed, container)
}

func (m *model) reopen() {
	for id, b := range m.blocks {
		if b.w != nil && m.rng.IntN(2) == 0 {
			must(m.t, b.w.Close())
		}
		m.leave(id, b)
	}
	must(m.t, m.s.Close())
	m.open()
	clear(m.seen)
}

func (m *model) read(id muster.BlockID) {
	b := m.blocks[id]
	offset := m.rng.IntN(6) * piece
	dst := make([]byte, piece*(1+m.rng.IntN(6)))
	n, sums, err := m.s.Read(id, int64(offset), dst, nil)
	switch {
	case !m.exists(id.Container):
		m.want(err, muster.ErrNotFound)
	case b == nil || !b.committed:
		m.want(err, muster.ErrNoData)
	case offset > len(b.data):
		m.want(err, muster.ErrInvalid)
	case m.want(err, 0):
		want := b.data[offset:min(len(b.data), offset+len(dst))]
		if !bytes.Equal(dst[:n], want) || !bytes.Equal(sums, sumsOf(want)) {
			m.t.Fatalf("block %v at %d: other bytes than written", id, offset)
		}
	}
}

// compare compares all that the store tells with the model.
func (m *model) compare() {
	want := map[uint64]*store.Container{}
	for container, closed := range m.closed {
		want[container] = &store.Container{ID: container, Closed: closed}
	}
	used, waiting := 0, 0
	list := map[uint64][]store.Listed{}
	for id, b := range m.blocks {
		used += len(b.data)
		if !b.committed && len(b.data) == 0 {
			continue
		}
		m.stat(id, b)
		list[id.Container] = append(list[id.Container], store.Listed{LocalID: id.LocalID, Length: int64(len(b.data)), Committed: b.committed, File: 5})
		if b.committed {
			want[id.Container].Blocks++
			want[id.Container].Bytes += uint64(len(b.data))
		} else {
			waiting++
		}
	}
	for _, c := range m.s.TakeChanges() {
		if m.seen[c.ID] = c.Container; c.Gone {
			delete(m.seen, c.ID)
		}
	}
	got := m.s.Containers()
	if len(got) != len(want) || len(m.seen) != len(want) {
		m.t.Fatalf("%d containers, %d by changes; want %d", len(got), len(m.seen), len(want))
	}
	for _, c := range got {
		if c != *want[c.ID] || m.seen[c.ID] != c {
			m.t.Fatalf("container %+v, by changes %+v; want %+v", c, m.seen[c.ID], *want[c.ID])
		}
		blocks, err := m.s.List(c.ID, 0, 1000)
		must(m.t, err)
		slices.SortFunc(list[c.ID], func(a, b store.Listed) int { return int(a.LocalID) - int(b.LocalID) })
		if !slices.Equal(blocks, list[c.ID]) {
			m.t.Fatalf("container %d lists %+v; want %+v", c.ID, blocks, list[c.ID])
		}
	}
	if n := len(m.s.Unfinished(0, 1000)); n != waiting {
		m.t.Fatalf("%d unfinished; want %d", n, waiting)
	}
	on := uint64(0)
	for _, d := range m.s.Disks() {
		on += d.Used
	}
	if on != uint64(used) {
		m.t.Fatalf("%d bytes used; want %d", on, used)
	}
}

func (m *model) stat(id muster.BlockID, b *modelBlock) {
	info, err := m.s.Stat(id)
	must(m.t, err)
	if info.Length != int64(len(b.data)) || info.Committed != b.committed || info.Damaged || info.File != 5 ||
		!info.Touched.Equal(b.touched) || info.Created.After(info.Touched) || !slices.Equal(info.Chunks, chunksOf(b.data)) {
		m.t.Fatalf("block %v: %+v; want %d bytes, committed %v, touched %v", id, info, len(b.data), b.committed, b.touched)
	}
}

// TestModelCoversWhatItSays keeps the model honest: its blocks are of all kinds.
func TestModelCoversWhatItSays(t *testing.T) {
	m := newModel(t, newRand(1), "a")
	m.open()
	defer func() { must(t, m.s.Close()) }()
	kinds := map[string]bool{}
	for range 3000 {
		m.step()
		for _, b := range m.blocks {
			switch {
			case b.committed && len(b.data) == 0:
				kinds["empty"] = true
			case b.committed:
				kinds["committed"] = true
			case b.w == nil:
				kinds["left"] = true
			case len(b.data) > 0 && len(b.more) > 0:
				kinds["partly durable"] = true
			}
		}
		if len(m.dead) > 0 {
			kinds["deleted"] = true
		}
		for _, closed := range m.closed {
			kinds["closed"] = kinds["closed"] || closed
		}
	}
	if got := slices.Sorted(maps.Keys(kinds)); len(got) != 6 {
		t.Fatalf("the model only had %v", got)
	}
}

package server

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// TestUpkeepModel has writers, datanodes, the location service and the server come and go at random.
// In the end, when all datanodes are back and no writer is, every file is finished and has at least
// what its writer was told to be durable, every block of it is readable somewhere, at its length,
// and datanodes have nothing else.
func TestUpkeepModel(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for range rounds {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%#x", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := &upkeepModel{kept: newKept(t, Leases{}), rng: rand.New(rand.NewPCG(seed, 0)), files: map[uint64]int64{}, downSince: map[muster.NodeNumber]time.Time{}}
				for range 150 {
					m.step()
				}
				m.settle()
				m.check()
			})
		})
	}
}

// upkeepModel is what clients know.
type upkeepModel struct {
	*kept
	rng       *rand.Rand
	writers   []*modelWriter
	holders   byte
	files     map[uint64]int64 // bytes that the writer of each file was told to be durable, or to be the whole file
	names     int
	downSince map[muster.NodeNumber]time.Time
}

// modelWriter is a client that writes a file, and renews its lease as long as it lives.
type modelWriter struct {
	begun
	holder  muster.Holder
	before  int64 // bytes of the blocks before
	durable map[muster.NodeNumber]int64
	failed  bool // a datanode of the block has, or the block is committed: no more of it is written
}

// acked is how much of the block was acknowledged: durable on each of its datanodes.
func (w *modelWriter) acked() int64 {
	least := int64(1 << 40)
	for _, n := range w.nodes {
		least = min(least, w.durable[n])
	}
	return least
}

func (m *upkeepModel) step() {
	for _, w := range m.writers {
		m.upkeep.leases.renew(w.holder)
	}
	switch p := m.rng.IntN(100); {
	case p < 20:
		m.startFile()
	case p < 55 && len(m.writers) > 0:
		m.write(m.writers[m.rng.IntN(len(m.writers))])
	case p < 65 && len(m.writers) > 0:
		m.end(m.rng.IntN(len(m.writers)), m.rng.IntN(2) == 0)
	case p < 75:
		m.flip(m.nodes[m.rng.IntN(len(m.nodes))])
	case p < 80:
		m.deleteFile()
	case p < 84:
		m.change(func() {
			if m.outage == nil {
				m.outage = muster.ErrUnavailable
			} else {
				m.outage = nil
			}
		})
	case p < 87:
		m.crash()
	case p < 89:
		m.loseBlock()
	default:
		time.Sleep(time.Duration(m.rng.Int64N(int64(20 * time.Second))))
	}
	for n, since := range m.downSince {
		if time.Since(since) > 8*time.Minute { // before it is dead: who is dead is not waited for
			m.flip(n)
		}
	}
}

// try applies commands that may be refused since the file was deleted.
func (m *upkeepModel) try(commands ...muster.Command) (ids []uint64, gone bool) {
	m.Helper()
	applied, err := m.tree.Apply(m.Context(), request(commands...))
	if errors.Is(err, muster.ErrNotFound) {
		return nil, true
	}
	if err != nil {
		m.Fatal(err)
	}
	return applied.IDs, false
}

func (m *upkeepModel) startFile() {
	m.holders++
	m.names++
	w := &modelWriter{holder: muster.Holder{m.holders, 1}, durable: map[muster.NodeNumber]int64{}}
	if m.rng.IntN(3) == 0 && len(m.writers) > 0 {
		w.holder = m.writers[0].holder // a client writes several files
	}
	block, nodes, err := m.tryAllocate()
	if err != nil {
		return
	}
	w.begun = m.beginAt(fmt.Sprintf("/d%d/f%d", m.rng.IntN(3), m.names), w.holder, block, nodes)
	m.writers = append(m.writers, w)
	m.files[w.file] = 0
}

// write sends bytes to the datanodes of a block, some of which get less of it; a datanode that is down
// ends the block.
func (m *upkeepModel) write(w *modelWriter) {
	if w.failed {
		m.next(w)
		return
	}
	n := 1 + m.rng.Int64N(100)
	for _, node := range w.nodes {
		if m.isDown(node) {
			w.failed = true
		}
	}
	for _, node := range w.nodes {
		if m.isDown(node) {
			continue
		}
		w.durable[node] += n
		if w.failed || m.rng.IntN(10) == 0 {
			w.durable[node] -= m.rng.Int64N(n + 1) // it lags, or the writer has noticed that another failed
		}
		m.kept.write(node, w.file, w.block, stored{length: w.durable[node]})
	}
	if w.failed {
		m.next(w)
		return
	}
	m.note(w)
	if m.rng.IntN(4) == 0 {
		m.next(w)
	}
}

func (m *upkeepModel) note(w *modelWriter) {
	if _, there := m.files[w.file]; there {
		m.files[w.file] = w.before + w.acked()
	}
}

// commit commits a block at what was acknowledged, where that can be; it says whether it could.
func (m *upkeepModel) commit(w *modelWriter) (length int64, ok bool) {
	length, w.failed = w.acked(), true
	for _, node := range w.nodes {
		if m.isDown(node) || length == 0 {
			continue
		}
		b := blockOfFile{w.block, w.file}
		ok = m.disks.CommitBlock(m.Context(), &muster.Node{Number: node}, b, length) == nil || ok
	}
	return length, ok || length == 0
}

// next goes on in another block.
func (m *upkeepModel) next(w *modelWriter) {
	length, ok := m.commit(w)
	if !ok {
		return
	}
	block, nodes, err := m.tryAllocate()
	if err != nil {
		return
	}
	if _, gone := m.try(muster.AddBlock{File: w.file, Holder: w.holder, Previous: length, Block: block}); gone {
		return
	}
	w.before += length
	w.begun = begun{w.file, idOf(block), nodes}
	w.durable, w.failed = map[muster.NodeNumber]int64{}, false
	m.note(w)
}

// end ends a writer, which finishes its file or not.
func (m *upkeepModel) end(i int, finishes bool) {
	w := m.writers[i]
	if finishes {
		length, ok := m.commit(w)
		if !ok {
			return
		}
		m.try(muster.FinishFile{File: w.file, Holder: w.holder, Last: length})
	}
	m.writers = slices.Delete(m.writers, i, i+1)
}

// flip has a datanode go down or come back.
func (m *upkeepModel) flip(n muster.NodeNumber) {
	if _, down := m.downSince[n]; down {
		delete(m.downSince, n)
	} else {
		m.downSince[n] = time.Now()
	}
	m.change(func() { _, m.down[n] = m.downSince[n] })
}

func (m *upkeepModel) deleteFile() {
	ids := slices.Sorted(maps.Keys(m.files))
	if len(ids) == 0 {
		return
	}
	id := ids[m.rng.IntN(len(ids))]
	f, err := fileByID(m.tree, id)
	if err != nil {
		m.Fatal(err)
	}
	m.apply(muster.Delete{Path: f.path})
	delete(m.files, id)
}

// loseBlock has one datanode, always the same, lose a block.
func (m *upkeepModel) loseBlock() {
	m.change(func() {
		for b := range m.blocks[m.nodes[0]] {
			delete(m.blocks[m.nodes[0]], b)
			break
		}
	})
}

// settle lets all come back but the writers.
func (m *upkeepModel) settle() {
	for n := range maps.Clone(m.downSince) {
		m.flip(n)
	}
	m.change(func() { m.outage = nil })
	time.Sleep(10 * time.Minute)
	synctest.Wait()
}

func (m *upkeepModel) check() {
	list, err := m.tree.Writings(0, 10)
	if err != nil || len(list) > 0 {
		m.Fatalf("still being written: %+v, %v", list, err)
	}
	if q := m.queue(); len(q) > 0 {
		m.Fatalf("still to be deleted: %v", q)
	}
	lengths := map[muster.BlockID]int64{}
	for id, least := range m.files {
		blocks := m.blocksOf(id)
		total := int64(0)
		for b, length := range blocks {
			total += length
			lengths[b] = length
		}
		if total < least {
			m.Errorf("file %d has %d bytes; its writer was told that %d are durable", id, total, least)
		}
	}
	readable := map[muster.BlockID]bool{}
	for n, blocks := range m.blocks {
		for b, s := range blocks {
			length, known := lengths[b]
			if !known || !s.committed || s.length != length {
				m.Errorf("datanode %d has %v: %+v; in a file: %v, with length %d", n, b, s, known, length)
			}
			readable[b] = true
		}
	}
	for b := range lengths {
		if !readable[b] {
			m.Errorf("nobody has %v", b)
		}
	}
	if _, err := m.tree.Fsck(m.Context(), func(p namespace.Problem) error { m.Errorf("fsck: %+v", p); return nil }); err != nil {
		m.Error(err)
	}
}

func (m *upkeepModel) blocksOf(id uint64) map[muster.BlockID]int64 {
	view, err := m.tree.View()
	if err != nil {
		m.Fatal(err)
	}
	defer view.Release()
	reader := view.NewReader(&alice)
	defer reader.Close()
	lengths, err := lengthsOf(reader, id)
	if err != nil {
		m.Fatal(err)
	}
	return lengths
}

package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// modelFile is what is known of a file: it was closed with these bytes.
type modelFile struct {
	path string
	data []byte
}

// modelReader is an open file, where its cursor is to be.
type modelReader struct {
	*client.File
	data []byte
	at   int64
}

// modelWorker writes and reads files of its own.
type modelWorker struct {
	t     *testing.T
	c     *client.Client
	r     *rand.Rand
	dir   string
	made  int
	files []modelFile
	open  []modelReader
	bytes []byte // of which all files are pieces
}

// writeOne writes a file, in pieces and in any way, and in the place of another one sometimes.
func (w *modelWorker) writeOne() error {
	size := w.r.IntN(200_000)
	switch w.r.IntN(4) {
	case 0:
		size = w.r.IntN(9 << 20)
	case 1:
		size = []int{0, 1, muster.ChecksumBytes, muster.MinBlockSize, muster.MinBlockSize + 1}[w.r.IntN(5)]
	}
	from := w.r.IntN(len(w.bytes) - size + 1)
	file := modelFile{fmt.Sprint(w.dir, "/", w.made), w.bytes[from : from+size]}
	w.made++
	replaces := -1
	o := client.WriteOptions{BlockSize: muster.MinBlockSize, Parents: true, Window: 2 << 20, Atomic: w.r.IntN(2) == 0}
	if len(w.files) > 0 && w.r.IntN(3) == 0 {
		replaces = w.r.IntN(len(w.files))
		file.path, o.Overwrite, o.Atomic = w.files[replaces].path, true, true
	}
	f, err := w.c.CreateFile(w.t.Context(), file.path, o)
	if err != nil {
		return err
	}
	for rest := file.data; len(rest) > 0; {
		n := min(len(rest), 1+w.r.IntN(1+len(file.data)/2))
		if w.r.IntN(2) == 0 {
			_, err = f.Write(rest[:n])
		} else {
			_, err = f.ReadFrom(bytes.NewReader(rest[:n]))
		}
		if err != nil {
			return errors.Join(err, f.Abort(context.Background()))
		}
		rest = rest[n:]
	}
	if err := f.Close(); err != nil {
		return err
	}
	if replaces < 0 {
		w.files = append(w.files, file)
		return nil
	}
	w.files[replaces] = file
	for i := 0; i < len(w.open); { // the blocks of what was there go
		if w.open[i].Name() == file.path {
			_ = w.open[i].Close()
			w.open = append(w.open[:i], w.open[i+1:]...)
			continue
		}
		i++
	}
	return nil
}

// opened returns a file that is open.
func (w *modelWorker) opened() (*modelReader, error) {
	if len(w.open) == 3 {
		_ = w.open[0].Close()
		w.open = append(w.open[:0], w.open[1:]...)
	}
	if len(w.open) == 0 || w.r.IntN(3) == 0 {
		file := w.files[w.r.IntN(len(w.files))]
		modes := []client.ReadOptions{{}, {ReadAhead: -1}, {ReadAhead: 300_000, Idle: time.Millisecond}, {Mode: blocks.ByChunk}, {Mode: blocks.ByStream}}
		f, err := w.c.OpenFile(w.t.Context(), file.path, modes[w.r.IntN(len(modes))])
		if err != nil {
			return nil, err
		}
		if f.Size() != int64(len(file.data)) {
			return nil, fmt.Errorf("%s has %d bytes, want %d", file.path, f.Size(), len(file.data))
		}
		w.open = append(w.open, modelReader{f, file.data, 0})
	}
	return &w.open[w.r.IntN(len(w.open))], nil
}

// readOne reads something of an open file.
func (w *modelWorker) readOne() error {
	f, err := w.opened()
	if err != nil {
		return err
	}
	length := int64(len(f.data))
	p := make([]byte, w.r.IntN(2<<20))
	switch w.r.IntN(4) {
	case 0:
		at := w.r.Int64N(length + 1)
		n, err := f.ReadAt(p, at)
		if want := f.data[at:min(at+int64(len(p)), length)]; !bytes.Equal(p[:n], want) || err != nil && (err != io.EOF || n == len(p) && n > 0) {
			return fmt.Errorf("%s: %d of %d bytes at %d: %d, %w", f.Name(), len(p), length, at, n, err)
		}
	case 1:
		f.at = w.r.Int64N(length + 1)
		if at, err := f.Seek(f.at, io.SeekStart); at != f.at || err != nil {
			return fmt.Errorf("%s: seek %d: %d, %w", f.Name(), f.at, at, err)
		}
	case 2:
		n, err := io.ReadFull(f, p)
		want := f.data[f.at:min(f.at+int64(len(p)), length)]
		if !bytes.Equal(p[:n], want) || err != nil && (n == len(p) || !errors.Is(err, io.EOF) && err != io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s: %d of %d bytes from %d: %d, %w", f.Name(), len(p), length, f.at, n, err)
		}
		f.at += int64(n)
	default:
		var all bytes.Buffer
		if n, err := f.WriteTo(&all); err != nil || n != length-f.at || !bytes.Equal(all.Bytes(), f.data[f.at:]) {
			return fmt.Errorf("%s: all of %d bytes from %d: %d, %w", f.Name(), length, f.at, n, err)
		}
		f.at = length
	}
	return nil
}

func (w *modelWorker) step() error {
	if len(w.files) == 0 || w.r.IntN(3) == 0 {
		return w.writeOne()
	}
	return w.readOne()
}

func (w *modelWorker) close() {
	for _, f := range w.open {
		must(w.t, f.Close())
	}
	w.open = nil
}

// check wants all files to be what they were when they were closed.
func (w *modelWorker) check(c *client.Client, when string) {
	w.t.Helper()
	for _, f := range w.files {
		if got, err := tryRead(c, f.path, client.ReadOptions{}); err != nil || !bytes.Equal(got, f.data) {
			w.t.Errorf("%s: %s: %d of %d bytes, %v", when, f.path, len(got), len(f.data), err)
		}
		if sum, err := c.Checksum(w.t.Context(), f.path); err != nil || sum != crc32.Checksum(f.data, crc32.MakeTable(crc32.Castagnoli)) {
			w.t.Errorf("%s: %s: checksum %x, %v", when, f.path, sum, err)
		}
	}
}

// misery makes one datanode at a time fail, and never more than two of a block's replicas.
type misery struct {
	*site
	c       *client.Client
	r       *rand.Rand
	workers []*modelWorker
	damaged map[muster.BlockID]*post
}

// good counts the replicas of a block that can be read.
func (m *misery) good(b muster.Block) (count int) {
	for _, p := range m.nodes {
		if m.damaged[idOf(b)] != p && p.has(idOf(b), b.Length) {
			count++
		}
	}
	return count
}

// replicas says where a block is.
func (m *misery) replicas(b muster.Block) (list string) {
	for _, p := range m.nodes {
		info, err := p.running.Blocks().Stat(idOf(b))
		list += fmt.Sprintf(" [datanode %d: %+v, %v, damaged %v]", p.number, info, err, m.damaged[idOf(b)] == p)
	}
	return list
}

// settled waits until each block can be read from two datanodes.
func (m *misery) settled() {
	if !within(m.room) {
		m.t.Fatal("not all datanodes are in service, with a disk that takes blocks")
	}
	for _, w := range m.workers {
		for _, f := range w.files {
			for _, b := range ids(m.t, m.c, f.path) {
				if !within(func() bool { return m.good(b) >= 2 }) {
					m.t.Fatalf("block %v of %s, %d bytes, is not on two datanodes but%s", idOf(b), f.path, b.Length, m.replicas(b))
				}
			}
		}
	}
}

// room says whether the location service has heard that all datanodes take blocks.
func (m *misery) room() bool {
	nodes, err := m.c.Datanodes(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Health != muster.InService || len(n.Disks) != 1 || n.Disks[0].State != muster.DiskOK {
			return false
		}
	}
	return true
}

// spoil damages a replica of a block that has three good ones.
func (m *misery) spoil() {
	w := m.workers[m.r.IntN(len(m.workers))]
	if len(w.files) == 0 {
		return
	}
	for _, b := range ids(m.t, m.c, w.files[m.r.IntN(len(w.files))].path) {
		p := m.nodes[m.r.IntN(len(m.nodes))]
		if m.damaged[idOf(b)] == nil && p.has(idOf(b), b.Length) && m.good(b) >= 3 {
			p.damage(idOf(b), m.r.Int64N(b.Length))
			m.damaged[idOf(b)] = p
		}
	}
}

// round lets the workers go on while one thing is wrong.
func (m *misery) round(steps int) {
	m.settled()
	p := m.nodes[m.r.IntN(len(m.nodes))]
	wrong, right := func() {}, func() {}
	kind := m.r.IntN(4)
	switch kind {
	case 0:
		wrong, right = p.stop, p.start
	case 1:
		wrong, right = func() { p.delay.Store(int64(3 * time.Millisecond)) }, func() { p.delay.Store(0) }
	case 2:
		wrong, right = func() { p.full.Store(true) }, p.empty
	case 3:
		m.spoil()
	}
	name := []string{"stops", "is slow", "is full", "is spoilt"}[kind]
	var done atomic.Int64
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	var running sync.WaitGroup
	for i, w := range m.workers {
		running.Go(func() {
			for range steps {
				if err := w.step(); err != nil {
					m.t.Errorf("datanode %d %s: worker %d: %v", p.number, name, i, err)
					return
				}
				if done.Add(1) == 2 {
					begin()
				}
			}
		})
	}
	go func() { running.Wait(); begin() }()
	<-begun // in the middle of it
	wrong()
	running.Wait()
	right()
}

// TestFilesModel writes and reads files at random while datanodes stop, are slow, full and have
// damaged bytes: what was closed is read back, to the byte.
func TestFilesModel(t *testing.T) {
	rounds, steps := 12, 25
	if testing.Short() {
		rounds, steps = 4, 8
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := startSite(t, 4, func(*server.Options) {})
	m := &misery{site: s, c: dial(t, s.addr(), client.Options{}), r: rand.New(rand.NewPCG(seed, 0)), damaged: map[muster.BlockID]*post{}}
	for i := range 3 {
		m.workers = append(m.workers, &modelWorker{
			t: t, c: dial(t, s.addr(), client.Options{}), r: rand.New(rand.NewPCG(seed, uint64(i+1))), dir: fmt.Sprint("/", i), bytes: random(16 << 20),
		})
	}
	for range rounds {
		if m.round(steps); t.Failed() {
			return
		}
	}
	for _, w := range m.workers {
		w.close()
		w.check(w.c, "at the end")
	}
	for _, p := range s.nodes {
		p.stop()
	}
	s.kill()
	s.up()
	for _, p := range s.nodes {
		p.start()
	}
	for _, w := range m.workers {
		w.check(m.c, "after a restart of all")
	}
}

// TestFilesWithoutReplicas: only when the last replica is gone, or damaged, reading fails, and says why.
func TestFilesWithoutReplicas(t *testing.T) {
	s := startSite(t, 3, func(*server.Options) {})
	c := dial(t, s.addr(), client.Options{Attempts: 2})
	data := random(300_000)
	write(t, c, "/f", client.WriteOptions{}, data)
	b := ids(t, c, "/f")[0]
	for _, p := range s.nodes {
		eventually(t, "the replica is committed", func() bool { return p.has(idOf(b), b.Length) })
	}
	o := client.ReadOptions{Attempts: 4, Pause: time.Millisecond}
	expect := func(when string, code muster.Code) {
		t.Helper()
		got, err := tryRead(c, "/f", o)
		var at *fs.PathError
		switch {
		case code == muster.OK && (err != nil || !bytes.Equal(got, data)):
			t.Errorf("%s: %d bytes, %v", when, len(got), err)
		case code != muster.OK && (!errors.Is(err, code) || !errors.As(err, &at) || at.Path != "/f" || !bytes.HasPrefix(data, got)):
			t.Errorf("%s: %d bytes, %v", when, len(got), err)
		}
	}
	for i, p := range s.nodes {
		expect(fmt.Sprint(i, " stopped"), muster.OK)
		p.stop()
	}
	expect("all stopped", muster.ErrUnavailable)
	for _, p := range s.nodes {
		p.start()
	}
	for i, p := range s.nodes {
		expect(fmt.Sprint(i, " damaged"), muster.OK)
		p.damage(idOf(b), 200_000)
	}
	expect("all damaged", muster.ErrCorrupt)
	// What is whole can be read all the same.
	f, err := c.Open(t.Context(), "/f")
	must(t, err)
	defer f.Close()
	p := make([]byte, 150_000)
	if n, err := f.ReadAt(p, 0); n != len(p) || err != nil || !bytes.Equal(p, data[:n]) {
		t.Errorf("before the damage: %d, %v", n, err)
	}
	if _, err := f.ReadAt(p, 150_000); !errors.Is(err, muster.ErrCorrupt) || !strings.Contains(err.Error(), "/f") {
		t.Errorf("the damage: %v", err)
	}
}

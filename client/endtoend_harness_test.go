package client_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/server"
)

// site is a whole cluster: a server, and datanodes beside it that keep blocks on the disk and want
// tokens. Its parts fail as a test has them fail.
type site struct {
	*instance
	nodes []*post
}

// post is a datanode, and what is left of it while it does not run.
type post struct {
	t       *testing.T
	options server.DatanodeOptions
	running *server.Datanode // nil: it does not run
	number  muster.NodeNumber
	delay   atomic.Int64                 // ns that each operation on a block's file takes
	full    atomic.Bool                  // the disk
	ahead   atomic.Int64                 // by how much its clock is, in ns
	writing atomic.Pointer[func() error] // nil, or called before each write to a block's file
}

// quickly is a location service that notices all soon, but is patient with datanodes that a busy
// machine keeps from answering.
func quickly() registry.Options {
	return registry.Options{
		Heartbeat: 20 * time.Millisecond, StaleAfter: 20 * time.Second, DeadAfter: 30 * time.Second,
		PlanEvery: 50 * time.Millisecond, ReplicaGrace: 500 * time.Millisecond,
	}
}

// startSite starts a server and datanodes.
func startSite(t *testing.T, nodes int, change func(*server.Options)) *site {
	t.Helper()
	s := &site{instance: startWith(t, func(o *server.Options) {
		o.Locations.Tokens, o.Locations.Registry = true, quickly()
		o.Leases = server.Leases{Unfinished: 200 * time.Millisecond}
		change(o)
	})}
	for range nodes {
		s.add(t.TempDir())
	}
	return s
}

// add starts another datanode on a folder.
func (s *site) add(dir string) *post {
	s.t.Helper()
	p := &post{t: s.t}
	p.options = server.DatanodeOptions{
		Dirs: []string{dir}, Locations: s.addr(), KeyFile: filepath.Join(s.options.Dir, "cluster.key"), UnfinishedAge: 50 * time.Millisecond,
		Store: store.Options{Reserve: 1 << 20, FS: errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(p.hinder)), Space: p.space, Now: p.now},
	}
	s.nodes = append(s.nodes, p)
	p.start()
	s.t.Cleanup(p.stop)
	return p
}

// hinder is what happens before each operation on files.
func (p *post) hinder(op errorfs.Op, path string) error {
	if !strings.Contains(path, "/blocks/") {
		return nil
	}
	time.Sleep(time.Duration(p.delay.Load()))
	if op != errorfs.OpFileWrite && op != errorfs.OpFileWriteAt {
		return nil
	}
	if p.full.Load() {
		return syscall.ENOSPC
	}
	if f := p.writing.Load(); f != nil {
		return (*f)()
	}
	return nil
}

// now is the time by the datanode's clock.
func (p *post) now() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }

// empty ends it that the disk is full. A disk that the system has said it of counts as full for
// a while, which passes at once.
func (p *post) empty() {
	p.full.Store(false)
	p.ahead.Add(int64(2 * time.Minute))
}

func (p *post) space(string) (capacity, free uint64, err error) {
	if p.full.Load() {
		return 1 << 40, 0, nil
	}
	return 1 << 40, 1 << 39, nil
}

// start starts the datanode, at the address that it had before.
func (p *post) start() {
	p.t.Helper()
	d, err := server.StartDatanode(context.Background(), p.options)
	if err != nil {
		p.t.Fatalf("start datanode: %v", err)
	}
	p.running, p.number, p.options.Listen = d, d.Number(), d.Addr().String()
}

// stop stops it, and ends the calls in progress, if it runs.
func (p *post) stop() {
	if p.running == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.running.Shutdown(ctx) // says that calls were ended
	<-p.running.Done()
	p.running = nil
}

// has says whether the datanode runs and has so many bytes of a block committed, or more: if the
// writer has cut the block when another datanode failed, after it was committed here.
func (p *post) has(id muster.BlockID, length int64) bool {
	if p.running == nil {
		return false
	}
	info, err := p.running.Blocks().Stat(id)
	return err == nil && info.Committed && info.Length >= length
}

// blockFile is where the bytes of a block are.
func (p *post) blockFile(id muster.BlockID) string {
	return filepath.Join(p.options.Dirs[0], "blocks", strconv.FormatUint(id.Container, 10), strconv.FormatUint(id.LocalID, 10))
}

// damage changes a byte of a block.
func (p *post) damage(id muster.BlockID, at int64) {
	p.t.Helper()
	f, err := os.OpenFile(p.blockFile(id), os.O_RDWR, 0)
	must(p.t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	must(p.t, err)
	b[0] ^= 0x40
	_, err = f.WriteAt(b, at)
	must(p.t, err)
}

// onDisk is how many bytes the block files of a datanode have.
func (p *post) onDisk() (bytes int64) {
	p.t.Helper()
	err := filepath.Walk(filepath.Join(p.options.Dirs[0], "blocks"), func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			bytes += info.Size()
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // it goes just now
		}
		return err
	})
	must(p.t, err)
	return bytes
}

// ids are the blocks of a file, with their lengths.
func ids(t testing.TB, c *client.Client, path string) (list []muster.Block) {
	t.Helper()
	info, err := c.Lstat(context.Background(), path)
	must(t, err)
	return info.Entry.Blocks
}

func idOf(b muster.Block) muster.BlockID {
	return muster.BlockID{Container: b.Container, LocalID: b.LocalID}
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	if !within(so) {
		t.Fatalf("never came: %s", what)
	}
}

// within waits as long as no healthy machine takes, and says whether something became so.
func within(so func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// tryRead returns all that a file has.
func tryRead(c *client.Client, path string, o client.ReadOptions) ([]byte, error) {
	f, err := c.OpenFile(context.Background(), path, o)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

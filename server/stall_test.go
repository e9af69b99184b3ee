package server_test

import (
	"path"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// stuckDisk is a file system on which syncs of the write-ahead log hang while it is stuck.
type stuckDisk struct {
	vfs.FS
	stuck    atomic.Bool
	waiting  chan struct{} // gets one when a sync hangs; has room for one
	released chan struct{} // closed: nothing hangs any more
	once     sync.Once
}

func newStuckDisk() *stuckDisk {
	return &stuckDisk{FS: vfs.NewMem(), waiting: make(chan struct{}, 1), released: make(chan struct{})}
}

func (d *stuckDisk) release() { d.once.Do(func() { close(d.released) }) }

func (d *stuckDisk) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return d.wrap(name, f), err
}

func (d *stuckDisk) ReuseForWrite(from, to string) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to)
	return d.wrap(to, f), err
}

func (d *stuckDisk) wrap(name string, f vfs.File) vfs.File {
	if f == nil || path.Ext(name) != ".log" {
		return f
	}
	return stuckFile{f, d}
}

// stuckFile is a segment of the log.
type stuckFile struct {
	vfs.File
	disk *stuckDisk
}

func (f stuckFile) Sync() error     { f.disk.hang(); return f.File.Sync() }
func (f stuckFile) SyncData() error { f.disk.hang(); return f.File.SyncData() }

func (d *stuckDisk) hang() {
	if !d.stuck.Load() {
		return
	}
	select {
	case d.waiting <- struct{}{}:
	default:
	}
	<-d.released
}

// commanded is what a command's call gave.
type commanded struct {
	reply *pb.ApplyReply
	err   error
}

// send makes a call with one command, which may wait.
func (in *instance) send(t *testing.T, c muster.Command) <-chan commanded {
	t.Helper()
	m, err := rpc.CommandToPB(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, done := root(t), make(chan commanded, 1)
	go func() {
		r, err := in.Apply(ctx, &pb.ApplyRequest{Commands: []*pb.Command{m}})
		done <- commanded{r, err}
	}()
	return done
}

// page calls for one page of a directory and returns how many rows it has.
func (in *instance) page(t *testing.T, dir string, limit int32, cursor []byte) (count int, next []byte) {
	t.Helper()
	r, err := in.ListPage(root(t), &pb.ListPageRequest{
		Options: &pb.ListOptions{Limit: limit}, Cursor: cursor, Paths: rpc.AppendPath(nil, "", dir), Count: 1,
	})
	if err != nil {
		t.Fatalf("a page of %s: %v", dir, err)
	}
	b, err := rows.Decode(r.Frame, rows.DefaultColumns)
	if err != nil {
		t.Fatal(err)
	}
	return b.Len(), r.Cursor
}

// mustShow reads by every call that reads, and wants the state of transaction txid, with
// that many entries in /d.
func (in *instance) mustShow(t *testing.T, txid uint64, entries int) {
	t.Helper()
	if got, next := in.page(t, "/d", 100, nil); got != entries || len(next) != 0 {
		t.Errorf("a page has %d rows and a cursor of %d bytes, want %d rows", got, len(next), entries)
	}
	last, err := drain(in.begin(t, root(t), chunk(true, "/d")))
	if err != nil || last == nil || last.TotalRows != uint64(entries) || last.TotalOutcomes != 1 {
		t.Errorf("the stream has %d rows of %d paths, %v, want %d rows", last.GetTotalRows(), last.GetTotalOutcomes(), err, entries)
	}
	if r, err := in.Stat(root(t), &pb.PathRequest{Path: []byte("/d")}); err != nil || r.Txid != txid {
		t.Errorf("the directory: %v, %v, want txid %d", r, err, txid)
	}
	if r, err := in.Status(root(t), &pb.StatusRequest{}); err != nil || r.Txid != txid || r.Inodes != uint64(entries)+2 {
		t.Errorf("the status: %v, %v, want txid %d and %d inodes", r, err, txid, entries+2)
	}
}

// TestCallsThatReadGoOnWhileTheLogIsStuck hangs a sync of the log: a command waits, and calls
// that read are answered from what is durable.
func TestCallsThatReadGoOnWhileTheLogIsStuck(t *testing.T) {
	disk := newStuckDisk()
	in := start(t, server.Options{Namespace: namespace.Options{FS: disk}})
	t.Cleanup(disk.release) // before the server stops
	in.fill(t, "/d", 3)
	before, err := in.Status(root(t), &pb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, cursor := in.page(t, "/d", 2, nil)

	disk.stuck.Store(true)
	first := in.send(t, muster.Create{Path: "/d/new", Mode: 0o644})
	<-disk.waiting
	second := in.send(t, muster.Create{Path: "/d/newer", Mode: 0o644})
	in.mustShow(t, before.Txid, 3)
	if got, next := in.page(t, "/d", 2, cursor); got != 1 || len(next) != 0 {
		t.Errorf("the page after one of before has %d rows and a cursor of %d bytes, want 1 row", got, len(next))
	}
	_, err = in.Lstat(root(t), &pb.PathRequest{Path: []byte("/d/new")})
	wantCode(t, err, muster.ErrNotFound)
	select {
	case c := <-first:
		t.Fatalf("a command that is not durable was answered: %v, %v", c.reply, c.err)
	case c := <-second:
		t.Fatalf("a command behind it was answered: %v, %v", c.reply, c.err)
	default:
	}

	disk.release()
	for i, call := range []<-chan commanded{first, second} {
		if c := <-call; c.err != nil || c.reply.Refusal != nil || c.reply.Txid != before.Txid+1+uint64(i) {
			t.Errorf("command %d: %v, %v", i, c.reply, c.err)
		}
	}
	in.mustShow(t, before.Txid+2, 5)
}

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"golang.org/x/sync/singleflight"

	"github.com/muster-fs/muster"
	kv "github.com/muster-fs/muster/store"
)

// blocksDir is the folder of block files in a disk's: a folder a container, a file a block, named
// by their ids in decimal.
const blocksDir = "blocks"

// disk is one of the folders.
type disk struct {
	store *Store
	dir   string
	kv    *kv.Store // metadata; nil if it could not be opened

	queue   chan *change
	closing chan struct{} // closed when the committer is to end
	ended   chan struct{} // closed when it has

	failure atomic.Pointer[error] // why the disk failed
	probes  singleflight.Group    // of tests of the disk

	used   atomic.Int64 // bytes of blocks
	room   space
	scrubs scrubs
}

func newDisk(s *Store, dir string) *disk {
	return &disk{
		store: s, dir: dir,
		queue: make(chan *change), closing: make(chan struct{}), ended: make(chan struct{}),
		scrubs: scrubs{asked: make(chan struct{}, 1)},
	}
}

func (d *disk) path(elem ...string) string {
	return d.store.opts.FS.PathJoin(append([]string{d.dir, blocksDir}, elem...)...)
}

func (d *disk) containerPath(id uint64) string { return d.path(strconv.FormatUint(id, 10)) }

func (d *disk) blockPath(id muster.BlockID) string {
	return d.path(strconv.FormatUint(id.Container, 10), strconv.FormatUint(id.LocalID, 10))
}

// fail takes the disk out for good.
func (d *disk) fail(cause error) {
	if d.failure.CompareAndSwap(nil, &cause) {
		d.store.opts.Logger.Error("blocks: a disk failed; its blocks are gone until the datanode is started again with it repaired", "disk", d.dir, "error", cause)
		d.store.diskFailed(d)
	}
}

// alive returns the error of calls that need a disk that failed: what was on it is not here any more.
func (d *disk) alive() error {
	if cause := d.failure.Load(); cause != nil {
		return fmt.Errorf("%w: the disk %s failed: %v", muster.ErrNotFound, d.dir, *cause)
	}
	return nil
}

// sound returns err, or, if the metadata failed before it was seen, that the disk failed. What was
// read from the metadata is true if the answer is nil.
func (d *disk) sound(err error) error {
	if failed := d.kv.Failure(); failed != nil {
		d.fail(failed)
	}
	if gone := d.alive(); gone != nil {
		return gone
	}
	return err
}

// cause says what an I/O error is about.
type cause uint8

const (
	ofDisk cause = iota // the disk failed
	ofFile              // the disk is well
	ofRoom              // it is full
	ofHost              // the process or machine lacks something else
)

// blame finds out what an I/O error on a file of the disk is about, and takes the disk out if it
// is that.
func (d *disk) blame(err error, except muster.BlockID) cause {
	switch {
	case d.alive() != nil:
		return ofDisk
	case isFull(err):
		d.room.refused(d.store.opts.Now())
		return ofRoom
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return ofHost
	}
	_, bad, _ := d.probes.Do("", func() (any, error) { return nil, d.probe(except) })
	if bad == nil {
		return ofFile
	}
	d.fail(fmt.Errorf("%w, after: %w", bad, err))
	return ofDisk
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

const (
	probeFile  = "probe"
	roomFile   = "room" // so that tests of both kinds do not disturb each other
	probeBytes = 4096
	// probeBlocks is how many other blocks are tried, so that a disk that still writes but
	// reads no more is noticed.
	probeBlocks = 3
)

// probe tests whether the disk writes and reads.
func (d *disk) probe(except muster.BlockID) error {
	if err := d.kv.Failure(); err != nil {
		return err
	}
	if err := d.probeWrite(probeFile); err != nil && !isFull(err) {
		return fmt.Errorf("test of the disk: %w", err)
	}
	if err := d.probeRead(except); err != nil {
		return fmt.Errorf("test of the disk: no other block can be read: %w", err)
	}
	return nil
}

func (d *disk) probeWrite(file string) error {
	files, name := d.store.opts.FS, d.store.opts.FS.PathJoin(d.dir, file)
	want := bytes.Repeat([]byte{0x5a}, probeBytes)
	f, err := files.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(want, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if f, err = files.Open(name); err != nil {
		return err
	}
	got, err := io.ReadAll(io.LimitReader(f, probeBytes+1))
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("other bytes were read than written")
	}
	return errors.Join(err, f.Close(), files.Remove(name))
}

// probeRead reads the beginnings of some other blocks. It fails if as many as are tried fail.
func (d *disk) probeRead(except muster.BlockID) error {
	var last error
	failed := 0
	err := d.eachCommitted(muster.BlockID{}, func(id muster.BlockID, r blockRecord) bool {
		if id == except || r.damaged || r.length == 0 {
			return true
		}
		if err := d.tryBlock(id, r); err != nil {
			failed, last = failed+1, err
			return failed < probeBlocks
		}
		failed = 0
		return false
	})
	if failed == probeBlocks {
		err = last
	}
	return err
}

func (d *disk) tryBlock(id muster.BlockID, r blockRecord) error {
	f, err := d.store.opts.FS.Open(d.blockPath(id))
	if err != nil {
		return err
	}
	var piece [muster.ChecksumBytes]byte
	_, err = f.ReadAt(piece[:min(r.length, muster.ChecksumBytes)], 0)
	return errors.Join(err, f.Close())
}

// space is how much room the disk has.
type space struct {
	written   atomic.Int64 // bytes since the system was asked last
	full      atomic.Bool  // what it said: less than the reserve is left
	scarce    atomic.Bool  // less than scarcePart of it
	refusedAt atomic.Int64 // ms; when it refused to write last; 0: never
}

const (
	// askEvery is how many bytes are written before the system is asked again for its room.
	askEvery = 16 << 20
	// scarcePart is the part of the reserve that is left to what must still be written down when the
	// disk is full: above all, what is deleted.
	scarcePart = 4
	// refusedFor is how long a disk counts as full after the system said so.
	refusedFor = time.Minute
)

func (s *space) refused(now time.Time) { s.refusedAt.Store(max(1, now.UnixMilli())) }

// refusedLately says whether the system said a while ago that the disk is full. It may say so
// with room free: for want of inodes, or of a quota.
func (s *space) refusedLately(now time.Time) bool {
	at := s.refusedAt.Load()
	return at != 0 && now.UnixMilli()-at < refusedFor.Milliseconds()
}

// makeRoom says whether n more bytes may be written. With ask, the system is asked in any case.
func (d *disk) makeRoom(n int64, ask bool) error {
	if err := d.alive(); err != nil {
		return err
	}
	if d.room.written.Add(n) >= askEvery || ask || d.room.full.Load() {
		d.ask()
	}
	if why := d.fullBecause(); why != "" {
		return fmt.Errorf("%w: the disk %s is full: %s", muster.ErrUnavailable, d.dir, why)
	}
	return nil
}

// makeDurable says whether more of a block may be made durable: what was written before the disk was
// full may, as long as the metadata is in no danger, since a disk whose log cannot be written has
// failed.
func (d *disk) makeDurable() error {
	if d.room.full.Load() {
		d.ask()
	}
	if why := d.fullBecause(); d.room.scarce.Load() || d.room.refusedLately(d.store.opts.Now()) {
		return fmt.Errorf("%w: the disk %s is full: %s", muster.ErrUnavailable, d.dir, why)
	}
	return nil
}

// takesMetadata says whether metadata may be written, since a disk whose log cannot be written has failed.
// Where room is in doubt, it tries with another file: what is deleted frees some, so it is worth it.
func (d *disk) takesMetadata() error {
	if !d.room.scarce.Load() && !d.room.refusedLately(d.store.opts.Now()) {
		return nil
	}
	_, err, _ := d.probes.Do("room", func() (any, error) { return nil, d.probeWrite(roomFile) })
	if !isFull(err) {
		return nil // of other trouble, the metadata itself tells
	}
	d.room.refused(d.store.opts.Now())
	return fmt.Errorf("%w: the disk %s is full, and has no room even for metadata: %v", muster.ErrUnavailable, d.dir, err)
}

// fullBecause says why the disk counts as full, "" if it does not.
func (d *disk) fullBecause() string {
	switch {
	case d.room.refusedLately(d.store.opts.Now()):
		return "the system refused to write; free some space, or inodes"
	case d.room.full.Load():
		return fmt.Sprintf("less than %d bytes are left, which stay free", d.store.opts.Reserve)
	}
	return ""
}

// ask asks the system for the disk's size, and how much blocks may still take.
func (d *disk) ask() (capacity, free uint64) {
	d.room.written.Store(0)
	capacity, free, err := d.store.space(d.dir)
	if err != nil { // writing will tell more
		d.store.opts.Logger.Warn("blocks: the disk does not say how full it is", "disk", d.dir, "error", err)
		return 0, 0
	}
	reserve := uint64(d.store.opts.Reserve)
	d.room.full.Store(free < reserve)
	d.room.scarce.Store(free < reserve/scarcePart)
	return capacity, max(free, reserve) - reserve
}

// space returns the size of a folder's disk, and how much of it is free.
func (s *Store) space(dir string) (capacity, free uint64, err error) {
	if s.opts.Space != nil {
		return s.opts.Space(dir)
	}
	u, err := s.opts.FS.GetDiskUsage(dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return 0, math.MaxInt64, nil
	}
	return u.TotalBytes, u.AvailBytes, err
}

// state returns how the disk is.
func (d *disk) state() Disk {
	out := Disk{Name: d.dir, Used: uint64(max(0, d.used.Load()))}
	if cause := d.failure.Load(); cause != nil {
		out.State, out.Message, out.Used = DiskFailed, (*cause).Error(), 0
		return out
	}
	out.Capacity, out.Free = d.ask()
	if out.Message = d.fullBecause(); out.Message != "" {
		out.State, out.Free = DiskFull, 0
	}
	return out
}

// truncate cuts a file that is open for writing, where the file system can. It frees room, and
// nothing depends on it.
func truncate(f any, length int64) {
	if t, ok := f.(interface{ Truncate(size int64) error }); ok {
		_ = t.Truncate(length)
	}
}

// syncFolder makes the entries of a folder durable.
func (d *disk) syncFolder(dir string) error {
	f, err := d.store.opts.FS.OpenDir(dir)
	if err != nil {
		return err
	}
	d.store.counts.folderSyncs.Add(1)
	return errors.Join(f.Sync(), f.Close())
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// failStop is the file system under the store. It stops all writing for good at the first
// write to a log or a manifest, or sync of a directory, that fails: afterwards the disk is
// as after a crash at that moment, and recovery is that of a crash. So nothing that the
// store does after a failure of unknown extent can make it worse.
//
// The store itself is never told about a failing log or manifest. At the one it would panic
// with its locks held, and readers would hang; after the other it counts on the process to
// end, and what it keeps in memory is in disorder. So writes to them seem to succeed, and whoever
// commits asks for the failure before it answers.
type failStop struct {
	vfs.FS
	damaged func(error)   // told of a table that cannot be compacted
	tripped chan struct{} // closed when writing stopped
	closing chan struct{} // closed before the store is
	wedged  atomic.Bool   // the store panicked in a commit; its locks may be held
	sealed  atomic.Bool   // but for logs, nothing may be written any more

	mu  sync.Mutex // guards err
	err error      // why writing stopped
}

func newFailStop(fs vfs.FS, damaged func(error)) *failStop {
	return &failStop{FS: fs, damaged: damaged, tripped: make(chan struct{}), closing: make(chan struct{})}
}

// trip stops all writing; the first cause is kept.
func (f *failStop) trip(cause any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = fmt.Errorf("%w: the store failed: %v", muster.ErrUnavailable, cause)
		close(f.tripped)
	}
}

// failure returns why writing stopped, nil if it did not.
func (f *failStop) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// role is what a file is to the store.
type role uint8

const (
	table    role = iota // or anything else whose failures the store sees, and tries again
	manifest             // or a marker, which names the manifest in use
	journal              // a log, or a directory, which is synced for one
)

// quiet says whether the store does not hear of a failure, which ends all writing instead.
func (r role) quiet() bool { return r != table }

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// roleOf is the role of a file that the store writes.
func roleOf(path string) role {
	switch name := filepath.Base(path); {
	case isLog(name):
		return journal
	case strings.HasPrefix(name, "MANIFEST-"), strings.HasPrefix(name, "marker."):
		return manifest
	}
	return table
}

// Create implements vfs.FS.
func (f *failStop) Create(name string) (vfs.File, error) {
	return f.open(name, func() (vfs.File, error) { return f.FS.Create(name) })
}

// ReuseForWrite implements vfs.FS.
func (f *failStop) ReuseForWrite(oldname, newname string) (vfs.File, error) {
	return f.open(newname, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname) })
}

// open opens a file for writing. One that fails quietly always opens: if it cannot, writing
// stops and what is written to it goes nowhere.
func (f *failStop) open(name string, open func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	role := roleOf(name)
	err := f.change(role, func() (err error) { file, err = open(); return err })
	switch {
	case err == nil:
		return &stopFile{File: file, fs: f, role: role}, nil
	case !role.quiet():
		return nil, err
	}
	f.trip(err)
	file, err = vfs.NewMem().Create("nowhere")
	return &stopFile{File: file, fs: f, role: role}, err
}

// OpenReadWrite implements vfs.FS.
func (f *failStop) OpenReadWrite(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.open(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, opts...) })
}

// OpenDir implements vfs.FS.
func (f *failStop) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &stopFile{File: file, fs: f, role: journal}, nil
}

// retryPause slows down background work on a full or failed disk, which the store tries
// again at once, for ever.
const retryPause = 10 * time.Millisecond

// change makes a change to a file of a role, unless writing stopped.
func (f *failStop) change(r role, do func() error) error {
	err := f.failure()
	if err == nil && r != journal && f.sealed.Load() {
		err = errSealed
	}
	if err == nil {
		err = do()
	}
	if err != nil {
		time.Sleep(retryPause)
	}
	return err
}

// Link implements vfs.FS.
func (f *failStop) Link(oldname, newname string) error {
	return f.change(journal, func() error { return f.FS.Link(oldname, newname) })
}

// Remove implements vfs.FS.
func (f *failStop) Remove(name string) error {
	return f.change(journal, func() error { return f.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *failStop) RemoveAll(name string) error {
	return f.change(journal, func() error { return f.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *failStop) Rename(oldname, newname string) error {
	return f.change(journal, func() error { return f.FS.Rename(oldname, newname) })
}

// MkdirAll implements vfs.FS.
func (f *failStop) MkdirAll(dir string, perm os.FileMode) error {
	return f.change(journal, func() error { return f.FS.MkdirAll(dir, perm) })
}

// stopFile is a file that is written through a failStop. One whose role is quiet stops all
// writing when it fails, and seems to succeed.
type stopFile struct {
	vfs.File
	fs   *failStop
	role role
}

func (f *stopFile) do(write func() error) error {
	err := f.fs.change(f.role, write)
	if err != nil && f.role.quiet() {
		f.fs.trip(err)
		return nil
	}
	return err
}

// Write implements vfs.File.
func (f *stopFile) Write(p []byte) (n int, err error) {
	err = f.do(func() error { n, err = f.File.Write(p); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

// WriteAt implements vfs.File.
func (f *stopFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.do(func() error { n, err = f.File.WriteAt(p, off); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

// Preallocate implements vfs.File. A log does without where it is not to be had.
func (f *stopFile) Preallocate(offset, length int64) error {
	if err := f.File.Preallocate(offset, length); err != nil && !f.role.quiet() {
		return err
	}
	return nil
}

// Sync implements vfs.File.
func (f *stopFile) Sync() error { return f.do(f.File.Sync) }

// SyncData implements vfs.File.
func (f *stopFile) SyncData() error { return f.do(f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *stopFile) SyncTo(length int64) (full bool, err error) {
	err = f.do(func() error { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Close implements vfs.File.
func (f *stopFile) Close() error {
	if err := f.File.Close(); err != nil {
		return f.do(func() error { return err })
	}
	return nil
}

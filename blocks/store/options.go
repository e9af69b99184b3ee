package store

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// Options configures a store. The zero value works.
type Options struct {
	// FS holds the folders; nil is the disk. Tests pass vfs.NewStrictMem().
	FS vfs.FS
	// Reserve is how many bytes blocks leave free on each disk; 0 is 1 GiB.
	Reserve int64
	// Handles is how many files of committed blocks stay open for reading; 0 is 1,024. Block files
	// that are being written come on top of it.
	Handles int
	// ChecksumCache is how many bytes of checksums are kept with them: 64 KiB for a block of
	// 256 MiB; 0 is 64 MiB. Both are bounds for the whole cache, which is divided by block id,
	// so that it may keep somewhat less.
	ChecksumCache int64
	// ScrubRate is how many bytes a second are scrubbed on each disk; 0 is 8 MiB.
	ScrubRate int64
	// ScrubEvery is how long after one run of scrubbing the next begins on a disk; 0 is 14 days.
	ScrubEvery time.Duration
	// Now tells the time; nil is time.Now. It is for what is written down: when a block was
	// made, when a tombstone ends.
	Now func() time.Time
	// Space says how many bytes the disk of a folder has, and how many are free; nil asks FS,
	// and a file system that does not know has room for everything.
	Space func(dir string) (capacity, free uint64, err error)
	// Admit is asked before a folder is opened or made; its error is why the disk counts as failed. nil
	// admits all.
	Admit func(dir string) error
	// Logger gets what the store has to say; nil discards it.
	Logger *slog.Logger
}

// The defaults of Options.
const (
	defaultReserve       = 1 << 30
	defaultHandles       = 1024
	defaultChecksumCache = 64 << 20
	defaultScrubRate     = 8 << 20
	defaultScrubEvery    = 14 * 24 * time.Hour
)

// The bounds of Options.
const (
	maxHandles    = 1 << 20
	minScrubRate  = muster.ChecksumBytes
	minScrubEvery = time.Second
)

// Validate names the first setting that is out of bounds.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.Reserve < 0:
		return fmt.Errorf("%w: reserve of %d bytes; at least 1", muster.ErrInvalid, o.Reserve)
	case o.Handles < 1 || o.Handles > maxHandles:
		return fmt.Errorf("%w: %d open files; from 1 to %d", muster.ErrInvalid, o.Handles, maxHandles)
	case o.ChecksumCache < 0:
		return fmt.Errorf("%w: %d bytes of checksums; at least 1", muster.ErrInvalid, o.ChecksumCache)
	case o.ScrubRate < minScrubRate:
		return fmt.Errorf("%w: scrub rate of %d bytes/s; at least %d", muster.ErrInvalid, o.ScrubRate, int64(minScrubRate))
	case o.ScrubEvery < minScrubEvery:
		return fmt.Errorf("%w: scrubbing every %v; at least %v", muster.ErrInvalid, o.ScrubEvery, minScrubEvery)
	}
	return nil
}

// withDefaults returns o with its zeros replaced.
func (o Options) withDefaults() Options {
	o.Reserve = cmp.Or(o.Reserve, defaultReserve)
	o.Handles = cmp.Or(o.Handles, defaultHandles)
	o.ChecksumCache = cmp.Or(o.ChecksumCache, defaultChecksumCache)
	o.ScrubRate = cmp.Or(o.ScrubRate, defaultScrubRate)
	o.ScrubEvery = cmp.Or(o.ScrubEvery, defaultScrubEvery)
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

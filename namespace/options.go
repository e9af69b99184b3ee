package namespace

import (
	"fmt"
	"log/slog"
	"os/user"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// Options configures a tree. The zero value works.
type Options struct {
	// FS holds the store; nil is the disk. Tests pass vfs.NewStrictMem().
	FS vfs.FS
	// CacheBytes is the size of the store's block cache; 0 is 256 MiB.
	CacheBytes int64
	// ImageBytes bounds the memory for images of hot directories; 0 is a quarter of the
	// memory limit (GOMEMLIMIT, else that of the control group, else the machine's memory), at
	// most 1.5 GiB. Less than 4 KiB keeps nothing.
	ImageBytes int64
	// MemTableBytes is the size of a table of new entries in memory; 0 is 16 MiB. Up to
	// two of them are in the log, which opening reads after a crash.
	MemTableBytes int64
	// Superuser is the user who passes every permission check, beside the members of
	// muster.Supergroup; "" is the operating system's user of this process.
	Superuser string
	// Now stamps commands; nil is time.Now. Stamps never go back.
	Now func() time.Time
	// Logger gets what the store has to say; nil discards it.
	Logger *slog.Logger
	// OnFatal is called once, from a goroutine of the tree, when a write to the log
	// failed and the tree refuses all further calls. It must not call Close; nil is
	// nothing.
	OnFatal func(error)
	// RequestAge is how long the result of a request id is kept, by stamped time; 0 is
	// 10 minutes.
	RequestAge time.Duration
	// RequestMax is how many results of request ids are kept at most; 0 is 2,000,000.
	RequestMax int
	// ReclaimStep is about how many entries of deleted trees, and blocks of files that are gone,
	// one step of the background work handles; 0 is 1,024.
	ReclaimStep int

	idle      bool // for tests: the tree does no background work by itself
	imageRows int  // for tests: rows of an image at most
}

// The defaults and bounds of Options.
const (
	defaultCacheBytes    = 256 << 20
	defaultMemTableBytes = 16 << 20
	minMemTableBytes     = 64 << 10
	maxMemTableBytes     = 2 << 30
	defaultRequestAge    = 10 * time.Minute
	defaultRequestMax    = 2_000_000
	defaultReclaimStep   = 1024
	maxReclaimStep       = 100_000
)

// Validate names the first setting that is out of bounds.
func (o Options) Validate() error {
	switch {
	case o.CacheBytes < 0:
		return fmt.Errorf("%w: cache of %d bytes; at least 0", muster.ErrInvalid, o.CacheBytes)
	case o.ImageBytes < 0:
		return fmt.Errorf("%w: images of %d bytes; at least 0", muster.ErrInvalid, o.ImageBytes)
	case o.MemTableBytes != 0 && (o.MemTableBytes < minMemTableBytes || o.MemTableBytes > maxMemTableBytes):
		return fmt.Errorf("%w: memtable of %d bytes; from %d to %d", muster.ErrInvalid, o.MemTableBytes, minMemTableBytes, maxMemTableBytes)
	case o.RequestAge < 0:
		return fmt.Errorf("%w: request age %v; at least 0", muster.ErrInvalid, o.RequestAge)
	case o.RequestMax < 0:
		return fmt.Errorf("%w: %d request ids; at least 0", muster.ErrInvalid, o.RequestMax)
	case o.ReclaimStep < 0 || o.ReclaimStep > maxReclaimStep:
		return fmt.Errorf("%w: reclaim step of %d entries; from 0 to %d", muster.ErrInvalid, o.ReclaimStep, maxReclaimStep)
	}
	return nil
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() (Options, error) {
	if err := o.Validate(); err != nil {
		return o, err
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.ImageBytes == 0 {
		o.ImageBytes = defaultImageBytes()
	}
	if o.imageRows == 0 {
		o.imageRows = imageRows
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = defaultMemTableBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RequestAge == 0 {
		o.RequestAge = defaultRequestAge
	}
	if o.RequestMax == 0 {
		o.RequestMax = defaultRequestMax
	}
	if o.ReclaimStep == 0 {
		o.ReclaimStep = defaultReclaimStep
	}
	if o.Superuser == "" {
		u, err := user.Current()
		if err != nil {
			return o, fmt.Errorf("%w: the superuser is not set and the process's user is unknown: %v", muster.ErrInvalid, err)
		}
		o.Superuser = u.Username
	}
	return o, checkOwner("superuser", o.Superuser)
}

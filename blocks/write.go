package blocks

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/muster-fs/muster"
)

// Target is a block that is to be written, and where.
type Target struct {
	ID    muster.BlockID
	File  uint64 // inode id
	Nodes []muster.Node
	Token []byte // to write it; empty: the cluster has no tokens
}

// NextTarget gives a file another block. previous is the final length of the one before, 0 if
// nothing of it is kept, or there is none; failed are datanodes to which nothing could be
// written lately. If it fails with muster.ErrUnavailable it is called again, with none: then
// the block may be on some of them, and the writer leaves these out if half of its datanodes
// are others.
type NextTarget func(ctx context.Context, previous int64, failed []muster.NodeNumber) (Target, error)

// WriteOptions say how a file is written. The zero value works.
type WriteOptions struct {
	// BlockSize is the bytes of a block, past which another one begins: whole checksums,
	// at most muster.MaxBlockSize. 0: 256 MiB.
	BlockSize int64

	// Window is the bytes of data that are kept until they are durable on all replicas: all
	// the memory that a writer takes. When they are used up, Write waits. 0: 16 MiB. At
	// least 2 MiB.
	Window int64

	// Timeout is how long a datanode may make no progress while it is waited for; then it
	// counts as failed. 0: 30 s.
	Timeout time.Duration

	// Attempts bounds the blocks that are given up one after the other, none of which
	// became a byte longer on all of its replicas. 0: 5.
	Attempts int
}

const (
	defaultWindow   = 16 << 20
	minWindow       = 2 << 20
	defaultTimeout  = 30 * time.Second
	defaultAttempts = 5
)

// Validate says what is wrong with the options.
func (o WriteOptions) Validate() error {
	switch {
	case o.BlockSize < 0 || o.BlockSize > muster.MaxBlockSize || o.BlockSize%muster.ChecksumBytes != 0:
		return fmt.Errorf("%w: BlockSize is %d; use a multiple of %d, at most %d, or 0 for %d",
			muster.ErrInvalid, o.BlockSize, muster.ChecksumBytes, int64(muster.MaxBlockSize), muster.DefaultBlockSize)
	case o.Window != 0 && o.Window < minWindow:
		return fmt.Errorf("%w: Window is %d; use at least %d, or 0 for %d", muster.ErrInvalid, o.Window, minWindow, defaultWindow)
	case o.Timeout < 0:
		return fmt.Errorf("%w: Timeout is %v; use 0 for %v", muster.ErrInvalid, o.Timeout, defaultTimeout)
	case o.Attempts < 0:
		return fmt.Errorf("%w: Attempts is %d; use 1 or more, or 0 for %d", muster.ErrInvalid, o.Attempts, defaultAttempts)
	}
	return nil
}

func (o WriteOptions) withDefaults() WriteOptions {
	for _, field := range []struct {
		value     *int64
		otherwise int64
	}{{&o.BlockSize, muster.DefaultBlockSize}, {&o.Window, defaultWindow}, {(*int64)(&o.Timeout), int64(defaultTimeout)}} {
		if *field.value == 0 {
			*field.value = field.otherwise
		}
	}
	if o.Attempts == 0 {
		o.Attempts = defaultAttempts
	}
	return o
}

// avoidFailed is how long a datanode that has failed is given no block, if there are others.
const avoidFailed = 10 * time.Minute

// Writer writes the blocks of one file, one after the other, each to all of its datanodes at
// once.
//
// Data is cut into packets. Each is sent to every replica and kept until it is durable on
// all. A replica that fails, or makes no progress, ends the block where everything before is
// durable on all of them; the others commit it at that length, and what was kept goes to
// another block. So what the namespace is told of a block is never more than all of its
// replicas have.
//
// One goroutine calls Write, ReadFrom and Close. The writer ends by Close or with its
// context, whichever comes first; Close also waits for its goroutines. After an error
// everything fails with the same one.
type Writer struct {
	datanodes *Datanodes
	ctx       context.Context
	cancel    context.CancelFunc
	next      NextTarget
	options   WriteOptions
	window    window

	packet  *packet   // is being filled; nil: none
	pending []*packet // sent and not known to be durable on all replicas
	sent    int64     // bytes of the file in packets that were sent

	target Target       // of the next block; without nodes: ask
	block  *blockWriter // is being written; nil: none
	ending bool         // the block ends after all that was sent
	start  int64        // of the block, or the next one, in the file
	last   int64        // final length of the last block

	unsynced int // packets that were sent since a replica was asked to make all durable

	failed   map[muster.NodeNumber]time.Time // when
	attempts int                             // blocks given up without progress
	closed   bool
	lent     bool           // the room of packet is a reader's, see ReadFrom
	err      error          // why nothing works any more
	running  sync.WaitGroup // the replicas' goroutines
}

// NewWriter returns a writer of a file whose first block is first; without nodes it is asked
// for when there is data. ctx bounds all that it does, and carries who writes.
func NewWriter(ctx context.Context, d *Datanodes, first Target, next NextTarget, o WriteOptions) *Writer {
	o = o.withDefaults()
	w := &Writer{datanodes: d, next: next, options: o, target: first, failed: make(map[muster.NodeNumber]time.Time)}
	w.window.most, w.window.changed = int32(o.Window/muster.MaxTransfer), newSignal()
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// Size returns the bytes that were written, durable or not.
func (w *Writer) Size() int64 {
	if w.packet == nil {
		return w.sent
	}
	return w.packet.end()
}

// Last returns the final length of the last block that was asked for, 0 if nothing of it is
// kept. It is known once Close has returned, or anything has failed.
func (w *Writer) Last() int64 { return w.last }

// Write appends p to the file. It keeps nothing of it.
func (w *Writer) Write(p []byte) (n int, err error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	for n < len(p) {
		room, err := w.room()
		if err != nil {
			return n, err
		}
		k := copy(room, p[n:])
		n += k
		if err := w.filled(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// ReadFrom appends all that r has. It reads into the packets themselves. While it waits for r,
// another goroutine may call Size or Close, if r sees to it that this is done before Read
// returns: then ReadFrom fails with fs.ErrClosed.
func (w *Writer) ReadFrom(r io.Reader) (n int64, err error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	for empty := 0; ; {
		room, err := w.room()
		if err != nil {
			return n, err
		}
		w.lent = true
		k, err := r.Read(room)
		w.lent = false
		if w.closed {
			return n, fs.ErrClosed
		}
		if k < 0 || k > len(room) {
			return n, fmt.Errorf("%w: a reader that has read %d bytes into %d", muster.ErrInvalid, k, len(room))
		}
		if empty++; k > 0 {
			empty = 0
		}
		n += int64(k)
		if wErr := w.filled(k); wErr != nil {
			return n, wErr
		}
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		case empty == maxEmptyReads:
			return n, io.ErrNoProgress
		}
	}
}

// maxEmptyReads is how often a reader may return nothing, and no error.
const maxEmptyReads = 100

// Close sends what is left and waits until all blocks are committed. A file without a byte
// has no block, unless one was asked for before. A second Close is fs.ErrClosed.
func (w *Writer) Close() error {
	if w.closed {
		return fs.ErrClosed
	}
	w.closed = true
	switch {
	case w.err != nil:
	case w.lent:
		_ = w.fail(fs.ErrClosed)
	case w.packet != nil && len(w.packet.data) > 0 || w.block != nil:
		_ = w.send(true) // w.err
	}
	if w.packet != nil && !w.lent {
		w.packet.release() // without data, or it is given up
		w.packet = nil
	}
	w.running.Wait()
	w.cancel()
	return w.err
}

// usable says why nothing can be written.
func (w *Writer) usable() error {
	if w.closed {
		return fs.ErrClosed
	}
	return w.err
}

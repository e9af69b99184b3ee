package blocks

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
)

// File is a file that is open for reading. ReadAt, Refresh, Length and Close may be called
// from any number of goroutines, beside one that uses Read, Seek and WriteTo; if several do,
// they take turns.
//
// It is to be closed. One that is not holds no connection and no memory of data, and has no
// goroutine, once it was not read for ReadOptions.Idle.
type File struct {
	datanodes *Datanodes
	refresh   Refresh
	options   ReadOptions

	ctx    context.Context // of all calls; carries who reads
	cancel context.CancelFunc
	done   <-chan struct{} // of ctx
	closed atomic.Bool

	layout  atomic.Pointer[layout]
	asking  atomic.Pointer[asking] // the call of refresh in progress; nil: there is none
	renewed atomic.Int64           // unix time in ns when tokens were asked for last
	callers [keptCallers]atomic.Pointer[caller]
	tasks   tasks

	cursor cursor
}

var (
	_ io.ReadSeekCloser = (*File)(nil)
	_ io.ReaderAt       = (*File)(nil)
	_ io.WriterTo       = (*File)(nil)
)

// NewFile opens a file. ctx bounds all that is done for it, and carries who reads. refresh
// may be nil. Nobody is asked for anything before the first read.
func NewFile(ctx context.Context, d *Datanodes, l Layout, refresh Refresh, o ReadOptions) (*File, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	made, err := newLayout(d, &l, nil, nil, time.Now())
	if err != nil {
		return nil, err
	}
	f := &File{datanodes: d, refresh: refresh, options: o.withDefaults()}
	f.ctx, f.cancel = context.WithCancel(ctx)
	f.done = f.ctx.Done()
	f.layout.Store(made)
	f.tasks.idle = make(chan struct{})
	f.cursor.turn = make(chan struct{}, 1)
	return f, nil
}

// Length returns how long the file is, as far as is known.
func (f *File) Length() int64 { return f.layout.Load().length }

// Close ends the reads in progress, which fail with fs.ErrClosed as all later ones do, and
// waits for what the file does by itself. A second Close is fs.ErrClosed.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return fs.ErrClosed
	}
	f.cancel()
	f.cursor.abandon()
	f.tidy()
	f.tasks.end()
	return nil
}

// ended says why nothing is read any more; nil: the file is open.
func (f *File) ended() error {
	if f.closed.Load() {
		return fs.ErrClosed
	}
	select {
	case <-f.done:
		return fmt.Errorf("%w: %w", muster.CodeOf(f.ctx.Err()), context.Cause(f.ctx))
	default:
		return nil
	}
}

// sleep waits for d, or until nothing is read any more.
func (f *File) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-f.done:
		return f.ended()
	}
}

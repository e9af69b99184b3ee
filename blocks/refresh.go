package blocks

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/muster-fs/muster"
)

// asking is a call of the file's Refresh. A file makes one at a time.
type asking struct {
	stale []Stale
	done  chan struct{} // closed when it has ended
	err   error         // of it, once it has
}

// renewAgain is the least time between two attempts to renew tokens.
const renewAgain = time.Second

// located returns where b is. If its token ends soon another one is asked for, beside the
// readers; they wait only if the token has ended already.
func (f *File) located(b *block) *where {
	w := b.where.Load()
	if w.renew.IsZero() || f.refresh == nil {
		return w
	}
	now := time.Now()
	if now.Before(w.renew) {
		return w
	}
	if last := f.renewed.Load(); now.UnixNano()-last >= int64(renewAgain) && f.renewed.CompareAndSwap(last, now.UnixNano()) {
		f.ask(nil, never)
	}
	if now.Before(w.expires) {
		return w
	}
	if a := f.asking.Load(); a != nil {
		_ = f.wait(context.Background(), a) // the old token will tell what is wrong with it
	}
	return b.where.Load()
}

// relocate asks where b is now, unless somebody has done so since old was known. An answer to
// another question, as for new tokens, counts only if it is a newer one.
func (f *File) relocate(b *block, old *where) (*where, error) {
	if f.refresh == nil {
		return old, nil
	}
	stale := Stale{b.id.Container, old.seen}
	newer := func() bool {
		w := b.where.Load()
		return w != old && (w.forced || !bytes.Equal(w.seen, old.seen))
	}
	for {
		if newer() {
			return b.where.Load(), nil
		}
		a, mine := f.ask([]Stale{stale}, newer)
		if a == nil {
			continue
		}
		err := f.wait(context.Background(), a)
		if !mine && !a.about(stale.Container) {
			continue
		}
		if err != nil {
			return old, err
		}
		break
	}
	if now := f.layout.Load().find(b.offset); now != b {
		return old, fmt.Errorf("%w: the file has another block than %v at %d", muster.ErrChanged, b.id, b.offset)
	}
	return b.where.Load(), nil
}

func (a *asking) about(container uint64) bool {
	return len(a.stale) > 0 && a.stale[0].Container == container
}

// ask begins to ask for the layout, or returns what is being asked for already. nil is
// neither: that was just over, or known says that it was and nothing need be asked.
func (f *File) ask(stale []Stale, known func() bool) (a *asking, mine bool) {
	a = &asking{stale: stale, done: make(chan struct{})}
	if !f.asking.CompareAndSwap(nil, a) {
		return f.asking.Load(), false
	}
	end := func(err error) {
		a.err = err
		f.asking.Store(nil)
		close(a.done)
	}
	if known() {
		end(nil)
		return nil, false
	}
	if !f.tasks.start(func() { end(f.adopt(stale)) }) {
		end(f.ended())
	}
	return a, true
}

// never is for what is to be asked in any case.
func never() bool { return false }

// wait waits until a has ended, and returns its error.
func (f *File) wait(ctx context.Context, a *asking) error {
	select {
	case <-a.done:
		return a.err
	case <-f.done:
		return f.ended()
	case <-ctx.Done():
		return muster.CodeOf(ctx.Err())
	}
}

// adopt asks for the layout and publishes it.
func (f *File) adopt(stale []Stale) error {
	ctx, cancel := context.WithTimeout(f.ctx, f.options.Timeout)
	defer cancel()
	l, err := f.refresh(ctx, stale)
	if err != nil {
		return err
	}
	made, err := newLayout(f.datanodes, &l, f.layout.Load(), stale, time.Now())
	if err != nil {
		return err
	}
	f.layout.Store(made)
	return nil
}

// Refresh asks for the layout again, so that what was appended since can be read.
func (f *File) Refresh(ctx context.Context) error {
	if f.refresh == nil {
		return fmt.Errorf("%w: nobody can be asked for the layout", muster.ErrInvalid)
	}
	for {
		if err := f.ended(); err != nil {
			return err
		}
		a, mine := f.ask(nil, never)
		if a == nil {
			continue
		}
		if err := f.wait(ctx, a); mine {
			return err
		} else if ctx.Err() != nil {
			return err
		}
	}
}

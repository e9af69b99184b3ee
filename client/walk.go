package client

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

// The bounds of a walk: how many directories wait before it turns from breadth to
// depth, and how many are given to the server ahead of their rows.
const (
	maxFrontier = 1 << 16
	walkAhead   = 1024
)

// Walk lists a whole tree in one List call: the children of root, then those of each
// directory found. A directory comes before what is in it, levels come in order as
// long as no more than 65,536 directories wait, and the rows of one directory come one
// after another. Links are not followed, but for root. A root that is a file gives its
// own row, without a name; so does a directory that has become one since it was found.
// Outcomes are of the directories.
//
// It is the fast way through a tree; WalkDir is the one in lexical order. The columns
// always include the kind. ListOptions.Own is not for it.
func (c *Client) Walk(ctx context.Context, root string, o ListOptions) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if o.Own {
			yield(nil, fmt.Errorf("walk: %w: a walk lists children, not own entries", muster.ErrInvalid))
			return
		}
		if o.Columns != 0 {
			o.Columns |= rows.ColKind
		}
		f := newFrontier(root)
		for b, err := range c.list(ctx, f.paths, walkAhead, o) {
			if err == nil {
				f.enter(b)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// frontier holds the directories that a walk has found and not yet given to the
// server. The goroutine that reads the listing's paths takes from it, and the
// listing's own puts in what the rows name.
type frontier struct {
	more chan struct{} // capacity 1: directories came, or the walk is complete

	mu      sync.Mutex
	waiting []string // guarded by mu
	open    int      // guarded by mu: directories without an outcome, waiting or given
}

func newFrontier(root string) *frontier {
	return &frontier{more: make(chan struct{}, 1), waiting: []string{root}, open: 1}
}

// paths gives directories as they come, until all have their outcome.
func (f *frontier) paths(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			path, some, complete := f.take()
			switch {
			case complete || some && !yield(path):
				return
			case some:
				continue
			}
			select {
			case <-f.more:
			case <-ctx.Done():
				return
			}
		}
	}
}

// take takes a directory: the oldest, or the newest while too many wait, since what
// is below that is found and done first then.
func (f *frontier) take() (path string, some, complete bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.waiting)
	if n == 0 {
		return "", false, f.open == 0
	}
	at := 0
	if n > maxFrontier {
		at = n - 1
	}
	path, f.waiting[at] = f.waiting[at], ""
	if at == 0 {
		f.waiting = f.waiting[1:]
	} else {
		f.waiting = f.waiting[:at]
	}
	return path, true, false
}

// enter puts in the directories of a batch, and counts those that are done.
func (f *frontier) enter(b *Batch) {
	var found []string
	for i := range b.Len() {
		if b.Kind(i) == muster.Directory && b.Name(i) != "" {
			found = append(found, b.Path(i))
		}
	}
	f.mu.Lock()
	f.waiting = append(f.waiting, found...)
	f.open += len(found) - len(b.Outcomes)
	f.mu.Unlock()
	notify(f.more)
}

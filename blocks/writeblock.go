package blocks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fs/muster"
)

// blockWriter writes one block to all of its replicas. The writer's goroutine calls it.
type blockWriter struct {
	datanodes *Datanodes
	target    Target
	start     int64 // of the block in the file
	changed   signal
	replicas  []*replica

	mu     sync.Mutex // guards what follows, and of each replica what it says
	length int64      // of what was given to the replicas
	ending bool       // that is all
}

// newBlock begins to write a block, whose replicas' goroutines are the writer's.
func (w *Writer) newBlock(t Target) *blockWriter {
	b := &blockWriter{datanodes: w.datanodes, target: t, start: w.start, changed: w.window.changed}
	for i := range t.Nodes {
		r := &replica{block: b, node: &t.Nodes[i], wake: newSignal(), moved: time.Now(), done: make(chan struct{})}
		r.ctx, r.cancel = context.WithCancel(w.ctx)
		b.replicas = append(b.replicas, r)
		w.running.Go(r.run)
	}
	return b
}

// push gives an order to all replicas; with it the block has length bytes.
func (b *blockWriter) push(o order, length int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.length, b.ending = length, o.commit
	for _, r := range b.replicas {
		r.push(o)
	}
}

// durable is the length that is durable on all replicas.
func (b *blockWriter) durable() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.length
	for _, r := range b.replicas {
		n = min(n, r.durable)
	}
	return n
}

// finished says whether all that can be is committed: each replica has committed the block,
// or it has failed with all of it.
func (b *blockWriter) finished() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.replicas {
		if !r.committed && (r.err == nil || r.durable < b.length) {
			return false
		}
	}
	return b.ending
}

// check says for how long to wait for the replicas to have needed bytes, and to commit if
// the block is ending, or that the block is lost: a replica has failed, or has made no
// progress for the timeout, and does not have all that was given to it.
func (b *blockWriter) check(began time.Time, needed int64, timeout time.Duration) (wait time.Duration, lost error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait = timeout
	for _, r := range b.replicas {
		if behind := r.durable < needed || b.ending && !r.committed; behind && r.err == nil {
			since := r.moved
			if since.Before(began) {
				since = began
			}
			left := timeout - time.Since(since)
			if left <= 0 {
				r.end(fmt.Errorf("%w: no progress for %v", muster.ErrUnavailable, timeout))
			} else {
				wait = min(wait, left)
			}
		}
		if r.err != nil && r.durable < b.length {
			lost = r.named(r.err)
		}
	}
	return wait, lost
}

// faulty returns the datanodes of the replicas that have failed. Where a token was refused,
// that is not the datanode's fault.
func (b *blockWriter) faulty() (nodes []muster.NodeNumber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.replicas {
		switch muster.CodeOf(r.err) {
		case muster.OK, muster.ErrUnauthenticated, muster.ErrPermission:
		default:
			nodes = append(nodes, r.node.Number)
		}
	}
	return nodes
}

// well returns the datanodes whose replicas are committed.
func (b *blockWriter) well() (nodes []muster.NodeNumber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.replicas {
		if r.committed {
			nodes = append(nodes, r.node.Number)
		}
	}
	return nodes
}

// cut ends the block at a length that all replicas have, and commits it on those that have
// not failed, or else on any. What fails is left to the namespace: it knows the length.
func (b *blockWriter) cut(ctx context.Context, length int64, timeout time.Duration) {
	if length == 0 || ctx.Err() != nil {
		b.stop(func(r *replica) bool { return false })
		return
	}
	b.stop(func(r *replica) bool { return r.err == nil })
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var living []*replica
	for _, r := range b.replicas {
		select {
		case <-r.done:
		case <-ctx.Done():
			r.cancel()
		}
		if b.alive(r) {
			living = append(living, r)
		}
	}
	if len(living) == 0 {
		living = b.replicas
	}
	_ = b.commit(ctx, living, length)
}

// stop has no replica send more. Those that shall may say that they are at the end.
func (b *blockWriter) stop(gently func(*replica) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.replicas {
		gentle := gently(r)
		if r.stop(); !gentle {
			r.cancel()
		}
	}
}

func (b *blockWriter) alive(r *replica) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.err == nil
}

// finishAttempts is how often a block is committed that no replica says is.
const finishAttempts = 3

// finish makes sure that a finished block is committed somewhere. Other replicas that have
// all of it are made to follow by the namespace.
func (b *blockWriter) finish(ctx context.Context, timeout time.Duration) (err error) {
	if len(b.well()) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for range finishAttempts {
		if err = b.commit(ctx, b.replicas, b.length); err == nil {
			return nil
		}
	}
	return fmt.Errorf("block %v is on all of its datanodes, and could be committed on none: %w", b.target.ID, err)
}

// commit commits the block on some replicas. It fails if it does on all, with the last error.
func (b *blockWriter) commit(ctx context.Context, replicas []*replica, length int64) error {
	results := make(chan error, len(replicas))
	for _, r := range replicas {
		go func() { results <- r.commit(ctx, length) }()
	}
	var last error
	committed := false
	for range replicas {
		if err := <-results; err != nil {
			last = err
		} else {
			committed = true
		}
	}
	if committed {
		return nil
	}
	return last
}

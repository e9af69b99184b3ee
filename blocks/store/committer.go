package store

import (
	"errors"

	"github.com/cockroachdb/pebble"

	kv "github.com/muster-fs/muster/store"
)

// plan fills a batch with a change of a disk's metadata. It looks first, by batch.get, which sees
// what was planned before it, and writes nothing if it returns an error. Once the batch is
// durable, what it returned is called, to show the change in memory; nil is nothing to show.
// Plans and what they return run on the committer alone, one after another, and do no I/O of
// their own.
type plan func(b *batch) (show func(), err error)

// change is a plan on its way.
type change struct {
	plan plan
	show func()
	err  error         // set before done is closed
	done chan struct{} // closed when the change is durable and shown, or failed
}

// Bounds of what the committer makes durable at once.
const (
	groupChanges = 256
	groupBytes   = 1 << 20
)

// change has a change of the metadata made, and returns when it is durable and shown. ErrUnavailable:
// the disk is too full for it.
func (d *disk) change(p plan) error {
	if err := d.takesMetadata(); err != nil {
		return err
	}
	c := &change{plan: p, done: make(chan struct{})}
	select {
	case d.queue <- c:
		<-c.done
		return c.err
	case <-d.ended:
		return d.alive()
	}
}

// commitChanges is the committer: it makes changes durable until the disk is closed or fails, as
// many at once as wait for it. The store counts on there being one commit at a time.
func (d *disk) commitChanges() {
	defer close(d.ended)
	for {
		select {
		case <-d.closing:
			return
		case <-d.kv.Failed():
			d.fail(d.kv.Failure())
			return
		case c := <-d.queue:
			d.commitGroup(c)
		}
	}
}

func (d *disk) commitGroup(first *change) {
	b := &batch{b: d.kv.DB.NewIndexedBatch()}
	var planned []*change
	more := true
	for c := first; more; {
		if c.show, c.err = c.plan(b); c.err != nil {
			close(c.done)
		} else {
			planned = append(planned, c)
		}
		if more = len(planned) < groupChanges && b.b.Len() < groupBytes && b.err == nil; more {
			select {
			case c = <-d.queue:
			default:
				more = false
			}
		}
	}
	err := d.commit(b)
	for _, c := range planned {
		if c.err = err; err == nil && c.show != nil {
			c.show()
		}
		close(c.done)
	}
}

// commit makes a batch durable. If it cannot, the disk has failed.
func (d *disk) commit(b *batch) error {
	err := b.err
	switch {
	case err != nil:
		err = errors.Join(d.kv.Fail(err), b.b.Close())
	case b.b.Empty():
		return kv.Error(b.b.Close())
	default:
		d.store.counts.metadataSyncs.Add(1)
		err = d.kv.Commit(b.b, func() {})
	}
	if err != nil {
		d.fail(err)
		return d.alive()
	}
	return nil
}

// batch is an indexed batch of the store that keeps its first error.
type batch struct {
	b   *pebble.Batch
	err error
}

func (b *batch) set(key, value []byte) {
	if b.err == nil {
		b.err = b.b.Set(key, value, nil)
	}
}

func (b *batch) delete(key []byte) {
	if b.err == nil {
		b.err = b.b.Delete(key, nil)
	}
}

// deleteAll removes the keys of a tag and a container.
func (b *batch) deleteAll(tag byte, container uint64) {
	from, to := prefixes(tag, container)
	if b.err == nil {
		b.err = b.b.DeleteRange(from, to, nil)
	}
}

func (b *batch) get(key []byte) (value []byte, found bool, err error) { return get(b.b, key) }

// get returns a copy of a value.
func get(r pebble.Reader, key []byte) (value []byte, found bool, err error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, kv.Error(err)
	}
	value = append([]byte{}, v...)
	return value, true, kv.Error(closer.Close())
}

package store

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	kv "github.com/muster-fs/muster/store"
)

const (
	scrubBuffer = 1 << 20 // read at once
	scrubPage   = 256     // blocks that are looked up at once
	// expireEvery is how often tombstones that are over are removed.
	expireEvery = time.Hour
)

// scrubs is the scrubbing of a disk.
type scrubs struct {
	asked chan struct{} // capacity 1: a run is to begin now

	mu      sync.Mutex // guards what follows
	running bool       // or asked for
	last    scrubRecord
	now     scrubRecord // of the run that goes on
}

// Scrub has all disks scrubbed now. It returns at once: false if that is going on already, or no
// disk works.
func (s *Store) Scrub() (started bool) {
	if s.gate.enter() != nil {
		return false
	}
	defer s.gate.leave()
	for _, d := range s.disks {
		if d.alive() == nil && d.scrubs.begin() {
			d.scrubs.asked <- struct{}{} // has room: a run that was asked for has not ended
			started = true
		}
	}
	return started
}

// begin says that a run begins, unless one goes on.
func (s *scrubs) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return false
	}
	s.running, s.now = true, scrubRecord{}
	return true
}

// ScrubState returns how far scrubbing is.
func (s *Store) ScrubState() (out ScrubState) {
	for _, d := range s.disks {
		if d.alive() != nil {
			continue
		}
		d.scrubs.mu.Lock()
		r := d.scrubs.last
		if d.scrubs.running {
			r, out.Running = d.scrubs.now, true
		}
		if end := d.scrubs.last.finished; end != 0 && fromMillis(end).After(out.Finished) {
			out.Finished = fromMillis(end)
		}
		d.scrubs.mu.Unlock()
		out.Blocks, out.Bytes, out.Damaged = out.Blocks+r.blocks, out.Bytes+r.bytes, out.Damaged+r.damaged
	}
	return out
}

// due is how long it is to the next run.
func (d *disk) due() time.Duration {
	d.scrubs.mu.Lock()
	defer d.scrubs.mu.Unlock()
	next := fromMillis(d.scrubs.last.since).Add(d.store.opts.ScrubEvery)
	return max(0, next.Sub(d.store.opts.Now()))
}

// scrub is the goroutine that scrubs the disk and removes old tombstones, until the store closes
// or the disk fails.
func (d *disk) scrub() {
	expire := time.NewTicker(expireEvery)
	defer expire.Stop()
	for d.alive() == nil {
		due := time.NewTimer(d.due())
		select {
		case <-d.store.closing:
			due.Stop()
			return
		case <-d.ended:
			due.Stop()
			return
		case <-expire.C:
			d.expire()
		case <-d.scrubs.asked:
			d.scrubAll()
		case <-due.C:
			if d.scrubs.begin() {
				d.scrubAll()
			}
		}
		due.Stop()
	}
}

// errStopped ends a run early.
var errStopped = errors.New("stopped")

// scrubAll is one run.
func (d *disk) scrubAll() {
	err := d.scrubBlocks()
	r, now := d.scrubs.current(), d.store.now()
	if r.since = now; err == nil {
		r.finished = max(1, now)
		d.store.opts.Logger.Info("blocks: scrubbed a disk", "disk", d.dir, "blocks", r.blocks, "bytes", r.bytes, "damaged", r.damaged)
		_ = d.change(func(b *batch) (func(), error) {
			b.set(scrubKey(), appendScrub(nil, r))
			return nil, nil
		}) // fails with the disk
	} else if !errors.Is(err, errStopped) {
		d.store.opts.Logger.Error("blocks: scrubbing a disk failed", "disk", d.dir, "error", err)
	}
	d.scrubs.end(r)
}

func (s *scrubs) current() scrubRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// end ends a run. One that did not get through leaves the end of the one before.
func (s *scrubs) end(r scrubRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	if r.finished == 0 {
		r.finished = s.last.finished
	}
	s.last = r
}

func (d *disk) scrubBlocks() error {
	type found struct {
		id muster.BlockID
		r  blockRecord
	}
	pace := pace{rate: d.store.opts.ScrubRate, began: time.Now(), stop: d.store.closing}
	buf := make([]byte, scrubBuffer)
	for after := (muster.BlockID{}); ; {
		var page []found
		err := d.eachCommitted(after, func(id muster.BlockID, r blockRecord) bool {
			page = append(page, found{id, r})
			return len(page) < scrubPage
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, b := range page {
			if err := d.scrubBlock(b.id, b.r, buf, &pace); err != nil {
				return err
			}
		}
		after = page[len(page)-1].id
	}
}

// scrubBlock reads a block and marks it if it is damaged, or no longer is.
func (d *disk) scrubBlock(id muster.BlockID, r blockRecord, buf []byte, pace *pace) error {
	c := d.store.known(id.Container)
	if c == nil || c.disk != d {
		return d.alive() // dropped, or another disk's is in use
	}
	epoch := c.epoch.Load()
	_, sums, err := d.lookup(id)
	if err == nil {
		err = d.compare(id, r.length, sums, buf, pace)
	}
	switch {
	case errors.Is(err, errStopped):
		return err
	case errors.Is(err, muster.ErrNoData), errors.Is(err, muster.ErrNotFound), errors.Is(err, muster.ErrUnavailable):
		return d.alive() // deleted meanwhile, or nothing that says anything about it
	}
	if _, gone := record(d.kv.DB, id); errors.Is(gone, muster.ErrNoData) {
		return d.alive()
	}
	if err != nil {
		d.store.opts.Logger.Error("blocks: a block is damaged", "block", id, "disk", d.dir, "error", err)
	}
	d.scrubs.count(r.length, err != nil)
	// A repair may have come between; then the next run tells.
	_ = d.markAt(c, id, err != nil, func() bool { return err == nil || c.epoch.Load() == epoch }) // it may be gone
	return d.alive()
}

// count counts a block of the run that goes on.
func (s *scrubs) count(length int64, damaged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.blocks++
	s.now.bytes += uint64(length)
	if damaged {
		s.now.damaged++
	}
}

// compare compares a block's file with its checksums: ErrCorrupt if it does not match, or cannot
// be read.
func (d *disk) compare(id muster.BlockID, length int64, sums, buf []byte, pace *pace) error {
	f, err := d.store.opts.FS.Open(d.blockPath(id))
	if err != nil {
		return d.scrubError(id, err)
	}
	defer f.Close() // it is only read
	for at := int64(0); at < length; {
		part := buf[:min(int64(len(buf)), length-at)]
		if err := pace.wait(int64(len(part))); err != nil {
			return err
		}
		n, err := f.ReadAt(part, at)
		d.store.counts.scrubbedBytes.Add(uint64(n))
		if n != len(part) {
			return d.scrubError(id, cmp.Or(err, io.ErrUnexpectedEOF))
		}
		if bad := mismatch(part, sums[sumBytes(at):]); bad >= 0 {
			return corrupt("the data at %d does not match its checksum", at+int64(bad))
		}
		at += int64(n)
	}
	d.cutTail(d.blockPath(id), length)
	return nil
}

// scrubError is ErrCorrupt if an I/O error is about the block.
func (d *disk) scrubError(id muster.BlockID, err error) error {
	if err == io.EOF {
		return corrupt("the file is too short")
	}
	if what := d.blame(err, id); what != ofFile {
		return d.blamed(what, "scrub", err)
	}
	return corrupt("it cannot be read: %v", err)
}

// pace keeps a run within its rate.
type pace struct {
	rate  int64 // bytes/s
	began time.Time
	done  int64 // bytes
	stop  <-chan struct{}
}

// wait waits until n more bytes may be read.
func (p *pace) wait(n int64) error {
	ahead := time.Duration(float64(p.done)/float64(p.rate)*float64(time.Second)) - time.Since(p.began)
	p.done += n
	wait := time.NewTimer(max(0, ahead))
	defer wait.Stop()
	select {
	case <-p.stop:
		return errStopped
	case <-wait.C:
		return nil
	}
}

func (d *disk) readScrub() error {
	v, found, err := get(d.kv.DB, scrubKey())
	if err != nil {
		return err
	}
	if !found {
		return corrupt("the record of scrubbing is missing")
	}
	d.scrubs.last, err = decodeScrub(v)
	return err
}

// expire removes tombstones that are over.
func (d *disk) expire() {
	over := d.store.now() - TombstoneLife.Milliseconds()
	for from := []byte{tagTombstone}; len(from) > 0; {
		keys, next, err := d.overdue(from, over)
		if err != nil {
			return // the disk failed, or its metadata is damaged, which others tell
		}
		err = d.change(func(b *batch) (func(), error) {
			for _, k := range keys {
				b.delete(k)
			}
			return nil, nil
		})
		if err != nil {
			return
		}
		from = next
	}
}

// overdue returns some keys of tombstones from before a time, and where to go on; nil at the end.
func (d *disk) overdue(from []byte, before int64) (keys [][]byte, next []byte, err error) {
	it, err := d.kv.DB.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{tagTombstone + 1}})
	if err != nil {
		return nil, nil, d.sound(kv.Error(err))
	}
	for ok := it.First(); ok; ok = it.Next() {
		if len(keys) == scrubPage {
			next = slices.Clone(it.Key())
			break
		}
		if at, err := decodeTombstone(it.Value()); err == nil && at < before {
			keys = append(keys, slices.Clone(it.Key()))
		}
	}
	return keys, next, d.sound(kv.Error(it.Close()))
}

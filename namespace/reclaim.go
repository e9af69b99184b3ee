package namespace

import (
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// janitor does the tree's own work in the background, step by step through the committer: it
// reclaims detached directories, queues the blocks of files that are gone, and forgets results of
// requests. It plans a step on a view,
// which holds no lock and keeps no caller waiting; nobody else changes what it plans for.
type janitor struct {
	tree   *Tree
	woken  chan struct{} // capacity 1
	expiry expiry
	after  uint64 // id of the directory reclaimed last
	queued uint64 // id of the file whose blocks were queued last
}

// pointDeletes is how many rows of a directory are deleted one by one; the rows of a larger
// one go by one range, since many tombstones slow down whatever reads near them, and so do
// many ranges.
const pointDeletes = 256

// wake makes the janitor look if a state has work for it.
func (j *janitor) wake(m *meta) {
	if m.detached == 0 && m.dropped == 0 && !j.expiry.due(m) {
		return
	}
	select {
	case j.woken <- struct{}{}:
	default:
	}
}

func (j *janitor) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.woken:
		}
		for more := true; more; {
			var err error
			if more, err = j.work(ctx); err != nil {
				if ctx.Err() == nil {
					j.tree.opts.Logger.Error("background work stopped until the folder is opened again", "error", err)
				}
				return
			}
		}
	}
}

// work does one step of each kind that is due.
func (j *janitor) work(ctx context.Context) (more bool, err error) {
	v, err := j.tree.currentView()
	if err != nil {
		return false, err
	}
	defer v.Release()
	if j.expiry.due(&v.meta) {
		txids, err := j.expiry.step(v)
		if err != nil {
			return false, err
		}
		if len(txids) > 0 {
			more = true
			if err := j.commit(ctx, func(tx *txn) error { return tx.expire(txids) }); err != nil {
				return false, err
			}
			j.expiry.from = txids[len(txids)-1] + 1
		}
	}
	if v.meta.detached > 0 {
		more = true
		plan, err := j.plan(v)
		if err != nil {
			return false, err
		}
		if err := j.commit(ctx, plan.apply); err != nil {
			return false, err
		}
	}
	if v.meta.dropped > 0 {
		more = true
		plan, err := j.planQueueing(v)
		if err != nil {
			return false, err
		}
		if err := j.commit(ctx, plan.apply); err != nil {
			return false, err
		}
	}
	return more, nil
}

func (j *janitor) commit(ctx context.Context, step func(*txn) error) error {
	return j.tree.committer.do(ctx, &call{ctx: ctx, step: step, done: make(chan struct{})})
}

// reclaim is one step: what it deletes, and where it leaves each directory it worked on.
type reclaim struct {
	records  []uint64     // inodes deleted
	files    []goneFile   // those among them that leave something
	rows     []rowKey     // rows deleted one by one
	ranges   []keyRange   // rows deleted by range
	detached []uint64     // directories found, each detached for itself
	finished []uint64     // directories done
	progress []unfinished // at most the last directory
}

// goneFile is a file with blocks, or being written.
type goneFile struct {
	row    muster.Row // its slices are not to be used
	blocks blockList
}

type unfinished struct {
	id   uint64
	done []byte // last name done
}

// apply is the step's part in a group.
func (p *reclaim) apply(tx *txn) error {
	for _, id := range p.detached {
		rec, err := tx.record(id)
		if err != nil {
			return err
		}
		tx.detach(id, &rec)
	}
	for _, key := range p.rows {
		tx.deleteRow(key.dir, key.name)
	}
	tx.ranges = append(tx.ranges, p.ranges...)
	for _, id := range p.records {
		tx.deleteRecord(id)
	}
	for i := range p.files {
		tx.drop(&p.files[i].row, p.files[i].blocks)
	}
	for _, id := range p.finished {
		tx.deleteRecord(id)
		tx.key = appendIDKey(tx.key[:0], tagQueue, id)
		tx.set(tx.key, nil)
	}
	for _, u := range p.progress {
		tx.key = appendIDKey(tx.key[:0], tagQueue, u.id)
		tx.value = appendQueue(tx.value[:0], u.done)
		tx.set(tx.key, tx.value)
	}
	tx.meta.inodes -= uint64(len(p.records) + len(p.finished))
	tx.meta.detached -= uint64(len(p.finished))
	return nil
}

// plan makes a step of at most ReclaimStep entries, from the directory after the one done
// last on, around the queue. So it walks no key that it deleted before.
func (j *janitor) plan(v *View) (*reclaim, error) {
	queue, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{tagQueue}, UpperBound: []byte{tagQueue + 1}})
	if err != nil {
		return nil, store.Error(err)
	}
	defer queue.Close()
	p, s := &reclaim{}, &snapshot{snap: v.snap}
	budget := j.tree.opts.ReclaimStep
	ok := queue.SeekGE(appendIDKey(nil, tagQueue, j.after+1))
	if !ok {
		ok = queue.First()
	}
	var rows scan
	for ; ok && budget > 0 && err == nil; ok = queue.Next() {
		id, _, valid := splitIDKey(queue.Key(), 0)
		done, decodeErr := decodeQueue(queue.Value())
		if err = decodeErr; err == nil && !valid {
			err = corrupt("queue entry: bad key")
		}
		if err == nil {
			budget, err = p.directory(s, &rows, id, string(done), budget)
		}
		if len(p.progress) == 0 {
			j.after = id
		}
	}
	err = errors.Join(err, store.Error(queue.Error()), rows.close())
	if err == nil && len(p.finished)+len(p.progress) == 0 {
		err = corrupt("%d directories are detached, and none is queued for reclaim", v.meta.detached)
	}
	return p, err
}

// directory plans for one directory, within a budget of entries. It returns what is left.
func (p *reclaim) directory(s *snapshot, rows *scan, id uint64, done string, budget int) (int, error) {
	v, err := s.get(appendIDKey(nil, tagRecord, id))
	if err != nil {
		return 0, err
	}
	var rec record
	if err := decodeHead(v, id, &rec); err != nil {
		return 0, err
	}
	if err := rows.start(s, id, done); err != nil {
		return 0, err
	}
	for ; ; budget-- {
		name, v, ok, err := rows.next()
		switch {
		case err != nil:
			return 0, err
		case !ok:
			p.finish(id, &rec)
			return budget - 1, nil
		case budget <= 0:
			p.progress = append(p.progress, unfinished{id, []byte(done)})
			return 0, nil
		}
		blocks, err := p.entry(v)
		if err != nil {
			return 0, err
		}
		budget -= blocks
		if done = string(name); rec.entries <= pointDeletes {
			p.rows = append(p.rows, rowKey{id, done})
		}
	}
}

// entry plans for a child. It returns how many blocks it queues.
func (p *reclaim) entry(v []byte) (blocks int, err error) {
	var r muster.Row
	b, err := decodeRow(v, &r)
	switch {
	case err != nil:
		return 0, err
	case r.Kind == muster.Directory:
		p.detached = append(p.detached, r.ID)
	case b.count > 0 || r.Flags&muster.FlagWriting != 0:
		b.inline = slices.Clone(b.inline)
		p.files = append(p.files, goneFile{muster.Row{ID: r.ID, Flags: r.Flags}, b})
	default:
		p.records = append(p.records, r.ID)
	}
	return len(b.inline) / blockSize, nil
}

func (p *reclaim) finish(id uint64, rec *record) {
	p.finished = append(p.finished, id)
	if rec.entries > pointDeletes {
		p.ranges = append(p.ranges, keyRange{appendIDKey(nil, tagRow, id), appendIDKey(nil, tagRow, id+1)})
	}
}

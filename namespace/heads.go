package namespace

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Head is what a directory's record says of it.
type Head struct {
	MTime     int64  // ms since the epoch, UTC
	ChangedAt uint64 // txid of the last change to the children's rows
}

// The item of a head in the image cache, current since record_at:
//
//	mtime i64 | changed_at u64
const headLen = 16

func appendHead(dst []byte, h Head) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.MTime))
	return binary.LittleEndian.AppendUint64(dst, h.ChangedAt)
}

func openHead(item []byte) Head {
	return Head{int64(binary.LittleEndian.Uint64(item)), binary.LittleEndian.Uint64(item[8:])}
}

// ChangedAt returns the txid of the last change to the rows of a directory's children, if it
// is known without reading the store; else see Heads.
func (r *Reader) ChangedAt(res *Resolved) (txid uint64, known bool) {
	if res.held.as == whole {
		return res.held.since, true
	}
	if item, ok := r.headItem(res.id); ok {
		return openHead(item).ChangedAt, true
	}
	return 0, false
}

// headItem finds a head that is current in the reader's view.
func (r *Reader) headItem(id uint64) ([]byte, bool) {
	if !r.images {
		return nil, false
	}
	item, _, ok := r.cache.Get(headKey|id, r.view.meta.txid)
	return item, ok
}

// Heads gives the heads of directories, for which heads has room, from memory or from their
// records in one ordered pass over the store. An id of no directory is ErrCorrupt.
func (r *Reader) Heads(ids []uint64, heads []Head) error {
	r.order = r.order[:0]
	for i, id := range ids {
		if item, ok := r.headItem(id); ok {
			heads[i] = openHead(item)
		} else {
			r.order = append(r.order, int32(i))
		}
	}
	if len(r.order) == 0 {
		r.hits += uint64(len(ids))
		return nil
	}
	r.hits += uint64(len(ids) - len(r.order))
	r.misses += uint64(len(r.order))
	slices.SortFunc(r.order, func(a, b int32) int { return cmp.Compare(ids[a], ids[b]) })
	if r.images {
		r.loadHeads(ids)
	}
	defer r.land()
	for i, at := range r.order {
		if i > 0 && ids[at] == ids[r.order[i-1]] {
			heads[at] = heads[r.order[i-1]]
			continue
		}
		if h := r.load.flight.head(ids[at]); h != nil && h.ok && h.since <= r.view.meta.txid {
			heads[at] = h.Head
		} else if err := r.seekHead(ids[at], &heads[at]); err != nil {
			return err
		}
	}
	return nil
}

// loadHeads loads the heads of the ids in order. What it cannot find is for the view's snapshot
// to say.
func (r *Reader) loadHeads(ids []uint64) {
	l := &r.load
	l.flight.heads = l.flight.heads[:0]
	for i, at := range r.order {
		if i == 0 || ids[at] != ids[r.order[i-1]] {
			l.flight.heads = append(l.flight.heads, head{id: ids[at]})
		}
	}
	if !r.takeOff() {
		return
	}
	for i := range l.flight.heads {
		h := &l.flight.heads[i]
		if err := l.record(h.id); err == nil {
			h.ok, h.Head, h.since = true, Head{l.rec.mtime, l.rec.changedAt}, l.rec.recordAt
		}
	}
	r.tree.counters.loads.Add(uint64(len(l.flight.heads)))
	r.tree.loads.publishHeads(l.flight.heads)
}

// seekHead reads a record from the reader's view.
func (r *Reader) seekHead(id uint64, h *Head) error {
	v, err := r.heads.find(r.snap.snap, id)
	if err != nil {
		return err
	}
	var rec record
	err = decodeHead(v, id, &rec)
	*h = Head{rec.mtime, rec.changedAt}
	return err
}

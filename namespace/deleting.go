package namespace

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// This file has the queue of blocks that no file has any more. A block enters it in the batch that
// takes it from its file, or takes the file away: under its key lies
//
//	version u8
//
// Of a file that is gone, that is so for the blocks in its row. Those in chunks are queued later,
// step by step; until then the chunks stay, and under the file's id lies
//
//	version u8 | blocks of the file u32 | chunks done u32
const (
	deleteVersion  = 1
	droppedVersion = 1
	droppedLen     = 9
)

// dropped is a file that is gone and has blocks in chunks.
type dropped struct {
	count int // blocks, those of the row too
	done  int // chunks whose blocks are in the queue
}

func (d dropped) chunks() int { return blockList{count: d.count}.chunks() }

func appendDropped(dst []byte, d dropped) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, droppedVersion), uint32(d.count))
	return binary.LittleEndian.AppendUint32(dst, uint32(d.done))
}

func decodeDropped(v []byte) (dropped, error) {
	if len(v) != droppedLen || v[0] != droppedVersion {
		return dropped{}, corrupt("dropped file: unknown version or length %d", len(v))
	}
	count, done := binary.LittleEndian.Uint32(v[1:]), binary.LittleEndian.Uint32(v[5:])
	d := dropped{int(count), int(done)}
	if count > muster.MaxBlocks || done > math.MaxInt32 || d.done >= d.chunks() {
		return dropped{}, corrupt("dropped file: %d chunks done of %d blocks", done, count)
	}
	return d, nil
}

// queueBlocks queues encoded blocks.
func (tx *txn) queueBlocks(v []byte) {
	for ; len(v) >= blockSize; v = v[blockSize:] {
		if b := blockID(v); isBlock(b) {
			tx.deletes.set(b, true)
		}
	}
}

// blockID returns the id of the first of some encoded blocks.
func blockID(v []byte) muster.BlockID {
	return muster.BlockID{Container: binary.LittleEndian.Uint64(v), LocalID: binary.LittleEndian.Uint64(v[8:])}
}

func (tx *txn) setDropped(file uint64, d dropped) {
	tx.key = appendIDKey(tx.key[:0], tagDropped, file)
	tx.value = appendDropped(tx.value[:0], d)
	tx.set(tx.key, tx.value)
}

// queueing is a step that queues blocks of files that are gone.
type queueing struct {
	blocks   []byte   // encoded
	finished []uint64 // files done
	file     uint64   // 0, or the one that is not
	dropped  dropped
}

// apply is the step's part in a group.
func (p *queueing) apply(tx *txn) error {
	tx.queueBlocks(p.blocks)
	for _, id := range p.finished {
		tx.key = appendIDKey(tx.key[:0], tagDropped, id)
		tx.set(tx.key, nil)
		tx.deleteChunks(id)
	}
	tx.meta.dropped -= uint64(len(p.finished))
	if p.file != 0 {
		tx.setDropped(p.file, p.dropped)
	}
	return nil
}

// planQueueing makes a step of about ReclaimStep blocks, in whole chunks, from the file after the one
// done last on, around all of them. So it walks no key that it deleted before.
func (j *janitor) planQueueing(v *View) (*queueing, error) {
	files, err := newTagIter(v.snap, tagDropped)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	p, s := &queueing{}, &snapshot{snap: v.snap}
	budget := j.tree.opts.ReclaimStep * blockSize
	ok := files.SeekGE(appendIDKey(nil, tagDropped, j.queued+1))
	if !ok {
		ok = files.First()
	}
	for ; ok && len(p.blocks) < budget && err == nil; ok = files.Next() {
		err = p.add(s, files.Key(), files.Value(), budget)
		if p.file == 0 && err == nil {
			j.queued = p.finished[len(p.finished)-1]
		}
	}
	err = errors.Join(err, store.Error(files.Error()))
	if err == nil && len(p.finished) == 0 && p.file == 0 {
		err = corrupt("%d files are dropped, and none is there", v.meta.dropped)
	}
	return p, err
}

// add plans for one file, within a budget of bytes of blocks.
func (p *queueing) add(s *snapshot, key, value []byte, budget int) error {
	id, _, ok := splitIDKey(key, 0)
	if !ok {
		return corrupt("dropped file: bad key")
	}
	d, err := decodeDropped(value)
	if err != nil {
		return err
	}
	for ; d.done < d.chunks() && len(p.blocks) < budget; d.done++ {
		n := blockList{count: d.count}.chunkLen(d.done)
		v, err := s.get(appendChunkKey(nil, id, d.done))
		if err != nil {
			return err
		}
		if err := checkChunk(v, n); err != nil {
			return err
		}
		p.blocks = append(p.blocks, v[1:]...)
	}
	if d.done < d.chunks() {
		p.file, p.dropped = id, d
		return nil
	}
	p.finished = append(p.finished, id)
	return nil
}

// Deletions returns the blocks that no file has any more and that were not confirmed by Deleted
// yet, those after a given one, at most max of them, ascending by container and local id. To
// drain the queue go on after the last one returned: what is before was taken away, and takes time
// to walk over.
func (t *Tree) Deletions(after muster.BlockID, max int) (list []muster.BlockID, err error) {
	start := append(appendDeleteKey(nil, after), 0)
	err = t.iterate(tagDelete, start, max, func(key, value []byte) error {
		b, ok := splitDeleteKey(key)
		if !ok {
			return corrupt("block to be deleted: bad key")
		}
		list = append(list, b)
		return decodeDelete(value)
	})
	return list, err
}

func decodeDelete(v []byte) error {
	if len(v) != 1 || v[0] != deleteVersion {
		return corrupt("block to be deleted: unknown version or length %d", len(v))
	}
	return nil
}

// Deleted takes blocks from the queue that Deletions reads, once no datanode has them any more.
// Blocks that are not in it do not matter.
func (t *Tree) Deleted(ctx context.Context, blocks []muster.BlockID) error {
	for len(blocks) > 0 {
		n := min(len(blocks), muster.MaxBatchCommands)
		some := blocks[:n]
		step := func(tx *txn) error {
			for _, b := range some {
				tx.deletes.set(b, false)
			}
			return nil
		}
		if err := t.committer.do(ctx, &call{ctx: ctx, step: step, done: make(chan struct{})}); err != nil {
			return err
		}
		blocks = blocks[n:]
	}
	return nil
}

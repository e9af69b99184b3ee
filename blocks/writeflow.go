package blocks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fs/muster"
)

// limit is the bytes that the packet being filled has at most.
func (w *Writer) limit() int {
	return int(min(muster.MaxTransfer, w.start+w.options.BlockSize-w.packet.at))
}

// room returns memory of the packet that is being filled, and waits until there is one.
func (w *Writer) room() ([]byte, error) {
	if w.ctx.Err() != nil {
		return nil, w.fail(w.ended())
	}
	if w.packet == nil {
		err := w.await(func() bool {
			w.retire()
			w.packet = w.window.take(w.sent)
			return w.packet != nil
		})
		if err != nil {
			return nil, w.fail(err)
		}
	}
	return w.packet.room(w.limit()), nil
}

// filled says that so many bytes of room were filled, and sends the packet if it is full.
func (w *Writer) filled(n int) error {
	w.packet.filled(n)
	if len(w.packet.data) < w.limit() {
		return nil
	}
	return w.send(w.packet.end() == w.start+w.options.BlockSize)
}

// send sends the packet that was filled, if there is one. If it ends the block, it waits
// until the block is committed.
func (w *Writer) send(last bool) error {
	o := order{commit: last, sync: last}
	if p := w.packet; p != nil && len(p.data) > 0 {
		p.seal()
		w.packet, w.sent = nil, p.end()
		w.pending = append(w.pending, p)
		o.packet, o.sync = p, last || w.turn()
	}
	w.ending = last
	if w.block == nil {
		if err := w.begin(); err != nil {
			return w.fail(err)
		}
	} else {
		w.block.push(o, w.sent-w.start)
	}
	if !last {
		return nil
	}
	if err := w.complete(); err != nil {
		return w.fail(err)
	}
	return nil
}

// turn says whether it is the packet's turn to be made durable, with all before: four times
// in a window, so that none ever fills it before that was asked for.
func (w *Writer) turn() bool {
	if w.unsynced++; w.unsynced < max(1, int(w.window.most)/4) {
		return false
	}
	w.unsynced = 0
	return true
}

// begin begins a block, with all that is pending.
func (w *Writer) begin() error {
	if len(w.target.Nodes) == 0 {
		if err := w.ask(); err != nil {
			return err
		}
	}
	w.block = w.newBlock(w.target)
	w.target, w.unsynced = Target{}, 0
	for i, p := range w.pending {
		commit := w.ending && i == len(w.pending)-1
		w.block.push(order{packet: p, sync: w.turn() || commit, commit: commit}, p.end()-w.start)
	}
	return nil
}

// ask asks for another block. If there are none but with datanodes that have failed, then it is
// written without those, see spare.
func (w *Writer) ask() error {
	failed := make([]muster.NodeNumber, 0, len(w.failed))
	for n, when := range w.failed {
		if time.Since(when) < avoidFailed {
			failed = append(failed, n)
		}
	}
	slices.Sort(failed)
	t, err := w.next(w.ctx, w.last, failed)
	if errors.Is(err, muster.ErrUnavailable) && len(failed) > 0 && w.ctx.Err() == nil {
		t, err = w.next(w.ctx, w.last, nil)
		t.Nodes = spare(t.Nodes, failed)
	}
	switch {
	case err != nil:
		return fmt.Errorf("another block: %w", err)
	case len(t.Nodes) == 0 || t.ID == (muster.BlockID{}):
		return fmt.Errorf("%w: block %v to be written on %d datanodes", muster.ErrCorrupt, t.ID, len(t.Nodes))
	}
	w.target, w.last = t, 0
	return nil
}

// spare leaves out the datanodes that have failed, if half of them stay: a small cluster in
// which one is down goes on with the others, and the location service sees to the missing
// replicas. If too few would stay, those that have failed get another chance.
func spare(nodes []muster.Node, failed []muster.NodeNumber) []muster.Node {
	rest := make([]muster.Node, 0, len(nodes))
	for i := range nodes {
		if _, bad := slices.BinarySearch(failed, nodes[i].Number); !bad {
			rest = append(rest, nodes[i])
		}
	}
	if len(rest) == 0 || 2*len(rest) < len(nodes) {
		return nodes
	}
	return rest
}

// complete waits until the block is committed: on all of its replicas, or on one at least if
// all have all of it.
func (w *Writer) complete() error {
	if err := w.await(func() bool { return w.block.finished() }); err != nil {
		return err
	}
	b := w.block
	w.retire()
	w.leave(w.sent - w.start)
	for _, n := range b.well() {
		delete(w.failed, n)
	}
	return b.finish(w.ctx, w.options.Timeout)
}

// leave ends the use of a block, which has so many bytes now.
func (w *Writer) leave(length int64) {
	w.block, w.ending = nil, false
	w.last = length
	w.start += length
}

// retire releases the packets that are durable on all replicas.
func (w *Writer) retire() {
	if w.block == nil {
		return
	}
	durable := w.start + w.block.durable()
	n := 0
	for n < len(w.pending) && w.pending[n].end() <= durable {
		w.pending[n].release()
		n++
	}
	w.pending = slices.Delete(w.pending, 0, n)
}

// await waits until done says so. A block that fails meanwhile is replaced by another.
func (w *Writer) await(done func() bool) error {
	began := time.Now()
	timer := time.NewTimer(w.options.Timeout)
	defer timer.Stop()
	for !done() {
		if w.ctx.Err() != nil {
			return w.ended()
		}
		wait := w.options.Timeout
		if w.block != nil {
			var lost error
			if wait, lost = w.block.check(began, w.needed(), w.options.Timeout); lost != nil {
				if err := w.replace(lost); err != nil {
					return err
				}
				began = time.Now()
				continue
			}
		}
		timer.Reset(wait)
		select {
		case <-w.window.changed:
		case <-w.ctx.Done():
		case <-timer.C:
		}
	}
	return nil
}

// needed is the length that the block's replicas are waited for to have.
func (w *Writer) needed() int64 {
	if w.ending || len(w.pending) == 0 {
		return w.sent - w.start
	}
	return w.pending[0].end() - w.start
}

// ended returns why the writer's context has ended, with a code.
func (w *Writer) ended() error {
	return fmt.Errorf("%w: %w", muster.CodeOf(w.ctx.Err()), context.Cause(w.ctx))
}

// replace ends a block whose replicas have failed, at the length that is durable on all, and
// goes on in another one.
func (w *Writer) replace(lost error) error {
	ending := w.ending
	if length := w.cut(); length > 0 {
		w.attempts = 0
	}
	w.attempts++
	if w.attempts >= w.options.Attempts {
		return fmt.Errorf("%d blocks were given up without progress, at last: %w", w.attempts, lost)
	}
	if err := w.pause(); err != nil {
		return err
	}
	w.ending = ending
	return w.begin()
}

// cut ends the block, and returns the length that it has from now on.
func (w *Writer) cut() int64 {
	b := w.block
	w.retire()
	acknowledged := w.sent
	if len(w.pending) > 0 {
		acknowledged = w.pending[0].at
	}
	length := acknowledged - w.start
	now := time.Now()
	for _, n := range b.faulty() {
		w.failed[n] = now
	}
	b.cut(w.ctx, length, w.options.Timeout)
	w.leave(length)
	return length
}

// maxPause bounds the pause between two blocks that are given up.
const maxPause = time.Second

// pause waits before another block is tried, unless it is the first after some progress.
func (w *Writer) pause() error {
	if w.attempts == 1 {
		return nil
	}
	t := time.NewTimer(min(25*time.Millisecond<<w.attempts, maxPause))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.ctx.Done():
		return w.ended()
	}
}

// fail ends the writer with an error. What is durable of the block stays.
func (w *Writer) fail(err error) error {
	w.err = err
	if w.block != nil {
		w.cut()
	}
	for _, p := range w.pending {
		p.release()
	}
	w.pending = nil
	return err
}

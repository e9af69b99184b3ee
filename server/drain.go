package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// Blocks that no file has any more wait in the tree's queue until every datanode that has, or may
// have, a replica of their container has confirmed that it does not have them. The drain walks the
// queue from end to end, again and again. A datanode that is dead, or fails, keeps only those waiting
// that it has a share in: what the others have confirmed they are not asked again. A container that
// the location service does not know is nowhere.
//
// Nothing is deleted while the location service waits for datanodes to report: a replica that it does
// not know of yet would stay for ever.

const (
	drainPage   = 4096 // blocks that are read from the queue at a time
	drainBatch  = 1000 // blocks of a call
	drainAtOnce = 8    // datanodes
	drainTime   = 30 * time.Second

	// drainConfirmed bounds what is remembered of datanodes that have confirmed what others have not.
	// What is forgotten is asked again.
	drainConfirmed = 1 << 17

	firstDrainPause   = time.Second // between walks
	longestDrainPause = 10 * time.Second
)

// drain deletes blocks. It is for one goroutine.
type drain struct {
	*upkeep
	pauses    map[muster.NodeNumber]*retry
	confirmed map[muster.BlockID][]muster.NodeNumber // that the block is not there, while others have not
}

func newDrain(k *upkeep) *drain {
	return &drain{k, map[muster.NodeNumber]*retry{}, map[muster.BlockID][]muster.NodeNumber{}}
}

func (d *drain) run(ctx context.Context) {
	var failing bool
	for pause := firstDrainPause; sleep(ctx, pause); {
		before := d.deleted.Load()
		err := d.walk(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			d.log.Warn("blocks of deleted files are not deleted from datanodes now", "error", err)
		}
		failing = err != nil
		if pause = min(2*pause, longestDrainPause); d.deleted.Load() > before {
			pause = firstDrainPause
		}
	}
}

// walk walks the queue once.
func (d *drain) walk(ctx context.Context) error {
	waiting, reported := 0, false
	for after := (muster.BlockID{}); ; {
		began := time.Now()
		page, err := d.tree.Deletions(after, drainPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		if !reported {
			if reported, err = d.reported(ctx); err != nil || !reported {
				return err
			}
		}
		left, err := d.delete(ctx, page)
		if err != nil {
			return err
		}
		waiting += left
		after = page[len(page)-1]
		pace := time.Duration(len(page)-left) * time.Second / time.Duration(d.options.DeleteRate)
		if !sleep(ctx, pace-time.Since(began)) {
			return ctx.Err()
		}
	}
	d.upkeep.waiting.Store(int64(waiting))
	return nil
}

// reported says whether the location service has heard of all replicas that it will hear of.
func (d *drain) reported(ctx context.Context) (bool, error) {
	reply, err := d.service.LocationsStatus(ctx, &pb.LocationsStatusRequest{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(reply.GetCounters(), func(g *pb.Gauge) bool { return g.GetName() == "reports_in" && g.GetValue() > 0 }), nil
}

// share is what one datanode has to delete of a page.
type share struct {
	node   muster.Node
	blocks []int // positions in the page
}

// delete deletes the blocks of a page, ascending, where they can be, and takes from the queue those
// that are nowhere any more. It returns how many are left.
func (d *drain) delete(ctx context.Context, page []muster.BlockID) (left int, err error) {
	open := make([]int, len(page)) // for each block the datanodes that have not confirmed
	shares := map[muster.NodeNumber]*share{}
	for from := 0; from < len(page); {
		to := from + 1
		for to < len(page) && page[to].Container == page[from].Container {
			to++
		}
		if err := d.deal(ctx, page, from, to, open, shares); err != nil {
			return 0, err
		}
		from = to
	}
	list := make([]*share, 0, len(shares))
	for _, s := range shares {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *share) int { return cmp.Compare(a.node.Number, b.node.Number) })
	for i, confirmed := range d.send(ctx, page, list) {
		d.note(page, list[i], confirmed, open)
	}
	var gone []muster.BlockID
	for i, id := range page {
		if open[i] == 0 {
			gone = append(gone, id)
			delete(d.confirmed, id)
		}
	}
	if len(gone) > 0 {
		if err := d.tree.Deleted(ctx, gone); err != nil {
			return 0, err
		}
		d.deleted.Add(int64(len(gone)))
	}
	return len(page) - len(gone), nil
}

// deal deals out the blocks of one container, from one position of a page to another, to the
// datanodes that are to be asked now.
func (d *drain) deal(ctx context.Context, page []muster.BlockID, from, to int, open []int, shares map[muster.NodeNumber]*share) error {
	nodes, err := replicas(ctx, d.service, page[from].Container)
	if errors.Is(err, muster.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range nodes {
		pause := d.pauses[n.Number]
		waits := n.State == muster.Dead || pause != nil && !pause.due()
		for i := from; i < to; i++ {
			if slices.Contains(d.confirmed[page[i]], n.Number) {
				continue
			}
			open[i]++
			if waits {
				continue
			}
			if shares[n.Number] == nil {
				shares[n.Number] = &share{node: n}
			}
			shares[n.Number].blocks = append(shares[n.Number].blocks, i)
		}
	}
	return nil
}

// send has the datanodes delete their shares. It returns which of its blocks each has confirmed, and
// notes who fails.
func (d *drain) send(ctx context.Context, page []muster.BlockID, list []*share) [][]bool {
	confirmed, errs := make([][]bool, len(list)), make([]error, len(list))
	var group errgroup.Group
	group.SetLimit(drainAtOnce)
	for i, s := range list {
		group.Go(func() error {
			confirmed[i], errs[i] = d.deleteOn(ctx, page, s)
			return nil
		})
	}
	_ = group.Wait()
	for i, err := range errs {
		n := &list[i].node
		switch pause := d.pauses[n.Number]; {
		case ctx.Err() != nil:
		case err == nil && pause != nil:
			d.log.Info("a datanode deletes blocks again", "node", n.ID)
			delete(d.pauses, n.Number)
		case err != nil:
			if pause == nil {
				pause = new(retry)
				d.pauses[n.Number] = pause
			}
			if pause.failed() {
				d.log.Warn("a datanode does not delete blocks; they wait for it", "node", n.ID, "error", err)
			}
		}
	}
	return confirmed
}

// deleteOn has a datanode delete its share. It returns which of the blocks are not there any more,
// and the first error.
func (d *drain) deleteOn(ctx context.Context, page []muster.BlockID, s *share) ([]bool, error) {
	confirmed := make([]bool, len(s.blocks))
	var failed error
	for first := 0; first < len(s.blocks); first += drainBatch {
		some := s.blocks[first:min(first+drainBatch, len(s.blocks))]
		blocks := make([]blockOfFile, len(some))
		for i, at := range some {
			blocks[i].BlockID = page[at]
		}
		outcomes, err := deleteBlocks(ctx, d.nodes, &s.node, blocks)
		if err != nil {
			return confirmed, err
		}
		for i, err := range outcomes {
			confirmed[first+i] = err == nil
			failed = cmp.Or(failed, err)
		}
	}
	return confirmed, failed
}

// deleteBlocks deletes blocks from a datanode. One that it does not have is deleted.
func deleteBlocks(ctx context.Context, nodes datanodes, n *muster.Node, blocks []blockOfFile) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	outcomes, err := nodes.DeleteBlocks(ctx, n, blocks)
	for i, o := range outcomes {
		if errors.Is(o, muster.ErrNotFound) || errors.Is(o, muster.ErrNoData) {
			outcomes[i] = nil
		}
	}
	return outcomes, err
}

// note notes what a datanode has confirmed.
func (d *drain) note(page []muster.BlockID, s *share, confirmed []bool, open []int) {
	for i, at := range s.blocks {
		if !confirmed[i] {
			continue
		}
		open[at]--
		if id := page[at]; len(d.confirmed) < drainConfirmed || d.confirmed[id] != nil {
			d.confirmed[id] = append(d.confirmed[id], s.node.Number)
		}
	}
}

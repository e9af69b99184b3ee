package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/rpc/pb"
)

// Blocks that no file has any more wait in the tree's queue until every datanode that has, or may
// have, a replica of their container has confirmed that it does not have them. Those that were ordered
// to copy the container are among them: a datanode that has confirmed takes no copy of the block for
// as long as it remembers (store.TombstoneLife), and is asked again before that. Who may have a replica
// is asked once more after the last has confirmed, since until then the block could be copied to
// others: when it says nobody new, nobody has the block, or can get it. The drain walks the
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

	// drainMemory is how long that is remembered: much less than datanodes remember.
	drainMemory = store.TombstoneLife / 7

	firstDrainPause   = time.Second // between walks
	longestDrainPause = 10 * time.Second
)

// drain deletes blocks. It is for one goroutine.
type drain struct {
	*upkeep
	pauses    map[muster.NodeNumber]*retry
	confirmed map[muster.BlockID][]muster.NodeNumber // that the block is not there, while others have not
	since     time.Time                              // the beginning of that
}

func newDrain(k *upkeep) *drain {
	return &drain{k, map[muster.NodeNumber]*retry{}, map[muster.BlockID][]muster.NodeNumber{}, time.Now()}
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

// walk walks the queue once. What fails of one container keeps its blocks waiting, and no others.
func (d *drain) walk(ctx context.Context) error {
	if time.Since(d.since) >= drainMemory {
		clear(d.confirmed)
		d.since = time.Now()
	}
	waiting, reported := 0, false
	var failed error // the first
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
		left, unclear, err := d.delete(ctx, page)
		if err != nil {
			return err
		}
		waiting += left
		failed = cmp.Or(failed, unclear)
		after = page[len(page)-1]
		pace := time.Duration(len(page)-left) * time.Second / time.Duration(d.options.DeleteRate)
		if !sleep(ctx, pace-time.Since(began)) {
			return ctx.Err()
		}
	}
	d.upkeep.waiting.Store(int64(waiting))
	return failed
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

// group is the blocks of a page that are of one container.
type group struct {
	blocks []muster.BlockID
	from   int           // the position of the first
	nodes  []muster.Node // that may have a replica
	asked  bool          // some of them are asked to delete some
}

// groups groups a page, which is in the order of the ids.
func groups(page []muster.BlockID) (all []group) {
	for from := 0; from < len(page); {
		to := from + 1
		for to < len(page) && page[to].Container == page[from].Container {
			to++
		}
		all = append(all, group{blocks: page[from:to], from: from})
		from = to
	}
	return all
}

// delete deletes the blocks of a page, ascending, where they can be, and takes from the queue those
// that are nowhere any more. It returns how many are left, and why it is unclear of some where they
// are; err is why nothing can be done at all.
func (d *drain) delete(ctx context.Context, page []muster.BlockID) (left int, unclear, err error) {
	open := make([]int, len(page)) // for each block the datanodes that have not confirmed
	shares, all := map[muster.NodeNumber]*share{}, groups(page)
	for i := range all {
		err := d.deal(ctx, &all[i], open, shares)
		if isAway(ctx, err) {
			return 0, nil, err
		}
		unclear = cmp.Or(unclear, err)
	}
	list := make([]*share, 0, len(shares))
	for _, s := range shares {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *share) int { return cmp.Compare(a.node.Number, b.node.Number) })
	for i, confirmed := range d.send(ctx, page, list) {
		d.note(page, list[i], confirmed, open)
	}
	for i := range all {
		err := d.lookAgain(ctx, &all[i], open)
		if isAway(ctx, err) {
			return 0, nil, err
		}
		unclear = cmp.Or(unclear, err)
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
			return 0, nil, err
		}
		d.deleted.Add(int64(len(gone)))
	}
	return len(page) - len(gone), unclear, nil
}

// isAway says whether an error is of the location service as a whole, and not of one container.
func isAway(ctx context.Context, err error) bool {
	return errors.Is(err, muster.ErrUnavailable) || ctx.Err() != nil
}

// holders returns the datanodes that may have a replica of the group's container: none if the location
// service does not know it. If they cannot be known, the blocks wait.
func (d *drain) holders(ctx context.Context, g *group, open []int) ([]muster.Node, error) {
	nodes, err := holders(ctx, d.service, g.blocks[0].Container)
	if errors.Is(err, muster.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		g.wait(open)
	}
	return nodes, err
}

// wait has all blocks of a group wait for something.
func (g *group) wait(open []int) {
	for i := range g.blocks {
		open[g.from+i]++
	}
}

// deal deals out the blocks of a container to the datanodes that are to be asked now.
func (d *drain) deal(ctx context.Context, g *group, open []int, shares map[muster.NodeNumber]*share) (err error) {
	if g.nodes, err = d.holders(ctx, g, open); err != nil {
		return err
	}
	for _, n := range g.nodes {
		pause := d.pauses[n.Number]
		waits := n.State == muster.Dead || pause != nil && !pause.due()
		for i, id := range g.blocks {
			if slices.Contains(d.confirmed[id], n.Number) {
				continue
			}
			open[g.from+i]++
			if waits {
				continue
			}
			g.asked = true
			if shares[n.Number] == nil {
				shares[n.Number] = &share{node: n}
			}
			shares[n.Number].blocks = append(shares[n.Number].blocks, g.from+i)
		}
	}
	return nil
}

// lookAgain has the blocks of a container wait for datanodes to which they may have been copied since
// they were dealt out. They are asked the next time.
func (d *drain) lookAgain(ctx context.Context, g *group, open []int) error {
	if !g.asked || !slices.Contains(open[g.from:g.from+len(g.blocks)], 0) {
		return nil
	}
	nodes, err := d.holders(ctx, g, open)
	for _, n := range nodes {
		if !slices.ContainsFunc(g.nodes, func(known muster.Node) bool { return known.Number == n.Number }) {
			g.wait(open)
		}
	}
	return err
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
		outcomes, err := deleteBlocks(ctx, d.nodes, &s.node, blocks, forGood)
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
func deleteBlocks(ctx context.Context, nodes datanodes, n *muster.Node, blocks []blockOfFile, d deletion) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	outcomes, err := nodes.DeleteBlocks(ctx, n, blocks, d)
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

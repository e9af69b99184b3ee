package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc/pb"
)

// A check of blocks holds the block lists of files against what datanodes list. A replica of a block is
// whole if its datanode answers, has it committed with the length of the file's list, and its scrubber
// has found no damage. A longer one is whole too: it was committed before another datanode failed and
// the writer cut the block, and nobody reads what is past that. A block is to have as many whole
// replicas as the file's replication says.
//
// The tree and the datanodes change meanwhile. So a problem is reported only if the datanodes were
// asked after the file was read, and the file still has the block, with that length, after that.
//
// Not judged are the last block of a file that is being written, and files of erasure coding, whose
// blocks nothing writes. A file whose bytes are in no block is metadata only, and fine.

// The kinds of problems. A block has the first that fits, a datanode's is told once, and the last but
// once a check.
const (
	problemMissing     = "missing"          // no datanode that answers has any of the block committed
	problemDamaged     = "damaged"          // a replica is
	problemLength      = "length"           // a replica is shorter
	problemUnder       = "under-replicated" // too few replicas are whole
	problemUnreachable = "unreachable"      // a datanode that does not answer, and whose replicas are missed
	problemUnreported  = "unreported"       // the location service does not know of all replicas yet
)

// blockCheck is one check. It is for one goroutine.
type blockCheck struct {
	tree     *namespace.Tree
	contents *contents
	report   func(namespace.Problem) error

	page     uint64 // of the walk, from 1
	told     map[muster.NodeNumber]bool
	problems uint64
	blocks   uint64
	kinds    map[string]uint64 // problems by kind
}

// fsckBlocks checks the blocks of the files below a path, and counts in the last message.
func (h *handlers) fsckBlocks(ctx context.Context, caller *muster.Identity, path string, out *problems) error {
	if path == "" {
		path = "/"
	}
	w, err := newWalk(h.tree, caller, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c := newBlockCheck(h.tree, h.locations, h.upkeep.nodes, out.add)
	if _, err := h.signFor(ctx, caller, token.Read); err != nil { // the server has only just started
		return err
	}
	if err := c.run(ctx, w); err != nil {
		return err
	}
	last := out.reply
	last.Files, last.Directories, last.ProblemCount = w.files, w.directories, c.problems
	last.Blocks, last.Missing, last.Damaged = c.blocks, c.kinds[problemMissing], c.kinds[problemDamaged]
	last.WrongLength, last.UnderReplicated = c.kinds[problemLength], c.kinds[problemUnder]
	return nil
}

func newBlockCheck(t *namespace.Tree, s service, d datanodes, report func(namespace.Problem) error) *blockCheck {
	return &blockCheck{tree: t, contents: newContents(s, d), report: report, told: map[muster.NodeNumber]bool{}, kinds: map[string]uint64{}}
}

func (c *blockCheck) run(ctx context.Context, w *walk) error {
	if err := c.unreported(ctx); err != nil {
		return err
	}
	for {
		c.page++
		page, err := w.next(ctx)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if err := c.file(ctx, &page[i]); err != nil {
				return err
			}
		}
	}
}

// unreported says so if the location service was started so lately that copies may be where it does
// not know yet.
func (c *blockCheck) unreported(ctx context.Context) error {
	reply, err := c.contents.service.LocationsStatus(ctx, &pb.LocationsStatusRequest{})
	if err != nil || slices.ContainsFunc(reply.GetCounters(), func(g *pb.Gauge) bool { return g.GetName() == "reports_in" && g.GetValue() > 0 }) {
		return err
	}
	return c.problem(problemUnreported, 0, "", "not all datanodes have said yet what they have since the location service started: copies may be missed that are there")
}

// problem reports one. Only it counts them.
func (c *blockCheck) problem(kind string, id uint64, path, format string, args ...any) error {
	c.problems++
	c.kinds[kind]++
	return c.report(namespace.Problem{Kind: kind, ID: id, Path: path, Message: fmt.Sprintf(format, args...)})
}

// finding is a block that is not as it should be.
type finding struct {
	at     int // position in the file
	offset int64
	block  muster.Block
	kind   string
	says   string
	silent []*contentOn // datanodes that may have it
}

// file judges the blocks of a file.
func (c *blockCheck) file(ctx context.Context, f *judged) error {
	if _, _, coded := f.replication.Coding(); coded {
		return nil
	}
	blocks, offset := f.blocks, int64(0)
	if f.writing {
		blocks = blocks[:len(blocks)-1]
	}
	var found []finding
	for i, b := range blocks {
		x, err := c.block(ctx, f, b)
		if err != nil {
			return err
		}
		if x.kind != "" {
			x.at, x.offset, x.block = i, offset, b
			found = append(found, x)
		}
		offset += b.Length
	}
	c.blocks += uint64(len(blocks))
	if len(found) == 0 {
		return nil
	}
	return c.tell(f, found)
}

// block judges a block. A content that is older than the file's page may miss what is there, so it
// is believed only if all is well.
func (c *blockCheck) block(ctx context.Context, f *judged, b muster.Block) (finding, error) {
	var x finding
	for _, atLeast := range []uint64{0, c.page} {
		l, err := c.contents.of(ctx, b.Container, c.page, atLeast)
		if err != nil {
			return x, err
		}
		if x = judgeReplicas(l, b, max(1, f.replication.Nodes())); x.kind == "" {
			break
		}
	}
	return x, nil
}

// judgeReplicas says what is wrong with a block that is to have so many replicas; no kind: nothing.
func judgeReplicas(l *content, b muster.Block, want int) (x finding) {
	if l.unknown {
		return finding{kind: problemMissing, says: fmt.Sprintf("no datanode has container %d", b.Container)}
	}
	var says []string
	whole, damaged, wrong := 0, 0, 0
	for i := range l.on {
		on := &l.on[i]
		if on.silent != nil {
			x.silent = append(x.silent, on)
			continue
		}
		switch at, ok := on.find(b.LocalID); {
		case !ok:
		case !at.committed:
			says = append(says, fmt.Sprintf("not committed on %s", on.node.ID))
		case at.damaged:
			damaged++
			says = append(says, fmt.Sprintf("damaged on %s", on.node.ID))
		case at.length < b.Length:
			wrong++
			says = append(says, fmt.Sprintf("%d bytes on %s", at.length, on.node.ID))
		default:
			whole++
		}
	}
	switch {
	case whole+damaged+wrong == 0:
		x.kind = problemMissing
	case damaged > 0:
		x.kind = problemDamaged
	case wrong > 0:
		x.kind = problemLength
	case whole < want:
		x.kind = problemUnder
	}
	if whole >= want {
		x.silent = nil // nobody misses them
	}
	x.says = strings.Join(append([]string{fmt.Sprintf("%d of %d replicas", whole, want)}, says...), "; ")
	return x
}

// tell reports what was found of a file, as far as the file is still so.
func (c *blockCheck) tell(f *judged, found []finding) error {
	var path string
	var lengths map[muster.BlockID]int64
	err := reading(c.tree, &muster.Identity{User: serverUser}, func(r *namespace.Reader) (err error) {
		if lengths, err = lengthsOf(r, f.id); err != nil || lengths == nil {
			return err
		}
		res, err := r.ResolveID(f.id)
		path = res.Path()
		return err
	})
	if err != nil {
		return err
	}
	for _, x := range found {
		if length, ok := lengths[idOf(x.block)]; !ok || length != x.block.Length {
			continue
		}
		if err := c.tellSilent(x.silent); err != nil {
			return err
		}
		err := c.problem(x.kind, f.id, path, "block %v, %d bytes at %d: %s", idOf(x.block), x.block.Length, x.offset, x.says)
		if err != nil {
			return err
		}
	}
	return nil
}

// tellSilent reports the datanodes whose replicas are missed, each once.
func (c *blockCheck) tellSilent(nodes []*contentOn) error {
	nodes = slices.DeleteFunc(nodes, func(on *contentOn) bool { return c.told[on.node.Number] })
	for _, on := range nodes {
		c.told[on.node.Number] = true
		if err := c.problem(problemUnreachable, 0, "", "%v; replicas there count as none", on.silent); err != nil {
			return err
		}
	}
	return nil
}

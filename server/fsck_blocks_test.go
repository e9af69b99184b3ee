package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

func (d *disks) ListBlocks(ctx context.Context, n *muster.Node, container uint64) (list []listed, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	blocks, err := d.at(ctx, n)
	if err != nil {
		return nil, err
	}
	for id, s := range blocks {
		if id.Container == container {
			list = append(list, listed{localID: id.LocalID, length: s.length, committed: s.committed})
		}
	}
	slices.SortFunc(list, func(a, b listed) int { return int(a.localID) - int(b.localID) })
	if list == nil {
		err = muster.ErrNotFound
	}
	return list, err
}

func (d *disks) Scrub(context.Context, *muster.Node) (bool, error) {
	return false, muster.ErrUnavailable
}

func (d *disks) ScrubState(context.Context, *muster.Node) (*pb.ScrubState, error) {
	return nil, muster.ErrUnavailable
}

// TestWhatIsWrongWithABlock goes through what its datanodes may have of a block of 10 bytes that is to
// have two replicas.
func TestWhatIsWrongWithABlock(t *testing.T) {
	whole := []listed{{3, 1, true, false}, {7, 10, true, false}, {9, 1, true, true}}
	none := []listed{{6, 10, true, false}, {8, 10, true, false}}
	damaged, open := []listed{{7, 10, true, true}}, []listed{{7, 10, false, false}}
	short, long := []listed{{7, 9, true, false}}, []listed{{7, 11, true, false}}
	silent := []listed{{99, 0, false, false}} // stands for one that does not answer
	for _, test := range []struct {
		on     [][]listed
		kind   string
		says   string
		missed int // silent ones
	}{
		{[][]listed{whole, whole}, "", "", 0},
		{[][]listed{whole, whole, whole, none}, "", "", 0},
		{[][]listed{whole, silent, whole}, "", "", 0},
		{[][]listed{whole, whole, open}, "", "", 0},
		{[][]listed{whole}, problemUnder, "1 of 2 replicas", 0},
		{[][]listed{whole, none}, problemUnder, "1 of 2 replicas", 0},
		{[][]listed{whole, silent}, problemUnder, "1 of 2 replicas", 1},
		{[][]listed{whole, open}, problemUnder, "1 of 2 replicas; not committed on dn-1", 0},
		{[][]listed{whole, whole, damaged}, problemDamaged, "2 of 2 replicas; damaged on dn-2", 0},
		{[][]listed{whole, whole, damaged, silent}, problemDamaged, "2 of 2 replicas; damaged on dn-2", 0},
		{[][]listed{damaged, short, silent}, problemDamaged, "0 of 2 replicas; damaged on dn-0; 9 bytes on dn-1", 1},
		{[][]listed{whole, long}, "", "", 0},
		{[][]listed{whole, whole, short}, problemLength, "2 of 2 replicas; 9 bytes on dn-2", 0},
		{[][]listed{none, nil}, problemMissing, "0 of 2 replicas", 0},
		{[][]listed{silent, silent}, problemMissing, "0 of 2 replicas", 2},
		{[][]listed{open, none}, problemMissing, "0 of 2 replicas; not committed on dn-0", 0},
		{nil, problemMissing, "0 of 2 replicas", 0},
	} {
		c := &content{id: 5}
		for i, blocks := range test.on {
			on := contentOn{node: muster.Node{ID: fmt.Sprint("dn-", i)}, blocks: blocks}
			if len(blocks) == 1 && blocks[0].localID == 99 {
				on.blocks, on.silent = nil, muster.ErrUnavailable
			}
			c.on = append(c.on, on)
		}
		x := judgeReplicas(c, muster.Block{Container: 5, LocalID: 7, Length: 10}, 2)
		if x.kind != test.kind || test.kind != "" && x.says != test.says || len(x.silent) != test.missed {
			t.Errorf("%v: %+v, want %s: %s, %d silent", test.on, x, test.kind, test.says, test.missed)
		}
	}
	if x := judgeReplicas(&content{unknown: true}, muster.Block{Container: 5, LocalID: 7}, 1); x.kind != problemMissing || !strings.Contains(x.says, "container 5") {
		t.Errorf("%+v", x)
	}
}

// stored makes a file of so many blocks that all its datanodes have.
func (k *kept) stored(path string, blocks int) begun {
	k.Helper()
	f := k.begin(path, penOne)
	for i := range blocks {
		if i > 0 {
			k.more(&f, penOne, 10)
		}
		for _, n := range f.nodes {
			k.write(n, f.file, f.block, stored{10, true})
		}
	}
	k.apply(muster.FinishFile{File: f.file, Holder: penOne, Last: 10})
	return f
}

// lose has a datanode lose a block.
func (k *kept) lose(n muster.NodeNumber, b muster.BlockID) {
	k.change(func() { delete(k.blocks[n], b) })
}

// checked runs a check of blocks, between whose pages something happens, and returns what it found, a
// line for each problem, and how many blocks were judged.
func (k *kept) checked(path string, bound int, between func(page uint64)) (found []string, blocks uint64) {
	k.Helper()
	c := newBlockCheck(k.tree, k.service, k.disks, func(p namespace.Problem) error {
		found = append(found, strings.TrimSpace(p.Kind+" "+p.Path))
		return nil
	})
	c.contents.bound = bound
	w, err := newWalk(k.tree, &alice, path)
	if err != nil {
		k.Fatal(err)
	}
	for {
		c.page++
		page, err := w.next(k.Context())
		if err != nil {
			k.Fatal(err)
		}
		if len(page) == 0 {
			return found, c.blocks
		}
		between(c.page)
		for i := range page {
			if err := c.file(k.Context(), &page[i]); err != nil {
				k.Fatal(err)
			}
			if kept := c.contents; kept.blocks > bound && len(kept.kept) > 1 || len(kept.kept) != kept.order.Len() {
				k.Fatalf("%d blocks of %d containers are kept, of at most %d", kept.blocks, len(kept.kept), bound)
			}
		}
	}
}

// TestACheckBesideChanges: what is written, moved and deleted while a check goes on is no problem, what
// is lost is.
func TestACheckBesideChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		k.stored("/a/first", 2)
		gone, moved, lost := k.stored("/a/gone", 2), k.stored("/a/moved", 1), k.stored("/a/lost", 2)
		for i := range walkRows { // a page ends in here
			k.apply(muster.Mkdir{Path: fmt.Sprintf("/b/%05d", i), Mode: 0o755, Parents: true})
		}
		k.apply(muster.Create{Path: "/c/meta", Length: 1000, Mode: 0o644, Parents: true})
		k.stored("/c/last", 1)
		found, blocks := k.checked("/", keptListed, func(page uint64) {
			if page > 1 {
				return
			}
			k.apply(muster.Delete{Path: "/a/gone"}, muster.Rename{From: "/a/moved", To: "/d"})
			k.lose(gone.nodes[0], gone.block)
			k.lose(moved.nodes[1], moved.block)
			for _, n := range lost.nodes {
				k.lose(n, lost.block)
			}
		})
		slices.Sort(found)
		// The moved one is met twice, since it went to where the walk was not yet.
		if want := []string{"missing /a/lost", "under-replicated /d", "under-replicated /d"}; !slices.Equal(found, want) || blocks != 9 {
			t.Errorf("of %d blocks it found %q, want %q", blocks, found, want)
		}
	})
}

// TestContentsAreAskedAgainForYoungerFiles: a file that is written while a check goes on has its blocks
// in containers whose content is known from before.
func TestContentsAreAskedAgainForYoungerFiles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		c := newBlockCheck(k.tree, k.service, k.disks, func(p namespace.Problem) error { return fmt.Errorf("%v", p) })
		for _, dir := range []string{"/a", "/b"} {
			for i := range 60 { // blocks come from few containers in turn
				k.stored(fmt.Sprintf("%s/%02d", dir, i), 1)
			}
			w, err := newWalk(k.tree, &alice, dir)
			if err == nil {
				err = c.run(t.Context(), w)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestChecksModel loses random replicas, and has random datanodes down: each check finds just what is not
// as it should be, however little it keeps.
func TestChecksModel(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%#x", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { checksModel(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func checksModel(t *testing.T, rng *rand.Rand) {
	k := newKept(t, Leases{})
	type block struct {
		path  string
		id    muster.BlockID
		nodes []muster.NodeNumber
	}
	var all []block
	for i := range 40 {
		path := fmt.Sprintf("/%d/%d/%d", rng.IntN(3), rng.IntN(3), i)
		f := k.begin(path, penOne)
		for j, n := 0, 1+rng.IntN(4); j < n; j++ {
			if j > 0 {
				k.more(&f, penOne, 10)
			}
			for _, n := range f.nodes {
				k.write(n, f.file, f.block, stored{10, true})
			}
			all = append(all, block{path, f.block, f.nodes})
		}
		k.apply(muster.FinishFile{File: f.file, Holder: penOne, Last: 10})
	}
	var want []string
	down := map[muster.NodeNumber]bool{k.nodes[rng.IntN(keptNodes)]: true, k.nodes[rng.IntN(keptNodes)]: rng.IntN(2) == 0}
	missed := map[muster.NodeNumber]bool{}
	for _, b := range all {
		whole, silent := 0, 0
		for _, n := range b.nodes {
			switch {
			case down[n]:
				silent++
				missed[n] = true
			case rng.IntN(8) == 0:
				k.lose(n, b.id)
			default:
				whole++
			}
		}
		if whole == 0 {
			want = append(want, problemMissing+" "+b.path)
		} else if whole < 3 {
			want = append(want, problemUnder+" "+b.path)
		}
	}
	for range missed {
		want = append(want, problemUnreachable)
	}
	k.change(func() { k.down = down })
	found, blocks := k.checked("/", 1+rng.IntN(100), func(uint64) {})
	slices.Sort(want)
	slices.Sort(found)
	if !slices.Equal(found, want) || blocks != uint64(len(all)) {
		t.Errorf("of %d blocks (%d judged) it found\n%q, want\n%q", len(all), blocks, found, want)
	}
}

// refusing datanodes count how often they are asked, and give no other answer than an error.
type refusing struct {
	*disks
	err   error
	calls int
}

func (r *refusing) ListBlocks(context.Context, *muster.Node, uint64) ([]listed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	return nil, r.err
}

// TestSilentDatanodesAreNotAskedAgain for some time; those that answer with an error are.
func TestSilentDatanodesAreNotAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f := k.stored("/a", 1)
		for _, test := range []struct {
			err  error
			want []int // calls after each question
		}{
			{fmt.Errorf("no connection: %w", muster.ErrUnavailable), []int{3, 3, 6}},
			{&rpc.Error{Code: muster.ErrUnavailable, Text: "the disk has failed"}, []int{3, 6, 9}},
		} {
			nodes := &refusing{disks: k.disks, err: test.err}
			c := newContents(k.service, nodes)
			for i, pause := range []time.Duration{0, time.Minute, silence} {
				time.Sleep(pause) // of the bubble
				l, err := c.of(t.Context(), f.block.Container, uint64(i+1), uint64(i+1))
				if err != nil || nodes.calls != test.want[i] || len(l.on) != 3 || l.on[0].silent == nil {
					t.Errorf("%v: %d calls, want %d; %+v, %v", test.err, nodes.calls, test.want[i], l, err)
				}
			}
		}
	})
}

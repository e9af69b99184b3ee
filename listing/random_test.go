package listing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

// pieces make names that share prefixes, mean something elsewhere, or sort oddly.
var pieces = []string{
	"a", "aa", "b", "é", "\u0080", "\U0001F600", "=", "%", "%2F", ":", " ", "\n", "\t", "_", ".", "_metadata",
	"part-0", "part-00", "._COPYING_", "ds=2024-01-01", "+", "#", "?", "\\", "*", "\x01", "\x7f", "日",
}

// randomTree is a tree and its directories, as the test that made it knows them.
type randomTree struct {
	*world
	random   *rand.Rand
	children map[string][]string // names of each directory's children, in byte order
	files    []string
	links    []string
}

// newRandomTree makes a tree; its seed is logged, and so a failure can be repeated.
func newRandomTree(t testing.TB, seed uint64, entries int) *randomTree {
	t.Helper()
	t.Logf("seed %d", seed)
	r := &randomTree{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 0)), children: map[string][]string{"/": nil}}
	dirs := []string{"/"}
	var commands []muster.Command
	for range entries {
		dir, name := dirs[r.random.IntN(len(dirs))], r.name()
		path := muster.JoinPath(dir, name)
		if slices.Contains(r.children[dir], name) {
			continue
		}
		r.children[dir] = append(r.children[dir], name)
		switch r.random.IntN(8) {
		case 0, 1, 2:
			dirs = append(dirs, path)
			r.children[path] = nil
			commands = append(commands, muster.Mkdir{Path: path, Mode: 0o755, Owner: "alice", Group: "users"})
		case 3:
			r.links = append(r.links, path)
			commands = append(commands, muster.Symlink{Path: path, Target: dirs[r.random.IntN(len(dirs))]})
		default:
			r.files = append(r.files, path)
			commands = append(commands, r.file(path))
		}
	}
	r.do(commands...)
	for _, names := range r.children {
		slices.Sort(names)
	}
	return r
}

func (r *randomTree) name() string {
	var b strings.Builder
	for range 1 + r.random.IntN(3) {
		b.WriteString(pieces[r.random.IntN(len(pieces))])
	}
	if name := b.String(); muster.CheckName(name) == nil {
		return name
	}
	return "x"
}

func (r *randomTree) file(path string) muster.Create {
	c := muster.Create{Path: path, Mode: uint16(r.random.IntN(0o1000)), Replication: muster.Replicated(3), BlockSize: 1 << 20}
	for range r.random.IntN(40) { // some over the 16 blocks that a row holds
		c.Blocks = append(c.Blocks, muster.Block{Container: r.random.Uint64(), LocalID: r.random.Uint64(), Length: 1 << 20})
		c.Length += 1 << 20
	}
	return c
}

// paths are all directories and some of everything else, in random order, with repeats.
func (r *randomTree) paths() []string {
	var paths []string
	for dir := range r.children {
		paths = append(paths, dir)
	}
	slices.Sort(paths) // the order of a map is not in the seed
	paths = append(paths, r.files[:min(3, len(r.files))]...)
	paths = append(paths, r.links[:min(3, len(r.links))]...)
	paths = append(paths, "/missing", "/", "relative", r.files[0]+"/below", "/../x", paths[len(paths)-1])
	r.random.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	return paths
}

// options go over presets, column sets and own entries as i counts up.
func randomOptions(i int) listing.Options {
	sets := []rows.Columns{0, rows.AllColumns, rows.ColName, rows.ColMTime | rows.ColKind, rows.ColBlocks, rows.ColInodeID | rows.ColLinkTarget}
	return listing.Options{Columns: sets[i%len(sets)], Hidden: muster.Hidden(i % 3), Own: i%5 == 4}
}

func seeds(t testing.TB) []uint64 {
	if testing.Short() {
		return []uint64{rand.Uint64()}
	}
	return []uint64{1, 2, 3, rand.Uint64(), rand.Uint64()}
}

func TestEveryLimitGivesTheRowsOfTheOracle(t *testing.T) {
	for i, seed := range seeds(t) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			tree := newRandomTree(t, seed, 45)
			paths := tree.paths()
			l := tree.lister(listing.Config{})
			for k := range 3 {
				o := randomOptions(3*i + k)
				want := tree.oracle(root, paths, o)
				for limit := 1; limit <= len(want.rows)+1; limit++ {
					o.Limit = limit
					what := fmt.Sprintf("limit %d, %+v", limit, o)
					sameListing(t, "pages, "+what, pages(t, l, root, paths, o).mask(), want)
					sameListing(t, "stream, "+what, stream(t, l, root, paths, o, 1+limit%7).mask(), want)
				}
				o.Limit, o.Consistency = 2, muster.ConsistencySnapshot
				sameListing(t, "snapshot stream", stream(t, l, root, paths, o, 5).mask(), want)
			}
		})
	}
}

func TestEveryByteBudgetGivesTheRowsOfTheOracle(t *testing.T) {
	for i, seed := range seeds(t) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			tree := newRandomTree(t, seed, 30)
			paths := tree.paths()
			o := randomOptions(i + 1)
			want := tree.oracle(root, paths, o)
			for budget := 1; budget < 8192; budget += 1 + budget/24 {
				l := tree.lister(listing.Config{PageBytes: budget})
				what := fmt.Sprintf("%d bytes a page", budget)
				sameListing(t, "pages, "+what, pages(t, l, root, paths, o).mask(), want)
				sameListing(t, "stream, "+what, stream(t, l, root, paths, o, 4).mask(), want)
			}
		})
	}
}

// From a byte up to where all is on one page, none left out: so a page ends at every place
// where one can end.
func TestEveryByteBudgetOfASmallTreeUpToOnePage(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 29
	}
	tree := newRandomTree(t, rand.Uint64(), 10)
	paths, o := tree.paths(), listing.Options{Hidden: muster.HiddenHive}
	want := tree.oracle(root, paths, o)
	for budget, fits := 1, false; !fits; budget += step {
		l := tree.lister(listing.Config{PageBytes: budget})
		what := fmt.Sprintf("%d bytes a page", budget)
		got := pages(t, l, root, paths, o)
		fits = got.messages == 1
		sameListing(t, "pages, "+what, got.mask(), want)
		sameListing(t, "stream, "+what, stream(t, l, root, paths, o, 4).mask(), want)
	}
}

// The oracle shares the tree's reader with what it checks. Here the names are those that
// the test itself made.
func TestListingGivesTheNamesThatWereMade(t *testing.T) {
	for i, seed := range seeds(t) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			tree := newRandomTree(t, seed, 200)
			var dirs []string
			for dir := range tree.children {
				dirs = append(dirs, dir)
			}
			got := both(t, tree.lister(listing.Config{}), root, dirs, listing.Options{Limit: 7})
			byIndex := map[uint32][]string{}
			for _, r := range got.rows {
				byIndex[r.Index] = append(byIndex[r.Index], r.Name)
			}
			for i, dir := range dirs {
				if !slices.Equal(byIndex[uint32(i)], tree.children[dir]) {
					t.Errorf("%q has %q; want %q", dir, byIndex[uint32(i)], tree.children[dir])
				}
			}
		})
	}
}

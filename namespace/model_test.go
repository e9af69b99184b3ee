package namespace_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

const superuser = "root"

// people are the callers of the random tests: the superuser, three users who share
// groups or do not, a member of the supergroup, and a user of no group.
var people = []muster.Identity{
	{User: superuser},
	{User: "ann", Groups: []string{"staff", "data"}},
	{User: "bob", Groups: []string{"data"}},
	{User: "cid", Groups: []string{"staff", "other"}},
	{User: "sue", Groups: []string{"other", muster.Supergroup}},
	{User: "zed"},
}

var boss = people[0]

// seedVariable names the environment variable that sets where the seeds of the random tests
// begin. A test that fails says which seed it was.
const seedVariable = "TEST_SEED"

// overSeeds runs a test for n seeds, which begin at a random number unless told otherwise; a
// sixth of that with -short, which suits the race detector.
func overSeeds(t *testing.T, n int, test func(t *testing.T, rng *rand.Rand)) {
	if testing.Short() {
		n /= 6
	}
	first := rand.Uint64N(1 << 32)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	for i := range n {
		seed := first + uint64(i)
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			test(t, rand.New(rand.NewPCG(seed, 0)))
		})
		if !ok {
			t.Fatalf("begin with this one by %s=%d", seedVariable, seed)
		}
	}
}

// TestRandomCommandsAgreeWithTheOracle applies random batches by random callers, with
// restarts and repeated request ids in between, to the tree and to the oracle, and compares
// every answer, and the whole tree after every step.
func TestRandomCommandsAgreeWithTheOracle(t *testing.T) {
	overSeeds(t, 60, func(t *testing.T, rng *rand.Rand) {
		o := namespace.Options{FS: vfs.NewStrictMem(), ReclaimStep: 2, ImageBytes: []int64{1, 8 << 10, 16 << 20}[rng.IntN(3)]}
		m := newModel(t, o.SmallImages(1+rng.IntN(9)))
		defer func() { m.tree.Close() }()
		g := generator{pick: rng.IntN}
		for range 120 {
			m.step(g)
			m.compare()
		}
		m.drain()
		m.fsck()
	})
}

// TestLinkChainsAgreeWithTheOracle follows chains of links up to and past the bound, alone
// and one chain after another on one walk.
func TestLinkChainsAgreeWithTheOracle(t *testing.T) {
	m := newModel(t, namespace.Options{FS: vfs.NewStrictMem()})
	defer func() { m.tree.Close() }()
	last, paths := "", []string{}
	for i := range muster.MaxLinkHops + 3 {
		name := fmt.Sprintf("l%02d", i)
		m.apply(namespace.Request{Caller: boss, Commands: []muster.Command{muster.Symlink{Path: "/" + name, Target: cmp.Or(last, ".")}}})
		last, paths = name, append(paths, "/"+name, "/"+name+"/l00/l05/"+name)
	}
	m.read(people[1], paths...)
	for i, path := range paths {
		m.apply(namespace.Request{Caller: boss, Commands: []muster.Command{muster.Create{Path: fmt.Sprintf("%s/f%d", path, i)}}})
	}
	m.compare()
}

// step does one random thing.
func (m *model) step(g generator) {
	m.t.Helper()
	switch g.pick(30) {
	case 0:
		m.restart()
		m.fsck()
	case 1, 2:
		if len(m.history) > 0 {
			m.repeat(g.pick(len(m.history)))
		}
	case 3:
		m.confirm(g)
	case 4, 5, 6:
		var paths []string
		for range 12 {
			paths = append(paths, g.path(m.oracle))
		}
		m.read(g.person(), paths...)
	default:
		m.apply(g.request(m.oracle))
		m.clock.Add(int64(g.pick(2000)))
	}
}

// model is a tree beside its oracle.
type model struct {
	t       *testing.T
	options namespace.Options
	tree    *namespace.Tree
	oracle  *oracle
	clock   atomic.Int64 // ms; the tree's goroutines read it too
	txid    uint64
	history []applied

	confirmed map[muster.BlockID]bool // as deleted
}

// applied is a request that was accepted, with its result.
type applied struct {
	request namespace.Request
	result  muster.Applied
}

// newModel opens a new tree; the options may be zero but for the file system.
func newModel(t *testing.T, o namespace.Options) *model {
	m := &model{t: t, options: o, confirmed: map[muster.BlockID]bool{}}
	m.clock.Store(1_000_000)
	m.options.Superuser = superuser
	m.options.CacheBytes = 1 << 20
	m.options.MemTableBytes = cmp.Or(o.MemTableBytes, 1<<20)
	m.options.Now = func() time.Time { return time.UnixMilli(m.clock.Load()) }
	m.oracle = newOracle(superuser, m.clock.Load())
	m.open()
	// The root is a superuser's: open it to everyone, or little would ever be allowed.
	m.apply(namespace.Request{Caller: boss, Commands: []muster.Command{muster.SetAttr{Path: "/", Mode: new(uint16(0o777))}}})
	return m
}

func (m *model) open() {
	m.t.Helper()
	tree, err := namespace.Open("store", m.options)
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	m.tree = tree
}

func (m *model) restart() {
	m.t.Helper()
	if err := m.tree.Close(); err != nil {
		m.t.Fatalf("close: %v", err)
	}
	m.open()
}

// apply applies a request to both and compares the answers.
func (m *model) apply(r namespace.Request) {
	m.t.Helper()
	got, err := m.tree.Apply(m.t.Context(), r)
	m.must(r, got, err)
}

func (m *model) must(r namespace.Request, got muster.Applied, err error) {
	m.t.Helper()
	if err := m.accept(r, got, err); err != nil {
		m.t.Fatalf("%v\n%s", err, m.oracle)
	}
}

// accept brings the oracle up to date with an answer of the tree, which it checks.
func (m *model) accept(r namespace.Request, got muster.Applied, err error) error {
	ids, index, code := m.oracle.apply(r.Caller, m.clock.Load(), got.Txid, r.Commands...)
	if muster.CodeOf(err) != code {
		return fmt.Errorf("%s: %v (%s), want %s of command %d", describe(r), err, muster.CodeOf(err).Name(), code.Name(), index)
	}
	if code != muster.OK {
		var refused *muster.CommandError
		if !errors.As(err, &refused) || refused.Index != index {
			return fmt.Errorf("%s: refused as %#v, want command %d", describe(r), err, index)
		}
		return nil
	}
	if got.Repeat {
		return fmt.Errorf("%s: is said to be a repeat", describe(r))
	}
	if !slices.Equal(got.IDs, ids) {
		return fmt.Errorf("%s: ids %v, want %v", describe(r), got.IDs, ids)
	}
	if got.Txid != m.txid+1 {
		return fmt.Errorf("%s: txid %d after %d", describe(r), got.Txid, m.txid)
	}
	m.txid = got.Txid
	if r.ID != (muster.RequestID{}) {
		m.history = append(m.history, applied{r, got})
	}
	return nil
}

// repeat sends the i-th accepted request again, which must change nothing.
func (m *model) repeat(i int) {
	m.t.Helper()
	h := m.history[i]
	h.result.Repeat = true
	got, err := m.tree.Apply(m.t.Context(), h.request)
	if err != nil || !reflect.DeepEqual(got, h.result) {
		m.t.Fatalf("repeated %s: %+v, %v, want %+v", describe(h.request), got, err, h.result)
	}
}

// read compares what a caller may see of paths, through one reader: the resolution of each,
// its own row, and its children.
func (m *model) read(who muster.Identity, paths ...string) {
	m.t.Helper()
	view, err := m.tree.View()
	if err != nil {
		m.t.Fatalf("view: %v", err)
	}
	defer view.Release()
	r := view.NewReader(&who)
	defer r.Close()
	for _, path := range paths {
		for _, follow := range []bool{false, true} {
			m.readOne(r, &who, path, follow)
		}
	}
}

func (m *model) readOne(r *namespace.Reader, who *muster.Identity, path string, follow bool) {
	m.t.Helper()
	n, code := m.oracle.resolve(who, path, follow)
	res, err := r.Resolve(path, follow)
	if muster.CodeOf(err) != code {
		m.t.Fatalf("resolve %q (follow %v) as %v: %v, want %s", path, follow, who, err, code.Name())
	}
	if code != muster.OK {
		return
	}
	var row muster.Row
	if err := r.Row(&res, &row, true); err != nil {
		m.t.Fatalf("row of %q: %v", path, err)
	}
	want := n.Entry
	want.Name = ""
	if err := same(row.Entry(), want); err != nil {
		m.t.Fatalf("row of %q: %v", path, err)
	}
	names, code := m.oracle.list(who, n)
	if err := r.Scan(&res, "", false); muster.CodeOf(err) != code {
		m.t.Fatalf("scan of %q as %v: %v, want %s", path, who, err, code.Name())
	}
	if code == muster.OK {
		m.scanAfter(r, &res, path, names)
	}
}

// scanAfter compares a scan from each name on, and from names that are not there.
func (m *model) scanAfter(r *namespace.Reader, res *namespace.Resolved, path string, names []string) {
	m.t.Helper()
	for _, after := range append([]string{"", "\x01", "m", "\U0010ffff"}, names...) {
		if err := r.Scan(res, after, false); err != nil {
			m.t.Fatalf("scan of %q after %q: %v", path, after, err)
		}
		var got []string
		for row := (muster.Row{}); r.Next(&row); {
			got = append(got, string(row.Name))
		}
		i, found := slices.BinarySearch(names, after)
		if found {
			i++
		}
		if err := r.Err(); err != nil || !slices.Equal(got, names[i:]) {
			m.t.Fatalf("scan of %q after %q: %q, %v, want %q", path, after, got, err, names[i:])
		}
	}
}

// compare compares the whole tree.
func (m *model) compare() {
	m.t.Helper()
	if err := m.difference(m.oracle); err != nil {
		m.t.Fatalf("%v", err)
	}
}

// difference says where the tree differs from an oracle.
func (m *model) difference(o *oracle) error {
	view, err := m.tree.View()
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer view.Release()
	return differs(view, o)
}

// differs says where a view differs from an oracle.
func differs(view *namespace.View, o *oracle) error {
	got, err := dump(view)
	if err != nil {
		return err
	}
	want := o.dump()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[path]
		if !ok {
			return fmt.Errorf("%q is missing", path)
		}
		if err := same(g.Entry, want[path].Entry); err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
		if w := want[path]; w.Kind == muster.Directory && g.changedAt != w.changedAt {
			return fmt.Errorf("%q: changed at %d, want %d", path, g.changedAt, w.changedAt)
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			return fmt.Errorf("%q should not be there", path)
		}
	}
	return nil
}

// drain waits until the background has reclaimed what was deleted.
func (m *model) drain() {
	m.t.Helper()
	await(m.t, "the reclaim", func() bool { return m.tree.Stats().Reclaiming+m.tree.Stats().Queueing == 0 })
	m.compareAside(true)
	if got := m.tree.Stats().Inodes; int(got) != len(m.oracle.nodes) {
		m.t.Fatalf("%d inodes are left after the reclaim, want %d", got, len(m.oracle.nodes))
	}
}

// compareAside compares what is not seen in the tree.
func (m *model) compareAside(reclaimed bool) {
	m.t.Helper()
	if err := errors.Join(m.compareWriting(reclaimed), m.compareDeletions(reclaimed), m.readByID()); err != nil {
		m.t.Fatalf("%v\n%s", err, m.oracle)
	}
}

// await waits for the tree's background, so long that only a hang takes longer.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s does not come to an end", what)
		}
	}
}

// fsck runs the checker, which must find nothing, and as many inodes as the oracle has.
func (m *model) fsck() {
	m.t.Helper()
	summary, err := m.tree.Fsck(m.t.Context(), func(p namespace.Problem) error {
		return fmt.Errorf("%+v", p)
	})
	if err != nil {
		m.t.Fatalf("fsck: %v", err)
	}
	if int(summary.Inodes) != len(m.oracle.nodes) {
		m.t.Fatalf("fsck: %+v, want %d inodes", summary, len(m.oracle.nodes))
	}
	m.compareAside(false)
}

// status is an entry and, of a directory, when its children changed.
type status struct {
	muster.Entry
	changedAt uint64
}

// dump reads everything that a view shows, by path.
func dump(view *namespace.View) (map[string]status, error) {
	r := view.NewReader(&boss)
	defer r.Close()
	all := map[string]status{}
	for dirs := []string{"/"}; len(dirs) > 0; dirs = dirs[1:] {
		children, err := dumpDirectory(r, dirs[0], all)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", dirs[0], err)
		}
		dirs = append(dirs, children...)
	}
	return all, nil
}

// dumpDirectory reads one directory's children, and its own row if it is the root, into
// all, and returns the paths of the directories among them.
func dumpDirectory(r *namespace.Reader, dir string, all map[string]status) (dirs []string, err error) {
	res, err := r.Resolve(dir, false)
	if err != nil {
		return nil, err
	}
	var row muster.Row
	if dir == "/" {
		if err := r.Row(&res, &row, true); err != nil {
			return nil, err
		}
		all["/"] = status{Entry: row.Entry()}
		dirs = append(dirs, "/")
	}
	if err := r.Scan(&res, "", true); err != nil {
		return nil, err
	}
	for r.Next(&row) {
		path := muster.JoinPath(dir, string(row.Name))
		if _, twice := all[path]; twice {
			return nil, fmt.Errorf("%q comes twice", path)
		}
		all[path] = status{Entry: row.Entry()}
		if row.Kind == muster.Directory {
			dirs = append(dirs, path)
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	ids, heads := make([]uint64, len(dirs)), make([]namespace.Head, len(dirs))
	for i, path := range dirs {
		ids[i] = all[path].ID
	}
	if err := r.Heads(ids, heads); err != nil {
		return nil, err
	}
	for i, path := range dirs {
		s := all[path]
		s.MTime, s.changedAt = heads[i].MTime, heads[i].ChangedAt
		all[path] = s
	}
	if dir == "/" {
		dirs = dirs[1:]
	}
	return dirs, nil
}

// dump returns what a view should show.
func (o *oracle) dump() map[string]status {
	all := map[string]status{}
	for _, n := range o.nodes {
		all[o.path(n)] = status{n.Entry, n.changedAt}
	}
	return all
}

// String shows the tree, for a failure.
func (o *oracle) String() string {
	var b strings.Builder
	all := o.dump()
	for _, path := range slices.Sorted(maps.Keys(all)) {
		e := all[path]
		fmt.Fprintf(&b, "%v %s:%s %.60q %s\n", e.FileMode(), e.Owner, e.Group, path, e.Target)
	}
	return b.String()
}

func (o *oracle) path(n *node) string {
	if n.ID == rootID {
		return "/"
	}
	return muster.JoinPath(o.path(o.nodes[n.parent]), n.Name)
}

// same says how an entry differs from the wanted one.
func same(got, want muster.Entry) error {
	if len(got.Blocks) == 0 && len(want.Blocks) == 0 {
		got.Blocks, want.Blocks = nil, nil
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got  %+v\nwant %+v", got, want)
	}
	return nil
}

// describe shows a request as a reader of a failure wants it.
func describe(r namespace.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", r.Caller.User)
	for _, c := range r.Commands {
		text, _ := json.Marshal(c)
		fmt.Fprintf(&b, " %T%.400s;", c, text)
	}
	return b.String()
}

// generator makes random requests that have a fair chance to succeed, and to collide.
type generator struct {
	pick  func(n int) int // a number from 0 to n-1
	ids   bool            // give each request an id, not only some
	paths bool            // name inodes by path alone: the oracle that it asks knows no ids
}

func oneOf[T any](g *generator, from ...T) T { return from[g.pick(len(from))] }

// person is a superuser in half of the cases, or little would be allowed for long.
func (g *generator) person() muster.Identity {
	if g.pick(3) == 0 {
		return boss
	}
	return oneOf(g, people...)
}

// request makes a request of one command or a few; later ones know of earlier ones.
func (g *generator) request(o *oracle) namespace.Request {
	r := namespace.Request{Caller: g.person()}
	if g.ids || g.pick(2) == 1 {
		// Refused requests leave their id to the next one.
		r.ID = muster.RequestID{Client: [16]byte{1}, Sequence: o.txid}
	}
	o = o.clone()
	o.last = 0
	for range oneOf(g, 1, 1, 1, 2, 5) {
		c := g.command(o)
		r.Commands = append(r.Commands, c)
		o.more(r.Caller, o.now, o.txid, c)
	}
	return r
}

func (g *generator) command(o *oracle) muster.Command {
	switch g.pick(28) {
	case 20, 21, 22, 23, 24, 25, 26, 27:
		return g.writeCommand(o)
	case 0, 1, 2, 3, 4:
		return muster.Mkdir{Path: g.newPath(o), Mode: g.mode(), Parents: g.pick(3) == 2, Owner: g.owner(), Group: g.group(), MTime: g.time()}
	case 5, 6, 7, 8, 9:
		return g.create(o)
	case 10, 11:
		return muster.Symlink{Path: g.newPath(o), Target: g.target(o), Owner: g.owner(), Group: g.group(), MTime: g.time()}
	case 12, 13, 14, 15:
		return muster.Rename{From: g.path(o), To: oneOf(g, g.path(o), g.newPath(o)), Overwrite: g.pick(2) == 1}
	case 16, 17:
		d := muster.Delete{Path: g.path(o), Recursive: g.pick(6) == 0}
		if !g.paths && g.pick(6) == 0 {
			d.File = 2 + uint64(g.pick(int(o.lastID)+1))
		}
		return d
	}
	return g.setattr(o)
}

func (g *generator) create(o *oracle) muster.Create {
	c := muster.Create{
		Path: g.newPath(o), Mode: g.mode(), BlockSize: 1 << 20, Replication: oneOf(g, muster.Replicated(3), 0x0232),
		Owner: g.owner(), Group: g.group(), MTime: g.time(), ATime: g.time(),
		Parents: g.pick(4) == 3, Overwrite: g.pick(3) == 2,
	}
	for range oneOf(g, 0, 0, 0, 1, 2, 16, 17, 100) {
		c.Blocks = append(c.Blocks, muster.Block{Container: uint64(g.pick(9)), LocalID: uint64(g.pick(1 << 40)), Length: 1 << 20})
		c.Length += 1 << 20
	}
	switch g.pick(40) {
	case 37:
		c.Length += int64(g.pick(3)) - 1 // metadata only, or impossible
	case 38:
		c.Replication = oneOf[muster.Replication](g, 0, 0x0300, 0x0100)
	case 39:
		c.Blocks = make([]muster.Block, muster.MaxBlocks+1)
	}
	return c
}

func (g *generator) setattr(o *oracle) muster.SetAttr {
	c := muster.SetAttr{Path: g.path(o)}
	switch g.pick(5) {
	case 0, 1:
		c.Mode = new(g.mode())
	case 2:
		c.MTime, c.ATime = g.time(), g.time()
	case 3:
		c.Owner = new(cmp.Or(g.owner(), "ann"))
	case 4:
		c.Group = new(cmp.Or(g.group(), "data"))
	}
	return c
}

var names = []string{"a", "b", "c", "aa", "a.b", "x=1", "é", "%41:#?+", "\u00a0\n", strings.Repeat("n", 255)}

// path is mostly one that exists, or one below that.
func (g *generator) path(o *oracle) string {
	if g.pick(50) == 0 {
		return oneOf(g, "", "a", "/a/./b", "/..", "//a//b/", "/a\x00", "/\xff", "/"+strings.Repeat("n", 256), strings.Repeat("/a", 1001))
	}
	ids := slices.Sorted(maps.Keys(o.nodes))
	path := o.path(o.nodes[oneOf(g, ids...)])
	for g.pick(4) == 3 {
		path = muster.JoinPath(path, g.name())
	}
	return path
}

// newPath is mostly a new name in a directory, or behind a link, that exists.
func (g *generator) newPath(o *oracle) string {
	if g.pick(4) == 3 {
		return g.path(o)
	}
	var ids []uint64
	for _, id := range slices.Sorted(maps.Keys(o.nodes)) {
		if o.nodes[id].Kind != muster.File {
			ids = append(ids, id)
		}
	}
	return muster.JoinPath(o.path(o.nodes[oneOf(g, ids...)]), g.name())
}

func (g *generator) name() string { return oneOf(g, names...) }

func (g *generator) target(o *oracle) string {
	switch g.pick(4) {
	case 0:
		return cmp.Or(g.path(o), "/") + oneOf(g, "", "", "/", "/.")
	case 1:
		return g.name()
	case 2:
		return "../" + g.name()
	}
	return oneOf(g, ".", "..", "../..", "/", "./"+g.name(), "../../"+g.name()+"/..", "")
}

func (g *generator) mode() uint16 {
	return oneOf[uint16](g, 0o777, 0o777, 0o777, 0o777, 0o777, 0o755, 0o755, 0o1777, 0o1777, 0o700, 0o750, 0o070, 0o007, 0o555, 0o444, 0o333, 0o1755, 0, 0o2755)
}

// owner and group are mostly left to the defaults.
func (g *generator) owner() string {
	return oneOf(g, "", "", "", "", "", "", "", "", "ann", "bob", "zed")
}

func (g *generator) group() string {
	return oneOf(g, "", "", "", "", "", "", "", "", "data", "staff", "other")
}

func (g *generator) time() *int64 {
	return oneOf(g, nil, nil, nil, new(int64(0)), new(int64(1234567890123)), new(int64(-1)))
}

package listing_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// model is a tree as the test that writes it knows it, with all states that it was in. It
// shares nothing with the tree itself. One goroutine writes it.
type model struct {
	*world
	random  *rand.Rand
	clock   atomic.Int64 // ms; stamps the next batch
	root    *inode
	dirs    []*inode // those that the writer works in
	commits []commit
	made    int

	// Of the batch that is being gathered.
	batch   []muster.Command
	created []*inode // by command; nil: it made none
	touched []*inode // whose changed_at is the batch's txid
}

// inode is an inode of the model.
type inode struct {
	muster.Entry
	parent    *inode
	children  map[string]*inode // of a directory
	changedAt uint64
	shown     *shown // nil: to be made anew
}

// shown is what a listing shows of a directory. It never changes.
type shown struct {
	id, changedAt uint64
	entries       []muster.Entry
}

// commit is the state that a batch led to: all directories by path.
type commit struct {
	txid uint64
	dirs map[string]*shown
}

// link is a link of every state, and where it leads.
const link, linkTarget = "/link", "/p/b"

// newModel makes a tree of some directories, one of them large. Its seed is logged.
func newModel(t testing.TB, seed uint64, large int) *model {
	t.Helper()
	m := &model{random: rand.New(rand.NewPCG(seed, 7))}
	m.clock.Store(1_700_000_000_000)
	m.world = openTree(t, namespace.Options{
		FS: vfs.NewMem(), Superuser: root.User, CacheBytes: 8 << 20, MemTableBytes: 4 << 20,
		Now: func() time.Time { return time.UnixMilli(m.clock.Load()) },
	})
	m.Logf("seed %d", seed)
	m.root = &inode{Entry: muster.Entry{ID: 1, Kind: muster.Directory}, children: map[string]*inode{}}
	p, q := m.mkdir(m.root, "p"), m.mkdir(m.root, "q")
	big := m.mkdir(q, "big")
	m.dirs = []*inode{m.mkdir(p, "a"), m.mkdir(p, "b"), m.mkdir(p, "c"), m.mkdir(q, "d"), big, p, q}
	m.batch = append(m.batch, muster.Symlink{Path: link, Target: linkTarget})
	l := &inode{Entry: muster.Entry{Name: link[1:], Kind: muster.Link, Mode: 0o777, MTime: m.clock.Load()}}
	m.put(m.root, l)
	m.created = append(m.created, l)
	for range large {
		m.create(big)
		if len(m.batch) == 500 {
			m.commit()
		}
	}
	for _, dir := range m.dirs {
		for range 12 {
			m.create(dir)
		}
	}
	m.commit()
	return m
}

func (n *inode) path() string {
	if n.parent == nil {
		return "/"
	}
	return muster.JoinPath(n.parent.path(), n.Name)
}

// stale says that a listing shows n, or of n, something else than before.
func (n *inode) stale() {
	n.shown = nil
	if n.parent != nil {
		n.parent.shown = nil
	}
}

// touch notes that rows of a directory changed; stamped, if names did.
func (m *model) touch(dir *inode, stamped bool) {
	if stamped {
		dir.MTime = m.clock.Load()
	}
	m.touched = append(m.touched, dir)
	dir.stale()
}

func (m *model) put(dir, n *inode) {
	n.parent = dir
	dir.children[n.Name] = n
	m.touch(dir, true)
}

func (m *model) take(n *inode) {
	delete(n.parent.children, n.Name)
	m.touch(n.parent, true)
}

func (m *model) add(c muster.Command, made *inode) {
	m.batch, m.created = append(m.batch, c), append(m.created, made)
}

func (m *model) mkdir(dir *inode, name string) *inode {
	n := &inode{Entry: muster.Entry{Name: name, Kind: muster.Directory, Mode: 0o755, MTime: m.clock.Load()}, children: map[string]*inode{}}
	m.put(dir, n)
	m.add(muster.Mkdir{Path: n.path(), Mode: 0o755}, n)
	m.touched = append(m.touched, n)
	return n
}

func (m *model) create(dir *inode) {
	m.made++
	n := &inode{Entry: muster.Entry{
		Name: fmt.Sprintf("f%05d", m.random.IntN(50_000)), Kind: muster.File, Mode: 0o644, MTime: m.clock.Load(), Length: int64(m.made),
	}}
	if dir.children[n.Name] == nil {
		m.put(dir, n)
		m.add(muster.Create{Path: n.path(), Mode: 0o644, Length: n.Length}, n)
	}
}

// pick returns one of a directory's children, nil if there is none.
func (m *model) pick(dir *inode, kind muster.Kind) *inode {
	names := slices.Sorted(maps.Keys(dir.children))
	names = slices.DeleteFunc(names, func(name string) bool { return dir.children[name].Kind != kind })
	if len(names) == 0 {
		return nil
	}
	return dir.children[names[m.random.IntN(len(names))]]
}

// step adds one command to the batch.
func (m *model) step() {
	dir := m.dirs[m.random.IntN(len(m.dirs))]
	file := m.pick(dir, muster.File)
	switch k := m.random.IntN(12); {
	case k == 0 && len(dir.children) < 30:
		if name := fmt.Sprintf("s%d", m.random.IntN(3)); dir.children[name] == nil {
			m.create(m.mkdir(dir, name))
		}
	case k == 1: // a tree goes, if it is none of those that the writer works in
		if sub := m.pick(dir, muster.Directory); sub != nil && !slices.Contains(m.dirs, sub) {
			m.add(muster.Delete{Path: sub.path(), Recursive: true}, nil)
			m.take(sub)
		}
	case k == 2: // a directory's own time, which is in no row
		ms := m.clock.Load() - int64(m.random.IntN(1000))
		m.add(muster.SetAttr{Path: dir.path(), MTime: &ms}, nil)
		dir.MTime = ms
		dir.stale()
	case k == 3: // all that lies below gets another path
		for _, n := range m.dirs {
			if n.parent == m.root && m.random.IntN(2) == 0 {
				name := strings.Trim(n.Name, "-") + strings.Repeat("-", m.random.IntN(2))
				if name != n.Name {
					m.rename(n, m.root, name)
				}
			}
		}
	case file == nil || k < 7:
		m.create(dir)
	case k < 9:
		m.add(muster.Delete{Path: file.path()}, nil)
		m.take(file)
	case k == 9:
		mode := uint16(m.random.IntN(0o1000))
		m.add(muster.SetAttr{Path: file.path(), Mode: &mode}, nil)
		file.Mode = mode
		m.touch(dir, false)
	default:
		to := m.dirs[m.random.IntN(len(m.dirs))]
		if to.children[file.Name] == nil {
			m.rename(file, to, file.Name)
		}
	}
}

func (m *model) rename(n, to *inode, name string) {
	from := n.path()
	m.take(n)
	n.Name = name
	m.put(to, n)
	m.add(muster.Rename{From: from, To: n.path()}, nil)
}

// commit applies the batch, and keeps the state that it led to.
func (m *model) commit() {
	if len(m.batch) == 0 {
		return
	}
	done, err := m.tree.Apply(m.Context(), namespace.Request{Caller: *root, Commands: m.batch})
	if err != nil {
		m.Fatalf("%+v: %v", m.batch, err)
	}
	for i, n := range m.created {
		if n != nil {
			n.ID = done.IDs[i]
			n.stale()
		}
	}
	for _, n := range m.touched {
		n.changedAt = done.Txid
		n.shown = nil
	}
	c := commit{done.Txid, map[string]*shown{}}
	m.show(m.root, "/", c.dirs)
	m.commits = append(m.commits, c)
	m.batch, m.created, m.touched = m.batch[:0], m.created[:0], m.touched[:0]
	m.clock.Add(1 + m.random.Int64N(3))
}

func (m *model) show(n *inode, path string, dirs map[string]*shown) {
	if n.shown == nil {
		s := &shown{id: n.ID, changedAt: n.changedAt}
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			s.entries = append(s.entries, n.children[name].Entry)
		}
		n.shown = s
	}
	dirs[path] = n.shown
	for name, child := range n.children {
		if child.Kind == muster.Directory {
			m.show(child, muster.JoinPath(path, name), dirs)
		}
	}
}

// at returns the state that the view of a txid showed. Txids between commits are the
// tree's own: what it does in the background changes no listing.
func (m *model) at(txid uint64) map[string]*shown {
	i := sort.Search(len(m.commits), func(i int) bool { return m.commits[i].txid > txid })
	return m.commits[i-1].dirs
}

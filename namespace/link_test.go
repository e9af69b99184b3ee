package namespace

import (
	"errors"
	"fmt"
	"testing"

	"github.com/muster-fs/muster"
)

// TestLinks resolves paths that lead through links, with and without following the last one.
func TestLinks(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree,
		muster.Mkdir{Path: "/a/b/c", Mode: 0o755, Parents: true},
		muster.Create{Path: "/a/f"},
		muster.Symlink{Path: "/abs", Target: "/a/b"},
		muster.Symlink{Path: "/a/rel", Target: "b"},
		muster.Symlink{Path: "/a/b/c/up", Target: "../../f"},
		muster.Symlink{Path: "/a/b/c/out", Target: "../../../../../a"},
		muster.Symlink{Path: "/a/dots", Target: "./b//./c/."},
		muster.Symlink{Path: "/a/self", Target: "."},
		muster.Symlink{Path: "/root", Target: "/"},
		muster.Symlink{Path: "/dangling", Target: "/a/none"},
		muster.Symlink{Path: "/loop", Target: "loop"},
		muster.Symlink{Path: "/ping", Target: "pong"},
		muster.Symlink{Path: "/pong", Target: "ping"},
		muster.Symlink{Path: "/slash", Target: "a/f/"},
		muster.Symlink{Path: "/dotted", Target: "a/f/."},
		muster.Symlink{Path: "/twice", Target: "abs/c"},
		muster.Symlink{Path: "/back", Target: "abs/.."},
	)
	id := func(path string) uint64 { return stat(t, tree, path).ID }
	a, b, c, f := id("/a"), id("/a/b"), id("/a/b/c"), id("/a/f")
	for _, l := range []struct {
		path   string
		follow uint64      // id, links followed
		err    muster.Code // if it can't be followed
	}{
		{"/abs", b, 0}, {"/abs/c", c, 0}, {"/a/rel", b, 0}, {"/a/rel/c", c, 0}, {"/a/b/c/up", f, 0},
		{"/a/b/c/out", a, 0}, {"/a/b/c/out/f", f, 0}, {"/a/dots", c, 0}, {"/a/self/self/self/f", f, 0}, {"/root", rootID, 0}, {"/root/a", a, 0},
		{"/twice", c, 0}, {"/twice/up", f, 0}, {"/back", a, 0}, {"/back/f", f, 0},
		{"/dangling", 0, muster.ErrNotFound}, {"/dangling/x", 0, muster.ErrNotFound},
		{"/loop", 0, muster.ErrLinkLoop}, {"/ping", 0, muster.ErrLinkLoop}, {"/ping/x", 0, muster.ErrLinkLoop},
		{"/slash", 0, muster.ErrNotDirectory}, {"/dotted", 0, muster.ErrNotDirectory},
		{"/a/f/x", 0, muster.ErrNotDirectory}, {"/a/b/c/up/x", 0, muster.ErrNotDirectory},
		{"/none", 0, muster.ErrNotFound}, {"/none/x", 0, muster.ErrNotFound},
	} {
		reading(t, tree, root, func(r *Reader) {
			for range 2 { // the second time with the walk kept
				res, err := r.Resolve(l.path, true)
				if res.ID() != l.follow || muster.CodeOf(err) != l.err {
					t.Errorf("%s: %d, %v; want %d, %v", l.path, res.ID(), err, l.follow, l.err)
				}
			}
		})
	}
	for _, path := range []string{"/abs", "/a/rel", "/dangling", "/loop", "/root", "/a/self/self"} {
		reading(t, tree, root, func(r *Reader) {
			r.Resolve(path, true) // what it keeps must not be taken for the link itself
			res, err := r.Resolve(path, false)
			if err != nil || res.Kind() != muster.Link {
				t.Errorf("%s itself: %v, %v", path, res.Kind(), err)
			}
			if err := r.Scan(&res, "", false); !errors.Is(err, muster.ErrNotDirectory) {
				t.Errorf("scan %s itself: %v", path, err)
			}
		})
	}
	check(t, tree)
}

// TestLinkHopsAreBounded: 40 links are followed and 41 are not, also when the walk of the first ones
// is kept from the path before.
func TestLinkHopsAreBounded(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree, muster.Create{Path: "/l0"}, muster.Mkdir{Path: "/d", Mode: 0o755}, muster.Symlink{Path: "/d/s", Target: "."})
	for i := range muster.MaxLinkHops + 1 {
		mustApply(t, tree, muster.Symlink{Path: fmt.Sprintf("/l%d", i+1), Target: fmt.Sprintf("l%d", i)})
	}
	if err := resolves(t, tree, root, "/l40", true); err != nil {
		t.Errorf("40 links: %v", err)
	}
	if err := resolves(t, tree, root, "/l41", true); !errors.Is(err, muster.ErrLinkLoop) {
		t.Errorf("41 links: %v", err)
	}
	reading(t, tree, root, func(r *Reader) {
		path := "/d"
		for range muster.MaxLinkHops {
			path += "/s"
			if _, err := r.Resolve(path, true); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		if _, err := r.Resolve(path+"/s", true); !errors.Is(err, muster.ErrLinkLoop) {
			t.Errorf("one more: %v", err)
		}
	})
}

// TestPathsOfRequests: what muster.CleanPath refuses is refused here, and what it collapses is the same path.
func TestPathsOfRequests(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree, muster.Mkdir{Path: "/a%41:=+#? /b", Mode: 0o755, Parents: true})
	for _, path := range []string{"", "a", "./a", "/a/..", "/.", "/a\x00", "/\xff"} {
		if err := resolves(t, tree, root, path, true); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%q: %v", path, err)
		}
		if _, err := tryApply(t, tree, muster.Mkdir{Path: path}); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("mkdir %q: %v", path, err)
		}
	}
	for _, path := range []string{"/a%41:=+#? /b", "//a%41:=+#? ///b/", "/a%41:=+#? /b//"} {
		if err := resolves(t, tree, root, path, true); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}

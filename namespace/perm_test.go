package namespace

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

var (
	ann = muster.Identity{User: "ann", Groups: []string{"staff"}}
	bob = muster.Identity{User: "bob", Groups: []string{"other", "staff"}}
	zed = muster.Identity{User: "zed"}
	sue = muster.Identity{User: "sue", Groups: []string{"x", muster.Supergroup}}
)

// TestModesGrantEachClassItsOwnBits runs through all modes of a directory and a file in it: the owner
// has the owner's bits only, a member of the group the group's only, others theirs.
func TestModesGrantEachClassItsOwnBits(t *testing.T) {
	tree := openMem(t, Options{})
	for bits := range uint16(8) {
		for class, shift := range map[*muster.Identity]int{&ann: 6, &bob: 3, &zed: 0} {
			path := fmt.Sprintf("/%s%d", class.User, bits)
			mode := bits<<shift | (7<<6|7<<3|7)&^(7<<shift) // all others may all
			mustApply(t, tree,
				muster.Mkdir{Path: path, Mode: mode, Owner: "ann", Group: "staff"},
				muster.Create{Path: path + "/f", Mode: mode, Owner: "ann", Group: "staff"},
			)
			allowed := func(what string, want bool, err error) {
				if (err == nil) != want || err != nil && !errors.Is(err, muster.ErrPermission) {
					t.Errorf("%s, mode %04o: %s: %v, want allowed: %v", class.User, mode, what, err, want)
				}
			}
			x, w, r := bits&mayExecute != 0, bits&mayWrite != 0, bits&mayRead != 0
			allowed("resolve a child", x, resolves(t, tree, *class, path+"/f", true))
			allowed("resolve itself", true, resolves(t, tree, *class, path, true))
			reading(t, tree, *class, func(rd *Reader) {
				res, err := rd.Resolve(path, true)
				if err != nil {
					t.Fatal(err)
				}
				allowed("list", r && x, rd.Scan(&res, "", false))
				if res, err = rd.Resolve(path+"/f", true); err == nil {
					err = rd.CheckRead(&res)
				}
				allowed("read", r && x, err)
			})
			_, err := tryAs(t, tree, *class, muster.Create{Path: path + "/new"})
			allowed("create", w && x, err)
			_, err = tryAs(t, tree, *class, muster.SetAttr{Path: path + "/f", MTime: new(int64(5))})
			allowed("times of a file", x && (w || class == &ann), err)
			_, err = tryAs(t, tree, *class, muster.SetAttr{Path: path, MTime: new(int64(5))})
			allowed("times of a directory", class == &ann, err)
			_, err = tryAs(t, tree, *class, muster.Rename{From: path + "/f", To: path + "/g"})
			allowed("rename", w && x, err)
			_, err = tryAs(t, tree, sue, muster.Create{Path: path + "/sue"})
			allowed("create as a superuser", true, err)
		}
	}
	check(t, tree)
}

// TestEveryAncestorMustBeExecutable, also those on the way of a link, whatever lies below.
func TestEveryAncestorMustBeExecutable(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree,
		muster.Mkdir{Path: "/open/in", Mode: 0o777, Parents: true},
		muster.Mkdir{Path: "/closed", Mode: 0o700},
		muster.Mkdir{Path: "/closed/open", Mode: 0o777},
		muster.Create{Path: "/closed/open/f", Mode: 0o777},
		muster.Symlink{Path: "/in", Target: "/closed/open"},
		muster.Symlink{Path: "/open/across", Target: "../closed/open/f"},
		muster.Symlink{Path: "/closed/open/out", Target: "/open/in"},
		muster.SetAttr{Path: "/open", Mode: new(uint16(0o711))},
	)
	for path, want := range map[string]error{
		"/closed":          nil,
		"/closed/open":     muster.ErrPermission,
		"/closed/open/f":   muster.ErrPermission,
		"/closed/none":     muster.ErrPermission, // what is there is not told
		"/closed/none/x":   muster.ErrPermission,
		"/in":              muster.ErrPermission,
		"/in/f":            muster.ErrPermission,
		"/open/across":     muster.ErrPermission,
		"/closed/open/out": muster.ErrPermission,
		"/open/in":         nil,
		"/open/none":       muster.ErrNotFound,
	} {
		reading(t, tree, zed, func(r *Reader) {
			for range 2 {
				if _, err := r.Resolve(path, true); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", path, err, want)
				}
			}
		})
		if err := resolves(t, tree, root, path, true); errors.Is(err, muster.ErrPermission) {
			t.Errorf("%s as superuser: %v", path, err)
		}
	}
	err := resolves(t, tree, zed, "/closed/open/f", true)
	for _, part := range []string{`"zed"`, "execute", "/closed ", "root:supergroup", "drwx------"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// TestStickyDirectories: in one, an entry is removed or renamed by its owner, the directory's, or the
// superuser only; that holds for a target that is replaced too.
func TestStickyDirectories(t *testing.T) {
	for _, who := range []struct {
		identity muster.Identity
		may      bool
	}{{ann, true}, {muster.Identity{User: "owner"}, true}, {root, true}, {sue, true}, {bob, false}, {zed, false}} {
		for what, c := range map[string]muster.Command{
			"delete":         muster.Delete{Path: "/tmp/f"},
			"rename":         muster.Rename{From: "/tmp/f", To: "/free/f"},
			"rename over":    muster.Rename{From: "/free/mine", To: "/tmp/f", Overwrite: true},
			"overwrite":      muster.Create{Path: "/tmp/f", Overwrite: true},
			"delete a tree":  muster.Delete{Path: "/tmp/d", Recursive: true},
			"delete an emty": muster.Delete{Path: "/tmp/d/e"},
		} {
			tree := openMem(t, Options{})
			mustApply(t, tree,
				muster.Mkdir{Path: "/tmp", Mode: 0o1777, Owner: "owner"},
				muster.Mkdir{Path: "/free", Mode: 0o777},
				muster.Create{Path: "/tmp/f", Mode: 0o777, Owner: "ann"},
				muster.Create{Path: "/free/mine", Mode: 0o777, Owner: "ann"},
				muster.Mkdir{Path: "/tmp/d", Mode: 0o777, Owner: "ann"},
				muster.Mkdir{Path: "/tmp/d/e", Mode: 0o777, Owner: "ann"},
			)
			_, err := tryAs(t, tree, who.identity, c)
			if may := who.may || what == "delete an emty"; (err == nil) != may || err != nil && !errors.Is(err, muster.ErrPermission) {
				t.Errorf("%s: %s: %v, want allowed: %v", who.identity.User, what, err, may)
			}
			if _, err := tryAs(t, tree, who.identity, muster.Create{Path: "/tmp/new"}); err != nil {
				t.Errorf("%s: create in a sticky directory: %v", who.identity.User, err)
			}
		}
	}
}

// TestOwnersOfEntries: who an entry belongs to when it is made, and who may change that.
func TestOwnersOfEntries(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree, muster.Mkdir{Path: "/d", Mode: 0o777, Group: "data"})
	for i, c := range []struct {
		who          muster.Identity
		owner, group string
		want         string // empty: denied
	}{
		{ann, "", "", "ann:data"}, {ann, "ann", "", "ann:data"}, {ann, "", "staff", "ann:staff"}, {ann, "", "data", "ann:data"},
		{ann, "bob", "", ""}, {ann, "", "other", ""}, {root, "bob", "any", "bob:any"}, {sue, "bob", "any", "bob:any"},
	} {
		for kind, command := range map[string]muster.Command{
			"mkdir":   muster.Mkdir{Path: fmt.Sprintf("/d/d%d", i), Owner: c.owner, Group: c.group},
			"create":  muster.Create{Path: fmt.Sprintf("/d/f%d", i), Owner: c.owner, Group: c.group},
			"symlink": muster.Symlink{Path: fmt.Sprintf("/d/l%d", i), Target: fmt.Sprintf("/d/f%d", i), Owner: c.owner, Group: c.group},
		} {
			_, err := tryAs(t, tree, c.who, command)
			if c.want == "" {
				if !errors.Is(err, muster.ErrPermission) {
					t.Errorf("%s by %s for %q:%q: %v", kind, c.who.User, c.owner, c.group, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s by %s for %q:%q: %v", kind, c.who.User, c.owner, c.group, err)
			} else if kind != "symlink" {
				if e := stat(t, tree, command.Subject()); e.Owner+":"+e.Group != c.want {
					t.Errorf("%s by %s for %q:%q gives %s:%s", kind, c.who.User, c.owner, c.group, e.Owner, e.Group)
				}
			}
		}
	}
	mustApply(t, tree, muster.Create{Path: "/f", Owner: "ann", Group: "staff", Mode: 0o666})
	for _, c := range []struct {
		who muster.Identity
		set muster.SetAttr
		may bool
	}{
		{ann, muster.SetAttr{Mode: new(uint16(0o666))}, true}, {bob, muster.SetAttr{Mode: new(uint16(0o666))}, false},
		{ann, muster.SetAttr{Owner: new("ann")}, true}, {ann, muster.SetAttr{Owner: new("bob")}, false}, {bob, muster.SetAttr{Owner: new("bob")}, false},
		{ann, muster.SetAttr{Group: new("staff")}, true}, {ann, muster.SetAttr{Group: new("other")}, false}, {bob, muster.SetAttr{Group: new("staff")}, false},
		{bob, muster.SetAttr{MTime: new(int64(1)), ATime: new(int64(2))}, true}, {root, muster.SetAttr{Owner: new("ann"), Group: new("staff")}, true},
		{bob, muster.SetAttr{}, true},
	} {
		c.set.Path = "/f"
		if _, err := tryAs(t, tree, c.who, c.set); (err == nil) != c.may || err != nil && !errors.Is(err, muster.ErrPermission) {
			t.Errorf("%s: %+v: %v, want allowed: %v", c.who.User, c.set, err, c.may)
		}
	}
	check(t, tree)
}

// TestTheRootIsTheSuperusers, mode 0755.
func TestTheRootIsTheSuperusers(t *testing.T) {
	tree := openMem(t, Options{})
	if e := stat(t, tree, "/"); e.ID != rootID || e.Owner != "root" || e.Group != muster.Supergroup || e.Mode != 0o755 || e.MTime == 0 {
		t.Errorf("root %+v", e)
	}
	if _, err := tryAs(t, tree, ann, muster.Mkdir{Path: "/x"}); !errors.Is(err, muster.ErrPermission) {
		t.Errorf("mkdir by a user: %v", err)
	}
	for _, who := range []muster.Identity{{}, {User: strings.Repeat("u", 256)}, {User: "\xff"}} {
		if _, err := tryAs(t, tree, who, muster.Mkdir{Path: "/x"}); err == nil {
			t.Errorf("mkdir by %q", who.User)
		}
	}
	if !tree.Superuser(&root) || !tree.Superuser(&sue) || tree.Superuser(&ann) {
		t.Error("superusers")
	}
}

// TestOwnersAreNamesOfOneLine: they are printed in listings and logs.
func TestOwnersAreNamesOfOneLine(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree, muster.Create{Path: "/f"})
	for _, name := range []string{"", "a\nb", "a\x00", "\x1b[31m", "a\u0085", "\xff", strings.Repeat("n", 256)} {
		for _, c := range []muster.Command{muster.SetAttr{Path: "/f", Owner: &name}, muster.SetAttr{Path: "/f", Group: &name}} {
			if _, err := tryApply(t, tree, c); !errors.Is(err, muster.ErrInvalid) {
				t.Errorf("%T of name %q: %v", c, name, err)
			}
		}
	}
	for _, name := range []string{"domain users", "\u00fc", "1000", strings.Repeat("n", 255)} {
		mustApply(t, tree, muster.SetAttr{Path: "/f", Owner: &name, Group: &name})
	}
}

package namespace

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
)

// TestAFailedManifestIsTerminal fails what the store writes when it has a new table: every call
// is refused, nobody hangs and nothing panics, the store's own checks included (those are on with
// the race detector), and opening again finds all that was acknowledged.
func TestAFailedManifestIsTerminal(t *testing.T) {
	for name, op := range map[string]errorfs.Op{"write": errorfs.OpFileWrite, "sync": errorfs.OpFileSync} {
		t.Run(name, func(t *testing.T) {
			mem, fatal := vfs.NewMem(), make(chan error, 2)
			var failing atomic.Bool
			disk := errorfs.InjectorFunc(func(o errorfs.Op, path string) error {
				if failing.Load() && o == op && strings.Contains(path, "MANIFEST-") {
					return errorfs.ErrInjected
				}
				return nil
			})
			tree, err := Open("tree", Options{FS: errorfs.Wrap(mem, disk), Superuser: "root", idle: true, OnFatal: func(err error) { fatal <- err }})
			if err != nil {
				t.Fatal(err)
			}
			load(t, tree, "/t", 3, 10)
			if err := tree.db.Flush(); err != nil {
				t.Fatal(err)
			}
			load(t, tree, "/u", 30, 10) // on both sides of what the first table holds
			failing.Store(true)
			flushed, err := tree.db.AsyncFlush()
			if err != nil {
				t.Fatal(err)
			}
			<-flushed
			if err := <-fatal; !errors.Is(err, muster.ErrUnavailable) {
				t.Errorf("OnFatal: %v", err)
			}
			failing.Store(false) // the disk is well again: the tree is not
			if _, err := tryApply(t, tree, muster.Mkdir{Path: "/x"}); !errors.Is(err, muster.ErrUnavailable) {
				t.Errorf("apply: %v", err)
			}
			if _, err := tree.View(); !errors.Is(err, muster.ErrUnavailable) {
				t.Errorf("view: %v", err)
			}
			if err := tree.Close(); !errors.Is(err, muster.ErrUnavailable) {
				t.Errorf("close: %v", err)
			}
			if len(fatal) > 0 {
				t.Error("OnFatal was called twice")
			}

			again, err := Open("tree", Options{FS: mem, Superuser: "root"})
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if list, err := tryNames(again, "/u"); err != nil || len(list) != 30 {
				t.Errorf("%d names, %v", len(list), err)
			}
			if _, err := again.Fsck(t.Context(), func(p Problem) error { t.Errorf("%+v", p); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAManifestThatFailsWhileOpening gives no tree of which the disk knows nothing.
func TestAManifestThatFailsWhileOpening(t *testing.T) {
	disk := errorfs.InjectorFunc(func(op errorfs.Op, path string) error {
		if op == errorfs.OpFileSync && strings.Contains(path, "MANIFEST-") {
			return errorfs.ErrInjected
		}
		return nil
	})
	if _, err := Open("tree", Options{FS: errorfs.Wrap(vfs.NewMem(), disk), Superuser: "root"}); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

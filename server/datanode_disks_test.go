package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/server"
)

// A disk that is not mounted looks like an empty folder, or like none. It is not made new, unless it
// is given the datanode's id; and what it had is there when it is mounted again.
func TestADiskThatIsNotMounted(t *testing.T) {
	in := blockCluster(t, false)
	o := datanodeOptions(in, t.TempDir())
	o.Dirs = append(o.Dirs, filepath.Join(t.TempDir(), "b"))
	begin := func() *dn {
		t.Helper()
		d, err := server.StartDatanode(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return reach(t, d)
	}
	n := begin()
	id, b := n.ID(), data(1, 1000)
	put(t, n, muster.BlockID{Container: 1, LocalID: 1}, b)
	put(t, n, muster.BlockID{Container: 2, LocalID: 1}, b)
	if len(n.Blocks().Containers()) != 2 {
		t.Fatal("no containers")
	}
	n.stop(t)
	dir, away := o.Dirs[1], o.Dirs[1]+".away"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(dir, away))
	for _, empty := range []bool{false, true, true} {
		if empty {
			must(os.MkdirAll(dir, 0o755))
		}
		n = begin()
		disk := n.Blocks().Disks()[1]
		if disk.State != store.DiskFailed || !strings.Contains(disk.Message, "is it mounted?") || n.ID() != id {
			t.Errorf("disk %+v of datanode %s", disk, n.ID())
		}
		n.stop(t)
		if names, _ := os.ReadDir(dir); len(names) != 0 {
			t.Fatalf("it was made new: %v", names)
		}
	}
	must(os.Remove(dir))
	must(os.Rename(away, dir))
	n = begin()
	if got := n.Blocks().Containers(); len(got) != 2 || n.Blocks().Disks()[1].State != store.DiskOK {
		t.Errorf("mounted again: %+v, %+v", got, n.Blocks().Disks())
	}
	n.stop(t)
	must(os.RemoveAll(dir))
	must(os.MkdirAll(dir, 0o755))
	text, err := os.ReadFile(filepath.Join(o.Dirs[0], "datanode.id"))
	must(err)
	must(os.WriteFile(filepath.Join(dir, "datanode.id"), text, 0o600)) // as the message says
	n = begin()
	if n.Blocks().Disks()[1].State != store.DiskOK || n.ID() != id {
		t.Errorf("accepted: %+v", n.Blocks().Disks())
	}
	n.stop(t)
}

package server_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// A byte that changed on a disk is found by the scrubber and put right from another replica, without
// anybody's help, and without more copies than there should be. The same with a file that vanished,
// and with two replicas that have different blocks damaged.
func TestDamagedBlocksAreRepaired(t *testing.T) {
	in, nodes, options := replicated(t, 3)
	a, err := in.Registry().Allocate(t.Context(), registry.AllocateRequest{Replication: muster.Replicated(3), Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	container := a.Blocks[0].Container
	written := map[muster.BlockID][]byte{}
	for local := uint64(0); local < 4; local++ {
		id := muster.BlockID{Container: container, LocalID: a.Blocks[0].LocalID + local}
		written[id] = data(local, 300_000+int(local))
		for _, n := range nodes {
			put(t, n, id, written[id])
		}
	}
	soon(t, "all is reported", func() bool { return complete(t, in, container, 4) == 3 })
	file := func(node int, local uint64) string {
		return filepath.Join(options[node].Dirs[0], "blocks", strconv.FormatUint(container, 10), strconv.FormatUint(a.Blocks[0].LocalID+local, 10))
	}
	flip(t, file(0, 0), 70_000)
	flip(t, file(0, 1), 299_999)
	flip(t, file(1, 2), 0)
	if err := os.Remove(file(1, 3)); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if !n.Blocks().Scrub() {
			t.Fatal("scrubbing did not begin")
		}
	}
	soon(t, "they are repaired", func() bool {
		return nodes[0].Blocks().Stats().Repaired == 2 && nodes[1].Blocks().Stats().Repaired == 2 && complete(t, in, container, 4) == 3
	})
	soon(t, "nothing is left to do", func() bool {
		s := in.Registry().Stats()
		return s.Drops == 0 && s.Surplus == 0 && s.UnderReplicated == 0
	})
	for id, b := range written {
		for i, n := range nodes {
			got := make([]byte, len(b))
			k, s, err := n.Blocks().Read(id, 0, got, nil)
			if err != nil || k != len(b) || !bytes.Equal(got, b) || !bytes.Equal(s, sums(b)) {
				t.Errorf("block %v on datanode %d: %d bytes, %v", id, i, k, err)
			}
			if info, err := n.Blocks().Stat(id); err != nil || info.Damaged {
				t.Errorf("block %v on datanode %d: %+v, %v", id, i, info, err)
			}
		}
	}
}

// flip changes a bit of a file.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

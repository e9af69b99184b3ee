package namespace

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/muster-fs/muster"
)

// TestRequestsOfAGroupSeeWhatWasAppliedBefore applies requests of several callers as one group. A
// refused one leaves nothing to those after it, neither an entry nor the memory of a walk; and who
// comes next has its own rights, not those of the one before.
func TestRequestsOfAGroupSeeWhatWasAppliedBefore(t *testing.T) {
	tree := openMem(t, Options{idle: true})
	mustApply(t, tree, muster.Mkdir{Path: "/open", Mode: 0o777})
	ann, ben := muster.Identity{User: "ann"}, muster.Identity{User: "ben"}
	requests := []struct {
		who      muster.Identity
		commands []muster.Command
		index    int // of the command to be refused
		err      error
	}{
		{ann, []muster.Command{muster.Mkdir{Path: "/open/a/b", Mode: 0o755, Parents: true}, muster.Create{Path: "/open/a/b/f"}}, 0, nil},
		{ann, []muster.Command{muster.Mkdir{Path: "/open/a/c", Mode: 0o755}, muster.Create{Path: "/open/a/c/f"}, muster.Create{Path: "/open/a/b/f"}}, 2, muster.ErrExists},
		{ann, []muster.Command{muster.Create{Path: "/open/a/c/f"}}, 0, muster.ErrNotFound},
		{ann, []muster.Command{muster.Delete{Path: "/open/a/b/f"}, muster.Delete{Path: "/open/a"}}, 1, muster.ErrNotEmpty},
		{ben, []muster.Command{muster.Create{Path: "/open/f"}, muster.Create{Path: "/open/a/g"}}, 1, muster.ErrPermission},
		{ben, []muster.Command{muster.Create{Path: "/open/f", Mode: 0o600}}, 0, nil},
		{ann, []muster.Command{muster.Create{Path: "/open/a/b/f", Overwrite: true}, muster.Rename{From: "/open/a/b", To: "/open/b"}}, 0, nil},
		{ann, []muster.Command{muster.Create{Path: "/open/a/b/g"}}, 0, muster.ErrNotFound},
		{ann, []muster.Command{muster.Create{Path: "/open/b/g"}}, 0, nil},
	}
	var group []*call
	for _, r := range requests {
		c := &call{ctx: t.Context(), request: Request{Caller: r.who, Commands: r.commands}, done: make(chan struct{})}
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		group = append(group, c)
	}
	tree.committer.commit(tree.newTxn(tree.committer.meta), group) // nobody else commits now
	txid := uint64(1)
	for i, r := range requests {
		err := group[i].err
		var refused *muster.CommandError
		if !errors.Is(err, r.err) || r.err != nil && (!errors.As(err, &refused) || refused.Index != r.index) {
			t.Errorf("request %d: %v; want %v of command %d", i, err, r.err, r.index)
		}
		if err == nil {
			txid++
			if got := group[i].applied.Txid; got != txid {
				t.Errorf("request %d: txid %d, want %d", i, got, txid)
			}
		}
	}
	for path, want := range map[string][]string{"/open": {"a", "b", "f"}, "/open/a": nil, "/open/b": {"f", "g"}} {
		if got := names(t, tree, path); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	check(t, tree)
}

// TestCommandsAllocateLittle: a batch of 1,000 makes no object for each, once buffers have grown.
func TestCommandsAllocateLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	tree := openMem(t, Options{idle: true})
	mustApply(t, tree, muster.Mkdir{Path: "/t", Mode: 0o755})
	var commands []muster.Command
	for i := range 500 {
		dir := fmt.Sprintf("/t/day=%d/hour=%02d", i/24, i%24)
		commands = append(commands, muster.Mkdir{Path: dir, Mode: 0o755, Parents: true},
			muster.Create{Path: dir + "/part-00000.parquet", Mode: 0o644, Length: 10, Replication: muster.Replicated(3), Blocks: []muster.Block{{Container: 1, LocalID: uint64(i), Length: 10}}})
	}
	c := &call{ctx: t.Context(), request: Request{Caller: root, Commands: commands}}
	tx := tree.newTxn(tree.committer.meta) // nobody commits now
	got := testing.AllocsPerRun(20, func() {
		tx.reset(tree.committer.meta)
		if _, err := tx.run(c); err != nil {
			t.Fatal(err)
		}
	})
	if got > 150 {
		t.Errorf("%v objects for 1,000 commands", got)
	}
}

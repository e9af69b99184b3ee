package client_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// plant makes entries: "/d/" is a directory, "/f" an empty file, "/f #9" a file of 9
// bytes, "/l -> target" a link. Parents are made as needed.
func plant(t *testing.T, c *client.Client, entries ...string) {
	t.Helper()
	for some := range slices.Chunk(entries, 1000) {
		var commands []muster.Command
		for _, entry := range some {
			commands = append(commands, planting(t, entry))
		}
		if _, err := c.Apply(t.Context(), commands...); err != nil {
			t.Fatal(err)
		}
	}
}

func planting(t *testing.T, entry string) muster.Command {
	t.Helper()
	if path, target, ok := strings.Cut(entry, " -> "); ok {
		return muster.Symlink{Path: path, Target: target}
	}
	if strings.HasSuffix(entry, "/") {
		return muster.Mkdir{Path: entry, Mode: 0o755, Parents: true}
	}
	create := muster.Create{Path: entry, Mode: 0o644, Parents: true}
	if path, length, ok := strings.Cut(entry, " #"); ok {
		create.Path = path
		if _, err := fmt.Sscan(length, &create.Length); err != nil {
			t.Fatal(err)
		}
	}
	return create
}

// names returns n paths: prefix followed by a number of width digits.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%06d", prefix, i)
	}
	return all
}

// listed is a whole listing as text, to compare with another: a line for each row and
// for each outcome, in their order.
func listed(t *testing.T, batches iter.Seq2[*client.Batch, error]) []string {
	t.Helper()
	var rows, outcomes []string
	for b, err := range batches {
		if err != nil {
			t.Fatalf("after %d rows and %d outcomes: %v", len(rows), len(outcomes), err)
		}
		for i := range b.Len() {
			rows = append(rows, fmt.Sprintf("%d %q %q %v %d", b.PathIndex(i), b.Given(i), b.Path(i), b.Kind(i), b.InodeID(i)))
		}
		for _, o := range b.Outcomes {
			outcomes = append(outcomes, fmt.Sprintf("%d %q %s %d rows of %d", o.Index, o.Path, o.Code.Name(), o.Rows, o.ID))
		}
	}
	return append(rows, outcomes...)
}

// same fails the test where two listings differ first.
func same(t *testing.T, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("line %d of %d:\ngot  %s\nwant %s", i, len(want), got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
}

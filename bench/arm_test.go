package bench

import (
	"slices"
	"testing"
)

// Every arm must list the same rows, also where pages end inside of directories.
func TestEveryArmSeesTheSameRows(t *testing.T) {
	c := startServer(t)
	for _, table := range []Table{
		{Root: "/many", Partitions: 250, Files: 1},
		{Root: "/some", Partitions: 30, Files: 70},
		{Root: "/one", Partitions: 1, Files: 2500},
	} {
		fill(t, c, table)
		var first Digest
		for i, arm := range Arms() {
			got := seen(t, c, slices.Collect(table.Paths()), arm.List)
			if i == 0 {
				first = got
			}
			if got.Rows != table.Partitions*table.Files || !got.Equal(&first) {
				t.Errorf("%v: %s sees %d rows, or others than %s", table, arm.Name, got.Rows, Arms()[0].Name)
			}
		}
	}
}

func TestDigestsDifferIfOneRowDoes(t *testing.T) {
	c := startServer(t)
	fill(t, c, Table{Root: "/a", Partitions: 3, Files: 2})
	fill(t, c, Table{Root: "/b", Partitions: 3, Files: 2})
	a := slices.Collect(Table{Root: "/a", Partitions: 3}.Paths())
	b := slices.Collect(Table{Root: "/b", Partitions: 3}.Paths())
	all, back := seen(t, c, a, Stream), slices.Clone(a)
	slices.Reverse(back)
	for name, test := range map[string]struct {
		paths []string
		equal bool
	}{
		"another order":     {back, true},
		"the same":          {a, true},
		"one twice":         {append(slices.Clone(a), a[0]), false},
		"one missing":       {a[1:], false},
		"another directory": {append(slices.Clone(a[1:]), b[0]), false},
		"one for another":   {append(slices.Clone(a[1:]), a[1]), false},
	} {
		if got := seen(t, c, test.paths, Iterator); got.Equal(&all) != test.equal {
			t.Errorf("%s: equal is %v", name, !test.equal)
		}
	}
}

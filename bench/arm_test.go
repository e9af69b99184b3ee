package bench

import (
	"slices"
	"testing"

	"github.com/muster-fs/muster/listing/rows"
)

// Every arm must list the same rows, also where pages end inside of directories, with a
// wire and without.
func TestEveryArmSeesTheSameRows(t *testing.T) {
	c := startServer(t)
	tree, lister := openTree(t)
	for _, table := range []Table{
		{Root: "/many", Partitions: 250, Files: 1},
		{Root: "/some", Partitions: 30, Files: 70},
		{Root: "/one", Partitions: 1, Files: 2500},
		{Root: "/directories", Partitions: 2, Directories: 1200},
	} {
		fill(t, c, table)
		if err := FillTree(t.Context(), tree, admin(), table, nil); err != nil {
			t.Fatal(err)
		}
		for place, from := range map[string]source{
			"wire": wire{client: c, columns: rows.DefaultColumns}, "in process": direct{lister: lister, caller: admin(), columns: rows.DefaultColumns},
			"wire, no mtime": wire{client: c, columns: rows.DefaultColumns &^ rows.ColMTime},
		} {
			var first digest
			for i, arm := range Arms() {
				got := seen(t, from, slices.Collect(table.Paths()), arm)
				if i == 0 {
					first = got
				}
				if got.rows != table.Partitions*(table.Files+table.Directories) || got != first {
					t.Errorf("%s, %s: %v sees %d rows, or others than %v", place, table.Root, arm, got.rows, Arms()[0])
				}
			}
		}
	}
}

func TestArmsMakeTheCallsThatTheyAreNamedFor(t *testing.T) {
	c := startServer(t)
	many, one := Table{Root: "/many", Partitions: 250, Files: 2}, Table{Root: "/one", Partitions: 1, Files: 2500}
	fill(t, c, many)
	fill(t, c, one)
	want := map[string][2]int{
		"iterator": {250, 3}, "iterator-16": {250, 3}, "iterator-64": {250, 3},
		"pages-100": {2 + 2 + 1, 25}, "pages-1000": {1, 3}, "stream": {1, 1},
	}
	for _, arm := range Arms() {
		for i, table := range []Table{many, one} {
			calls, err := arm.list(t.Context(), wire{client: c, columns: rows.DefaultColumns}, slices.Collect(table.Paths()), func(part) {})
			// A last page that is full does not know that it is the last.
			if least := want[arm.String()][i]; err != nil || calls < least || calls > least+3 {
				t.Errorf("%v of %v: %d calls, %v; want %d", arm, table, calls, err, least)
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
	from := wire{client: c, columns: rows.DefaultColumns}
	all, back := seen(t, from, a, Arms()[5]), slices.Clone(a)
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
		if got := seen(t, from, test.paths, iterator(1)); (got == all) != test.equal {
			t.Errorf("%s: equal is %v", name, !test.equal)
		}
	}
}

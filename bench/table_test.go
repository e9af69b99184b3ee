package bench

import (
	"slices"
	"testing"

	"github.com/muster-fs/muster"
)

func TestPartitionsAscendInByteOrder(t *testing.T) {
	table := Table{Root: "/t", Partitions: 30_000, Files: 1}
	paths := slices.Collect(table.Paths())
	if len(slices.Compact(paths)) != 30_000 || !slices.IsSorted(paths) {
		t.Error("the partitions' paths do not ascend")
	}
	if paths[0] != "/t/day=2023-01-01/hour=00" || paths[25] != "/t/day=2023-01-02/hour=01" {
		t.Error(paths[0], paths[25])
	}
}

func TestATableIsMadeOfTheSameCommandsEachTime(t *testing.T) {
	table := Table{Root: "/t", Partitions: 3, Files: 2}
	first, second := slices.Collect(table.Commands()), slices.Collect(table.Commands())
	if len(first) != 9 || len(second) != 9 {
		t.Fatal(len(first), len(second))
	}
	for i := range first {
		if first[i].Subject() != second[i].Subject() {
			t.Errorf("%s, then %s", first[i].Subject(), second[i].Subject())
		}
	}
	if c := first[1].(muster.Create); c.Blocks[0].Length != c.Length || c.Length == 0 {
		t.Errorf("the block does not cover the file: %+v", c)
	}
}

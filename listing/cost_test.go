package listing_test

import (
	"fmt"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

// A page of n directories walks to their common parent once: then each costs a point read
// of its row, a seek to its children and a seek to its record. Its children's rows cost
// nothing but steps, and directories among them a seek each if their time is wanted.
func TestStoreReadsOfAPage(t *testing.T) {
	w := newWorld(t)
	var dirs, files []string
	for d := range 10 {
		dirs = append(dirs, fmt.Sprintf("/warehouse/db/table/ds=%02d", d))
		for f := range 5 {
			files = append(files, fmt.Sprintf("%s/f%d", dirs[d], f))
		}
	}
	w.build(files...)
	l := w.lister(listing.Config{})
	tests := []struct {
		name        string
		paths       []string
		options     listing.Options
		gets, seeks uint64
	}{
		{"ten directories of five files", dirs, listing.Options{}, 4 + 10, 10 + 10},
		{"one directory of ten directories", []string{"/warehouse/db/table"}, listing.Options{}, 4, 1 + 1 + 10},
		{"the same without times", []string{"/warehouse/db/table"}, listing.Options{Columns: rows.ColKind}, 4, 1 + 1},
		{"fifty files", files, listing.Options{}, 4 + 10 + 50, 0},
		{"own entries of fifty files", files, listing.Options{Own: true}, 4 + 10 + 50, 0},
		{"three missing files", []string{"/a", "/b", "/c"}, listing.Options{}, 1 + 3, 0},
	}
	for _, test := range tests {
		before := w.tree.Stats()
		m, err := page(t.Context(), l, root, test.paths, test.options, nil)
		if err != nil || !m.Done {
			t.Fatal(m, err)
		}
		after := w.tree.Stats()
		gets, seeks := after.Gets-before.Gets, after.Seeks-before.Seeks
		if gets != test.gets || seeks != test.seeks {
			t.Errorf("%s: %d gets, %d seeks; want %d, %d", test.name, gets, seeks, test.gets, test.seeks)
		}
	}
}

func TestNothingIsAllocatedPerRow(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := newWorld(t)
	const n = 20_000
	w.build(filesIn("/d", n)...)
	l := w.lister(listing.Config{})
	for _, o := range []listing.Options{
		{Columns: rows.AllColumns},
		{Columns: rows.AllColumns, Consistency: muster.ConsistencySnapshot},
	} {
		allocs := testing.AllocsPerRun(3, func() {
			err := l.Stream(t.Context(), root, o, nil, feedOf([]string{"/d"}, 1), func(*listing.Message) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
		})
		if allocs > n/20 { // each page has some: its reader, its iterators
			t.Errorf("consistency %v: %.0f allocations for %d rows", o.Consistency, allocs, n)
		}
	}
}

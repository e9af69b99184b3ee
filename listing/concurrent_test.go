package listing_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"github.com/muster-fs/muster/listing"
)

// Buffers go from call to call, but what a page call returned is its caller's.
func TestPageIsTheCallersToKeep(t *testing.T) {
	w := newWorld(t)
	w.build(filesIn("/d", 5)...)
	l := w.lister(listing.Config{})
	o := listing.Options{Limit: 3}
	kept := onePage(t, l, []string{"/missing", "/d"}, o, nil)
	frame, outcomes, cursor := bytes.Clone(kept.Frame), slices.Clone(kept.Outcomes), bytes.Clone(kept.Cursor)
	for range 10 {
		onePage(t, l, []string{"/d", "relative"}, listing.Options{}, nil)
	}
	if !bytes.Equal(kept.Frame, frame) || !slices.Equal(kept.Outcomes, outcomes) || !bytes.Equal(kept.Cursor, cursor) {
		t.Errorf("the page was overwritten: %+v", kept)
	}
}

// One lister serves callers and options of all kinds at once.
func TestListerIsSafeForConcurrentUse(t *testing.T) {
	tree := newRandomTree(t, 5, 40)
	paths := tree.paths()
	l := tree.lister(listing.Config{})
	var group sync.WaitGroup
	for g := range 6 {
		o := randomOptions(g)
		o.Limit = 1 + 3*g
		caller := root
		if g%2 == 1 {
			caller = alice
		}
		want := tree.oracle(caller, paths, o)
		group.Go(func() {
			for range 5 {
				for what, got := range map[string]*listed{
					"pages":  pages(t, l, caller, paths, o).mask(),
					"stream": stream(t, l, caller, paths, o, 3).mask(),
				} {
					if len(got.rows) != len(want.rows) || !slices.Equal(got.outcomes, want.outcomes) {
						t.Errorf("%s of %+v: %d rows, want %d", what, o, len(got.rows), len(want.rows))
					}
				}
			}
		})
	}
	group.Wait()
}

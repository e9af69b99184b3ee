package client_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// rowsOf returns what a batch says, of all that its memory holds.
func rowsOf(b *client.Batch) (all []string) {
	for i := range b.Len() {
		all = append(all, fmt.Sprintf("%d %s %+v", b.PathIndex(i), b.Path(i), b.Entry(i)))
	}
	for _, o := range b.Outcomes {
		all = append(all, fmt.Sprintf("%+v", o))
	}
	return all
}

func TestReleasedBatchesChangeNoOther(t *testing.T) {
	c := connect(t)
	var paths []string
	for i := range 60 {
		dir := fmt.Sprintf("/table/part=%02d", i)
		plant(t, c, names(dir+"/file-of-a-long-name-", 150)...)
		paths = append(paths, dir, "/missing"+dir)
	}
	o := client.ListOptions{Columns: rows.AllColumns}
	var want []string
	for b, err := range c.List(t.Context(), slices.Values(paths), o) {
		must(t, err)
		want = append(want, rowsOf(b)...)
	}
	for round := range 4 {
		var got []string
		kept := map[*client.Batch][]string{}
		for b, err := range c.List(t.Context(), slices.Values(paths), o) {
			must(t, err)
			said := rowsOf(b)
			if got = append(got, said...); len(kept)%2 == round%2 {
				kept[b] = said
				continue
			}
			b.Release()
			if b.Release(); b.Len() != 0 || b.Outcomes != nil {
				t.Error("a released batch has rows")
			}
			kept[b] = nil
		}
		same(t, slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) // cut otherwise
		for b, said := range kept {
			same(t, rowsOf(b), said)
		}
	}
	(*client.Batch)(nil).Release()
}

func TestReleasedPagesChangeNoOther(t *testing.T) {
	c := connect(t)
	plant(t, c, names("/d/file-of-a-long-name-", 1000)...)
	var kept *client.Batch
	for range 5 {
		b, err := c.Page(t.Context(), []string{"/d"}, nil, client.ListOptions{})
		must(t, err)
		if kept == nil {
			kept = b
			continue
		}
		same(t, rowsOf(b), rowsOf(kept))
		b.Release()
	}
}

// The rows of a listing take about 150 bytes each, if nobody gives them back.
func TestListingThatReleasesItsBatchesTakesNoMemoryForRows(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	const rounds, files, most = 20, 4000, 75 // server and client; the collector makes pools forget some
	c := connect(t)
	plant(t, c, names("/d/file-of-a-long-name-", files)...)
	list := func() {
		for b, err := range c.List(t.Context(), slices.Values([]string{"/d", "/d"}), client.ListOptions{}) {
			must(t, err)
			b.Release()
		}
	}
	list()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		list()
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / (rounds * 2 * files); took > most {
		t.Errorf("%d bytes a row, at most %d", took, most)
	}
}

// What was released is given to others by size: a small batch that is kept does not take
// the room of a large one. Nor does it keep what its rows were expanded from.
func TestAKeptBatchTakesNoMoreMemoryThanItNeeds(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	const kept, most = 20, 100 << 10 // its frame takes 37 KiB
	c := connect(t)
	plant(t, c, names("/small/file-of-a-long-name-", 300)...)
	plant(t, c, names("/large/file-of-a-long-name-", 6000)...)
	for name, o := range map[string]client.ListOptions{"plain": {}, "compressed": {Compress: true}} {
		var batches []*client.Batch
		before := int64(0)
		for i := range 2 * kept {
			if i == kept { // all has been done, and has grown what it grows
				clear(batches)
				before, batches = settledBytes(), nil
			}
			for b, err := range c.List(t.Context(), slices.Values([]string{"/large", "/large"}), o) {
				must(t, err)
				b.Release()
			}
			for _, err := range c.StatAll(t.Context(), slices.Values(slices.Repeat([]string{"/missing"}, 10_000))) {
				must(t, err)
			}
			b, err := c.Page(t.Context(), []string{"/small"}, nil, o)
			must(t, err)
			batches = append(batches, b)
		}
		if each := (settledBytes() - before) / kept; each > most {
			t.Errorf("%s: %d bytes a batch, at most %d", name, each, most)
		}
		runtime.KeepAlive(batches)
	}
}

// settledBytes returns the size of all that is reachable, but for what pools hold.
func settledBytes() int64 {
	liveBytes()
	return liveBytes()
}

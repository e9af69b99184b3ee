package rows

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Wherever rows and blocks end among the chunks, and whatever lay there before, a frame has
// the rows that were appended.
func TestRowsAndBlocksAcrossChunks(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	samples := randomRows(random, 3*chunkRows+1)
	used := NewBuilder(AllColumns)
	for _, c := range columnSets {
		used.Use(c)
		for i := range samples { // to be overwritten
			used.Append(samples[i].path, &samples[len(samples)-1-i].row)
		}
		for _, n := range []int{1, chunkRows - 1, chunkRows, chunkRows + 1, 2 * chunkRows, len(samples)} {
			used.Use(c)
			if used.Len() != 0 || used.Columns() != c.Normal() {
				t.Fatalf("%d rows of columns %#x", used.Len(), uint32(used.Columns()))
			}
			for i := range n {
				used.Append(samples[i].path, &samples[i].row)
				if name := used.LastName(); !bytes.Equal(name, samples[i].row.Name) {
					t.Fatalf("last name %q, want %q", name, samples[i].row.Name)
				}
			}
			used.SetMTime(n-1, 42)
			batch, err := Decode(used.AppendFrame(nil), c)
			if err != nil {
				t.Fatalf("columns %#x, %d rows: %v", uint32(c), n, err)
			}
			fresh := NewBuilder(c)
			for i := range n {
				fresh.Append(samples[i].path, &samples[i].row)
			}
			fresh.SetMTime(n-1, 42)
			if !bytes.Equal(used.AppendFrame(nil), fresh.AppendFrame(nil)) {
				t.Fatalf("columns %#x, %d rows: a used builder makes another frame", uint32(c), n)
			}
			for i := range n {
				if batch.PathIndex(i) != samples[i].path || batch.Name(i) != string(samples[i].row.Name) {
					t.Fatalf("row %d is %d %q", i, batch.PathIndex(i), batch.Name(i))
				}
				if k := batch.NumBlocks(i); k > 0 && batch.Block(i, k-1) != samples[i].row.Blocks[k-1] {
					t.Fatalf("row %d: last block %+v", i, batch.Block(i, k-1))
				}
			}
		}
	}
}

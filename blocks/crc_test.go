package blocks

import (
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

func TestCombinedChecksumsAreThoseOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "pieces")
		var got, want uint32
		for _, p := range pieces {
			got = combine(got, crc32.Checksum(p, castagnoli), int64(len(p)))
			want = crc32.Update(want, castagnoli, p)
		}
		if got != want {
			t.Errorf("%08x, want %08x", got, want)
		}
	})
}

// Lengths that no test makes data of: n bytes and then m are n+m.
func TestPowersOfLongLengths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.Int64Range(0, 1<<61).Draw(t, "n"), rapid.Int64Range(0, 1<<61).Draw(t, "m")
		if multiply(power(n), power(m)) != power(n+m) {
			t.Errorf("%d and %d", n, m)
		}
	})
}

// An answer that does not fit the block's length is damage, and no checksum.
func TestChecksumsOfAnotherLengthAreRefused(t *testing.T) {
	for _, m := range []*pb.GetBlockReply{
		{},
		{Length: 10, ChunkBytes: 0, Chunks: []uint32{1}},
		{Length: 10, ChunkBytes: 4, Chunks: []uint32{1, 2}},
		{Length: 10, ChunkBytes: 4, Chunks: []uint32{1, 2, 3, 4}},
		{Length: 9, ChunkBytes: 4, Chunks: []uint32{1, 2, 3}},
		{Length: -1, ChunkBytes: 4},
	} {
		if sum, err := composite(m, 10); muster.CodeOf(err) != muster.ErrCorrupt {
			t.Errorf("%v: %08x, %v", m, sum, err)
		}
	}
}

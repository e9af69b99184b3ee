package store

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/muster-fs/muster"
)

// recode decodes a value of a tag and encodes what it got.
func recode(tag byte, v []byte) ([]byte, error) {
	switch tag {
	case tagBlock:
		r, err := decodeBlock(v)
		return appendBlock(nil, r), err
	case tagChunk:
		n, sums, err := decodeChunk(v)
		return appendChunk(nil, n, sums), err
	case tagContainer:
		r, err := decodeContainer(v)
		return appendContainer(nil, r), err
	case tagScrub:
		r, err := decodeScrub(v)
		return appendScrub(nil, r), err
	}
	at, err := decodeTombstone(v)
	return appendTombstone(nil, at), err
}

var tags = []byte{tagBlock, tagChunk, tagContainer, tagScrub, tagTombstone}

func examples() map[byte][]byte {
	return map[byte][]byte{
		tagBlock:     appendBlock(nil, blockRecord{committed: true, damaged: true, file: 7, length: 12, created: 1, touched: 2}),
		tagChunk:     appendChunk(nil, muster.ChecksumBytes+1, []byte("checksum")),
		tagContainer: appendContainer(nil, containerRecord{closed: true, created: 5}),
		tagScrub:     appendScrub(nil, scrubRecord{since: 1, finished: 2, blocks: 3, bytes: 4, damaged: 5}),
		tagTombstone: appendTombstone(nil, 77),
	}
}

// TestFormats holds the formats still.
func TestFormats(t *testing.T) {
	want := map[byte]string{
		tagBlock:     "\x01\x03\x07\x00\x00\x00\x00\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00",
		tagChunk:     "\x01\x01\x40\x00\x00checksum",
		tagContainer: "\x01\x01\x05\x00\x00\x00\x00\x00\x00\x00",
		tagScrub:     "\x01\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00",
		tagTombstone: "\x01\x4d\x00\x00\x00\x00\x00\x00\x00",
	}
	for tag, v := range examples() {
		if string(v) != want[tag] {
			t.Errorf("value of %q: %q; want %q", tag, v, want[tag])
		}
	}
	id := muster.BlockID{Container: 0x0102, LocalID: 3}
	for key, want := range map[string]string{
		string(blockKey(id)):                   "b\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x03",
		string(chunkKey(id, 9)):                "d\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x09",
		string(tombstoneKey(id)):               "t\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x03",
		string(containerKey(0x0102)):           "c\x00\x00\x00\x00\x00\x00\x01\x02",
		string(scrubKey()):                     "s",
		string(successor([]byte("a"))):         "b",
		string(successor([]byte("a\xff\xff"))): "b",
	} {
		if key != want {
			t.Errorf("key %q; want %q", key, want)
		}
	}
}

func FuzzRecords(f *testing.F) {
	for i, tag := range tags {
		f.Add(uint8(i), examples()[tag])
	}
	f.Fuzz(func(t *testing.T, which uint8, v []byte) {
		tag := tags[int(which)%len(tags)]
		if again, err := recode(tag, v); err == nil && !bytes.Equal(again, v) {
			t.Fatalf("value of %q: %x was taken, and is %x", tag, v, again)
		} else if err != nil && muster.CodeOf(err) != muster.ErrCorrupt {
			t.Fatalf("value of %q: %v", tag, err)
		}
	})
}

// TestRecordsRefuseOtherLengths cuts and lengthens values.
func TestRecordsRefuseOtherLengths(t *testing.T) {
	for tag, v := range examples() {
		for n := range v {
			if _, err := recode(tag, v[:n]); err == nil {
				t.Errorf("value of %q cut to %d bytes was taken", tag, n)
			}
		}
		if _, err := recode(tag, append(slices.Clone(v), 0)); err == nil {
			t.Errorf("value of %q with a byte more was taken", tag)
		}
	}
}

// TestChunkSumsAreThoseOfTheData compares checksums that were joined with those of the whole data.
func TestChunkSumsAreThoseOfTheData(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, 2*muster.ChunkBytes+3*muster.ChecksumBytes)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for _, n := range []int{0, 1, 100, muster.ChecksumBytes, muster.ChecksumBytes + 1, muster.ChunkBytes - 1, muster.ChunkBytes, muster.ChunkBytes + 1, len(data) - 5, len(data)} {
		var sums []byte
		var want []uint32
		for at := 0; at < n; at += muster.ChecksumBytes {
			sums = append(sums, le(crc32.Checksum(data[at:min(n, at+muster.ChecksumBytes)], castagnoli))...)
		}
		for at := 0; at < n; at += muster.ChunkBytes {
			want = append(want, crc32.Checksum(data[at:min(n, at+muster.ChunkBytes)], castagnoli))
		}
		if got := chunkSums(int64(n), sums); !slices.Equal(got, want) {
			t.Fatalf("of %d bytes: %x; want %x", n, got, want)
		}
		if mismatch(data[:n], sums) != -1 {
			t.Fatalf("%d bytes do not match their checksums", n)
		}
	}
}

func le(n uint32) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)} }

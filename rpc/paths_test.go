package rpc

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fs/muster"
)

func pack(paths []string) []byte {
	var packed []byte
	prev := ""
	for _, p := range paths {
		packed = AppendPath(packed, prev, p)
		prev = p
	}
	return packed
}

func TestPackedPathsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"", "/a", "/", "/ab", "x\x00", "\xff\xfe", "/day=2026-11-30", "/é"})
		path := rapid.Map(rapid.SliceOfN(part, 0, 5), func(parts []string) string { return strings.Join(parts, "") })
		paths := rapid.SliceOfN(path, 0, 50).Draw(t, "paths")
		got, err := UnpackPaths(pack(paths), uint32(len(paths)), 50, 1<<20)
		if err != nil || !slices.Equal(got, paths) {
			t.Fatalf("sent %q, got %q, %v", paths, got, err)
		}
	})
}

// The table of docs/formats.md.
func TestPackedPathsByteByByte(t *testing.T) {
	got := pack([]string{"/t/p=1", "/t/p=27", "/t"})
	want := []byte("\x00\x06/t/p=1\x05\x0227\x02\x00")
	if !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPackedPathsAreBounded(t *testing.T) {
	good := pack([]string{"/abc", "/abd"})
	for _, c := range []struct {
		name     string
		packed   []byte
		count    uint32
		paths    int
		bytes    int
		wantCode muster.Code
	}{
		{"as they are", good, 2, 2, 8, muster.OK},
		{"none", nil, 0, 0, 0, muster.OK},
		{"too many", good, 2, 1, 100, muster.ErrLimit},
		{"count of a liar", good, 1 << 31, 1 << 20, 100, muster.ErrLimit},
		{"too long", good, 2, 2, 7, muster.ErrLimit},
		{"fewer than said", good, 3, 3, 100, muster.ErrInvalid},
		{"more than said", good, 1, 3, 100, muster.ErrInvalid},
		{"cut in a suffix", good[:len(good)-1], 2, 2, 100, muster.ErrInvalid},
		{"shares more than there is", []byte{1, 0}, 1, 2, 100, muster.ErrInvalid},
		{"suffix past the end", []byte{0, 200, 1, 'x'}, 1, 2, 100, muster.ErrInvalid},
		{"endless number", bytes.Repeat([]byte{0xff}, 20), 1, 2, 100, muster.ErrInvalid},
		{"huge suffix", binary.AppendUvarint([]byte{0}, 1<<63), 1, 2, 100, muster.ErrInvalid},
		{"huge share", append(binary.AppendUvarint(nil, 1<<63), 0), 1, 2, 100, muster.ErrInvalid},
	} {
		paths, err := UnpackPaths(c.packed, c.count, c.paths, c.bytes)
		if muster.CodeOf(err) != c.wantCode {
			t.Errorf("%s: got %q, %v, want %s", c.name, paths, err, c.wantCode.Name())
		}
	}
}

// A few bytes may not stand for very many: each path after the first takes two bytes and
// says that it is all of the first.
func TestFrontCodingCannotBlowUpMemory(t *testing.T) {
	const paths = 100_000
	bomb := AppendPath(nil, "", strings.Repeat("x", 8000))
	for range paths - 1 {
		bomb = append(binary.AppendUvarint(bomb, 8000), 0)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := UnpackPaths(bomb, paths, paths, MaxChunkBytes)
	runtime.ReadMemStats(&after)
	wantCode(t, err, muster.ErrLimit)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<10 {
		t.Errorf("refusing %d bytes took %d bytes of memory", len(bomb), took)
	}
}

func TestUnpackingAllocatesTwice(t *testing.T) {
	var paths []string
	for i := range ChunkPaths {
		paths = append(paths, "/warehouse/t/day="+strings.Repeat("x", i%50))
	}
	packed := pack(paths)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := UnpackPaths(packed, ChunkPaths, ChunkPaths, MaxChunkBytes); err != nil {
			t.Fatal(err)
		}
	}); n > 2 {
		t.Errorf("%v allocations for a chunk of %d paths, want 2", n, ChunkPaths)
	}
}

func FuzzUnpackPaths(f *testing.F) {
	f.Add(pack([]string{"/a", "/ab", "/b", ""}), uint32(4))
	f.Add([]byte{0, 200, 1, 'x'}, uint32(1))
	f.Add(append(binary.AppendUvarint(nil, 1<<63), 0), uint32(1))
	f.Fuzz(func(t *testing.T, packed []byte, count uint32) {
		const maxPaths, maxBytes = 100, 4096
		var paths []string
		var err error
		// A path takes two bytes at least, and 16 once unpacked.
		wantAllocated(t, 8*len(packed)+maxBytes+8<<10, func() { paths, err = UnpackPaths(packed, count, maxPaths, maxBytes) })
		if err != nil {
			if code := muster.CodeOf(err); code != muster.ErrInvalid && code != muster.ErrLimit {
				t.Fatalf("got %v", err)
			}
			return
		}
		total := 0
		for _, p := range paths {
			total += len(p)
		}
		if len(paths) != int(count) || len(paths) > maxPaths || total > maxBytes {
			t.Fatalf("%d paths of %d bytes for a count of %d", len(paths), total, count)
		}
		again, err := UnpackPaths(pack(paths), count, maxPaths, maxBytes)
		if err != nil || !slices.Equal(again, paths) {
			t.Fatalf("%q became %q, %v", paths, again, err)
		}
	})
}

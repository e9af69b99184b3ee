package namespace

import (
	"bytes"
	"cmp"
	"errors"
	"runtime"
	"testing"

	"github.com/muster-fs/muster"
)

// fuzzCodec checks that no bytes make a decoder panic or allocate much more than there are bytes,
// and that what it accepts is exactly what the encoder makes: bytes it does not understand are
// never taken for something else.
func fuzzCodec(f *testing.F, name string) {
	for _, c := range codecs {
		if c.name != name {
			continue
		}
		for _, v := range c.samples() {
			f.Add(v[:min(len(v), 1000)])
			f.Add(v)
		}
		f.Fuzz(func(t *testing.T, v []byte) {
			again, err := c.recode(v)
			if err != nil && !errors.Is(err, muster.ErrCorrupt) {
				t.Errorf("code %v", muster.CodeOf(err).Name())
			}
			if err == nil && !bytes.Equal(again, v) {
				t.Errorf("accepted %x, which encodes as %x", v, again)
			}
			mustAllocate(t, 16*len(v)+8<<10, func() { c.recode(v) })
		})
	}
}

// mustAllocate checks that do allocates at most so many bytes; the rest of the process may
// allocate in one run, but not in each.
func mustAllocate(t *testing.T, most int, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	for range 5 {
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		if after.TotalAlloc-before.TotalAlloc <= uint64(most) {
			return
		}
	}
	t.Errorf("allocated %d bytes, want at most %d", after.TotalAlloc-before.TotalAlloc, most)
}

func FuzzRow(f *testing.F)     { fuzzCodec(f, "row") }
func FuzzRecord(f *testing.F)  { fuzzCodec(f, "record") }
func FuzzResult(f *testing.F)  { fuzzCodec(f, "result") }
func FuzzMeta(f *testing.F)    { fuzzCodec(f, "meta") }
func FuzzExpiry(f *testing.F)  { fuzzCodec(f, "expiry") }
func FuzzChunk(f *testing.F)   { fuzzCodec(f, "chunk") }
func FuzzQueue(f *testing.F)   { fuzzCodec(f, "queue") }
func FuzzWriting(f *testing.F) { fuzzCodec(f, "writing") }
func FuzzDropped(f *testing.F) { fuzzCodec(f, "dropped") }

// FuzzKeys: a key is taken apart into what it is made of, and keys sort as their parts do.
func FuzzKeys(f *testing.F) {
	f.Add([]byte{}, []byte{tagRow})
	f.Add(appendRowKey(nil, 1, "a"), appendRowKey(nil, 1, "a=1"))
	f.Add(appendRowKey(nil, 255, "é"), appendRowKey(nil, 256, ""))
	f.Add(appendChunkKey(nil, 7, 1), appendIDKey(nil, tagRecord, 1<<63))
	f.Add(appendDeleteKey(nil, muster.BlockID{Container: 1, LocalID: 1 << 40}), appendDeleteKey(nil, muster.BlockID{}))
	f.Fuzz(func(t *testing.T, key, other []byte) {
		for _, rest := range []int{-1, 0, 4} {
			id, tail, ok := splitIDKey(key, rest)
			if want := len(key) >= idKeyLen && (rest < 0 || len(key)-idKeyLen == rest); ok != want {
				t.Fatalf("%x with %d bytes after the id: %v", key, rest, ok)
			}
			if !ok {
				continue
			}
			if again := append(appendIDKey(nil, key[0], id), tail...); !bytes.Equal(again, key) {
				t.Errorf("%x is made again as %x", key, again)
			}
		}
		if b, ok := splitDeleteKey(key); ok && !bytes.Equal(append([]byte{key[0]}, appendDeleteKey(nil, b)[1:]...), key) {
			t.Errorf("%x is made again of %v", key, b)
		}
		a, name, ok := splitIDKey(key, -1)
		b, otherName, otherOK := splitIDKey(other, -1)
		if !ok || !otherOK {
			return
		}
		want := cmp.Or(cmp.Compare(a, b), bytes.Compare(name, otherName))
		if got := bytes.Compare(appendRowKey(nil, a, string(name)), appendRowKey(nil, b, string(otherName))); got != want {
			t.Errorf("row keys of %d, %q and %d, %q compare as %d, want %d", a, name, b, otherName, got, want)
		}
	})
}

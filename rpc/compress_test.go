package rpc

import (
	"bytes"
	"errors"
	"testing"

	"github.com/muster-fs/muster"
)

const testFrame = 1 << 20

func compression(t testing.TB) (*Compressor, *Expander) {
	t.Helper()
	c, err := NewCompressor()
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewExpander(testFrame)
	if err != nil {
		t.Fatal(err)
	}
	return c, e
}

func TestFramesAreExpandedToWhatTheyWere(t *testing.T) {
	c, e := compression(t)
	for _, n := range []int{0, 1, compressFrom - 1, compressFrom, 100_000, testFrame} {
		frame := bytes.Repeat([]byte("day=2026-01-01"), n/14+1)[:n]
		packed, size := c.Frame(nil, frame)
		if (size > 0) != (n >= compressFrom) || size > 0 && len(packed) > n/10 {
			t.Errorf("%d bytes become %d, with size %d", n, len(packed), size)
		}
		if got, err := e.Frame(packed, size); err != nil || !bytes.Equal(got, frame) {
			t.Errorf("%d bytes do not come back: %v", n, err)
		}
	}
}

func TestDamagedCompressionIsCorrupt(t *testing.T) {
	c, e := compression(t)
	packed, size := c.Frame(nil, bytes.Repeat([]byte("x"), 100_000))
	for name, damaged := range map[string]struct {
		b    []byte
		size uint32
	}{
		"size too small":  {packed, size - 1},
		"size too large":  {packed, size + 1},
		"size past bound": {packed, testFrame + 1},
		"cut":             {packed[:len(packed)-1], size},
		"none":            {nil, size},
		"not compressed":  {[]byte("rows"), size},
	} {
		if _, err := e.Frame(damaged.b, damaged.size); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzExpand(f *testing.F) {
	c, e := compression(f)
	packed, size := c.Frame(nil, bytes.Repeat([]byte("part-00000.parquet"), 1000))
	f.Add(packed, size)
	f.Add([]byte{}, uint32(1))
	f.Add(packed, size-1)
	f.Fuzz(func(t *testing.T, b []byte, size uint32) {
		frame, err := e.Frame(b, size)
		if err != nil && !errors.Is(err, muster.ErrCorrupt) {
			t.Fatal(err)
		}
		if err == nil && size > 0 && (len(frame) != int(size) || cap(frame) > testFrame+64) {
			t.Fatalf("%d bytes of room %d for size %d", len(frame), cap(frame), size)
		}
	})
}

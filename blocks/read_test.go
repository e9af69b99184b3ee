package blocks

import (
	"bytes"
	"io"
	"testing"
)

func TestSmoke(t *testing.T) {
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		l := newLibrary(t, 3, DatanodesOptions{}, 3<<20+5, 7, 2<<20, 100000)
		o := quick
		o.Mode = m
		f := l.open(o)
		for _, off := range []int64{0, 1, 16384, 3 << 20, 3<<20 + 5, 3<<20 + 12, 5 << 20, 5<<20 + 50000, 9 << 20} {
			for _, n := range []int{0, 1, 100, 16384, 70000, 1 << 20, 3 << 20} {
				l.checkAt(f, off, n)
			}
		}
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, l.data) {
			t.Fatal(m, len(got), err)
		}
		if _, err := f.Seek(3, 0); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		n, err := f.WriteTo(&b)
		if err != nil || n != int64(len(l.data)-3) || !bytes.Equal(b.Bytes(), l.data[3:]) {
			t.Fatal(m, n, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package listing

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, keyBytes) }

func sealerFor(key []byte, o Options) *sealer {
	s := newSealer(key)
	s.bind(o.canonical())
	return s
}

func walkChain(paths ...string) (c chain) {
	var scratch []byte
	for _, p := range paths {
		c = c.next(p, &scratch)
	}
	return c
}

func TestCursorKeepsEveryField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := position{
			state:   rapid.SampledFrom([]byte{inside, finished}).Draw(t, "state"),
			index:   uint64(rapid.Uint32().Draw(t, "index")),
			id:      rapid.Uint64().Draw(t, "id"),
			rows:    rapid.Uint64().Draw(t, "rows"),
			before:  walkChain(rapid.String().Draw(t, "before")),
			through: walkChain(rapid.String().Draw(t, "through")),
			name:    rapid.SliceOfN(rapid.Byte(), 0, muster.MaxNameBytes).Draw(t, "name"),
		}
		s := sealerFor(testKey(1), Options{})
		got, err := s.open(s.seal(nil, &p))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.name, p.name) {
			t.Fatalf("name %q, want %q", got.name, p.name)
		}
		got.name, p.name = nil, nil
		if got.state != p.state || got.index != p.index || got.id != p.id || got.rows != p.rows || got.before != p.before || got.through != p.through {
			t.Fatalf("got %+v, want %+v", got, p)
		}
	})
}

func TestCursorRefusesEveryFlippedBitAndEveryTruncation(t *testing.T) {
	s := sealerFor(testKey(1), Options{})
	cursor := s.seal(nil, &position{state: inside, index: 3, id: 7, rows: 9, name: []byte("file=\xc3\xa9"), through: walkChain("/a")})
	if _, err := s.open(cursor); err != nil {
		t.Fatal(err)
	}
	for bit := range len(cursor) * 8 {
		damaged := bytes.Clone(cursor)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := s.open(damaged); !errors.Is(err, muster.ErrCursor) {
			t.Fatalf("bit %d flipped: %v", bit, err)
		}
	}
	for n := range cursor {
		if _, err := s.open(cursor[:n]); !errors.Is(err, muster.ErrCursor) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := s.open(append(bytes.Clone(cursor), 0)); !errors.Is(err, muster.ErrCursor) {
		t.Fatalf("a byte more: %v", err)
	}
	if _, err := s.open(make([]byte, 1<<20)); !errors.Is(err, muster.ErrCursor) {
		t.Fatalf("a megabyte: %v", err)
	}
}

func TestCursorIsBoundToItsKeyAndOptions(t *testing.T) {
	cursor := sealerFor(testKey(1), Options{}).seal(nil, &position{state: finished})
	same := []Options{
		{Limit: -5},
		{Columns: rows.DefaultColumns},
		{Columns: rows.DefaultColumns &^ (rows.ColPathIndex | rows.ColName)},
	}
	for _, o := range same {
		if _, err := sealerFor(testKey(1), o).open(cursor); err != nil {
			t.Errorf("equal options %+v: %v", o, err)
		}
	}
	other := []Options{
		{Limit: 1}, {Columns: rows.ColName}, {Columns: rows.AllColumns}, {Hidden: muster.HiddenHive},
		{Hidden: muster.HiddenSpark}, {Own: true}, {Consistency: muster.ConsistencySnapshot},
	}
	for _, o := range other {
		if _, err := sealerFor(testKey(1), o).open(cursor); !errors.Is(err, muster.ErrCursor) {
			t.Errorf("other options %+v: %v", o, err)
		}
	}
	if _, err := sealerFor(testKey(2), Options{}).open(cursor); !errors.Is(err, muster.ErrCursor) {
		t.Errorf("other key: %v", err)
	}
}

// A cursor that is sealed right but says what no listing can be at comes from a faulty or
// newer server: it is refused, not obeyed.
func TestCursorRefusesSealedNonsense(t *testing.T) {
	s := sealerFor(testKey(1), Options{})
	sealed := func(change func(body []byte) []byte) []byte {
		c := s.seal(nil, &position{state: inside, name: []byte("name")})
		body := change(c[:len(c)-cursorTag])
		return append(body, s.tag(body)...)
	}
	tests := []struct {
		name, want string
		change     func([]byte) []byte
	}{
		{"version 2", "version 2", func(b []byte) []byte { b[0] = 2; return b }},
		{"state 0", "impossible", func(b []byte) []byte { b[cursorState] = untouched; return b }},
		{"state 3", "impossible", func(b []byte) []byte { b[cursorState] = 3; return b }},
		{"name too short", "impossible", func(b []byte) []byte { return b[:len(b)-1] }},
		{"name too long", "impossible", func(b []byte) []byte { return append(b, 'x') }},
		{"index over 32 bits", "impossible", func(b []byte) []byte { b[cursorIndex] = 1; return b }},
	}
	for _, test := range tests {
		_, err := s.open(sealed(test.change))
		if !errors.Is(err, muster.ErrCursor) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestChainTellsPathListsApart(t *testing.T) {
	lists := [][]string{
		{}, {""}, {"", ""}, {"/a"}, {"/a", "/b"}, {"/b", "/a"}, {"/a/b"}, {"/a/", "b"}, {"/a", "/b", ""}, {"/a", "/a"}, {"/a/a"},
	}
	seen := map[chain][]string{}
	for _, list := range lists {
		c := walkChain(list...)
		if other, ok := seen[c]; ok {
			t.Errorf("%q and %q have one chain", other, list)
		}
		seen[c] = list
	}
}

// wantAllocated wants f to allocate at most limit bytes. The rest of the process may
// allocate at the same time: so f has three tries.
func wantAllocated(t *testing.T, limit int, f func()) {
	t.Helper()
	var took uint64
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if took = after.TotalAlloc - before.TotalAlloc; took <= uint64(limit) {
			return
		}
	}
	t.Fatalf("it took %d bytes of memory, want at most %d", took, limit)
}

func FuzzCursor(f *testing.F) {
	s := sealerFor(testKey(1), Options{})
	f.Add(s.seal(nil, &position{state: inside, index: 2, id: 5, name: []byte("n")}), true)
	f.Add(s.seal(nil, &position{state: finished, index: 1<<32 - 1}), false)
	f.Add([]byte{}, false)
	f.Add(make([]byte, minCursor), true)
	f.Fuzz(func(t *testing.T, b []byte, resign bool) {
		if resign && len(b) >= cursorTag { // reach what lies behind the tag
			body := b[: len(b)-cursorTag : len(b)-cursorTag]
			b = append(body, s.tag(body)...)
		}
		var p position
		var err error
		wantAllocated(t, 8<<10, func() { p, err = s.open(b) })
		if err != nil {
			if !errors.Is(err, muster.ErrCursor) {
				t.Fatalf("not an invalid cursor: %v", err)
			}
			return
		}
		if again := s.seal(nil, &p); !bytes.Equal(again, b) {
			t.Fatalf("%x was read as %+v, which is %x", b, p, again)
		}
	})
}

package rows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

// reseal makes the checksum right again, so that what is behind it is reached.
func reseal(frame []byte) []byte {
	if len(frame) >= headerBytes {
		binary.LittleEndian.PutUint32(frame[atCRC:], checksum(frame))
	}
	return frame
}

// walk reads everything that a batch gives access to.
func walk(b *Batch) {
	for i := range b.Len() {
		_ = b.PathIndex(i)
		_ = strings.Clone(b.Name(i))
		for k := range b.NumBlocks(i) {
			_ = b.Block(i, k)
			nodes, _ := b.Nodes(i, k)
			for j := range nodes.Len() {
				if at, present := nodes.At(j); present && int(at) >= b.NodeBound() {
					panic("a node beyond the bound")
				}
			}
		}
		e := b.Entry(i)
		_ = e.Kind.String() + e.Replication.String()
	}
	record := b.Record()
	defer record.Release()
	for _, column := range record.Columns() {
		for i := range column.Len() {
			_ = strings.Clone(column.ValueStr(i))
		}
	}
}

// oneOfEach is a directory, a file of two blocks and a link.
func oneOfEach() []sample {
	text := func(s string) []byte { return []byte(s) }
	return []sample{
		{0, muster.Row{ID: 2, Kind: muster.Directory, Mode: 0o1777, MTime: 1, Name: text("Käse"), Owner: text("a"), Group: text("b")}},
		{0, muster.Row{ID: 3, Kind: muster.File, Mode: 0o644, Length: 15, BlockSize: 10, Replication: muster.Replicated(3), Name: text("file"), Owner: text("a"), Group: text("b"),
			Blocks: []muster.Block{{Container: 7, LocalID: 8, Length: 10}, {Container: 9, LocalID: 10, Length: 5}}}},
		{5, muster.Row{ID: 4, Kind: muster.Link, Mode: 0o777, Target: text("../x")}},
	}
}

func TestDamageIsRefused(t *testing.T) {
	intact := frameOf(AllColumns, oneOfEach())
	view, err := Decode(bytes.Clone(intact), AllColumns)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := view.template
	le := binary.LittleEndian
	// at returns where a buffer lies in the frame.
	at := func(s slot) int {
		n := headerBytes + len(tmpl.head)
		for _, other := range tmpl.buffers {
			if other == s {
				break
			}
			if other != absent {
				n += padded(len(view.buffers[other]))
			}
		}
		return n
	}
	put64 := func(at int, v uint64) func(f []byte) []byte {
		return func(f []byte) []byte { le.PutUint64(f[at:], v); return f }
	}
	put32 := func(at int, v uint32) func(f []byte) []byte {
		return func(f []byte) []byte { le.PutUint32(f[at:], v); return f }
	}
	put8 := func(at int, v byte) func(f []byte) []byte {
		return func(f []byte) []byte { f[at] = v; return f }
	}
	for _, test := range []struct {
		name   string
		change func(f []byte) []byte
		want   string
	}{
		{"one byte", func(f []byte) []byte { return f[:1] }, "1 bytes, fewer than its header of 24"},
		{"header only", func(f []byte) []byte { return f[:headerBytes] }, "message of"},
		{"cut", func(f []byte) []byte { return f[:len(f)-8] }, "message of"},
		{"longer", func(f []byte) []byte { return append(f, make([]byte, 8)...) }, "message of"},
		{"too long", func(f []byte) []byte { return append(f, make([]byte, MaxFrame)...) }, "at most 983040"},
		{"newer version", put8(atVersion, 3), "schema version 3; this program reads version 2"},
		{"flags", put8(atFlags, 1), "flags 01 00 00, want none"},
		{"reserved", put8(atReserved+1, 1), "flags 00 00 01, want none"},
		{"other columns", put32(atColumns, uint32(DefaultColumns)), "columns 0x3fff, asked for 0x7fff"},
		{"no rows", put32(atRows, 0), "0 rows"},
		{"more rows", put32(atRows, 4), "its counts make"},
		{"rows that overflow", put32(atRows, math.MaxUint32), "4294967295 rows in"},
		{"message lengths that overflow", func(f []byte) []byte {
			le.PutUint32(f[atHead:], math.MaxUint32)
			return put32(atBody, uint32(len(f)-headerBytes)+1)(f)
		}, "message of"},
		{"metadata taken from the body", func(f []byte) []byte {
			le.PutUint32(f[atHead:], le.Uint32(f[atHead:])+8)
			return put32(atBody, le.Uint32(f[atBody:])-8)(f)
		}, "metadata of"},
		{"metadata", put8(headerBytes+prefixBytes, 0xff), "metadata differs"},
		{"metadata's rows", put64(headerBytes+rowsAt, 4), "metadata differs"},
		{"metadata's body length", put64(headerBytes+bodyAt, 8), "metadata differs"},
		{"metadata's nulls", put64(headerBytes+tmpl.nodesAt+8, 1), "metadata differs"},
		{"metadata's buffer offset", put64(headerBytes+buffersAt+16, 8), "metadata differs"},
		{"blocks beyond the body", put64(headerBytes+tmpl.blocksAt, math.MaxUint64), "18446744073709551615 blocks"},
		{"blocks", put64(headerBytes+tmpl.blocksAt, 3), "its counts make"},
		{"text beyond the body", put64(headerBytes+tmpl.textAt[0], 1<<62), "4611686018427387904 bytes of text"},
		{"shorter text", put64(headerBytes+tmpl.textAt[1], 1), "owner: offsets end at 2, want 1"},
		{"first offset", put32(at(slotNameOffsets), 1), "name: first offset is 1, want 0"},
		{"falling offset", put32(at(slotNameOffsets)+8, 2), "name: offset 2 after 5"},
		{"offset beyond the text", put32(at(slotOwnerOffsets)+4, 1000), "owner: offset 2 after 1000"},
		{"last offset", put32(at(slotGroupOffsets)+12, 3), "group: offsets end at 3, want 2"},
		{"huge offset", put32(at(slotLinkTargetOffsets)+12, math.MaxUint32), "link_target: offsets end at 4294967295, want 4"},
		{"invalid UTF-8", put8(at(slotName), 0xff), "name: invalid UTF-8"},
		{"split character", put32(at(slotNameOffsets)+4, 2), "name: offset 2 lies inside a character"},
		{"slash in a name", put8(at(slotName), '/'), `row 0: invalid argument: name "/äse" has a slash`},
		{"NUL in a name", put8(at(slotName), 0), "row 0: invalid argument: name \"\\x00äse\" has a NUL byte"},
		{"dot-dot", func(f []byte) []byte {
			copy(f[at(slotName):], "..äs")
			return put32(at(slotNameOffsets)+4, 2)(f)
		}, `row 0: invalid argument: ".." is not a name here`},
		{"kind", put8(at(slotKind)+1, 4), "unknown kind 4 in row 1"},
		{"replication", put8(at(slotReplication)+3, 9), "unknown replication 0x903"},
		{"length", put8(at(slotLength)+15, 0x80), "length: -"},
		{"block size", put8(at(slotBlockSize)+7, 0xff), "block_size: -"},
		{"block offset", put8(at(slotBlockOffset)+7, 0xff), "blocks: -"},
		{"block length", put8(at(slotBlockLength)+7, 0xff), "blocks: -"},
		{"list offset", put32(at(slotBlocksOffsets)+8, 3), "blocks: offset 2 after 3"},
		{"last list offset", put32(at(slotBlocksOffsets)+12, 3), "blocks: offsets end at 3, want 2"},
		{"nodes offset", put32(at(slotNodesOffsets)+8, 1), "blocks: offsets end at 1, want 0"},
		{"nodes validity", put8(at(slotNodesValidity), 1), "blocks: 1 lists of nodes are null, want 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			damaged := test.change(bytes.Clone(intact))
			if len(damaged) >= headerBytes {
				if _, err := Decode(bytes.Clone(damaged), AllColumns); !errors.Is(err, muster.ErrCorrupt) {
					t.Errorf("with the old checksum: %v, want ErrCorrupt", err)
				}
			}
			_, err := Decode(reseal(damaged), AllColumns)
			if !errors.Is(err, muster.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want one with %q", err, test.want)
			}
		})
	}
}

func TestLongNameIsRefused(t *testing.T) {
	for n, want := range map[int]bool{muster.MaxNameBytes: true, muster.MaxNameBytes + 1: false} {
		frame := frameOf(requiredColumns, []sample{{0, muster.Row{Name: bytes.Repeat([]byte("a"), n)}}})
		if _, err := Decode(frame, requiredColumns); (err == nil) != want {
			t.Errorf("name of %d bytes: %v", n, err)
		}
	}
}

// Every flipped bit is refused by the checksum. Behind it, some bits of every byte show
// that what is not refused is harmless.
func TestFlippedBitsAreRefusedOrHarmless(t *testing.T) {
	for _, c := range []Columns{AllColumns, requiredColumns} {
		intact := frameOf(c, oneOfEach())
		for bit := range 8 * len(intact) {
			damaged := bytes.Clone(intact)
			damaged[bit/8] ^= 1 << (bit % 8)
			if b, err := Decode(bytes.Clone(damaged), c); !errors.Is(err, muster.ErrCorrupt) || b != nil {
				t.Fatalf("bit %d: %v, want ErrCorrupt", bit, err)
			}
			if bit%3 != 0 {
				continue
			}
			b, err := Decode(reseal(damaged), c)
			switch {
			case err == nil:
				walk(b)
			case !errors.Is(err, muster.ErrCorrupt):
				t.Fatalf("bit %d behind the checksum: %v, want ErrCorrupt", bit, err)
			}
		}
	}
}

func TestDecodeRefusesUnknownColumns(t *testing.T) {
	if _, err := Decode(nil, 1<<numColumns); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("error %v, want ErrInvalid", err)
	}
}

func TestFrameMayLieAnywhere(t *testing.T) {
	samples := randomRows(rand.New(rand.NewPCG(3, 3)), 50)
	frame := frameOf(AllColumns, samples)
	for shift := range 9 {
		moved := append(make([]byte, shift, shift+len(frame)), frame...)[shift:]
		b, err := Decode(moved, AllColumns)
		if err != nil {
			t.Fatalf("shifted by %d: %v", shift, err)
		}
		walk(b)
		if got := b.Entry(49); got.Name != string(samples[49].row.Name) {
			t.Errorf("shifted by %d: name %q, want %q", shift, got.Name, samples[49].row.Name)
		}
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

// Run it with -fuzzminimizetime=100x: frames are large, and minimizing each new one for
// the default of a minute leaves no time to look for others.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, c := range columnSets {
		f.Add(frameOf(c, oneOfEach()), uint32(c))
		f.Add(frameOf(c, randomRows(r, 1)), uint32(c))
		f.Add(frameOf(c, randomRows(r, 20)), uint32(c))
	}
	for _, n := range []int{1, 20} {
		samples := randomRows(r, n)
		f.Add(placedFrame(AllColumns, samples, randomPlaces(r, samples)), uint32(AllColumns))
	}
	f.Add([]byte{}, uint32(0))
	f.Fuzz(func(t *testing.T, frame []byte, columns uint32) {
		// As it is, then with a right checksum and columns: behind those the structure is checked.
		decode := func(frame []byte, c Columns) {
			var b *Batch
			var err error
			// A batch and a template, besides two copies: the test's and Decode's.
			wantAllocated(t, 2*len(frame)+64<<10, func() { b, err = Decode(bytes.Clone(frame), c) })
			if err != nil {
				if code := muster.CodeOf(err); code != muster.ErrCorrupt && code != muster.ErrInvalid {
					t.Fatalf("code %v of %v", code, err)
				}
				return
			}
			walk(b)
		}
		decode(frame, Columns(columns))
		if len(frame) >= headerBytes {
			c := Columns(columns).Normal()
			fixed := bytes.Clone(frame)
			binary.LittleEndian.PutUint32(fixed[atColumns:], uint32(c))
			fixed[atVersion] = SchemaVersion
			decode(reseal(fixed), c)
		}
	})
}

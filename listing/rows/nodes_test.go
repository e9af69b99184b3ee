package rows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/muster-fs/muster"
)

// randomPlaces makes nodes for each block of samples: nil is unknown.
func randomPlaces(r *rand.Rand, samples []sample) (places [][]uint32) {
	unknown, absent := r.IntN(3), r.IntN(3) // now and then none, now and then all
	for i := range samples {
		for range samples[i].row.Blocks {
			if unknown == 1 && r.IntN(3) == 0 || unknown == 2 {
				places = append(places, nil)
				continue
			}
			nodes := make([]uint32, r.IntN(15))
			for j := range nodes {
				if nodes[j] = r.Uint32N(1000); absent == 1 && r.IntN(4) == 0 || absent == 2 {
					nodes[j] = Absent
				}
			}
			places = append(places, nodes)
		}
	}
	return places
}

// place appends nodes for the blocks of b; a set without blocks has none.
func place(b *Builder, places [][]uint32) *Builder {
	for i := range b.Unlocated() {
		placeNext(b, places[i])
	}
	return b
}

// placeNext appends nodes for the next block; nil is unknown.
func placeNext(b *Builder, nodes []uint32) {
	if nodes == nil {
		b.AppendUnknown()
	} else {
		b.AppendNodes(nodes, []uint32{uint32(len(nodes))})
	}
}

func placedFrame(c Columns, samples []sample, places [][]uint32) []byte {
	return place(build(c, samples), places).AppendFrame(nil)
}

// placesOf reads the nodes of all blocks of a batch.
func placesOf(b *Batch) (places [][]uint32) {
	for i := range b.Len() {
		for k := range b.NumBlocks(i) {
			var nodes []uint32
			if n, known := b.Nodes(i, k); known {
				nodes = make([]uint32, n.Len())
				for j := range nodes {
					at, present := n.At(j)
					if nodes[j] = at; !present {
						nodes[j] = Absent
					}
				}
			}
			places = append(places, nodes)
		}
	}
	return places
}

func samePlaces(a, b [][]uint32) bool {
	return slices.EqualFunc(a, b, func(a, b []uint32) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) })
}

func TestDecodedNodesEqualAppendedNodes(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 20))
	used := NewBuilder(AllColumns)
	for n := range 200 {
		samples := randomRows(r, r.IntN(2+n))
		places := randomPlaces(r, samples)
		used.Reset()
		for i := range samples {
			used.Append(samples[i].path, &samples[i].row)
			if r.IntN(5) == 0 || i == len(samples)-1 { // page by page
				blocks := used.Unlocated()
				first := used.blocks - blocks
				containers := used.AppendContainers([]uint64{1, 2})
				if len(containers) != 2+blocks {
					t.Fatalf("%d containers of %d blocks", len(containers)-2, blocks)
				}
				for k, container := range containers[2:] {
					if at := first + k; container != binary.LittleEndian.Uint64(used.blockChunks[at/chunkBlocks].container[8*(at%chunkBlocks):]) {
						t.Fatalf("container %d of block %d", container, at)
					}
				}
				place(used, places[first:])
			}
		}
		frame := used.AppendFrame(nil)
		if size := used.Size(); size < len(frame) || size > len(frame)+512 {
			t.Fatalf("size %d, frame of %d bytes", size, len(frame))
		}
		b, err := Decode(frame, AllColumns)
		if err != nil {
			t.Fatal(err)
		}
		if got := placesOf(b); !samePlaces(got, places) {
			t.Fatalf("nodes %v, want %v", got, places)
		}
		bound := 0
		for _, node := range slices.Concat(places...) {
			if node != Absent {
				bound = max(bound, int(node)+1)
			}
		}
		if b.NodeBound() != bound {
			t.Fatalf("positions below %d, want %d", b.NodeBound(), bound)
		}
	}
}

func TestRecordsWithNodesEqualArrowBuilders(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 21))
	for range 30 {
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		samples := randomRows(r, 1+r.IntN(100))
		places := randomPlaces(r, samples)
		frame := placedFrame(AllColumns, samples, places)
		b, err := Decode(frame, AllColumns)
		if err != nil {
			t.Fatal(err)
		}
		next := places
		want := arrowRecordOf(mem, AllColumns, samples, func(lists *array.ListBuilder) {
			nodes := next[0]
			if next = next[1:]; nodes == nil {
				lists.AppendNull()
				return
			}
			lists.Append(true)
			for _, n := range nodes {
				if to := lists.ValueBuilder().(*array.Uint32Builder); n == Absent {
					to.AppendNull()
				} else {
					to.Append(n)
				}
			}
		})
		got := b.Record()
		if !array.RecordEqual(got, want) {
			t.Fatalf("record %v, want %v", got, want)
		}
		// Arrow's writer makes of the record the payload that it was read from.
		empty := arrowStream(t, Schema(AllColumns))
		stream := arrowStream(t, Schema(AllColumns), got)
		if payload := stream[len(empty)-endOfStream : len(stream)-endOfStream]; !bytes.Equal(payload, frame[headerBytes:]) {
			t.Fatalf("payload differs from that of Arrow's writer at byte %d", firstDifference(payload, frame[headerBytes:]))
		}
		got.Release()
		want.Release()
		mem.AssertSize(t, 0)
	}
}

// Blocks of which nobody asked, and those that are unknown, cost what they did before.
func TestUnknownNodesAreTheFrameWithoutNodes(t *testing.T) {
	samples := randomRows(rand.New(rand.NewPCG(22, 22)), 700)
	for _, c := range columnSets {
		b := build(c, samples)
		places := make([][]uint32, b.Unlocated())
		if !bytes.Equal(place(b, places).AppendFrame(nil), frameOf(c, samples)) {
			t.Errorf("columns %#x: all blocks unknown make another frame than blocks without nodes", uint32(c))
		}
	}
}

func TestAFrameNeedsTheNodesOfAllBlocks(t *testing.T) {
	b := build(AllColumns, oneOfEach())
	placeNext(b, []uint32{1})
	defer func() {
		if recover() == nil {
			t.Error("a frame was made of blocks that have no nodes")
		}
	}()
	b.AppendFrame(nil)
}

func TestFileOfMostBlocksAndNodesFitsAFrame(t *testing.T) {
	row := muster.Row{Kind: muster.File, Name: bytes.Repeat([]byte("n"), muster.MaxNameBytes), Blocks: make([]muster.Block, muster.MaxBlocks)}
	b := build(AllColumns, []sample{{0, row}})
	for i := range muster.MaxBlocks {
		nodes := slices.Repeat([]uint32{uint32(i)}, 14)
		nodes[i%14] = Absent
		if i%9 == 0 {
			nodes = nil
		}
		placeNext(b, nodes)
	}
	if b.Size() > MaxFrame {
		t.Errorf("%d bytes, at most %d", b.Size(), MaxFrame)
	}
	if _, err := Decode(b.AppendFrame(nil), AllColumns); err != nil {
		t.Error(err)
	}
}

func TestNodesTakeNoAllocation(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 23))
	samples := randomRows(r, 300)
	places := randomPlaces(r, samples)
	b := place(build(AllColumns, samples), places)
	frame := b.AppendFrame(nil)
	batch, err := Decode(frame, AllColumns)
	if err != nil {
		t.Fatal(err)
	}
	containers := make([]uint64, 0, b.blocks)
	sum := 0
	for name, f := range map[string]func(){
		"write": func() {
			b.Reset()
			for i := range samples {
				b.Append(samples[i].path, &samples[i].row)
			}
			containers = b.AppendContainers(containers[:0])
			frame = place(b, places).AppendFrame(frame[:0])
		},
		"read": func() {
			for i := range batch.Len() {
				for k := range batch.NumBlocks(i) {
					nodes, _ := batch.Nodes(i, k)
					for j := range nodes.Len() {
						at, _ := nodes.At(j)
						sum += int(at)
					}
				}
			}
		},
	} {
		if n := testing.AllocsPerRun(10, f); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestDamagedNodesAreRefused(t *testing.T) {
	intact := placedFrame(AllColumns, oneOfEach(), [][]uint32{{3, Absent}, nil})
	view, err := Decode(bytes.Clone(intact), AllColumns)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, le := view.template, binary.LittleEndian
	at := func(s slot) int {
		n := headerBytes + len(tmpl.head)
		for _, other := range tmpl.buffers[:slices.Index(tmpl.buffers, s)] {
			if other != absent {
				n += padded(len(view.buffers[other]))
			}
		}
		return n
	}
	lists, nodes := headerBytes+tmpl.listsAt, headerBytes+tmpl.listsAt+nodeBytes
	for _, test := range []struct {
		name   string
		change func(f []byte)
		want   string
	}{
		{"unknown beyond the body", func(f []byte) { le.PutUint64(f[lists+8:], 1<<63) }, "unknown blocks in a body"},
		{"more unknown than blocks", func(f []byte) { le.PutUint64(f[lists+8:], 3) }, "3 of 2 blocks are unknown"},
		{"more absent than nodes", func(f []byte) { le.PutUint64(f[nodes+8:], 3) }, "3 of 2 nodes absent"},
		{"nodes beyond the body", func(f []byte) { le.PutUint64(f[nodes:], 1<<63) }, "nodes in a body"},
		{"more nodes", func(f []byte) { le.PutUint64(f[nodes:], 4) }, "its counts make"},
		{"lists of another length", func(f []byte) { le.PutUint64(f[lists:], 1) }, "metadata differs"},
		{"none unknown", func(f []byte) { le.PutUint64(f[lists+8:], 0) }, "its counts make"},
		{"all unknown", func(f []byte) { le.PutUint64(f[lists+8:], 2) }, "1 lists of nodes are null, want 2"},
		{"none null", func(f []byte) { f[at(slotNodesValidity)] = 3 }, "0 lists of nodes are null, want 1"},
		{"the other one null", func(f []byte) { f[at(slotNodesValidity)] = 2 }, "nodes in a list that is null"},
		{"offset", func(f []byte) { le.PutUint32(f[at(slotNodesOffsets)+4:], 3) }, "offset 2 after 3"},
		{"last offset", func(f []byte) { le.PutUint32(f[at(slotNodesOffsets)+8:], 3) }, "offsets end at 3, want 2"},
		{"no node absent", func(f []byte) { f[at(slotNodeValidity)] = 3 }, "0 nodes are null, want 1"},
	} {
		damaged := bytes.Clone(intact)
		test.change(damaged)
		if _, err := Decode(reseal(damaged), AllColumns); !errors.Is(err, muster.ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want one with %q", test.name, err, test.want)
		}
	}
}

func TestLocatedIPCStreamNamesReplicas(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	rs32, err := muster.ParseReplication("ec/rs-3-2")
	if err != nil {
		t.Fatal(err)
	}
	samples := oneOfEach()
	samples = append(samples,
		sample{6, muster.Row{Kind: muster.File, Name: []byte("coded"), Replication: rs32, Blocks: make([]muster.Block, 1)}},
		sample{6, muster.Row{Kind: muster.File, Name: []byte("meta"), Length: 9, Flags: muster.FlagNoData}})
	b, err := Decode(placedFrame(AllColumns, samples, [][]uint32{{1, 0}, nil, {2, Absent, 1}}), AllColumns)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []muster.Node{
		{ID: "a", Host: "dna", Port: 1, Rack: "/r1"}, {ID: "b", Host: "dnb", Port: 2, Rack: "/r1", State: muster.Stale}, {ID: "c", Host: "dnc", Port: 3, Rack: "/r2"},
	}
	node := func(at uint32) *muster.Node { return &nodes[at] }
	path := func(i int) string { return "/d/" + b.Name(i) }
	var out bytes.Buffer
	w := NewLocatedIPCWriter(&out, AllColumns)
	if err := errors.Join(w.WriteLocated(b, path, node), w.Close()); err != nil {
		t.Fatal(err)
	}
	reader, err := ipc.NewReader(&out, ipc.WithAllocator(mem))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	if !reader.Next() {
		t.Fatal(reader.Err())
	}
	var got []string
	record := reader.Record()
	blocks, noData := record.Schema().FieldIndices("blocks")[0], record.Schema().FieldIndices("no_data")[0]
	for i := range int(record.NumRows()) {
		got = append(got, fmt.Sprint(record.Column(0).ValueStr(i), " ", record.Column(blocks).ValueStr(i), " ", record.Column(noData).ValueStr(i)))
	}
	want := []string{
		`/d/Käse [] false`,
		`/d/file [{"container":7,"length":10,"local_id":8,"offset":0,"replicas":[` +
			`{"host":"dnb","id":"b","index":0,"port":2,"rack":"/r1","state":"stale"},{"host":"dna","id":"a","index":0,"port":1,"rack":"/r1","state":"in-service"}]},` +
			`{"container":9,"length":5,"local_id":10,"offset":10,"replicas":null}] false`,
		`/d/ [] false`,
		`/d/coded [{"container":0,"length":0,"local_id":0,"offset":0,"replicas":[` +
			`{"host":"dnc","id":"c","index":1,"port":3,"rack":"/r2","state":"in-service"},{"host":"dnb","id":"b","index":3,"port":2,"rack":"/r1","state":"stale"}]}] false`,
		`/d/meta [] true`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := w.Write(b, path); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("a batch without locations: %v", err)
	}
	if err := NewIPCWriter(io.Discard, AllColumns).WriteLocated(b, path, node); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("locations in a stream without: %v", err)
	}
}

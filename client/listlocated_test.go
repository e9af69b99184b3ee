package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc/pb"
)

// TestNodesAreThoseOfTheTableOfTheirCall: over messages, and over calls by which a listing is
// resumed, each of which has a table of its own.
func TestNodesAreThoseOfTheTableOfTheirCall(t *testing.T) {
	two := muster.Replicated(2)
	cursor := []byte("c")
	first := []*pb.ListReply{
		{Nodes: []*pb.Node{nodeOf(7), nodeOf(5)}},
		{Frame: locatedFrame(placed{0, two, [][]uint32{{0, 1}, {}, nil}}), Outcomes: []*pb.Outcome{ended(0, 1)}, Cursor: cursor, CursorIndex: 1},
		{Frame: locatedFrame(placed{1, rs21, [][]uint32{{2, rows.Absent, 1}}}), Nodes: []*pb.Node{nodeOf(9)}, Outcomes: []*pb.Outcome{ended(1, 1)}, Cursor: cursor, CursorIndex: 1},
		{Nodes: []*pb.Node{nodeOf(6)}}, // and it breaks, where the cursor is that of the message before
	}
	again := []*pb.ListReply{
		{Frame: locatedFrame(placed{2, two, [][]uint32{{1, 0}}}), Nodes: []*pb.Node{nodeOf(5), nodeOf(8)}, Outcomes: []*pb.Outcome{ended(2, 1)}, Done: true, TotalRows: 1, TotalOutcomes: 1},
	}
	s, c := newScript(t, client.Options{Reader: "/r9"}, first, again)
	var lines []string
	seen := map[string]*muster.Node{}
	for b, err := range c.List(t.Context(), slices.Values([]string{"/a", "/b", "/c"}), client.ListOptions{Locations: muster.LocationsHint, Sorted: true, LocationLimit: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, tell(t, b)...)
		for i := range b.Len() {
			for k := range b.NumBlocks(i) {
				for r := range b.Replicas(i, k) {
					if n := seen[r.Host]; n != nil && n != r.Node {
						t.Errorf("two records of %s", r.Host)
					}
					seen[r.Host] = r.Node
				}
			}
		}
	}
	want := []string{`/a: ["dn7#0" "dn5#0"] [] ["unknown"]`, `/b: ["dn9#1" "dn5#3"]`, `/c: ["dn8#0" "dn5#0"]`}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q", lines)
	}
	if o := s.asked[0]; o.Locations != pb.WithLocations_WITH_LOCATIONS_HINT || !o.Sorted || o.Reader != "/r9" || o.LocationLimit != 3 || rows.Columns(o.Columns) != locatedColumns {
		t.Errorf("asked %v", o)
	}
}

func TestADamagedTableOfNodesIsCorrupt(t *testing.T) {
	whole := func() *pb.ListReply {
		return &pb.ListReply{
			Frame: locatedFrame(placed{0, muster.Replicated(2), [][]uint32{{0, 1}}}), Nodes: []*pb.Node{nodeOf(1), nodeOf(2)},
			Outcomes: []*pb.Outcome{ended(0, 1)}, Done: true, TotalRows: 1, TotalOutcomes: 1,
		}
	}
	for name, spoil := range map[string]func(r *pb.ListReply, o *client.ListOptions){
		"":                 func(*pb.ListReply, *client.ListOptions) {},
		"node past it":     func(r *pb.ListReply, _ *client.ListOptions) { r.Nodes = r.Nodes[:1] },
		"no table":         func(r *pb.ListReply, _ *client.ListOptions) { r.Nodes = nil },
		"no host":          func(r *pb.ListReply, _ *client.ListOptions) { r.Nodes[1].Host = "" },
		"no rack":          func(r *pb.ListReply, _ *client.ListOptions) { r.Nodes[1].Rack = "r" },
		"impossible state": func(r *pb.ListReply, _ *client.ListOptions) { r.Nodes[0].State = 9 },
		"impossible node":  func(r *pb.ListReply, _ *client.ListOptions) { r.Nodes[0].Number = muster.MaxNodes },
		"not asked for": func(r *pb.ListReply, o *client.ListOptions) {
			r.Frame, o.Locations = frame(0), muster.NoLocations
		},
	} {
		o := client.ListOptions{Locations: muster.LocationsMust}
		r := whole()
		spoil(r, &o)
		s, c := newScript(t, client.Options{Attempts: 1}, []*pb.ListReply{r})
		s.list = []*pb.ListReply{r}
		want := muster.ErrCorrupt
		if name == "" {
			want = muster.OK
		}
		if _, err := client.Collect(c.List(t.Context(), slices.Values([]string{"/a"}), o)); muster.CodeOf(err) != want {
			t.Errorf("%s, list: %v", name, err)
		}
		if _, err := c.Page(t.Context(), []string{"/a"}, nil, o); muster.CodeOf(err) != want {
			t.Errorf("%s, page: %v", name, err)
		}
	}
}

func TestOptionsOfLocationsThatMeanNothingAreRefused(t *testing.T) {
	_, c := newScript(t, client.Options{}, nil)
	for name, o := range map[string]client.ListOptions{
		"sorted":         {Sorted: true},
		"reader":         {Reader: "/r"},
		"location limit": {LocationLimit: 1},
		"no place":       {Reader: "a b", Locations: muster.LocationsHint},
		"follow":         {Follow: true},
	} {
		if _, err := client.Collect(c.List(t.Context(), slices.Values([]string{"/a"}), o)); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Page(t.Context(), []string{"/a"}, nil, o); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s, page: %v", name, err)
		}
	}
}

func TestReadingReplicasAllocatesNothing(t *testing.T) {
	r := &pb.ListReply{
		Frame: locatedFrame(placed{0, muster.Replicated(2), [][]uint32{{0, 1}}}), Nodes: []*pb.Node{nodeOf(1), nodeOf(2)},
		Outcomes: []*pb.Outcome{ended(0, 1)}, Done: true, TotalRows: 1, TotalOutcomes: 1,
	}
	s, c := newScript(t, client.Options{}, nil)
	s.list = []*pb.ListReply{r}
	b, err := c.Page(t.Context(), []string{"/a"}, nil, client.ListOptions{Locations: muster.LocationsHint})
	must(t, err)
	length := 0
	if n := testing.AllocsPerRun(100, func() {
		for j := range b.NumReplicas(0, 0) {
			length += len(b.Replica(0, 0, j).Host)
		}
		for r := range b.Replicas(0, 0) {
			length += len(r.Host)
		}
	}); n != 0 || length == 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLocateManyGivesEachPathItsAnswer, whatever becomes of the others.
func TestLocateManyGivesEachPathItsAnswer(t *testing.T) {
	in := start(t)
	nodes := in.join(4)
	c := dial(t, in.addr(), client.Options{Reader: "/r2"})
	nodes.file(t, c, "/d/f", muster.Replicated(4), 3)
	nodes.file(t, c, "/d/coded", rs21, 2)
	plant(t, c, "/d/empty", "/d/l -> f", "/d/dangling -> nowhere")
	_, err := c.Apply(t.Context(), muster.Create{Path: "/d/lost", Replication: muster.Replicated(2), Length: 10, Blocks: []muster.Block{{Container: 1 << 40, Length: 10}}},
		muster.Create{Path: "/d/imported", Length: 10})
	must(t, err)
	paths := []string{"/d/f", "/d//l/", "/d", "/d/coded", "relative", "/d/missing", "/d/f", "/d/empty", "/d/dangling", "/d/lost", "/d/imported"}
	for _, hint := range []bool{false, true} {
		var got []string
		for p, err := range c.LocateMany(t.Context(), slices.Values(paths), client.LocateOptions{Hint: hint}) {
			must(t, err)
			line := p.Path + ":"
			var pe *fs.PathError
			if p.Err != nil && (!errors.As(p.Err, &pe) || pe.Path != p.Path || pe.Op != "locate") {
				t.Errorf("%v", p.Err)
			}
			if p.Err != nil {
				line += " " + muster.CodeOf(p.Err).Name()
			} else if line += " " + p.Located.Path; p.Located.NoData {
				line += " no data"
			}
			for _, b := range p.Located.Blocks {
				if b.Err != nil {
					line += " " + muster.CodeOf(b.Err).Name()
					continue
				}
				first := b.Replicas[0].Host
				if b.Replicas[0].Index > 0 {
					first = fmt.Sprint("#", b.Replicas[0].Index)
				}
				line += fmt.Sprintf(" %d:%d/%s", b.Offset, len(b.Replicas), first)
			}
			got = append(got, line)
		}
		want := []string{
			"/d/f: /d/f 0:4/dn2 100:4/dn2 200:4/dn2", "/d//l/: /d/l 0:4/dn2 100:4/dn2 200:4/dn2", "/d: IS_A_DIRECTORY",
			"/d/coded: /d/coded 0:3/#1 100:3/#1", "relative: INVALID_ARGUMENT", "/d/missing: NOT_FOUND", "/d/f: /d/f 0:4/dn2 100:4/dn2 200:4/dn2",
			"/d/empty: /d/empty", "/d/dangling: NOT_FOUND", "/d/lost: /d/lost NOT_FOUND", "/d/imported: /d/imported no data",
		}
		if hint {
			want[2], want[9] = "/d: /d", "/d/lost: /d/lost UNAVAILABLE"
		}
		if !slices.Equal(got, want) {
			t.Errorf("hint %v: got\n%s\nwant\n%s", hint, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestLocationsForReadingAreForReaders: as a hint they are for whoever may see the files.
func TestLocationsForReadingAreForReaders(t *testing.T) {
	in := start(t)
	nodes := in.join(1)
	c := dial(t, in.addr(), client.Options{})
	nodes.file(t, c, "/d/f", muster.Replicated(1), 1)
	must(t, c.Chmod(t.Context(), "/d/f", 0o600))
	for _, hint := range []bool{false, true} {
		for p, err := range c.As("bob").LocateMany(t.Context(), slices.Values([]string{"/d/f"}), client.LocateOptions{Hint: hint}) {
			must(t, err)
			if hint && (p.Err != nil || len(p.Located.Blocks) != 1) || !hint && !errors.Is(p.Err, muster.ErrPermission) {
				t.Errorf("hint %v: %+v, %v", hint, p.Located.Blocks, p.Err)
			}
		}
	}
}

// place plants files on datanodes, and returns their directories and what a located listing of them
// must say, whose replicas are in no order.
func (in *instance) place(c *client.Client) (dirs, want []string) {
	in.t.Helper()
	nodes := in.join(4)
	for d := range 30 {
		dir := fmt.Sprintf("/orchard/%02d", d)
		dirs = append(dirs, dir)
		for f := range 1 + d%4 {
			nodes.file(in.t, c, fmt.Sprintf("%s/f%d", dir, f), muster.Replicated(1+(d+f)%4), 1+f)
		}
	}
	return dirs, whereabouts(in.t, c.List(in.t.Context(), slices.Values(dirs), client.ListOptions{Locations: muster.LocationsMust}))
}

// whereabouts are the rows of a listing and where each block is.
func whereabouts(t *testing.T, batches func(func(*client.Batch, error) bool)) (lines []string) {
	t.Helper()
	for b, err := range batches {
		must(t, err)
		for i := range b.Len() {
			line := b.Path(i)
			for _, block := range b.Located(i).Blocks {
				all := hosts(block)
				slices.Sort(all)
				line += fmt.Sprintf(" %d/%d on %q, %v", block.Container, block.LocalID, all, block.Err)
			}
			lines = append(lines, line)
		}
		for _, o := range b.Outcomes {
			if o.Err() != nil {
				t.Errorf("%v", o.Err())
			}
		}
	}
	return lines
}

// TestALocatedListingCutAnywhereIsTheListingUncut: the calls that resume it have tables of their own.
func TestALocatedListingCutAnywhereIsTheListingUncut(t *testing.T) {
	in := start(t)
	dirs, want := in.place(dial(t, in.addr(), client.Options{}))
	if len(want) == 0 || strings.Contains(strings.Join(want, ""), "on []") {
		t.Fatalf("%q", want)
	}
	p := newProxy(t, in.addr())
	c := dial(t, p.addr(), client.Options{Connections: 1})
	o := client.ListOptions{Locations: muster.LocationsMust, Sorted: true, Limit: 5}
	p.recorded()
	same(t, whereabouts(t, c.List(t.Context(), slices.Values(dirs), o)), want)
	last := 0
	for _, end := range boundaries(t, p.recorded()) {
		for _, at := range []int{(last + end) / 2, end - 1} {
			p.cutAfter(at)
			same(t, whereabouts(t, c.List(t.Context(), slices.Values(dirs), o)), want)
			p.spare()
		}
		last = end
	}
}

// TestLocatedRowsAsArrow: a listing of several batches, and a batch by itself, name the datanodes.
func TestLocatedRowsAsArrow(t *testing.T) {
	two := muster.Replicated(2)
	first := &pb.ListReply{
		Frame: locatedFrame(placed{0, two, [][]uint32{{0, 1}, {}, nil}}), Nodes: []*pb.Node{nodeOf(7), nodeOf(5)},
		Outcomes: []*pb.Outcome{ended(0, 1)}, Cursor: []byte("c"), CursorIndex: 1,
	}
	second := &pb.ListReply{
		Frame: locatedFrame(placed{1, rs21, [][]uint32{{2, rows.Absent, 1}}}), Nodes: []*pb.Node{nodeOf(9)},
		Outcomes: []*pb.Outcome{ended(1, 1)}, Done: true, TotalRows: 2, TotalOutcomes: 2,
	}
	_, c := newScript(t, client.Options{}, []*pb.ListReply{first, second})
	var whole, alone bytes.Buffer
	w := client.NewLocatedIPCWriter(&whole, 0)
	for b, err := range c.List(t.Context(), slices.Values([]string{"/a", "/b"}), client.ListOptions{Locations: muster.LocationsHint}) {
		must(t, err)
		must(t, w.Write(b))
		alone.Reset()
		must(t, b.IPC(&alone))
	}
	must(t, w.Close())
	if got := replicasOf(t, &whole); len(got) != 2 || got[0] != "[[dn7#0 dn5#0] [] unknown]" || got[1] != "[[dn9#1 dn5#3]]" {
		t.Errorf("%q", got)
	}
	if got := replicasOf(t, &alone); len(got) != 1 || got[0] != "[[dn9#1 dn5#3]]" {
		t.Errorf("the second batch alone: %q", got)
	}
}

// replicasOf reads the replicas of each row of an Arrow stream.
func replicasOf(t *testing.T, in *bytes.Buffer) (all []string) {
	t.Helper()
	r, err := ipc.NewReader(in)
	must(t, err)
	defer r.Release()
	for r.Next() {
		column := r.Record().Column(r.Schema().FieldIndices("blocks")[0])
		for i := range int(r.Record().NumRows()) {
			text, err := json.Marshal(column.GetOneForMarshal(i))
			must(t, err)
			var blocks []struct {
				Replicas *[]struct {
					Host  string
					Index int
				}
			}
			must(t, json.Unmarshal(text, &blocks))
			var lines []string
			for _, b := range blocks {
				line := "unknown"
				if b.Replicas != nil {
					var hosts []string
					for _, r := range *b.Replicas {
						hosts = append(hosts, fmt.Sprintf("%s#%d", r.Host, r.Index))
					}
					line = fmt.Sprint(hosts)
				}
				lines = append(lines, line)
			}
			all = append(all, fmt.Sprint(lines))
		}
	}
	must(t, r.Err())
	return all
}

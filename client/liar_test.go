package client_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"storj.io/drpc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// liar is a server that answers as it is told.
type liar struct {
	pb.DRPCNamespaceUnimplementedServer
	schema uint32
	list   []*pb.ListReply
	apply  *pb.ApplyReply
	entry  *pb.EntryReply
	fsck   *pb.FsckReply
}

func (l *liar) Capabilities(context.Context, *pb.CapabilitiesRequest) (*pb.CapabilitiesReply, error) {
	return &pb.CapabilitiesReply{RowSchema: l.schema, MaxMessageBytes: 1 << 20}, nil
}

// List answers when the last path has come, so that all are known.
func (l *liar) List(stream pb.DRPCNamespace_ListStream) error {
	for last := false; !last; {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		last = request.Last
	}
	for _, reply := range l.list {
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
	return nil
}

func (l *liar) ListPage(context.Context, *pb.ListPageRequest) (*pb.ListReply, error) {
	return l.list[0], nil
}

func (l *liar) Apply(context.Context, *pb.ApplyRequest) (*pb.ApplyReply, error) { return l.apply, nil }

func (l *liar) Stat(context.Context, *pb.PathRequest) (*pb.EntryReply, error) { return l.entry, nil }

func (l *liar) Fsck(_ *pb.FsckRequest, stream pb.DRPCNamespace_FsckStream) error {
	return stream.Send(l.fsck)
}

// serve runs the liar and returns its address.
func (l *liar) serve(t *testing.T) string {
	t.Helper()
	_, addr := serveAs(t, l, pb.DRPCNamespaceDescription{})
	return addr
}

// serveAs runs the liar as a server of the calls described until the test ends.
func serveAs(t testing.TB, l any, calls drpc.Description) (s *rpc.Server, addr string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s, err = rpc.NewServer(l, calls, rpc.ServerOptions{})
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-served
	})
	return s, lis.Addr().String()
}

// frame has a row for each path index.
func frame(indexes ...uint32) []byte {
	b := rows.NewBuilder(0)
	for _, i := range indexes {
		b.Append(i, &muster.Row{Name: []byte("x"), Kind: muster.File})
	}
	return b.AppendFrame(nil)
}

func ended(index, count uint64) *pb.Outcome { return &pb.Outcome{Index: index, Rows: count} }

func TestWhatAServerMustNotSendIsCorruptAndNothingPanics(t *testing.T) {
	whole := []*pb.Outcome{ended(0, 1), ended(1, 0)}
	damaged := frame(0)
	damaged[len(damaged)/2] ^= 1
	for name, test := range map[string]struct {
		replies []*pb.ListReply
		want    muster.Code
		page    muster.Code // of a page call's first reply; 0: it is sound
	}{
		"sound":              {[]*pb.ListReply{{Frame: frame(0), Outcomes: whole, Done: true, TotalRows: 1, TotalOutcomes: 2}}, muster.OK, muster.OK},
		"damaged rows":       {[]*pb.ListReply{{Frame: damaged}}, muster.ErrCorrupt, muster.ErrCorrupt},
		"garbage as rows":    {[]*pb.ListReply{{Frame: []byte("garbage")}}, muster.ErrCorrupt, muster.ErrCorrupt},
		"row of no path":     {[]*pb.ListReply{{Frame: frame(2), Done: true}}, muster.ErrCorrupt, muster.ErrCorrupt},
		"rows out of order":  {[]*pb.ListReply{{Frame: frame(1, 0), Done: true}}, muster.ErrCorrupt, muster.ErrCorrupt},
		"outcome of no path": {[]*pb.ListReply{{Outcomes: []*pb.Outcome{ended(7, 0)}, Done: true}}, muster.ErrCorrupt, muster.ErrCorrupt},
		"outcome twice":      {[]*pb.ListReply{{Outcomes: []*pb.Outcome{ended(0, 0), ended(0, 0)}, Done: true}}, muster.ErrCorrupt, muster.ErrCorrupt},
		"outcome missing":    {[]*pb.ListReply{{Outcomes: whole[:1], Frame: frame(0), Done: true, TotalRows: 1, TotalOutcomes: 1}}, muster.ErrCorrupt, muster.ErrCorrupt},
		"total of rows":      {[]*pb.ListReply{{Frame: frame(0), Outcomes: whole, Done: true, TotalRows: 2, TotalOutcomes: 2}}, muster.ErrCorrupt, muster.OK},
		"cursor ahead":       {[]*pb.ListReply{{Cursor: []byte("c"), CursorIndex: 1}}, muster.ErrCorrupt, muster.OK},
		"cursor far ahead":   {[]*pb.ListReply{{Cursor: []byte("c"), CursorIndex: 1 << 63}}, muster.ErrCorrupt, muster.OK},
		"cursor too large":   {[]*pb.ListReply{{Cursor: make([]byte, rpc.MaxMessage-100)}}, muster.ErrCorrupt, muster.OK},
		"cursor going back": {[]*pb.ListReply{
			{Outcomes: []*pb.Outcome{ended(0, 0)}, Cursor: []byte("c"), CursorIndex: 1}, {Cursor: []byte("c"), CursorIndex: 0},
		}, muster.ErrCorrupt, muster.OK},
		"message after the last": {[]*pb.ListReply{
			{Frame: frame(0), Outcomes: whole, Done: true, TotalRows: 1, TotalOutcomes: 2}, {},
		}, muster.ErrCorrupt, muster.OK},
		"no last message":               {[]*pb.ListReply{{Frame: frame(0), Outcomes: whole, Cursor: []byte("c"), CursorIndex: 1}}, muster.ErrUnavailable, muster.OK},
		"no message":                    {nil, muster.ErrUnavailable, muster.OK},
		"page that is done and goes on": {[]*pb.ListReply{{Outcomes: whole, Frame: frame(0), Done: true, Cursor: []byte("c")}}, muster.ErrCorrupt, muster.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			l := &liar{schema: rows.SchemaVersion, list: test.replies}
			c := dial(t, l.serve(t), client.Options{Attempts: 1})
			paths := []string{"/a", "/b"}
			if _, err := client.Collect(c.List(t.Context(), slices.Values(paths), client.ListOptions{})); muster.CodeOf(err) != test.want {
				t.Errorf("list: got %v, want %v", err, test.want)
			}
			if len(test.replies) == 0 {
				return
			}
			if _, err := c.Page(t.Context(), paths, nil, client.ListOptions{}); muster.CodeOf(err) != test.page {
				t.Errorf("page: got %v, want %v", err, test.page)
			}
		})
	}
}

func TestMessagesOfNeitherRowsNorOutcomesAreNoBatches(t *testing.T) {
	cursor := []byte("c")
	l := &liar{schema: rows.SchemaVersion, list: []*pb.ListReply{
		{Cursor: cursor}, {Frame: frame(0), Cursor: cursor}, {Cursor: cursor}, {Outcomes: []*pb.Outcome{ended(0, 1)}},
		{Done: true, TotalRows: 1, TotalOutcomes: 1},
	}}
	c := dial(t, l.serve(t), client.Options{Attempts: 1})
	batches := 0
	for b, err := range c.List(t.Context(), slices.Values([]string{"/a"}), client.ListOptions{}) {
		must(t, err)
		if batches++; b.Len() == 0 && len(b.Outcomes) == 0 {
			t.Error("an empty batch")
		}
	}
	if batches != 2 {
		t.Errorf("%d batches", batches)
	}
}

// lingering is a server that does not end its streams.
type lingering struct{ liar }

func (l *lingering) List(stream pb.DRPCNamespace_ListStream) error {
	err := l.liar.List(stream)
	<-stream.Context().Done()
	return err
}

func TestAListingIsCompleteThoughItsStreamDoesNotEnd(t *testing.T) {
	_, addr := serveAs(t, &lingering{liar{schema: rows.SchemaVersion, list: []*pb.ListReply{
		{Frame: frame(0), Outcomes: []*pb.Outcome{ended(0, 1)}, Done: true, TotalRows: 1, TotalOutcomes: 1},
	}}}, pb.DRPCNamespaceDescription{})
	c := dial(t, addr, client.Options{Connections: 1})
	for range 2 {
		all, err := client.Collect(c.List(t.Context(), slices.Values([]string{"/a"}), client.ListOptions{}))
		if err != nil || len(all) != 1 {
			t.Errorf("%d rows, %v", len(all), err)
		}
	}
}

func TestGlobFailsWhereMatchesMayBeHidden(t *testing.T) {
	l := &liar{schema: rows.SchemaVersion}
	c := dial(t, l.serve(t), client.Options{Attempts: 1})
	for code := muster.ErrNotFound; code <= muster.ErrInternal; code++ {
		l.list = []*pb.ListReply{{Outcomes: []*pb.Outcome{{Code: uint32(code)}}, Done: true, TotalOutcomes: 1}}
		var want muster.Code
		switch code {
		default:
			want = code
		case muster.ErrNotFound, muster.ErrNotDirectory, muster.ErrPermission, muster.ErrLinkLoop:
			want = muster.OK // as in path/filepath
		}
		for _, pattern := range []string{"/d", "/*"} {
			if found, err := c.Glob(t.Context(), pattern); muster.CodeOf(err) != want || len(found) != 0 {
				t.Errorf("glob %s where %v: %q, %v", pattern, code, found, err)
			}
		}
	}
}

func TestAnswersThatFitNoRequestAreCorrupt(t *testing.T) {
	l := &liar{schema: rows.SchemaVersion}
	c := dial(t, l.serve(t), client.Options{Attempts: 1})
	for name, reply := range map[string]*pb.ApplyReply{
		"too few results":       {Txid: 1},
		"refusal of no command": {Refusal: &pb.Refusal{Index: 5, Code: 1}},
		"refusal without code":  {Refusal: &pb.Refusal{}},
	} {
		l.apply = reply
		if err := c.Mkdir(t.Context(), "/d", 0o755); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	l.entry = &pb.EntryReply{Kind: 99}
	if _, err := c.Stat(t.Context(), "/d"); err == nil {
		t.Error("an entry of unknown kind is taken")
	}
	for name, reply := range map[string]*pb.FsckReply{"problems lost": {Done: true, ProblemCount: 3}, "cut off": {}} {
		l.fsck = reply
		if _, err := c.Fsck(t.Context(), func(client.Problem) error { return nil }); err == nil {
			t.Errorf("fsck, %s: no error", name)
		}
	}
}

func TestServerOfAnotherRowVersionIsRefusedWithARemedy(t *testing.T) {
	l := &liar{schema: rows.SchemaVersion + 1}
	_, err := client.Dial(t.Context(), l.serve(t), client.Options{User: "root"})
	if !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), "upgrade") {
		t.Fatalf("got %v", err)
	}
}

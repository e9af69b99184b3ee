package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmetadata"
	"storj.io/drpc/drpcmigrate"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// drain receives until the stream ends, and returns its last message.
func drain(s pb.DRPCNamespace_ListClient) (last *pb.ListReply, err error) {
	for {
		m, err := s.Recv()
		if err == io.EOF {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		last = m
	}
}

func TestAStreamListsWhatAPageLists(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 250)
	in.apply(t, muster.Symlink{Path: "/l", Target: "d"})
	paths := []string{"/d", "/missing", "/l", "relative", "/d/a-file-with-a-longer-name-000003"}
	page, err := in.ListPage(root(t), &pb.ListPageRequest{Paths: chunk(true, paths...).Paths, Count: uint32(len(paths))})
	if err != nil || !page.Done {
		t.Fatalf("page: %v", err)
	}
	names := func(frame []byte) (got []string) {
		b, err := rows.Decode(frame, rows.DefaultColumns)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Len() {
			got = append(got, fmt.Sprint(b.PathIndex(i), " ", strings.Clone(b.Name(i)), " ", b.Mode(i)))
		}
		return got
	}
	want := names(page.Frame)
	if len(want) != 501 {
		t.Fatalf("the page has %d rows", len(want))
	}
	s := in.begin(t, root(t), chunk(false, paths[:2]...))
	if err := s.Send(chunk(false, paths[2:]...)); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(chunk(true)); err != nil {
		t.Fatal(err)
	}
	var got []string
	var codes []muster.Code
	for {
		m, err := s.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Frame) > 0 {
			got = append(got, names(m.Frame)...)
		}
		for _, o := range m.Outcomes {
			codes = append(codes, muster.Code(o.Code))
		}
		if m.Done && (m.TotalRows != 501 || m.TotalOutcomes != 5) {
			t.Errorf("the last message counts %d rows and %d outcomes", m.TotalRows, m.TotalOutcomes)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the stream has %d other rows than the page's %d", len(got), len(want))
	}
	if fmt.Sprint(codes) != fmt.Sprint([]muster.Code{0, muster.ErrNotFound, 0, muster.ErrInvalid, 0}) {
		t.Errorf("outcomes %v", codes)
	}
}

// A cursor is used while the requests after it are received, into the same memory.
func TestACursorOutlivesTheRequestsAfterIt(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 200)
	s := in.begin(t, root(t), chunk(false, "/d"))
	m, err := s.Recv()
	if err != nil || len(m.Cursor) == 0 || m.CursorIndex != 0 {
		t.Fatalf("no cursor after the first rows: %v", err)
	}
	_ = s.Close()
	came, later := uint64(64), chunk(true, "/none", "/none", "/none") // shorter than the first
	for range 100 {
		first := chunk(false, "/d")
		first.Cursor = m.Cursor
		s := in.begin(t, root(t), first)
		if err := s.Send(later); err != nil {
			t.Fatal(err)
		}
		last, err := drain(s)
		if err != nil || last.TotalRows != 200-came || last.TotalOutcomes != 4 {
			t.Fatalf("a resumed stream ends with %v, %v", last, err)
		}
	}
}

// A call of 100,000 paths works, in chunks, and its first rows are there while the last
// paths are not.
func TestFirstRowsComeWhileLaterPathsAreOnTheirWay(t *testing.T) {
	const paths = 100_000
	in := start(t, server.Options{})
	in.fill(t, "/d", 1)
	s := in.begin(t, root(t), chunk(false, "/d"))
	if m, err := s.Recv(); err != nil || len(m.Frame) == 0 || m.Done {
		t.Fatalf("first rows: %v", err)
	}
	sent := make(chan error, 1)
	go func() {
		long := "/d" + strings.Repeat("/", 98)
		chunks := make([]string, rpc.ChunkPaths)
		for i := range chunks {
			chunks[i] = long
		}
		var err error
		for n := 1; n < paths && err == nil; n += len(chunks) {
			chunks = chunks[:min(len(chunks), paths-n)]
			err = s.Send(chunk(n+len(chunks) == paths, chunks...))
		}
		sent <- err
	}()
	last, err := drain(s)
	if err != nil || last == nil || !last.Done || last.TotalRows != paths || last.TotalOutcomes != paths {
		t.Errorf("the stream ended with %v, %v", last, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestMalformedListsAreRefusedAsAWhole(t *testing.T) {
	in := start(t, server.Options{Listing: listing.Config{MaxPaths: 300}})
	in.fill(t, "/d", 3)
	many := make([]string, rpc.MaxChunkPaths+1)
	for i := range many {
		many[i] = "/d"
	}
	bomb := chunk(true, strings.Repeat("x", 8000))
	for range 200 {
		bomb.Paths = append(bomb.Paths, 0xc0, 0x3e, 0)
		bomb.Count++
	}
	with := func(m *pb.ListRequest, o *pb.ListOptions) *pb.ListRequest { m.Options = o; return m }
	for name, c := range map[string]struct {
		sent []*pb.ListRequest
		code muster.Code
		says string
	}{
		"no path":               {[]*pb.ListRequest{chunk(true)}, muster.ErrInvalid, "no paths"},
		"no path, in two":       {[]*pb.ListRequest{chunk(false), chunk(true)}, muster.ErrInvalid, "no paths"},
		"unknown hidden preset": {[]*pb.ListRequest{with(chunk(true, "/d"), &pb.ListOptions{Hidden: 77})}, muster.ErrInvalid, "77"},
		"unknown consistency":   {[]*pb.ListRequest{with(chunk(true, "/d"), &pb.ListOptions{Consistency: 78})}, muster.ErrInvalid, "78"},
		"unknown columns":       {[]*pb.ListRequest{with(chunk(true, "/d"), &pb.ListOptions{Columns: 1 << 30})}, muster.ErrInvalid, "column"},
		"options twice":         {[]*pb.ListRequest{chunk(false, "/d"), with(chunk(true, "/d"), &pb.ListOptions{})}, muster.ErrInvalid, "after the first message"},
		"a cursor later":        {[]*pb.ListRequest{chunk(false, "/d"), {Cursor: []byte("x"), Last: true}}, muster.ErrInvalid, "after the first message"},
		"a cursor of nobody":    {[]*pb.ListRequest{{Cursor: []byte("x"), Last: true}}, muster.ErrCursor, "1 bytes"},
		"damaged paths":         {[]*pb.ListRequest{{Paths: []byte{9, 9}, Count: 1}}, muster.ErrInvalid, "path 0 of 1"},
		"damaged paths later":   {[]*pb.ListRequest{chunk(false, "/d"), {Paths: []byte{9, 9}, Count: 1}}, muster.ErrInvalid, "path 0 of 1"},
		"a chunk of too many":   {[]*pb.ListRequest{chunk(true, many...)}, muster.ErrLimit, "at most 4096"},
		"a chunk that blows up": {[]*pb.ListRequest{bomb}, muster.ErrLimit, "bytes"},
		"a large chunk":         {[]*pb.ListRequest{chunk(true, strings.Repeat("x", 2<<20))}, muster.ErrLimit, "bytes"},
		"no end":                {[]*pb.ListRequest{chunk(false, "/d"), nil}, muster.ErrInvalid, "before the last"},
		"no end of none":        {[]*pb.ListRequest{nil}, muster.ErrInvalid, "before the last"},
	} {
		s, err := in.List(root(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.sent {
			if m == nil {
				_ = s.CloseSend()
			} else if err := s.Send(m); err != nil && err != io.EOF {
				t.Fatalf("%s: %v", name, err)
			}
		}
		_, err = drain(s)
		if muster.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := in.ListPage(root(t), &pb.ListPageRequest{Options: &pb.ListOptions{Hidden: 77}, Count: 0})
	wantCode(t, err, muster.ErrInvalid)
	_, err = in.ListPage(root(t), &pb.ListPageRequest{Paths: chunk(true, many[:301]...).Paths, Count: 301})
	wantCode(t, err, muster.ErrLimit)
	in.check(t)
}

func TestACancelledStreamEndsWhileTheServerWaitsForPaths(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 10)
	for range 20 {
		ctx, cancel := context.WithCancel(root(t))
		s := in.begin(t, ctx, chunk(false, "/d"))
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
		_, err := drain(s)
		wantCode(t, err, muster.ErrCancelled)
		in.check(t)
	}
	in.until(t, "the streams have ended", func() bool { return in.counter(t, "calls_active") == 1 })
}

func TestADeadlineEndsAStreamThatWaitsForPaths(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 10)
	nc, err := net.Dial("tcp", in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// A client that has no deadline itself, but tells the server of one.
	conn := drpcconn.New(drpcmigrate.NewHeaderConn(nc, drpcmigrate.DRPCHeader))
	defer func() { _ = conn.Close() }()
	ctx := drpcmetadata.AddPairs(t.Context(), map[string]string{"user": "u", "timeout": "20"})
	s, err := pb.NewDRPCNamespaceClient(conn).List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(chunk(false, "/d")); err != nil {
		t.Fatal(err)
	}
	_, err = drain(s)
	wantCode(t, rpc.FromWire(err), muster.ErrDeadline)
	in.check(t)
}

// lazy begins a stream over very many rows and takes the first of them, on a connection
// of its own.
func lazy(t *testing.T, in *instance) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := drpcconn.New(drpcmigrate.NewHeaderConn(nc, drpcmigrate.DRPCHeader))
	t.Cleanup(func() { _ = conn.Close() })
	s, err := pb.NewDRPCNamespaceClient(conn).List(drpcmetadata.Add(t.Context(), "user", "u"))
	if err != nil {
		t.Fatal(err)
	}
	paths := make([]string, 200)
	for i := range paths {
		paths[i] = "/d"
	}
	for range 40 { // far more rows than any socket's buffer holds, and paths than the backlog
		if err := s.Send(chunk(false, paths...)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	return nc
}

// until waits for a state that the server comes to by itself.
func (in *instance) until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for start := time.Now(); !reached(); {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("after a long time still not: %s", what)
		}
		in.check(t)
	}
}

func TestAVanishedClientLeavesNothingBehind(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 2000)
	for range 3 {
		nc := lazy(t, in)
		in.check(t)
		_ = nc.(*net.TCPConn).SetLinger(0) // a reset, and no goodbye
		_ = nc.Close()
	}
	in.until(t, "the streams have ended", func() bool { return in.counter(t, "calls_active") == 1 }) // the status call itself
}

func TestAClientThatStopsReadingIsCutOff(t *testing.T) {
	in := start(t, server.Options{RPC: rpc.ServerOptions{StallTimeout: 50 * time.Millisecond}})
	in.fill(t, "/d", 2000)
	lazy(t, in)
	lazy(t, in)
	in.until(t, "the streams have ended", func() bool { return in.counter(t, "calls_active") == 1 })
	if n := in.counter(t, "calls_failed"); n != 2 {
		t.Errorf("%v calls have failed, want 2", n)
	}
}

func TestCarelessAndForeignClientsDoNotHurtOthers(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 100)
	s := in.begin(t, root(t), chunk(false, "/d"))
	nc, err := net.Dial("tcp", in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	careless := drpcconn.New(drpcmigrate.NewHeaderConn(nc, drpcmigrate.DRPCHeader))
	defer func() { _ = careless.Close() }()
	ctx := drpcmetadata.Add(t.Context(), "user", "u")
	if _, err := pb.NewDRPCNamespaceClient(careless).Stat(ctx, &pb.PathRequest{Path: make([]byte, 5<<20)}); err == nil {
		t.Error("a request of 5 MiB was answered")
	}
	_, err = in.Stat(root(t), &pb.PathRequest{Path: make([]byte, 5<<20)})
	wantCode(t, err, muster.ErrLimit) // a client of ours says why, and keeps its connection
	browser, err := net.Dial("tcp", in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = browser.Close() }()
	if _, err := io.WriteString(browser, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(browser); len(answer) != 0 {
		t.Errorf("a browser was told %q", answer)
	}
	if err := s.Send(chunk(true, "/d")); err != nil {
		t.Fatal(err)
	}
	if last, err := drain(s); err != nil || last.TotalRows != 200 {
		t.Errorf("a stream meanwhile: %v, %v", last, err)
	}
	in.check(t)
}

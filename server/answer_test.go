package server_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// journal keeps what a server logs.
type journal struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// take returns what was logged since it was called last.
func (j *journal) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.text.Reset()
	return j.text.String()
}

// The call as a whole goes well, so only a line of its own tells an administrator who was
// kept out of what. HDFS writes two lines for such a path, one of which says it was allowed.
func TestEachDeniedPathOfABatchIsLoggedOnce(t *testing.T) {
	var log journal
	in := start(t, server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	in.apply(t,
		muster.Mkdir{Path: "/open", Mode: 0o755}, muster.Mkdir{Path: "/shut", Mode: 0o700}, muster.Mkdir{Path: "/also-open", Mode: 0o755})
	first := chunk(true, "/open", "/shut", "/missing", "/also-open")
	page := &pb.ListPageRequest{Paths: first.Paths, Count: first.Count}
	list := map[string]func() error{
		"page": func() error { _, err := in.ListPage(as(t, "ann"), page); return err },
		"stream": func() error {
			_, err := drain(in.begin(t, as(t, "ann"), chunk(true, "/open", "/shut", "/missing", "/also-open")))
			return err
		},
	}
	for name, list := range list {
		log.take()
		if err := list(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		in.check(t) // the call is over
		var denied []string
		for line := range strings.Lines(log.take()) {
			if strings.Contains(line, "msg=denied") {
				denied = append(denied, line)
			}
		}
		if len(denied) != 1 || !strings.Contains(denied[0], "user=ann") || !strings.Contains(denied[0], "/shut") {
			t.Errorf("%s: %q", name, denied)
		}
	}
}

func TestRowsAreCompressedIfAskedFor(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 900)
	in.apply(t, muster.Mkdir{Path: "/small", Mode: 0o755}, muster.Create{Path: "/small/file", Mode: 0o644})
	expander, err := rpc.NewExpander(rows.MaxFrame)
	if err != nil {
		t.Fatal(err)
	}
	page := func(path string, c pb.Compression) *pb.ListReply {
		r := &pb.ListPageRequest{Options: &pb.ListOptions{Compression: c}, Paths: chunk(true, path).Paths, Count: 1}
		m, err := in.ListPage(root(t), r)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	plain, packed := page("/d", pb.Compression_COMPRESSION_NONE), page("/d", pb.Compression_COMPRESSION_ZSTD)
	if plain.FrameSize != 0 || int(packed.FrameSize) != len(plain.Frame) || len(packed.Frame) > len(plain.Frame)/2 {
		t.Errorf("%d bytes (size %d) become %d (size %d)", len(plain.Frame), plain.FrameSize, len(packed.Frame), packed.FrameSize)
	}
	frame, err := expander.Frame(packed.Frame, packed.FrameSize)
	if err != nil || !bytes.Equal(frame, plain.Frame) {
		t.Errorf("the rows are other ones: %v", err)
	}
	if small := page("/small", pb.Compression_COMPRESSION_ZSTD); small.FrameSize != 0 {
		t.Error("a single row is compressed")
	}
}

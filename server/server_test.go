package server_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

func TestTheTreeOutlivesTheServer(t *testing.T) {
	dir := t.TempDir()
	in := start(t, server.Options{Dir: dir})
	in.fill(t, "/a/b", 3)
	_ = in.pool.Close()
	if err := in.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-in.Done()
	if err := in.Err(); err != nil {
		t.Errorf("after a shutdown Err is %v", err)
	}
	again := start(t, server.Options{Dir: dir})
	if r, err := again.Stat(root(t), &pb.PathRequest{Path: []byte("/a/b/a-file-with-a-longer-name-000002")}); err != nil || r.Kind != uint32(muster.File) {
		t.Errorf("after a restart: %v, %v", r, err)
	}
}

func TestAFolderHasOneServer(t *testing.T) {
	dir := t.TempDir()
	in := start(t, server.Options{Dir: dir})
	_, err := server.Start(t.Context(), server.Options{Dir: dir})
	wantCode(t, err, muster.ErrUnavailable)
	if !strings.Contains(err.Error(), dir) {
		t.Errorf("%v does not name the folder", err)
	}
	in.check(t)
}

func TestOptionsAreChecked(t *testing.T) {
	dir := t.TempDir()
	for name, o := range map[string]server.Options{
		"no folder":    {},
		"listing":      {Dir: dir, Listing: listing.Config{MaxPaths: -1}},
		"namespace":    {Dir: dir, Namespace: namespace.Options{CacheBytes: -1}},
		"calls":        {Dir: dir, RPC: rpc.ServerOptions{MaxCalls: -1}},
		"key":          {Dir: dir, Listing: listing.Config{Key: make([]byte, 31)}},
		"address":      {Dir: dir, Listen: "localhost"},
		"port":         {Dir: dir, Listen: "127.0.0.1:99999"},
		"other's host": {Dir: dir, Listen: "192.0.2.1:0"},
	} {
		s, err := server.Start(t.Context(), o)
		if err == nil {
			t.Errorf("%s: the server started", name)
			_ = s.Shutdown(t.Context())
		}
	}
	start(t, server.Options{Dir: dir}).check(t) // the failures have left nothing behind
}

func TestTheClusterKeyIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.key")
	in := start(t, server.Options{Dir: dir})
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := hex.DecodeString(strings.TrimSpace(string(first))); err != nil || len(key) != 32 {
		t.Errorf("the key is %q", first)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	_ = in.pool.Close()
	if err := in.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	start(t, server.Options{Dir: dir})
	second, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the key became %q, %v", second, err)
	}
	if left, err := filepath.Glob(file + ".*"); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestServersOfOneKeyTakeEachOthersCursors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, bytes.Repeat([]byte{7}, 32), 0o600); err != nil { // raw
		t.Fatal(err)
	}
	hexFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(hexFile, []byte("  "+strings.Repeat("07", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	page := func(in *instance, cursor []byte) (*pb.ListReply, error) {
		return in.ListPage(root(t), &pb.ListPageRequest{
			Options: &pb.ListOptions{Limit: 2}, Cursor: cursor, Paths: rpc.AppendPath(nil, "", "/d"), Count: 1,
		})
	}
	one := start(t, server.Options{KeyFile: file})
	one.fill(t, "/d", 5)
	first, err := page(one, nil)
	if err != nil || len(first.Cursor) == 0 {
		t.Fatalf("first page: %v, %v", first, err)
	}
	same := start(t, server.Options{KeyFile: hexFile})
	same.fill(t, "/d", 5)
	if _, err := page(same, first.Cursor); err != nil {
		t.Errorf("a server of the same key: %v", err)
	}
	foreign := start(t, server.Options{})
	foreign.fill(t, "/d", 5)
	_, err = page(foreign, first.Cursor)
	wantCode(t, err, muster.ErrCursor)
}

func TestBadKeyFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	for content, code := range map[string]error{
		"":                            muster.ErrInvalid,
		strings.Repeat("x", 31):       muster.ErrInvalid,
		strings.Repeat("0", 63):       muster.ErrInvalid,
		strings.Repeat("0g", 32):      muster.ErrInvalid,
		strings.Repeat("00", 33):      muster.ErrInvalid,
		strings.Repeat("\x00", 1<<20): muster.ErrInvalid,
		"missing":                     fs.ErrNotExist,
	} {
		file := filepath.Join(t.TempDir(), "the.key")
		if content != "missing" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := server.Start(t.Context(), server.Options{Dir: dir, KeyFile: file})
		if !errors.Is(err, code) || !strings.Contains(err.Error(), file) {
			t.Errorf("a key of %d bytes: %v", len(content), err)
		}
	}
	file := filepath.Join(dir, "open.key")
	if err := os.WriteFile(file, make([]byte, 32), 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	in, err := server.Start(t.Context(), server.Options{Dir: dir, KeyFile: file, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "chmod 600") {
		t.Errorf("no warning about a key that everybody can read:\n%s", log.String())
	}
}

// failingDisk fails every write once it is told to.
type failingDisk struct{ failed atomic.Bool }

func (d *failingDisk) MaybeError(op errorfs.Op, _ string) error {
	if d.failed.Load() && op.OpKind() == errorfs.OpKindWrite && op != errorfs.OpFileClose {
		return errorfs.ErrInjected
	}
	return nil
}

func (d *failingDisk) String() string { return "failing disk" }

func TestAServerWhoseStoreFailsEnds(t *testing.T) {
	disk := new(failingDisk)
	told := make(chan error, 1)
	s, err := server.Start(t.Context(), server.Options{Dir: t.TempDir(), Namespace: namespace.Options{
		FS:      errorfs.Wrap(vfs.NewMem(), disk),
		OnFatal: func(err error) { told <- err },
	}})
	if err != nil {
		t.Fatal(err)
	}
	in := connect(t, s)
	defer func() { _ = in.pool.Close() }()
	in.fill(t, "/d", 1)
	disk.failed.Store(true)
	m, err := rpc.CommandToPB(muster.Mkdir{Path: "/e", Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.Apply(root(t), &pb.ApplyRequest{Commands: []*pb.Command{m}})
	wantCode(t, err, muster.ErrUnavailable)
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "the store failed") {
		t.Errorf("Err is %v", err)
	}
	if err := <-told; err == nil {
		t.Error("OnFatal got no error")
	}
	if err := s.Shutdown(t.Context()); err == nil || err != s.Err() {
		t.Errorf("Shutdown says %v", err)
	}
	_, err = in.Stat(root(t), &pb.PathRequest{Path: []byte("/")})
	wantCode(t, err, muster.ErrUnavailable)
}

func TestGracefulStopFinishesARunningStream(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 1000)
	s := in.begin(t, root(t), chunk(false, "/d"))
	first, err := s.Recv()
	if err != nil || len(first.Frame) == 0 {
		t.Fatalf("first rows: %v, %v", first, err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- in.Shutdown(t.Context()) }()
	for err == nil { // until the server has begun to stop
		_, err = in.Stat(root(t), &pb.PathRequest{Path: []byte("/")})
	}
	wantCode(t, err, muster.ErrUnavailable)
	for range 20 {
		if err := s.Send(chunk(false, "/d", "/d")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Send(chunk(true)); err != nil {
		t.Fatal(err)
	}
	last, err := drain(s)
	if err != nil || last == nil || last.TotalRows != 41_000 || last.TotalOutcomes != 41 {
		t.Errorf("the stream ended with %v, %v", last, err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestShutdownCancelsWhatTakesTooLong(t *testing.T) {
	s, err := server.Start(t.Context(), server.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	in := connect(t, s)
	defer func() { _ = in.pool.Close() }()
	in.fill(t, "/d", 10)
	stream := in.begin(t, root(t), chunk(false, "/d")) // and no more
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, s.Shutdown(ctx), muster.ErrCancelled)
	_, err = drain(stream)
	wantCode(t, err, muster.ErrUnavailable)
	if err := s.Err(); err != nil {
		t.Errorf("Err is %v", err)
	}
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// instance is a server on loopback, and a client's connections to it.
type instance struct {
	*server.Server
	pool   *rpc.Pool
	folder string // of the server, if start has started it
	pb.DRPCNamespaceClient
}

// start starts a server that is stopped at the end of the test. Stopping waits for every
// view and iterator, and the store complains about those that are left: so a clean stop
// says that none leaked.
func start(t *testing.T, o server.Options) *instance {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := server.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	in := connect(t, s)
	in.folder = o.Dir
	t.Cleanup(func() {
		_ = in.pool.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return in
}

func connect(t *testing.T, s *server.Server) *instance {
	t.Helper()
	p := rpc.NewPool(s.Addr().String(), rpc.PoolOptions{})
	return &instance{Server: s, pool: p, DRPCNamespaceClient: pb.NewDRPCNamespaceClient(p)}
}

// root is the context of calls by the user that the server runs as.
func root(t *testing.T) context.Context {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return rpc.ClientContext(t.Context(), muster.Identity{User: u.Username})
}

func as(t *testing.T, user string) context.Context {
	return rpc.ClientContext(t.Context(), muster.Identity{User: user})
}

// apply applies commands as root, in batches that fit.
func (in *instance) apply(t *testing.T, commands ...muster.Command) {
	t.Helper()
	for len(commands) > 0 {
		n := min(len(commands), 5000)
		request := new(pb.ApplyRequest)
		for _, c := range commands[:n] {
			m, err := rpc.CommandToPB(c)
			if err != nil {
				t.Fatal(err)
			}
			request.Commands = append(request.Commands, m)
		}
		r, err := in.Apply(root(t), request)
		if err != nil || r.Refusal != nil {
			t.Fatalf("apply: %v, %v", err, r.GetRefusal())
		}
		commands = commands[n:]
	}
}

// fill makes a directory with files, whose names it returns.
func (in *instance) fill(t *testing.T, dir string, files int) {
	t.Helper()
	commands := []muster.Command{muster.Mkdir{Path: dir, Mode: 0o755, Parents: true}}
	for i := range files {
		commands = append(commands, muster.Create{Path: fmt.Sprintf("%s/a-file-with-a-longer-name-%06d", dir, i), Mode: 0o644})
	}
	in.apply(t, commands...)
}

// check makes calls that always work.
func (in *instance) check(t *testing.T) {
	t.Helper()
	r, err := in.Stat(root(t), &pb.PathRequest{Path: []byte("/")})
	if err != nil || r.Kind != uint32(muster.Directory) {
		t.Fatalf("status of the root: %v, %v", r, err)
	}
	page, err := in.ListPage(root(t), &pb.ListPageRequest{Paths: rpc.AppendPath(nil, "", "/"), Count: 1})
	if err != nil || !page.Done || len(page.Outcomes) != 1 || page.Outcomes[0].Code != 0 {
		t.Fatalf("a page of the root: %v, %v", page, err)
	}
}

func wantCode(t *testing.T, err error, code muster.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got error %v (%s), want %s", err, muster.CodeOf(err).Name(), code.Name())
	}
}

// chunk is a message of a stream with paths.
func chunk(last bool, paths ...string) *pb.ListRequest {
	m := &pb.ListRequest{Count: uint32(len(paths)), Last: last}
	prev := ""
	for _, p := range paths {
		m.Paths = rpc.AppendPath(m.Paths, prev, p)
		prev = p
	}
	return m
}

// begin begins a stream with a first message.
func (in *instance) begin(t *testing.T, ctx context.Context, first *pb.ListRequest) pb.DRPCNamespace_ListClient {
	t.Helper()
	s, err := in.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(first); err != nil {
		t.Fatal(err)
	}
	return s
}

// counter returns a counter of the server's status.
func (in *instance) counter(t *testing.T, name string) float64 {
	t.Helper()
	r, err := in.Status(root(t), &pb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Counters {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("the status has no counter %s", name)
	return 0
}

package bench

import (
	"context"
	"errors"
	"net"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// openingServer serves both arms over loopback, in this process: one as Open, the other as Lookup.
type openingServer struct {
	server *rpc.Server
	served chan error
	pool   *rpc.Pool
	client pb.DRPCNamespaceClient
}

func serveOpening(ctx context.Context, o *opening) (*openingServer, error) {
	server, err := rpc.NewServer(&openingCalls{opening: o}, pb.DRPCNamespaceDescription{}, rpc.ServerOptions{})
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &openingServer{server: server, served: make(chan error, 1)}
	go func() { s.served <- server.Serve(lis) }() // close waits for it
	s.pool = rpc.NewPool(lis.Addr().String(), rpc.PoolOptions{MaxConnections: maxCallers})
	s.client = pb.NewDRPCNamespaceClient(s.pool)
	return s, nil
}

func (s *openingServer) close() error {
	return errors.Join(s.pool.Close(), s.server.Shutdown(context.Background()), <-s.served)
}

// call is the call of an arm.
func (s *openingServer) call(arm resolveArm) func(context.Context, *pb.OpenRequest) (*pb.LocatedReply, error) {
	return resolveArms[arm].call(s.client)
}

func (s *openingServer) as(ctx context.Context, caller muster.Identity) context.Context {
	return rpc.ClientContext(ctx, caller)
}

// openingCalls are the calls of the server.
type openingCalls struct {
	pb.DRPCNamespaceUnimplementedServer
	opening *opening
}

func (c *openingCalls) Open(ctx context.Context, r *pb.OpenRequest) (*pb.LocatedReply, error) {
	return c.open(ctx, once, r)
}

func (c *openingCalls) Lookup(ctx context.Context, r *pb.OpenRequest) (*pb.LocatedReply, error) {
	return c.open(ctx, steps, r)
}

func (c *openingCalls) open(ctx context.Context, arm resolveArm, r *pb.OpenRequest) (*pb.LocatedReply, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return nil, err
	}
	var (
		row   muster.Row
		reply = new(pb.LocatedReply)
		path  = string(r.GetPath())
	)
	_, name := muster.SplitPath(path)
	err = c.opening.open(arm, &caller, path, &row, func(row *muster.Row) { reply.Entry = rpc.RowToPB(row, name, 0) })
	return reply, err
}

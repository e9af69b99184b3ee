package rpc

import (
	"context"
	"fmt"
	"net"
	"reflect"

	"storj.io/drpc"

	"github.com/muster-fs/muster"
)

// audience is who may make a call.
type audience uint8

const (
	forUsers  audience = iota // whoever says who it is
	forPeers                  // on a connection that has proven the cluster key
	forAnyone                 // by which a connection proves it
)

// method is what the server knows of a call.
type method struct {
	unary    bool       // it has one request and one reply
	audience audience   // who may make it
	raw      rawHandler // what carries it out instead of the service; nil: nothing
	direct   bool       // raw is for direct calls, too
}

// NewPeerServer returns a server whose first service is for peers, see AddPeerService.
func NewPeerServer(impl any, desc drpc.Description, o ServerOptions) (*Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	if err := s.AddPeerService(impl, desc); err != nil {
		return nil, err
	}
	return s, nil
}

// AddPeerService adds a service for peers: calls on connections that have not proven the
// cluster key are answered with muster.ErrUnauthenticated. The server needs a PeerKey. It
// comes before Serve.
func (s *Server) AddPeerService(impl any, desc drpc.Description) error {
	if s.options.PeerKey == nil {
		return fmt.Errorf("rpc: %w: a service for peers on a server without a key that they could prove", muster.ErrInvalid)
	}
	return s.add(impl, desc, forPeers)
}

func (s *Server) add(impl any, desc drpc.Description, who audience) error {
	if err := s.mux.Register(impl, desc); err != nil {
		return fmt.Errorf("rpc: %w: register: %v", muster.ErrInternal, err)
	}
	for i := range desc.NumMethods() {
		name, _, _, f, _ := desc.Method(i)
		s.methods[name] = method{unary: reflect.TypeOf(f).NumOut() == 2, audience: who} // as drpcmux tells them
	}
	return nil
}

// identify establishes who makes a call that is for such an audience: a user, or a peer,
// whose name is its role.
func (c *call) identify(who audience, md map[string]string) (muster.Identity, error) {
	switch who {
	case forPeers:
		if c.conn.peer.role == "" {
			return muster.Identity{}, fmt.Errorf("%w: this call is for servers of the cluster, which prove the cluster key: start the caller with the cluster.key_file of this server", muster.ErrUnauthenticated)
		}
		return muster.Identity{User: c.conn.peer.role}, nil
	case forAnyone:
		return muster.Identity{}, nil
	}
	return c.conn.authenticate(md)
}

// RemoteAddr returns the address of the other side of the connection that the call of a
// handler's context came on, or nil if that is no such context.
func RemoteAddr(ctx context.Context) net.Addr {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c.conn.RemoteAddr()
	}
	return nil
}

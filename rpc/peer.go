package rpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// How peers prove the cluster key to each other, once for each connection: the server
// names a nonce; the client names its own and its role, and shows its proof over them;
// the server shows its own. Neither proof says anything of another connection. What
// follows is not encrypted and not signed: who can change what a connection carries is
// not kept out.

// peerState is what the server knows of the other side of a connection. The goroutine
// of the connection's calls uses it.
type peerState struct {
	role  string // proven; empty: none is
	nonce []byte // to be answered by the next proof; nil: none is
}

// Peer returns the role of the other side of a handler's connection, if that has proven
// the cluster key.
func Peer(ctx context.Context) (role string, ok bool) {
	c, isCall := ctx.Value(callKey{}).(*call)
	if !isCall || c.conn.peer.role == "" {
		return "", false
	}
	return c.conn.peer.role, true
}

// peerService has the server's side of the proof.
type peerService struct{ key *PeerKey }

var _ pb.DRPCPeerServer = peerService{}

// Challenge makes the nonce that the next proof answers.
func (peerService) Challenge(ctx context.Context, _ *pb.ChallengeRequest) (*pb.ChallengeReply, error) {
	peer, err := peerOf(ctx)
	if err != nil {
		return nil, err
	}
	if peer.nonce, err = newNonce(); err != nil {
		return nil, err
	}
	return &pb.ChallengeReply{Nonce: peer.nonce}, nil
}

// Prove checks the client's proof and shows that of the server. Whatever comes of it, the
// nonce is spent, and nothing is left of an earlier proof.
func (s peerService) Prove(ctx context.Context, r *pb.ProveRequest) (*pb.ProveReply, error) {
	peer, err := peerOf(ctx)
	if err != nil {
		return nil, err
	}
	nonce, role := peer.nonce, r.GetRole()
	*peer = peerState{}
	switch {
	case nonce == nil:
		return nil, fmt.Errorf("%w: a proof without a challenge before it", muster.ErrUnauthenticated)
	case !knownRole(role):
		return nil, fmt.Errorf("%w: role %.32q of a peer; this version knows %s, %s and %s", muster.ErrUnauthenticated, role, RoleNamespace, RoleLocations, RoleDatanode)
	case len(r.GetNonce()) != nonceBytes || len(r.GetProof()) != proofBytes:
		return nil, fmt.Errorf("%w: a nonce of %d bytes and a proof of %d; they have %d each", muster.ErrUnauthenticated, len(r.GetNonce()), len(r.GetProof()), nonceBytes)
	case !s.key.proves(r.GetProof(), clientSide, role, nonce, r.GetNonce()):
		return nil, fmt.Errorf("%w: the caller has another cluster key than this server: give both the same cluster.key_file", muster.ErrUnauthenticated)
	}
	peer.role = role
	return &pb.ProveReply{Proof: s.key.proof(serverSide, role, nonce, r.GetNonce())}, nil
}

// peerOf returns the state of the connection that a call came on.
func peerOf(ctx context.Context) (*peerState, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil, fmt.Errorf("%w: not the context of a call", muster.ErrInternal)
	}
	return &c.conn.peer, nil
}

func newNonce() ([]byte, error) {
	nonce := make([]byte, nonceBytes)
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("%w: random bytes: %v", muster.ErrInternal, err)
	}
	return nonce, nil
}

// prove makes both sides of a new connection prove the pool's key, before anything else
// is sent on it. It ends with ctx.
func (p *Pool) prove(ctx context.Context, c *conn) error {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // ends what waits on it
	if err := c.prove(p.options.PeerKey, p.options.PeerRole); err != nil {
		var code muster.Code
		if err = FromWire(err); ctx.Err() != nil || !errors.As(err, &code) {
			err = broken("the connection to %s ended before it was proven: %v", p.address, err)
		}
		return fmt.Errorf("prove the cluster key to %s: %w", p.address, err)
	}
	return nil
}

func (c *conn) prove(key *PeerKey, role string) error {
	var challenge pb.ChallengeReply
	if err := c.invoke("/muster.v1.Peer/Challenge", &pb.ChallengeRequest{}, &challenge); err != nil {
		return err
	}
	if n := len(challenge.GetNonce()); n != nonceBytes {
		return fmt.Errorf("%w: a challenge of %d bytes; it has %d", muster.ErrCorrupt, n, nonceBytes)
	}
	nonce, err := newNonce()
	if err != nil {
		return err
	}
	request := &pb.ProveRequest{Nonce: nonce, Role: role, Proof: key.proof(clientSide, role, challenge.Nonce, nonce)}
	var shown pb.ProveReply
	if err := c.invoke("/muster.v1.Peer/Prove", request, &shown); err != nil {
		return err
	}
	if !key.proves(shown.GetProof(), serverSide, role, challenge.Nonce, nonce) {
		return fmt.Errorf("%w: the server has not proven the cluster key: give both sides the same cluster.key_file", muster.ErrUnauthenticated)
	}
	return nil
}

// invoke makes a call of one request and one reply on the connection, under no identity
// and no deadline: to end it, close the connection.
func (c *conn) invoke(name string, in, out proto.Message) error {
	request, err := proto.Marshal(in)
	if err != nil {
		return fmt.Errorf("%w: encode message: %v", muster.ErrInternal, err)
	}
	stream, err := c.begin(context.Background(), name, nil)
	if err != nil {
		return err
	}
	var reply []byte
	ended, err := c.exchange(stream, request, rawEncoding{}, (*raw)(&reply))
	if ended {
		<-stream.Finished() // at once, the server has said all
	}
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(reply, out); err != nil {
		return fmt.Errorf("%w: decode message: %v", muster.ErrCorrupt, err)
	}
	return nil
}

package rpc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmigrate"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// testKey returns a cluster key and what is derived from it.
func testKey(t testing.TB, fill byte) (cluster []byte, key *PeerKey) {
	t.Helper()
	cluster = bytes.Repeat([]byte{fill}, ClusterKeyBytes)
	key, err := NewPeerKey(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return cluster, key
}

// peerCalls is a service for peers. It remembers who called.
type peerCalls struct {
	pb.DRPCLocationsUnimplementedServer
	mu    sync.Mutex
	roles []string
}

func (p *peerCalls) Lookup(ctx context.Context, _ *pb.LookupRequest) (*pb.LookupReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	role, _ := Peer(ctx)
	p.roles = append(p.roles, role)
	return &pb.LookupReply{}, nil
}

func (p *peerCalls) called() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roles
}

// startPeers serves users and peers on one port.
func startPeers(t *testing.T, lis net.Listener, o ServerOptions) *peerCalls {
	t.Helper()
	peers := new(peerCalls)
	server := made(t, &service{}, o)
	if err := server.AddPeerService(peers, pb.DRPCLocationsDescription{}); err != nil {
		t.Fatal(err)
	}
	run(t, server, lis)
	return peers
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

func lookup(ctx context.Context, p *Pool) error {
	_, err := pb.NewDRPCLocationsClient(p).Lookup(ctx, &pb.LookupRequest{})
	return err
}

func TestPeersProveTheirKeyOnceForAConnection(t *testing.T) {
	_, key := testKey(t, 1)
	lis := listen(t)
	peers := startPeers(t, lis, ServerOptions{PeerKey: key})
	net := new(counting)
	p := newPool(t, lis.Addr().String(), PoolOptions{PeerKey: key, PeerRole: RoleDatanode, Dial: net.dial})
	for range 5 {
		if err := lookup(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(peers.called(), " "); got != "datanode datanode datanode datanode datanode" || net.dials() != 1 {
		t.Errorf("%d connections, calls by %q", net.dials(), got)
	}
	check(t, p) // a peer may make a user's calls, as that user
}

func TestUsersMakeNoCallsOfPeers(t *testing.T) {
	_, key := testKey(t, 1)
	lis := listen(t)
	peers := startPeers(t, lis, ServerOptions{PeerKey: key})
	p := newPool(t, lis.Addr().String(), PoolOptions{})
	err := lookup(as(t.Context(), "root"), p)
	wantCode(t, err, muster.ErrUnauthenticated)
	if !strings.Contains(err.Error(), "cluster.key_file") {
		t.Errorf("%v does not name the remedy", err)
	}
	check(t, p)
	if n := len(peers.called()); n != 0 {
		t.Errorf("%d calls came through", n)
	}
}

func TestAnotherKeyIsRefused(t *testing.T) {
	_, ours := testKey(t, 1)
	_, theirs := testKey(t, 2)
	lis := listen(t)
	peers := startPeers(t, lis, ServerOptions{PeerKey: ours})
	p := newPool(t, lis.Addr().String(), PoolOptions{PeerKey: theirs, PeerRole: RoleNamespace})
	for range 3 {
		err := lookup(t.Context(), p)
		wantCode(t, err, muster.ErrUnauthenticated)
		if !strings.Contains(err.Error(), "cluster.key_file") || !strings.Contains(err.Error(), lis.Addr().String()) || !Unsent(err) {
			t.Errorf("%v", err)
		}
	}
	if n := len(peers.called()); n != 0 {
		t.Errorf("%d calls came through", n)
	}
}

func TestAServerWithoutPeersSaysSo(t *testing.T) {
	_, key := testKey(t, 1)
	server, addr := startServer(t, &service{}, ServerOptions{})
	err := server.AddPeerService(new(peerCalls), pb.DRPCLocationsDescription{})
	wantCode(t, err, muster.ErrInvalid)
	p := newPool(t, addr, PoolOptions{PeerKey: key, PeerRole: RoleNamespace})
	wantCode(t, lookup(t.Context(), p), muster.ErrInvalid)
}

func TestAPeerKeyIsMadeOfAWholeClusterKey(t *testing.T) {
	for _, n := range []int{0, 16, 31, 33, 64} {
		_, err := NewPeerKey(make([]byte, n))
		wantCode(t, err, muster.ErrInvalid)
	}
}

// stranger is a connection whose calls a test makes by hand.
type stranger struct {
	pb.DRPCPeerClient
	locations pb.DRPCLocationsClient
}

func newStranger(t *testing.T, addr string) *stranger {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := drpcconn.New(drpcmigrate.NewHeaderConn(nc, preface))
	t.Cleanup(func() { _ = c.Close() })
	return &stranger{pb.NewDRPCPeerClient(c), pb.NewDRPCLocationsClient(c)}
}

func (s *stranger) challenge(t *testing.T) []byte {
	t.Helper()
	r, err := s.Challenge(t.Context(), &pb.ChallengeRequest{})
	if err != nil || len(r.Nonce) != nonceBytes {
		t.Fatalf("challenge: %v, %v", r, err)
	}
	return r.Nonce
}

// proofFor is what a holder of the key sends.
func proofFor(key *PeerKey, role string, serverNonce []byte) *pb.ProveRequest {
	nonce := bytes.Repeat([]byte{9}, nonceBytes)
	return &pb.ProveRequest{Nonce: nonce, Role: role, Proof: key.proof(clientSide, role, serverNonce, nonce)}
}

func TestFalseProofs(t *testing.T) {
	_, key := testKey(t, 1)
	_, foreign := testKey(t, 2)
	lis := listen(t)
	peers := startPeers(t, lis, ServerOptions{PeerKey: key})
	addr := lis.Addr().String()

	heard := newStranger(t, addr) // an honest connection that somebody listens to
	overheard := proofFor(key, RoleNamespace, heard.challenge(t))
	shown, err := heard.Prove(t.Context(), overheard)
	if err != nil {
		t.Fatal(err)
	}
	for name, prove := range map[string]func(s *stranger) *pb.ProveRequest{
		"no challenge": func(*stranger) *pb.ProveRequest { return overheard },
		"replayed":     func(s *stranger) *pb.ProveRequest { s.challenge(t); return overheard },
		"reflected": func(s *stranger) *pb.ProveRequest {
			s.challenge(t)
			return &pb.ProveRequest{Nonce: overheard.Nonce, Role: RoleNamespace, Proof: shown.Proof}
		},
		"made as a server": func(s *stranger) *pb.ProveRequest {
			r := proofFor(key, RoleNamespace, s.challenge(t))
			return &pb.ProveRequest{Nonce: r.Nonce, Role: r.Role, Proof: key.proof(serverSide, r.Role, s.challenge(t), r.Nonce)}
		},
		"another key": func(s *stranger) *pb.ProveRequest { return proofFor(foreign, RoleNamespace, s.challenge(t)) },
		"another role": func(s *stranger) *pb.ProveRequest {
			r := proofFor(key, RoleDatanode, s.challenge(t))
			r.Role = RoleNamespace
			return r
		},
		"unknown role": func(s *stranger) *pb.ProveRequest { return proofFor(key, "operator", s.challenge(t)) },
		"no role":      func(s *stranger) *pb.ProveRequest { return proofFor(key, "", s.challenge(t)) },
		"old challenge": func(s *stranger) *pb.ProveRequest {
			r := proofFor(key, RoleNamespace, s.challenge(t))
			s.challenge(t)
			return r
		},
		"another nonce": func(s *stranger) *pb.ProveRequest {
			r := proofFor(key, RoleNamespace, s.challenge(t))
			r.Nonce[0]++
			return r
		},
		"bytes moved between the parts": func(s *stranger) *pb.ProveRequest {
			nonce := append(s.challenge(t), 9)
			return &pb.ProveRequest{Nonce: bytes.Repeat([]byte{9}, nonceBytes-1), Role: RoleNamespace, Proof: key.proof(clientSide, RoleNamespace, nonce, bytes.Repeat([]byte{9}, nonceBytes-1))}
		},
		"cut proof": func(s *stranger) *pb.ProveRequest {
			r := proofFor(key, RoleNamespace, s.challenge(t))
			r.Proof = r.Proof[:proofBytes-1]
			return r
		},
		"empty": func(s *stranger) *pb.ProveRequest { s.challenge(t); return &pb.ProveRequest{Role: RoleNamespace} },
	} {
		s := newStranger(t, addr)
		_, err := s.Prove(t.Context(), prove(s))
		wantCode(t, FromWire(err), muster.ErrUnauthenticated)
		_, err = s.locations.Lookup(t.Context(), &pb.LookupRequest{})
		if muster.CodeOf(FromWire(err)) != muster.ErrUnauthenticated {
			t.Errorf("%s: a call after it: %v", name, err)
		}
	}
	if n := len(peers.called()); n != 0 {
		t.Errorf("%d calls came through", n)
	}
	if _, err := heard.locations.Lookup(t.Context(), &pb.LookupRequest{}); err != nil {
		t.Errorf("the honest connection: %v", err)
	}
}

func TestAProofIsLostByAFalseOne(t *testing.T) {
	_, key := testKey(t, 1)
	lis := listen(t)
	startPeers(t, lis, ServerOptions{PeerKey: key})
	s := newStranger(t, lis.Addr().String())
	request := proofFor(key, RoleNamespace, s.challenge(t))
	if _, err := s.Prove(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prove(t.Context(), request); muster.CodeOf(FromWire(err)) != muster.ErrUnauthenticated {
		t.Errorf("the same proof again: %v", err)
	}
	if _, err := s.locations.Lookup(t.Context(), &pb.LookupRequest{}); muster.CodeOf(FromWire(err)) != muster.ErrUnauthenticated {
		t.Errorf("a call: %v", err)
	}
}

// impostor answers as a server that does not know the key.
type impostor struct {
	nonce []byte
	prove func(*pb.ProveRequest) []byte
}

func (i *impostor) Challenge(context.Context, *pb.ChallengeRequest) (*pb.ChallengeReply, error) {
	return &pb.ChallengeReply{Nonce: i.nonce}, nil
}

func (i *impostor) Prove(_ context.Context, r *pb.ProveRequest) (*pb.ProveReply, error) {
	return &pb.ProveReply{Proof: i.prove(r)}, nil
}

func TestAServerThatDoesNotKnowTheKeyGetsNoCalls(t *testing.T) {
	_, key := testKey(t, 1)
	nonce := make([]byte, nonceBytes)
	for name, i := range map[string]*impostor{
		"nothing":   {nonce, func(*pb.ProveRequest) []byte { return nil }},
		"garbage":   {nonce, func(*pb.ProveRequest) []byte { return make([]byte, proofBytes) }},
		"reflected": {nonce, func(r *pb.ProveRequest) []byte { return r.Proof }},
		"no nonce":  {nil, func(r *pb.ProveRequest) []byte { return key.proof(serverSide, r.Role, nil, r.Nonce) }},
	} {
		server, err := NewServer(i, pb.DRPCPeerDescription{}, ServerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for call, m := range server.methods {
			m.audience = forAnyone
			server.methods[call] = m
		}
		peers := new(peerCalls)
		if err := server.add(peers, pb.DRPCLocationsDescription{}, forAnyone); err != nil {
			t.Fatal(err)
		}
		lis := listen(t)
		run(t, server, lis)
		p := newPool(t, lis.Addr().String(), PoolOptions{PeerKey: key, PeerRole: RoleNamespace})
		if err := lookup(t.Context(), p); err == nil || len(peers.called()) != 0 {
			t.Errorf("%s: %v, %d calls", name, err, len(peers.called()))
		}
		_ = p.Close()
	}
}

// A server that takes the connection and says nothing holds a caller no longer than the
// caller has time.
func TestAProofEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, key := testKey(t, 1)
		silent := newPipes()
		go func() {
			for {
				nc, err := silent.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(io.Discard, nc) }()
			}
		}()
		p := NewPool("pipe", PoolOptions{PeerKey: key, PeerRole: RoleNamespace, Dial: silent.dialPipe, DialTimeout: 5 * time.Second})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, lookup(ctx, p), muster.ErrDeadline)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		wantCode(t, lookup(t.Context(), p), muster.ErrUnavailable)
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("both took %v", took)
		}
		failed := make(chan error)
		go func() { failed <- lookup(t.Context(), p) }()
		synctest.Wait()
		_ = p.Close() // does not wait for the proof
		wantCode(t, <-failed, muster.ErrUnavailable)
		_ = silent.Close()
	})
}

// Neither the cluster key nor what is derived from it is ever printed.
func TestKeysAreNotPrinted(t *testing.T) {
	cluster, key := testKey(t, 0xc7)
	_, foreign := testKey(t, 2)
	lis := listen(t)
	var log syncBuffer
	o := ServerOptions{PeerKey: key, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	startPeers(t, lis, o)
	var said strings.Builder
	for _, k := range []*PeerKey{key, foreign, nil} {
		po := PoolOptions{PeerKey: k, PeerRole: RoleNamespace}
		p := newPool(t, lis.Addr().String(), po)
		fmt.Fprintln(&said, lookup(t.Context(), p))
		if k != foreign {
			fmt.Fprintf(&said, "%v %+v %#v %x %q\n", po, po, po, k, k)
			fmt.Fprintf(&said, "%v %+v %#v\n", o.PeerKey, o, p)
		}
		_ = p.Close()
	}
	o.Logger.Info("options", "key", key, "options", o)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("options", "key", key)
	text := said.String() + log.String()
	for _, secret := range [][]byte{cluster, key.secret[:]} {
		for _, written := range []string{
			string(secret[:8]), hex.EncodeToString(secret[:8]), base64.StdEncoding.EncodeToString(secret[:9]),
			strings.Trim(fmt.Sprint(secret[:8]), "[]"), strings.Trim(fmt.Sprintf("%#v", secret[:4]), "[]byte{}"),
		} {
			if strings.Contains(strings.ToLower(text), strings.ToLower(written)) {
				t.Fatalf("a key was printed as %q:\n%s", written, text)
			}
		}
	}
	if !strings.Contains(text, "peer key") {
		t.Error("the test has printed nothing")
	}
}

func TestAHandlerKnowsWhereACallComesFrom(t *testing.T) {
	var remote net.Addr
	_, addr := startServer(t, &service{stat: func(ctx context.Context, _ *pb.PathRequest) (*pb.EntryReply, error) {
		if role, ok := Peer(ctx); ok {
			return nil, fmt.Errorf("a user is peer %q", role)
		}
		remote = RemoteAddr(ctx)
		return &pb.EntryReply{Kind: 1}, nil
	}}, ServerOptions{})
	net := new(counting)
	p := newPool(t, addr, PoolOptions{Dial: net.dial})
	if _, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{}); err != nil {
		t.Fatal(err)
	}
	if want := net.conns[0].LocalAddr().String(); remote.String() != want {
		t.Errorf("from %v, want %v", remote, want)
	}
	if RemoteAddr(t.Context()) != nil {
		t.Error("a context of no call has an address")
	}
	if _, ok := Peer(t.Context()); ok {
		t.Error("a context of no call has a peer")
	}
}

// FuzzProve: only the one right proof makes a peer.
func FuzzProve(f *testing.F) {
	_, key := testKey(f, 1)
	nonce := bytes.Repeat([]byte{5}, nonceBytes)
	right := proofFor(key, RoleLocations, nonce)
	f.Add(marshalled(f, right))
	f.Add(marshalled(f, &pb.ProveRequest{Nonce: right.Nonce, Proof: right.Proof, Role: RoleDatanode}))
	f.Add(marshalled(f, &pb.ProveRequest{Role: "operator"}))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r pb.ProveRequest
		if proto.Unmarshal(b, &r) != nil {
			return
		}
		conn := &serverConn{peer: peerState{role: RoleNamespace, nonce: nonce}}
		c := &call{conn: conn}
		reply, err := peerService{key}.Prove(&callContext{t.Context(), c}, &r)
		want := ""
		if knownRole(r.Role) && len(r.Nonce) == nonceBytes && bytes.Equal(r.Proof, key.proof(clientSide, r.Role, nonce, r.Nonce)) {
			want = r.Role
		}
		if conn.peer.role != want || (err == nil) != (want != "") || conn.peer.nonce != nil {
			t.Fatalf("role %q, %v, want %q", conn.peer.role, err, want)
		}
		if err == nil && !key.proves(reply.Proof, serverSide, r.Role, nonce, r.Nonce) {
			t.Fatal("the server's proof is wrong")
		}
	})
}

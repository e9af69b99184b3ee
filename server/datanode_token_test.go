package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// ring returns the keys of a cluster with tokens, and their secrets.
func (in *instance) ring(t *testing.T) (*token.Ring, [][]byte) {
	t.Helper()
	cluster, err := server.ClusterKey(in.folder, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	key, err := rpc.NewPeerKey(cluster)
	if err != nil {
		t.Fatal(err)
	}
	p := rpc.NewPool(in.Addr().String(), rpc.PoolOptions{PeerKey: key, PeerRole: rpc.RoleNamespace})
	defer func() { _ = p.Close() }()
	reply, err := pb.NewDRPCLocationsClient(p).BlockKeys(t.Context(), &pb.BlockKeysRequest{})
	if err != nil || !reply.Enabled {
		t.Fatalf("%v, %v", reply, err)
	}
	var keys []token.Key
	var secrets [][]byte
	for _, k := range reply.Keys {
		keys, secrets = append(keys, tokenKey(t, k.Id, k.Secret)), append(secrets, k.Secret)
	}
	r, err := token.NewRing(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r, secrets
}

func tokenKey(t *testing.T, id uint32, secret []byte) token.Key {
	t.Helper()
	s, err := token.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	return token.Key{ID: id, Secret: s, Expires: time.Now().Add(24 * time.Hour)}
}

// sign returns a token.
func sign(t *testing.T, r *token.Ring, owner string, m token.Modes, id muster.BlockID, maxLength int64, file uint64) []byte {
	t.Helper()
	s, err := r.Signer(owner, m, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return s.Token(id, maxLength, file)
}

const tokenFile = 77

// tokenCall is a call that needs a token.
type tokenCall struct {
	name string
	mode token.Modes
	id   muster.BlockID
	make func(ctx context.Context, t []byte) error
}

func tokenCalls(n *dn, id muster.BlockID) []tokenCall {
	fresh := muster.BlockID{Container: 1, LocalID: 1000}
	return []tokenCall{
		{"ReadChunk", token.Read, id, func(ctx context.Context, t []byte) error { _, err := n.get(ctx, id, t, 0, 10); return err }},
		{"ReadBlock", token.Read, id, func(ctx context.Context, t []byte) error { _, err := n.stream(ctx, id, t, 0, 0); return err }},
		{"GetBlock", token.Read, id, func(ctx context.Context, t []byte) error {
			_, err := n.GetBlock(ctx, &pb.GetBlockRequest{Container: id.Container, LocalId: id.LocalID, Token: t})
			return err
		}},
		{"ListBlocks", token.Read, muster.BlockID{Container: id.Container}, func(ctx context.Context, t []byte) error {
			s, err := n.ListBlocks(ctx, &pb.ListBlocksRequest{Container: id.Container, Token: t})
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			_, err = s.Recv()
			return err
		}},
		{"WriteBlock", token.Write, fresh, func(ctx context.Context, t []byte) error {
			_, err := n.send(ctx, messages(fresh, t, tokenFile, data(1, 1000), true)...)
			return err
		}},
		{"CommitBlock", token.Write, id, func(ctx context.Context, t []byte) error {
			_, err := n.CommitBlock(ctx, &pb.CommitBlockRequest{Container: id.Container, LocalId: id.LocalID, Token: t, Length: 1000})
			return err
		}},
		{"DeleteBlocks", token.Delete, id, func(ctx context.Context, t []byte) error {
			reply, err := n.DeleteBlocks(ctx, &pb.DeleteBlocksRequest{Blocks: []*pb.BlockDeletion{{Container: id.Container, LocalId: id.LocalID, Token: t}}})
			if err != nil {
				return err
			}
			return rpc.FromStatus(reply.Outcomes[0].Code, reply.Outcomes[0].Message)
		}},
	}
}

func TestEveryCallNeedsItsToken(t *testing.T) {
	in := blockCluster(t, true)
	n := startNode(t, datanodeOptions(in, t.TempDir()))
	ring, _ := in.ring(t)
	ctx, id := as(t, "ann"), muster.BlockID{Container: 1, LocalID: 1}
	n.put(ctx, t, id, sign(t, ring, "ann", token.Write, id, 5000, tokenFile), tokenFile, data(1, 1000))

	foreign, err := token.NewRing([]token.Key{tokenKey(t, 1, bytes.Repeat([]byte{1}, token.SecretBytes))})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := token.NewRing([]token.Key{tokenKey(t, 9999, bytes.Repeat([]byte{1}, token.SecretBytes))})
	if err != nil {
		t.Fatal(err)
	}
	old, err := ring.Signer("ann", token.Read|token.Write|token.Delete, time.Now().Add(-time.Hour), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range tokenCalls(n, id) {
		others := (token.Read | token.Write | token.Delete) &^ c.mode
		good := sign(t, ring, "ann", c.mode, c.id, 5000, tokenFile)
		flipped := bytes.Clone(good)
		flipped[len(flipped)-1] ^= 1
		longer := bytes.Clone(good)
		longer[len(longer)-token.MACBytes-16]++ // what it is good for
		for _, bad := range []struct {
			name  string
			token []byte
			code  muster.Code
		}{
			{"none", nil, muster.ErrUnauthenticated},
			{"garbage", []byte("token"), muster.ErrUnauthenticated},
			{"cut", good[:len(good)-1], muster.ErrUnauthenticated},
			{"flipped", flipped, muster.ErrUnauthenticated},
			{"changed", longer, muster.ErrUnauthenticated},
			{"of a foreign secret", sign(t, foreign, "ann", c.mode, c.id, 5000, tokenFile), muster.ErrUnauthenticated},
			{"of an unknown key", sign(t, unknown, "ann", c.mode, c.id, 5000, tokenFile), muster.ErrUnauthenticated},
			{"expired", old.Token(c.id, 5000, tokenFile), muster.ErrUnauthenticated},
			{"of another block", sign(t, ring, "ann", c.mode, muster.BlockID{Container: 1, LocalID: 2}, 5000, tokenFile), muster.ErrUnauthenticated},
			{"of another owner", sign(t, ring, "bob", c.mode, c.id, 5000, tokenFile), muster.ErrUnauthenticated},
			{"of other modes", sign(t, ring, "ann", others, c.id, 5000, tokenFile), muster.ErrPermission},
		} {
			err := c.make(ctx, bad.token)
			if code := muster.CodeOf(err); code != bad.code {
				t.Errorf("%s with a token %s: %v (%s)", c.name, bad.name, err, code.Name())
			}
		}
		if err := c.make(as(t, "bob"), good); muster.CodeOf(err) != muster.ErrUnauthenticated {
			t.Errorf("%s by another user: %v", c.name, err)
		}
		if err := c.make(ctx, good); err != nil {
			t.Errorf("%s with its token: %v", c.name, err)
		}
	}
	if n := n.dials.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// What a token says beside its block is kept to.
func TestATokenBindsFileAndLength(t *testing.T) {
	in := blockCluster(t, true)
	n := startNode(t, datanodeOptions(in, t.TempDir()))
	ring, _ := in.ring(t)
	ctx, id := as(t, "ann"), muster.BlockID{Container: 1, LocalID: 1}
	write := sign(t, ring, "ann", token.Write, id, 20_000, tokenFile)
	_, err := n.send(ctx, messages(id, write, tokenFile+1, data(1, 1000), true)...)
	wantCode(t, err, muster.ErrUnauthenticated)
	_, err = n.send(ctx, messages(id, write, tokenFile, data(1, 20_001), true)...)
	wantCode(t, err, muster.ErrLimit)
	n.put(ctx, t, id, write, tokenFile, data(1, 20_000))
	read := sign(t, ring, "ann", token.Read, id, 100, tokenFile)
	_, err = n.get(ctx, id, read, 101, 10)
	wantCode(t, err, muster.ErrLimit)
	_, err = n.stream(ctx, id, read, 101, 0)
	wantCode(t, err, muster.ErrLimit)
	if got, err := n.get(ctx, id, read, 90, 10); err != nil || !bytes.Equal(got, data(1, 20_000)[90:100]) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// TestATokenIsForTheFileThatTheBlockWasWrittenFor: with one for another file nothing is read or
// committed. Deletions are servers' work, who may not know the file any more.
func TestATokenIsForTheFileThatTheBlockWasWrittenFor(t *testing.T) {
	in := blockCluster(t, true)
	n := startNode(t, datanodeOptions(in, t.TempDir()))
	ring, _ := in.ring(t)
	ctx, id := as(t, "ann"), muster.BlockID{Container: 1, LocalID: 1}
	n.put(ctx, t, id, sign(t, ring, "ann", token.Write, id, 5000, tokenFile), tokenFile, data(1, 1000))
	for _, c := range tokenCalls(n, id) {
		if c.id != id || c.mode == token.Delete {
			continue
		}
		for range 2 { // the second time it is in the cache
			for _, other := range []uint64{0, tokenFile + 1} {
				wantCode(t, c.make(ctx, sign(t, ring, "ann", c.mode, id, 5000, other)), muster.ErrUnauthenticated)
			}
			if err := c.make(ctx, sign(t, ring, "ann", c.mode, id, 5000, tokenFile)); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	wantCode(t, tokenCalls(n, id)[5].make(ctx, sign(t, ring, "ann", token.Write, id, 999, tokenFile)), muster.ErrLimit)
	deletion := tokenCalls(n, id)[6]
	if err := deletion.make(ctx, sign(t, ring, "ann", token.Delete, id, 0, 0)); err != nil {
		t.Errorf("deletion for file 0: %v", err)
	}
	_, err := n.get(ctx, id, sign(t, ring, "ann", token.Read, id, 5000, tokenFile), 0, 10)
	wantCode(t, err, muster.ErrNoData)
}

// Neither the cluster key nor the keys of tokens are in what a datanode keeps, or in its log.
func TestADatanodeKeepsNoSecrets(t *testing.T) {
	in := blockCluster(t, true)
	var log logBuffer
	o := datanodeOptions(in, t.TempDir())
	o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n := startNode(t, o)
	ring, secrets := in.ring(t)
	ctx, id := as(t, "ann"), muster.BlockID{Container: 1, LocalID: 1}
	write := sign(t, ring, "ann", token.Write, id, 5000, tokenFile)
	n.put(ctx, t, id, write, tokenFile, data(1, 1000))
	_, err := n.get(ctx, id, write, 0, 10)
	wantCode(t, err, muster.ErrPermission)
	n.stop(t)
	cluster, err := server.ClusterKey(in.folder, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	mac := write[len(write)-token.MACBytes:]
	for _, s := range append(secrets, cluster, mac) {
		secrets = append(secrets, s, fmt.Appendf(nil, "%x", s))
	}
	if found := secretsIn(t, filepath.Clean(o.Dirs[0]), secrets); len(found) > 0 {
		t.Errorf("secrets are in %v", found)
	}
	for _, s := range secrets {
		if bytes.Contains(log.bytes(), s) || bytes.Contains(log.bytes(), fmt.Append(nil, s)) {
			t.Errorf("a secret is in the log:\n%s", log.bytes())
		}
	}
}

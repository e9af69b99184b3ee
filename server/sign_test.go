package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc/pb"
)

// startSigning starts a server beside a service that tells key 1.
func startSigning(t testing.TB) (*located, *keyService) {
	t.Helper()
	l, s := startLocated(t), &keyService{}
	s.tell(1)
	l.followKeys(s)
	if _, err := l.keys.renewed(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l, s
}

// followKeys has the server sign by the keys of a service.
func (l *located) followKeys(s *keyService) {
	l.keys = followBlockKeys(context.WithoutCancel(l.t.Context()), slog.New(slog.DiscardHandler), s.ask)
	l.t.Cleanup(func() { _ = l.keys.close() })
}

// opening are the calls that give tokens, of blocks from a number on.
func (l *located) opening() map[string]func(ctx context.Context, path string, first uint32) (*pb.LocatedReply, error) {
	return map[string]func(ctx context.Context, path string, first uint32) (*pb.LocatedReply, error){
		"open": func(ctx context.Context, path string, first uint32) (*pb.LocatedReply, error) {
			return l.client.Open(ctx, &pb.OpenRequest{Path: []byte(path), First: first})
		},
		"lookup": func(ctx context.Context, path string, first uint32) (*pb.LocatedReply, error) {
			return l.client.Lookup(ctx, &pb.OpenRequest{Path: []byte(path), First: first})
		},
	}
}

// checkTokens checks the tokens of an answer for a user, and that they are for nobody and nothing else.
func (l *located) checkTokens(t *testing.T, r *pb.LocatedReply, user string) {
	t.Helper()
	ring, err := l.keys.current()
	if err != nil {
		t.Fatal(err)
	}
	m := r.Located
	if len(m.Macs) != token.MACBytes*len(r.Entry.Blocks) || len(m.Grant) == 0 {
		t.Fatalf("a grant of %d bytes and signatures of %d for %d blocks", len(m.Grant), len(m.Macs), len(r.Entry.Blocks))
	}
	for i, b := range r.Entry.Blocks {
		id := muster.BlockID{Container: b.Container, LocalID: b.LocalId}
		tok := token.Compose(m.Grant, b.Length, r.Entry.InodeId, m.Macs[i*token.MACBytes:][:token.MACBytes])
		got, err := token.Verify(ring, tok, time.Now(), id, token.Read, user)
		if err != nil || got.MaxLength != 100 || got.File != r.Entry.InodeId || got.Modes != token.Read {
			t.Fatalf("block %v: %+v, %v", id, got, err)
		}
		life := time.Until(got.Expires)
		if told := time.Duration(m.GrantMs) * time.Millisecond; life > token.DefaultLife || told > token.DefaultLife || told < life-time.Millisecond || told > life+time.Minute {
			t.Fatalf("valid for %v, and told is %v", life, told)
		}
		for what, err := range map[string]error{
			"another user":  refusedOf(token.Verify(ring, tok, time.Now(), id, token.Read, user+"x")),
			"another block": refusedOf(token.Verify(ring, tok, time.Now(), muster.BlockID{Container: id.Container, LocalID: id.LocalID + 1}, token.Read, user)),
			"writing":       refusedOf(token.Verify(ring, tok, time.Now(), id, token.Write, user)),
		} {
			if err == nil {
				t.Fatalf("the token is good for %s, too", what)
			}
		}
	}
}

func refusedOf(_ token.Token, err error) error { return err }

// TestWhoOpensAFileGetsTokensToReadIt: for each of its blocks, in the name of the caller.
func TestWhoOpensAFileGetsTokensToReadIt(t *testing.T) {
	l, s := startSigning(t)
	l.replicated(1, 2)
	l.file("/f", 1, 2, 1)
	l.file("/empty")
	for name, call := range l.opening() {
		for _, user := range []string{"root", "alice"} {
			r, err := call(as(t, user), "/f", 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			l.checkTokens(t, r, user)
		}
		r, err := call(as(t, "root"), "/empty", 0)
		if err != nil || r.Located.Grant != nil || r.Located.Macs != nil || r.Located.GrantMs != 0 {
			t.Errorf("%s of an empty file: %v, %v", name, r, err)
		}
	}
	s.tell(2, 1)
	l.keys.mu.Lock()
	l.keys.asked = time.Time{} // long ago
	l.keys.mu.Unlock()
	if _, err := l.keys.renewed(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f")})
	if err != nil {
		t.Fatal(err)
	}
	l.checkTokens(t, r, "root")
	if id := r.Located.Grant[2]; id != 2 {
		t.Errorf("signed by key %d", id)
	}
}

// TestNoOtherAnswerHasTokens: those that are hints, for whoever sees the file or may read it.
func TestNoOtherAnswerHasTokens(t *testing.T) {
	l, _ := startSigning(t)
	l.replicated(1)
	l.file("/f", 1)
	for name, call := range l.all() {
		r, err := call(as(t, "root"), "/f")
		if err != nil {
			t.Fatal(err)
		}
		if has := r.Located.Grant != nil || r.Located.Macs != nil || r.Located.GrantMs != 0; has != (name == "open" || name == "lookup") {
			t.Errorf("%s has tokens: %v", name, has)
		}
	}
	ring, err := l.keys.current()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ring.Signer("root", token.Read, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range l.listings() {
		replies, err := list(as(t, "root"), &pb.ListOptions{Locations: pb.WithLocations_WITH_LOCATIONS_MUST}, "/")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range replies {
			if b, err := proto.Marshal(r); err != nil || bytes.Contains(b, s.Grant()[:6]) {
				t.Errorf("%s has a grant, %v", name, err)
			}
		}
	}
}

// TestWhoMayNotReadGetsNoToken, nor anything else of the answer.
func TestWhoMayNotReadGetsNoToken(t *testing.T) {
	l, _ := startSigning(t)
	l.replicated(1)
	l.apply(muster.Create{Path: "/private", Mode: 0o600, Replication: muster.Replicated(3), Length: 100, Blocks: blocksIn(1)})
	for name, call := range l.opening() {
		if r, err := call(as(t, "alice"), "/private", 0); !errors.Is(err, muster.ErrPermission) || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// TestWithoutKeysNothingIsOpened that has blocks, since nobody could read them; what needs no tokens works.
func TestWithoutKeysNothingIsOpened(t *testing.T) {
	l, s := startLocated(t), &keyService{}
	s.say(nil, fmt.Errorf("%w: away", muster.ErrUnavailable))
	l.followKeys(s)
	l.replicated(1)
	l.file("/f", 1)
	l.file("/empty")
	for name, call := range l.all() {
		_, err := call(as(t, "root"), "/f")
		if want := name == "open" || name == "lookup"; errors.Is(err, muster.ErrUnavailable) != want {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := call(as(t, "root"), "/empty"); err != nil {
			t.Errorf("%s of an empty file: %v", name, err)
		}
	}
	s.say(&pb.BlockKeysReply{}, nil) // it is back, and there are no tokens
	l.keys.mu.Lock()
	l.keys.asked = time.Time{}
	l.keys.mu.Unlock()
	for name, call := range l.opening() {
		if r, err := call(as(t, "root"), "/f", 0); err != nil || r.Located.Grant != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// TestManyBlocksAreSignedAtOnce: the answer about as many as there can be stays within the bound of a
// message, and all of its parts together have a token for each.
func TestManyBlocksAreSignedAtOnce(t *testing.T) {
	l, _ := startSigning(t)
	containers := make([]uint64, muster.MaxBlocks)
	for i := range containers {
		containers[i] = uint64(1_000_000 + i)
	}
	l.replicated(containers...)
	l.file("/many", containers...)
	for name, call := range l.opening() {
		blocks := 0
		for first := uint32(0); first > 0 || blocks == 0; {
			r, err := call(as(t, "alice"), "/many", first)
			if err != nil {
				t.Fatal(err)
			}
			if n := proto.Size(r); n > 1<<20 {
				t.Errorf("%s: %d bytes", name, n)
			}
			l.checkTokens(t, r, "alice")
			blocks += len(r.Entry.Blocks)
			first = r.Located.Next
		}
		if blocks != muster.MaxBlocks {
			t.Errorf("%s: %d blocks", name, blocks)
		}
	}
}

// BenchmarkOpenSigned describes and signs a file of as many blocks as there can be.
func BenchmarkOpenSigned(b *testing.B) {
	for name, signed := range map[string]bool{"plain": false, "signed": true} {
		b.Run(name, func(b *testing.B) {
			l := startLocatedOn(b, namespace.Options{})
			s := &keyService{}
			s.tell(1)
			if signed {
				l.followKeys(s)
				if _, err := l.keys.renewed(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			containers := make([]uint64, muster.MaxBlocks)
			for i := range containers {
				containers[i] = uint64(1 + i/100)
			}
			l.replicated(containers...)
			l.file("/many", containers...)
			root := muster.Identity{User: "root"}
			for b.Loop() {
				f, err := readFile(l.tree, &root, wanted{path: []byte("/many"), to: 1 << 60})
				if err != nil {
					b.Fatal(err)
				}
				places, err := asking(l.cache.Get).places(context.Background(), f)
				if err != nil {
					b.Fatal(err)
				}
				sign, err := l.signRead(context.Background(), &root)
				if err != nil {
					b.Fatal(err)
				}
				l.describe(context.Background(), f, places, order{true, "/r1"}, sign)
			}
			b.ReportAllocs()
		})
	}
}

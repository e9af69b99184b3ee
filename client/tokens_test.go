package client

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc/pb"
)

// signedPiece is a part of an answer about a file of blocks 5/1, 5/2 and so on, signed for alice.
func signedPiece(t *testing.T, ring *token.Ring, from, to uint64, offset int64) *pb.LocatedReply {
	t.Helper()
	s, err := ring.Signer("alice", token.Read, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	m := &pb.LocatedReply{
		Entry: &pb.EntryReply{InodeId: 7, Kind: uint32(muster.File)},
		Located: &pb.Located{
			Offset: offset, Containers: []*pb.LocatedContainer{{Container: 5, Replication: uint32(muster.Replicated(1)), Nodes: []uint32{0}}},
			Grant: s.Grant(), GrantMs: time.Until(s.Expires()).Milliseconds(),
		},
	}
	for id := from; id < to; id++ {
		m.Entry.Blocks = append(m.Entry.Blocks, &pb.Block{Container: 5, LocalId: id, Length: int64(100 + id)})
		m.Located.Placements = append(m.Located.Placements, 0)
		m.Located.Macs = s.AppendMAC(m.Located.Macs, muster.BlockID{Container: 5, LocalID: id}, int64(100+id), 7)
	}
	return m
}

// TestBlocksComeWithTheirTokens: whatever piece of the answer a block came in, its token is taken for it, and
// for no other.
func TestBlocksComeWithTheirTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := token.Key{ID: 3, Secret: token.NewSecret(), Expires: time.Now().Add(24 * time.Hour)}
		ring, err := token.NewRing([]token.Key{key})
		if err != nil {
			t.Fatal(err)
		}
		var l Located
		pieces := []*pb.LocatedReply{signedPiece(t, ring, 1, 4, 0), signedPiece(t, ring, 4, 6, 306)}
		pieces[0].Located.Next = 3
		for i, first := range []uint32{0, 3} {
			if _, err := l.add(pieces[i], first); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if len(l.Blocks) != 5 {
			t.Fatalf("%d blocks", len(l.Blocks))
		}
		for i := range l.Blocks {
			b := &l.Blocks[i]
			tok, expires := b.token()
			for k := range l.Blocks {
				id := muster.BlockID{Container: 5, LocalID: l.Blocks[k].LocalID}
				got, err := token.Verify(ring, tok, time.Now(), id, token.Read, "alice")
				if (err == nil) != (i == k) || i == k && (got.MaxLength != b.Length || got.File != 7) {
					t.Errorf("the token of block %d for block %d: %+v, %v", i, k, got, err)
				}
			}
			if want := began.Add(time.Hour); !expires.Equal(want) {
				t.Errorf("valid until %v, want %v", expires, want)
			}
			if layout := layoutOf(&l); !bytes.Equal(layout.Blocks[i].Token, tok) || !layout.Blocks[i].Expires.Equal(expires) {
				t.Errorf("block %d is read by %x until %v", i, layout.Blocks[i].Token, layout.Blocks[i].Expires)
			}
		}
		mac := fmt.Sprint(pieces[0].Located.Macs[:8]) // [1 2 3 4 5 6 7 8
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			if text := fmt.Sprintf(verb, l) + fmt.Sprintf(verb, &l.Blocks[0]); strings.Contains(text, strings.Trim(mac, "[]")) {
				t.Errorf("%s prints a signature", verb)
			}
		}
	})
}

func TestAnswersWithoutTokensHaveNone(t *testing.T) {
	var l Located
	ring, err := token.NewRing([]token.Key{{ID: 1, Secret: token.NewSecret(), Expires: time.Now().Add(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	m := signedPiece(t, ring, 1, 3, 0)
	m.Located.Grant, m.Located.Macs, m.Located.GrantMs = nil, nil, 0
	if _, err := l.add(m, 0); err != nil {
		t.Fatal(err)
	}
	if tok, expires := l.Blocks[1].token(); tok != nil || !expires.IsZero() {
		t.Errorf("token %x until %v", tok, expires)
	}
}

func TestTokensThatDoNotFitAreRefused(t *testing.T) {
	macs := func(n int) []byte { return make([]byte, n*token.MACBytes) }
	for name, m := range map[string]*pb.Located{
		"one signature less": {Grant: []byte("g"), Macs: macs(1)},
		"one more":           {Grant: []byte("g"), Macs: macs(3)},
		"a part of one":      {Grant: []byte("g"), Macs: macs(2)[1:]},
		"none":               {Grant: []byte("g")},
		"no grant":           {Macs: macs(2)},
		"a large grant":      {Grant: make([]byte, token.MaxGrantBytes+1), Macs: macs(2)},
	} {
		if got, err := tokensOf(m, 2, 7); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for life, want := range map[int64]time.Duration{-1: 0, 0: 0, math.MaxInt64: maxTokenLife} {
		got, err := tokensOf(&pb.Located{Grant: []byte("g"), Macs: macs(2), GrantMs: life}, 2, 7)
		if err != nil || time.Until(got.expires) > want || time.Until(got.expires) < want-time.Minute {
			t.Errorf("a lifetime of %d ms: %v, %v", life, got, err)
		}
	}
}

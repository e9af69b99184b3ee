package token

import (
	"bytes"
	"testing"
	"time"

	"github.com/muster-fs/muster"
)

// FuzzVerify: what parses is written in one way alone, and only what the ring signed is taken.
func FuzzVerify(f *testing.F) {
	now := time.UnixMilli(1_700_000_000_000)
	block := muster.BlockID{Container: 1, LocalID: 2}
	ring, err := NewRing([]Key{{ID: 1, Secret: NewSecret(), Expires: now.Add(time.Hour)}})
	if err != nil {
		f.Fatal(err)
	}
	signer, err := ring.Signer("alice", Read, now, 0)
	if err != nil {
		f.Fatal(err)
	}
	signed := signer.Token(block, 10, 20)
	for n := range len(signed) + 1 {
		f.Add(signed[:n])
	}
	f.Add(append(bytes.Clone(signed), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Verify(ring, b, now, block, Read, "alice")
		if (err == nil) != bytes.Equal(b, signed) || err != nil && muster.CodeOf(err) != muster.ErrUnauthenticated {
			t.Fatalf("%x is %+v, %v", b, got, err)
		}
		p, ok := parse(b)
		if !ok {
			return
		}
		g := Grant{KeyID: p.keyID, Owner: string(p.owner), Modes: p.modes, Expires: time.UnixMilli(p.expires)}
		if again := Compose(appendGrant(nil, &g), int64(p.maxLength), p.file, p.mac); !bytes.Equal(again, b) {
			t.Fatalf("%x is written as %x", b, again)
		}
	})
}

package token_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
)

var (
	now   = time.UnixMilli(1_700_000_000_000)
	block = muster.BlockID{Container: 7, LocalID: 9}
)

// key makes a key whose secret is of one byte alone, and which is good for a day.
func key(t testing.TB, id uint32) token.Key {
	t.Helper()
	secret, err := token.ParseSecret(bytes.Repeat([]byte{byte(id)}, token.SecretBytes))
	if err != nil {
		t.Fatal(err)
	}
	return token.Key{ID: id, Secret: secret, Expires: now.Add(24 * time.Hour)}
}

func ring(t testing.TB, keys ...token.Key) *token.Ring {
	t.Helper()
	r, err := token.NewRing(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sign(t testing.TB, r *token.Ring, modes token.Modes, at time.Time, life time.Duration) []byte {
	t.Helper()
	s, err := r.Signer("alice", modes, at, life)
	if err != nil {
		t.Fatal(err)
	}
	return s.Token(block, 1<<20, 55)
}

func TestATokenSaysWhatItWasMadeOf(t *testing.T) {
	r := ring(t, key(t, 2), key(t, 1))
	for _, owner := range []string{"alice", "", "é", strings.Repeat("o", token.MaxOwnerBytes)} {
		s, err := r.Signer(owner, token.Read|token.Delete, now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		tok := s.Token(block, 1<<20, 55)
		if composed := token.Compose(s.Grant(), 1<<20, 55, s.AppendMAC(nil, block, 1<<20, 55)); !bytes.Equal(composed, tok) {
			t.Errorf("%x, and composed of its parts %x", tok, composed)
		}
		want := token.Token{
			Grant:     token.Grant{KeyID: 2, Owner: owner, Modes: token.Read | token.Delete, Expires: now.Add(time.Hour)},
			MaxLength: 1 << 20, File: 55,
		}
		for _, mode := range []token.Modes{token.Read, token.Delete, token.Read | token.Delete} {
			if got, err := token.Verify(r, tok, now, block, mode, owner); err != nil || got != want {
				t.Errorf("to %v: %+v, %v, want %+v", mode, got, err, want)
			}
		}
		if len(tok) > token.MaxBytes {
			t.Errorf("%d bytes, more than %d", len(tok), token.MaxBytes)
		}
	}
}

// TestTheFormatIsAsItIs: servers and clients of several versions exchange these bytes.
func TestTheFormatIsAsItIs(t *testing.T) {
	s, err := ring(t, key(t, 3)).Signer("alice", token.Read|token.Write, now, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const grant = "0103" + "03000000" + "6052e6cf8b010000" + "05" + "616c696365"
	// What Python's hmac says of the same bytes.
	const mac = "d1131cb291e3ca8943cca6028f8123dbc3b832e5e8220bab72d15e7e6bda4e16"
	if got := hex.EncodeToString(s.Token(muster.BlockID{Container: 0x0102, LocalID: 0x0304}, 0x0506, 0x0708)); got != grant+"0605000000000000"+"0807000000000000"+mac {
		t.Errorf("the token is\n%s, want\n%s", got, grant+"0605000000000000"+"0807000000000000"+mac)
	}
	if got := hex.EncodeToString(s.Grant()); got != grant {
		t.Errorf("the grant is %s, want %s", got, grant)
	}
}

// refusal is what Verify makes of a token: a code, and words of its message.
type refusal struct {
	name  string
	ring  *token.Ring
	token []byte
	at    time.Time
	block muster.BlockID
	mode  token.Modes
	owner string
	want  muster.Code
	says  string
}

func TestTokensThatAreRefused(t *testing.T) {
	long := key(t, 1)
	long.Expires = now.Add(48 * time.Hour)
	r := ring(t, long)
	forged := key(t, 1)
	forged.Secret = key(t, 9).Secret
	good := sign(t, r, token.Read, now, time.Hour)
	other := muster.BlockID{Container: 7, LocalID: 10}
	changed := func(at int, to byte) []byte {
		c := slices.Clone(good)
		c[at] = to
		return c
	}
	for _, c := range []refusal{
		{name: "none", token: []byte{}, says: "there is none"},
		{name: "text", token: []byte("token"), says: "5 bytes that are no block token"},
		{name: "unknown key", ring: ring(t, key(t, 2)), says: "cannot find the signing key of the block token: key 1, and there are block keys 2"},
		{name: "no keys", ring: ring(t), says: "cannot find the signing key"},
		{name: "key expired", at: long.Expires.Add(token.ClockSkew + 1), says: "signing key 1 expired at 2023-11-16T22:13:20Z"},
		{name: "another secret", ring: ring(t, forged), says: "wrong signature"},
		{name: "another mode made of it", token: changed(1, byte(token.Read|token.Write)), mode: token.Write, says: "wrong signature"},
		{name: "another owner made of it", token: changed(15, 'A'), owner: "Alice", says: "wrong signature"},
		{name: "later expiry made of it", token: changed(13, 1), says: "wrong signature"},
		{name: "more length made of it", token: changed(len(good)-41, 0x7f), says: "wrong signature"},
		{name: "another file made of it", token: changed(len(good)-40, 1), says: "wrong signature"},
		{name: "expired", at: now.Add(time.Hour + token.ClockSkew + 1), says: "the block token expired at 2023-11-14T23:13:20Z"},
		{name: "another block", block: other, says: "for another block"},
		{name: "another container", block: muster.BlockID{Container: 8, LocalID: 9}, says: "for another block"},
		{name: "its container", block: muster.BlockID{Container: 7}, says: "for another block"},
		{name: "another owner", owner: "bob", says: `for user "alice", not "bob"`},
		{name: "another mode", mode: token.Write, want: muster.ErrPermission, says: "is to read, not to write"},
		{name: "one mode more", mode: token.Read | token.Delete, want: muster.ErrPermission, says: "is to read, not to read+delete"},
		{name: "no mode", mode: 1 << 7, want: muster.ErrPermission, says: "not to 0x80"},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, r, good) })
	}
	nothing := refusal{name: "no ring", token: good, mode: token.Read, owner: "alice", block: block, at: now, want: muster.ErrUnauthenticated, says: "there are no block keys"}
	nothing.verify(t)
}

// check fills in what the case leaves open.
func (c refusal) check(t *testing.T, r *token.Ring, good []byte) {
	if c.ring == nil {
		c.ring = r
	}
	if c.token == nil {
		c.token = good
	}
	if c.at.IsZero() {
		c.at = now
	}
	if c.block == (muster.BlockID{}) {
		c.block = block
	}
	if c.mode == 0 {
		c.mode = token.Read
	}
	if c.owner == "" {
		c.owner = "alice"
	}
	if c.want == 0 {
		c.want = muster.ErrUnauthenticated
	}
	c.verify(t)
}

func (c refusal) verify(t *testing.T) {
	t.Helper()
	got, err := token.Verify(c.ring, c.token, c.at, c.block, c.mode, c.owner)
	if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) || got != (token.Token{}) {
		t.Errorf("%+v, %v; want %v with %q", got, err, c.want, c.says)
	}
	if unknown := strings.Contains(c.says, "cannot find") || c.ring == nil; errors.Is(err, token.ErrUnknownKey) != unknown {
		t.Errorf("%v: says that the key is unknown: %v, want %v", err, !unknown, unknown)
	}
}

// TestTheFirstFaultIsTheOneThatIsTold: of a token with several faults, the one whose check others depend on.
func TestTheFirstFaultIsTheOneThatIsTold(t *testing.T) {
	r := ring(t, key(t, 1))
	bad := sign(t, r, token.Read, now, time.Hour) // used: expired, for another owner and another mode
	late := now.Add(25*time.Hour + token.ClockSkew)
	spoilt := slices.Clone(bad)
	spoilt[len(spoilt)-1] ^= 1
	for _, c := range []refusal{
		{token: spoilt[1:], at: late, ring: ring(t, key(t, 2)), says: "no block token"},
		{token: spoilt, at: late, ring: ring(t, key(t, 2)), says: "cannot find"},
		{token: spoilt, at: late, ring: r, says: "signing key 1 expired"},
		{token: spoilt, at: late.Add(-2 * time.Hour), ring: r, says: "wrong signature"},
		{token: bad, at: late.Add(-2 * time.Hour), ring: r, says: "the block token expired"},
		{token: bad, at: now, ring: r, says: "for user"},
	} {
		c.mode, c.owner, c.block, c.want = token.Write, "bob", block, muster.ErrUnauthenticated
		c.verify(t)
	}
}

// TestClocksMayDifferALittle: a token is taken until the allowance is over, and not a moment longer.
func TestClocksMayDifferALittle(t *testing.T) {
	r := ring(t, key(t, 1))
	tok := sign(t, r, token.Read, now, time.Hour)
	for at, want := range map[time.Duration]bool{
		-token.ClockSkew: true, -24 * time.Hour: true, time.Hour: true, time.Hour + token.ClockSkew: true, time.Hour + token.ClockSkew + 1: false,
	} {
		if _, err := token.Verify(r, tok, now.Add(at), block, token.Read, "alice"); (err == nil) != want {
			t.Errorf("at %v: %v", at, err)
		}
	}
}

// TestTokensOutliveTheirKeysTurn: a key that does not sign any more is good for what it signed, until it expires.
func TestTokensOutliveTheirKeysTurn(t *testing.T) {
	first, second := key(t, 1), key(t, 2)
	second.Expires = first.Expires.Add(24 * time.Hour)
	old := sign(t, ring(t, first), token.Read, now, 0)
	both := ring(t, second, first)
	if _, err := token.Verify(both, old, now.Add(23*time.Hour), block, token.Read, "alice"); err != nil {
		t.Errorf("a token of the older key: %v", err)
	}
	s, err := both.Signer("alice", token.Read, now.Add(23*time.Hour), 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := token.Verify(both, s.Token(block, 1, 1), now.Add(23*time.Hour), block, token.Read, "alice")
	if err != nil || got.KeyID != 2 {
		t.Errorf("a new token has key %d, %v; want the first of the ring", got.KeyID, err)
	}
	if _, err := token.Verify(both, old, first.Expires.Add(token.ClockSkew+1), block, token.Read, "alice"); err == nil || !strings.Contains(err.Error(), "signing key 1 expired") {
		t.Errorf("after the key expired: %v", err)
	}
}

func TestASignerUsesTheFirstKeyThatIsGood(t *testing.T) {
	gone, good := key(t, 9), key(t, 3)
	gone.Expires = now
	s, err := ring(t, gone, good).Signer("u", token.Write, now, 0)
	if err != nil || !s.Expires().Equal(good.Expires) {
		t.Fatalf("valid until %v, %v; want until the key expires, %v", s.Expires(), err, good.Expires)
	}
	for name, r := range map[string]*token.Ring{"nil": nil, "none": ring(t), "expired": ring(t, gone)} {
		if _, err := r.Signer("u", token.Write, now, 0); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := ring(t, good)
	for name, err := range map[string]error{
		"long name": second(r.Signer(strings.Repeat("u", 256), token.Read, now, 0)),
		"no mode":   second(r.Signer("u", 0, now, 0)),
		"a mode":    second(r.Signer("u", 8, now, 0)),
		"backwards": second(r.Signer("u", token.Read, now, -1)),
	} {
		if !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestRingsThatAreNone(t *testing.T) {
	many := make([]token.Key, token.MaxKeys+1)
	for i := range many {
		many[i] = key(t, uint32(i+1))
	}
	ring(t, many[1:]...)
	for name, keys := range map[string][]token.Key{
		"id 0": {key(t, 0)}, "twice": {key(t, 1), key(t, 2), key(t, 1)}, "no secret": {{ID: 1}}, "many": many,
	} {
		if _, err := token.NewRing(keys); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, n := range []int{0, 31, 33} {
		if _, err := token.ParseSecret(make([]byte, n)); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("a secret of %d bytes: %v", n, err)
		}
	}
}

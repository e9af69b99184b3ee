package rpc

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"storj.io/drpc/drpcmetadata"

	"github.com/muster-fs/muster"
)

// sent is the metadata that crosses the wire with a call under ctx.
func sent(t *testing.T, ctx context.Context) map[string]string {
	t.Helper()
	b, err := callMetadata(ctx)
	if err != nil {
		t.Fatal(err)
	}
	md, err := drpcmetadata.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return md
}

func TestIdentityCrossesTheWire(t *testing.T) {
	many := muster.Identity{User: strings.Repeat("u", 255)}
	for i := range maxGroups {
		many.Groups = append(many.Groups, fmt.Sprint("group ", i))
	}
	for _, id := range []muster.Identity{
		{User: "anna"},
		{User: "anna", Groups: []string{"one"}},
		{User: "DOMAIN\\anna", Groups: []string{"domain users", "a,b", "é"}},
		many,
	} {
		got, err := authenticate(sent(t, ClientContext(t.Context(), id)))
		if err != nil || !reflect.DeepEqual(got, id) {
			t.Errorf("sent %.100v, got %.100v, %v", id, got, err)
		}
	}
}

func TestBadIdentitiesAreNamed(t *testing.T) {
	for want, md := range map[string]map[string]string{
		"does not say who":  {},
		"empty user":        {keyUser: ""},
		"has 256 bytes":     {keyUser: strings.Repeat("x", 256)},
		"not valid UTF-8":   {keyUser: "\xff"},
		"control character": {keyUser: "a\nb"},
		"empty group":       {keyUser: "a", keyGroups: "g\x00\x00"},
		"damaged":           {keyUser: "a", keyGroups: "g"},
		`group name "g\th"`: {keyUser: "a", keyGroups: "g\th\x00"},
		"1025 groups":       {keyUser: "a", keyGroups: strings.Repeat("g\x00", 1025)},
	} {
		fresh, used := new(serverConn), new(serverConn)
		if _, err := used.authenticate(map[string]string{keyUser: "a"}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a refused identity is not remembered
			for _, conn := range []*serverConn{fresh, used} {
				_, err := conn.authenticate(md)
				wantCode(t, err, muster.ErrUnauthenticated)
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		}
	}
}

func TestAConnectionTellsItsCallersApart(t *testing.T) {
	conn := new(serverConn)
	for _, id := range []muster.Identity{
		{User: "anna"}, {User: "anna"}, {User: "anna", Groups: []string{"one"}}, {User: "anna"}, {User: "bert", Groups: []string{"one"}},
		{User: "bert", Groups: []string{"one", "two"}}, {User: "bert", Groups: []string{"one"}},
	} {
		got, err := conn.authenticate(sent(t, ClientContext(t.Context(), id)))
		if err != nil || !reflect.DeepEqual(got, id) {
			t.Errorf("sent %v, got %v, %v", id, got, err)
		}
	}
}

func TestTimeoutsCrossTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, ok := sent(t, as(t.Context(), "u"))[keyTimeout]; ok {
			t.Error("a call without a deadline got one")
		}
		for left, want := range map[time.Duration]time.Duration{
			time.Nanosecond:         time.Millisecond,
			time.Millisecond:        time.Millisecond,
			1500 * time.Microsecond: 2 * time.Millisecond,
			time.Hour:               time.Hour,
			365 * 24 * time.Hour:    maxTimeout,
		} {
			ctx, cancel := context.WithTimeout(as(t.Context(), "u"), left)
			if got, err := callTimeout(sent(t, ctx)); err != nil || got != want {
				t.Errorf("with %v left the server gives %v, %v", left, got, err)
			}
			cancel()
		}
	})
	for _, text := range []string{"", "0", "-1", "1.5", "1s", "99999999999999999999", strings.Repeat("9", 1000)} {
		_, err := callTimeout(map[string]string{keyTimeout: text})
		wantCode(t, err, muster.ErrInvalid)
		if len(err.Error()) > 200 {
			t.Errorf("the error repeats %d bytes", len(err.Error()))
		}
	}
}

// Calls share an identity's bytes, and must not write into each other's.
func TestMetadataIsFreshForEachCall(t *testing.T) {
	base := as(t.Context(), "u")
	var all []map[string]string
	for i := range 10 {
		ctx, cancel := context.WithTimeout(base, time.Duration(i+1)*time.Hour)
		defer cancel()
		b, err := callMetadata(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if md, err := drpcmetadata.Decode(b); err != nil || !reflect.DeepEqual(md, all[i]) {
				t.Errorf("the metadata of call %d became %v, %v", i, md, err)
			}
		}()
		all = append(all, sent(t, ctx))
	}
	if md := sent(t, base); len(md) != 1 {
		t.Errorf("the shared context now has %v", md)
	}
}

func TestCallerNeedsACall(t *testing.T) {
	_, err := Caller(t.Context())
	wantCode(t, err, muster.ErrUnauthenticated)
	if err := Go(t.Context(), func() {}); err == nil {
		t.Error("a goroutine without a call")
	}
}

// Whatever metadata comes, it is refused or gives an identity that may be sent again.
func FuzzMetadata(f *testing.F) {
	good, err := callMetadata(ClientContext(context.Background(), muster.Identity{User: "u", Groups: []string{"a", "b"}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	timed, err := drpcmetadata.Encode(nil, map[string]string{keyTimeout: "1000"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(good, timed...))
	f.Add([]byte("\x0a\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		md, err := drpcmetadata.Decode(b)
		if err != nil {
			return
		}
		if d, err := callTimeout(md); err == nil && (d < 0 || d > maxTimeout) {
			t.Fatalf("timeout %v", d)
		}
		id, err := authenticate(md)
		if err != nil {
			wantCode(t, err, muster.ErrUnauthenticated)
			return
		}
		again, err := authenticate(sent(t, ClientContext(t.Context(), id)))
		if err != nil || !reflect.DeepEqual(again, id) {
			t.Fatalf("%+v became %+v, %v", id, again, err)
		}
	})
}

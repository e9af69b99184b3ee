package registry_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/locations/registry"
)

// clock is a time that tests set.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(1_700_000_000_000)
	return c
}

func (c *clock) now() time.Time            { return time.UnixMilli(c.ms.Load()) }
func (c *clock) pass(d time.Duration)      { c.ms.Add(d.Milliseconds()) }
func (c *clock) options() registry.Options { return registry.Options{Now: c.now} }

func blockKeys(t testing.TB, r *registry.Registry) []token.Key {
	t.Helper()
	k, err := r.BlockKeys(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Keys) == 0 || k.Refresh <= 0 {
		t.Fatalf("%+v", k)
	}
	return k.Keys
}

func ringOf(t testing.TB, keys []token.Key) *token.Ring {
	t.Helper()
	ring, err := token.NewRing(keys)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

const day = 24 * time.Hour

var someBlock = muster.BlockID{Container: 1, LocalID: 2}

// TestKeysRotate lives through a month by the hour, with restarts: there is a new key each day, all know it for
// a while before it signs, and each token is good for all of its life.
func TestKeysRotate(t *testing.T) {
	type signed struct {
		token []byte
		at    time.Time
	}
	c := newClock()
	o := c.options()
	o.FS = vfs.NewMem()
	r := open(t, o)
	began := c.now()
	var live []signed
	known := map[uint32]token.Secret{}
	before := ringOf(t, blockKeys(t, r)) // as somebody knows it who last asked an hour ago
	for hour := range 31 * 24 {
		if hour%50 == 49 {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			r = open(t, o)
		}
		keys := blockKeys(t, r)
		ring := ringOf(t, keys)
		for _, k := range keys {
			if old, had := known[k.ID]; had && !old.Equal(k.Secret) {
				t.Fatalf("hour %d: key %d has another secret", hour, k.ID)
			}
			known[k.ID] = k.Secret
		}
		if want := min(hour/24+1, 10); len(keys) > want || len(known) != hour/24+1 {
			t.Fatalf("hour %d: %d keys, %d ever", hour, len(keys), len(known))
		}
		s, err := ring.Signer("u", token.Read, c.now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, signed{s.Token(someBlock, 1, 1), c.now()})
		if len(live) > 24 {
			live = live[1:]
		}
		for _, l := range live {
			for name, ring := range map[string]*token.Ring{"all": ring, "an hour old": before} {
				if _, err := token.Verify(ring, l.token, c.now(), someBlock, token.Read, "u"); err != nil && (name == "all" || l.at != c.now()) {
					t.Fatalf("hour %d: a token of %v ago, by keys that are %s: %v", hour, c.now().Sub(l.at), name, err)
				}
			}
		}
		before = ring
		c.pass(time.Hour)
	}
	if got := c.now().Sub(began); got != 31*day {
		t.Errorf("%v", got)
	}
}

// TestANewKeySignsWhenAllHaveHeardOfIt: it is told at once, behind the one that signs.
func TestANewKeySignsWhenAllHaveHeardOfIt(t *testing.T) {
	c := newClock()
	r := open(t, c.options())
	ids := func() (ids []uint32) {
		for _, k := range blockKeys(t, r) {
			ids = append(ids, k.ID)
		}
		return ids
	}
	for _, step := range []struct {
		pass time.Duration
		want string
	}{
		{0, "[1]"}, {day - time.Millisecond, "[1]"}, {time.Millisecond, "[1 2]"}, {4*time.Minute - time.Millisecond, "[1 2]"}, {time.Millisecond, "[2 1]"},
		{day - 4*time.Minute, "[2 3 1]"}, {4 * time.Minute, "[3 2 1]"},
		{7*day - 4*time.Minute + token.ClockSkew, "[3 4 2 1]"}, {time.Millisecond, "[3 4 2]"}, // key 1 has expired
	} {
		c.pass(step.pass)
		if got := fmt.Sprint(ids()); got != step.want {
			t.Errorf("at %v: %s, want %s", c.now().UTC(), got, step.want)
		}
	}
	c.pass(30 * day) // nobody asked for long: there is no other key
	if got := fmt.Sprint(ids()); got != "[5]" {
		t.Errorf("after a month: %s", got)
	}
}

// TestManyWhoAskAtOnceGetOneKey: whoever comes second finds what the first has made.
func TestManyWhoAskAtOnceGetOneKey(t *testing.T) {
	c := newClock()
	r := open(t, c.options())
	for day := range uint32(3) {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				k, err := r.BlockKeys(context.Background())
				if err != nil || len(k.Keys) != int(day)+1 {
					t.Errorf("day %d: %d keys, %v", day, len(k.Keys), err)
				}
			})
		}
		wg.Wait()
		c.pass(24 * time.Hour)
	}
}

// TestAClockThatJumps loses no key that is good by the right time, and makes no more than a few.
func TestAClockThatJumps(t *testing.T) {
	sign := func(t *testing.T, r *registry.Registry, c *clock) []byte {
		s, err := ringOf(t, blockKeys(t, r)).Signer("u", token.Read, c.now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return s.Token(someBlock, 1, 1)
	}
	for name, jump := range map[string]time.Duration{
		"back an hour": -time.Hour, "back ten days": -10 * day, "back ten years": -3650 * day, "ahead an hour": time.Hour, "ahead ten days": 10 * day,
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			o := c.options()
			o.FS = vfs.NewMem()
			r := open(t, o)
			blockKeys(t, r)
			c.pass(day + time.Hour)
			old := sign(t, r, c)
			c.pass(jump)
			during := sign(t, r, c)
			if _, err := token.Verify(ringOf(t, blockKeys(t, r)), during, c.now(), someBlock, token.Read, "u"); err != nil {
				t.Errorf("a token while the clock is wrong: %v", err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			r = open(t, o)
			c.pass(-jump)
			if _, err := token.Verify(ringOf(t, blockKeys(t, r)), old, c.now(), someBlock, token.Read, "u"); err != nil {
				t.Errorf("a token from before, when the clock is right again: %v", err)
			}
			sign(t, r, c)
			if n := len(blockKeys(t, r)); n > 5 {
				t.Errorf("%d keys", n)
			}
		})
	}
	c := newClock()
	r := open(t, c.options())
	for i := range 200 { // a clock that does not know what it wants
		c.pass(time.Duration(1-2*(i%2)) * 20 * day)
		sign(t, r, c)
		if n := len(blockKeys(t, r)); n > 64 {
			t.Fatalf("%d keys", n)
		}
	}
}

// TestCrashesLoseNoKeyThatWasTold: whatever fails while keys are made, a key that somebody got is there
// afterwards, with the same secret.
func TestCrashesLoseNoKeyThatWasTold(t *testing.T) {
	overSeeds(t, 20, func(t *testing.T, rng *rand.Rand) {
		c := newClock()
		s := &survivor{t: t, rng: rng, mem: vfs.NewStrictMem(), disk: &faultyDisk{}}
		s.disk.failAfter(never, false)
		o := registry.Options{FS: errorfs.Wrap(s.mem, s.disk), Now: c.now, MemTableBytes: 64 << 10}
		told := map[uint32]token.Key{}
		for range 8 {
			s.disk.failAfter(never, false)
			s.r = open(t, o)
			again := map[uint32]token.Secret{}
			for _, k := range blockKeys(t, s.r) {
				again[k.ID] = k.Secret
			}
			for id, k := range told {
				if !c.now().After(k.Expires) && !again[id].Equal(k.Secret) {
					t.Fatalf("key %d is lost, or has another secret", id)
				}
			}
			s.disk.failAfter(rng.Int64N(30), rng.IntN(2) == 0)
			for range 1 + rng.IntN(8) {
				k, err := s.r.BlockKeys(t.Context())
				if err != nil {
					if !errors.Is(err, muster.ErrUnavailable) {
						t.Fatal(err)
					}
					break
				}
				for _, k := range k.Keys {
					told[k.ID] = k
				}
				c.pass(time.Duration(rng.Int64N(int64(36 * time.Hour))))
			}
			s.crash()
		}
	})
}

func TestKeysAreRefusedWhenTheRegistryIs(t *testing.T) {
	c := newClock()
	disk := &faultyDisk{}
	disk.failAfter(never, false)
	o := c.options()
	o.FS = errorfs.Wrap(vfs.NewMem(), disk)
	r := open(t, o)
	blockKeys(t, r)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	c.pass(day)
	if _, err := r.BlockKeys(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("who has given up: %v", err)
	}
	disk.failAfter(0, false)
	for range 2 {
		if _, err := r.BlockKeys(t.Context()); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("after a failure: %v", err)
		}
	}
	other := open(t, c.options())
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.BlockKeys(t.Context()); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

func TestKeyTimesAreChecked(t *testing.T) {
	for want, o := range map[string]registry.Options{
		"at least 1 s":         {KeyEvery: time.Millisecond},
		"must be more than":    {KeyEvery: 9 * day},
		"block keys live 23h":  {KeyLife: 23 * time.Hour},
		"a new block key ever": {KeyEvery: -1},
	} {
		if err := o.Validate(); !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestTheRegistrySaysNoSecret: not in its log, and not when what it gives is printed.
func TestTheRegistrySaysNoSecret(t *testing.T) {
	var log bytes.Buffer
	c := newClock()
	o := c.options()
	o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := open(t, o)
	blockKeys(t, r)
	c.pass(day)
	keys, err := r.BlockKeys(t.Context())
	if err != nil || !strings.Contains(log.String(), "a new key for block tokens") {
		t.Fatalf("%v, %s", err, &log)
	}
	o.Logger.Info("keys", "keys", keys, "all", keys.Keys, "options", o)
	text := log.String() + fmt.Sprintf("%v %+v %#v", keys, keys, keys)
	for _, k := range keys.Keys {
		raw := k.Secret.Reveal()[:8]
		numbers := strings.Trim(fmt.Sprint(raw), "[]")
		for _, form := range []string{string(raw), hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw)[:10], numbers, strings.ReplaceAll(numbers, " ", ",")} {
			if strings.Contains(text, form) {
				t.Errorf("a secret is in %q", text)
			}
		}
	}
}

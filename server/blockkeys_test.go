package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc/pb"
)

// keyService tells keys, or fails, and counts how often it is asked.
type keyService struct {
	mu    sync.Mutex // guards all below
	reply *pb.BlockKeysReply
	err   error
	delay time.Duration
	asked int
}

func (s *keyService) ask(ctx context.Context, _ *pb.BlockKeysRequest) (*pb.BlockKeysReply, error) {
	s.mu.Lock()
	s.asked++
	delay := s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reply, s.err
}

// tell sets what the service says from now on: keys of these ids, the first of which signs.
func (s *keyService) tell(ids ...uint32) {
	r := &pb.BlockKeysReply{Enabled: true, RefreshMs: time.Minute.Milliseconds()}
	for _, id := range ids {
		r.Keys = append(r.Keys, &pb.BlockKey{Id: id, Secret: bytes.Repeat([]byte{byte(id)}, token.SecretBytes), Expires: time.Now().Add(9 * 24 * time.Hour).UnixMilli()})
	}
	s.say(r, nil)
}

func (s *keyService) say(r *pb.BlockKeysReply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply, s.err = r, err
}

// count is how often it was asked.
func (s *keyService) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// followed runs a test in a bubble beside a service that tells key 1, which is known already.
func followed(t *testing.T, run func(t *testing.T, s *keyService, k *blockKeys, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, log := &keyService{}, &bytes.Buffer{}
		s.tell(1)
		k := followBlockKeys(t.Context(), slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), s.ask)
		synctest.Wait()
		run(t, s, k, log)
		if err := k.close(); err != nil {
			t.Error(err)
		}
	})
}

// keysOf names the keys that are in use.
func keysOf(t *testing.T, k *blockKeys) string {
	t.Helper()
	synctest.Wait()
	ring, err := k.current()
	if err != nil {
		t.Fatal(err)
	}
	return ring.String()
}

func TestKeysAreAskedForAgainAndAgain(t *testing.T) {
	followed(t, func(t *testing.T, s *keyService, k *blockKeys, _ *bytes.Buffer) {
		if got := keysOf(t, k); got != "block keys 1" {
			t.Errorf("at first: %s", got)
		}
		s.tell(1, 2)
		time.Sleep(time.Minute - time.Millisecond)
		if got := keysOf(t, k); got != "block keys 1" || s.count() != 1 {
			t.Errorf("before it is time: %s, asked %d times", got, s.count())
		}
		time.Sleep(2 * time.Millisecond)
		if got := keysOf(t, k); got != "block keys 1, 2" {
			t.Errorf("after a minute: %s", got)
		}
		s.say(&pb.BlockKeysReply{}, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		sign, err := k.signer("u", token.Read)
		if got := keysOf(t, k); got != "no block keys" || sign != nil || err != nil {
			t.Errorf("tokens are off: %s, %v, %v", got, sign, err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := s.count(); n != 63 {
			t.Errorf("asked %d times in 62 minutes", n)
		}
	})
}

// TestHowOftenIsAskedHasBounds, whatever the service says.
func TestHowOftenIsAskedHasBounds(t *testing.T) {
	for ms, want := range map[int64]int{-1: 61, 0: 61, 1: 3601, 1<<63 - 1: 7, 30_000: 121} {
		followed(t, func(t *testing.T, s *keyService, k *blockKeys, _ *bytes.Buffer) {
			s.say(&pb.BlockKeysReply{RefreshMs: ms}, nil)
			time.Sleep(time.Minute + time.Millisecond) // from here on as it says
			synctest.Wait()
			before := s.count()
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := s.count() - before; got != want-1 {
				t.Errorf("%d ms: asked %d times in an hour, want %d", ms, got, want-1)
			}
		})
	}
}

// TestKeysStayInUseWhileTheServiceIsAway: it is asked each second, and the log has it once.
func TestKeysStayInUseWhileTheServiceIsAway(t *testing.T) {
	followed(t, func(t *testing.T, s *keyService, k *blockKeys, log *bytes.Buffer) {
		s.say(nil, fmt.Errorf("%w: away", muster.ErrUnavailable))
		time.Sleep(10 * time.Minute)
		if got := keysOf(t, k); got != "block keys 1" || s.count() < 500 {
			t.Errorf("%s, asked %d times", got, s.count())
		}
		s.tell(2, 1)
		time.Sleep(time.Second)
		if got := keysOf(t, k); got != "block keys 2, 1" {
			t.Errorf("when it is back: %s", got)
		}
		if n := strings.Count(log.String(), "not up to date"); n != 1 || !strings.Contains(log.String(), "up to date again") {
			t.Errorf("the log says it %d times: %s", n, log)
		}
	})
}

// TestAnswersThatMakeNoSenseChangeNothing, and what is logged of them has no secret.
func TestAnswersThatMakeNoSenseChangeNothing(t *testing.T) {
	secret := []byte("bytes that nobody may ever see...")[:token.SecretBytes]
	key := func(id uint32, n int) *pb.BlockKey { return &pb.BlockKey{Id: id, Secret: secret[:n], Expires: 1 << 60} }
	for name, keys := range map[string][]*pb.BlockKey{
		"short": {key(1, 31)}, "empty": {key(1, 0)}, "id 0": {key(0, 32)}, "twice": {key(1, 32), key(1, 32)}, "nothing": {nil},
	} {
		followed(t, func(t *testing.T, s *keyService, k *blockKeys, log *bytes.Buffer) {
			s.say(&pb.BlockKeysReply{Enabled: true, Keys: keys}, nil)
			time.Sleep(2 * time.Minute)
			if got := keysOf(t, k); got != "block keys 1" || !strings.Contains(log.String(), "not up to date") {
				t.Errorf("%s: %s, %s", name, got, log)
			}
			if strings.Contains(log.String(), string(secret[:8])) {
				t.Errorf("%s: logged is %s", name, log)
			}
		})
	}
}

// TestAMissedKeyIsAskedForOnceASecond, by all who miss one together.
func TestAMissedKeyIsAskedForOnceASecond(t *testing.T) {
	followed(t, func(t *testing.T, s *keyService, k *blockKeys, _ *bytes.Buffer) {
		all := func(want string) {
			t.Helper()
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					if ring, err := k.renewed(t.Context()); err != nil || ring.String() != want {
						t.Errorf("%v, %v, want %s", ring, err, want)
					}
				})
			}
			wg.Wait()
		}
		time.Sleep(30 * time.Second)
		s.tell(2, 1)
		all("block keys 2, 1")
		if n := s.count(); n != 2 {
			t.Errorf("asked %d times", n-1)
		}
		s.tell(3, 2)
		time.Sleep(time.Second - time.Millisecond)
		all("block keys 2, 1") // it was asked only just
		time.Sleep(time.Millisecond)
		all("block keys 3, 2")
		if n := s.count(); n != 3 {
			t.Errorf("asked %d times", n-1)
		}
		s.tell(4)
		time.Sleep(time.Minute + time.Millisecond) // by itself
		if got := keysOf(t, k); got != "block keys 4" || s.count() != 4 {
			t.Errorf("%s, asked %d times", got, s.count()-1)
		}
	})
}

// TestNothingIsKnownBeforeTheFirstAnswer: whether there are tokens neither, so nothing is allowed; who can wait
// gets the first answer.
func TestNothingIsKnownBeforeTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &keyService{delay: 3 * time.Second}
		s.tell(1)
		k := followBlockKeys(t.Context(), slog.New(slog.DiscardHandler), s.ask)
		began := time.Now()
		for range 2 {
			_, err := k.current()
			_, signErr := k.signer("u", token.Read)
			if !errors.Is(err, muster.ErrUnavailable) || !errors.Is(signErr, muster.ErrUnavailable) {
				t.Errorf("%v, %v", err, signErr)
			}
			synctest.Wait()
		}
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.renewed(hasty); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who can't wait: %v", err)
		}
		if ring, err := k.renewed(t.Context()); err != nil || ring.String() != "block keys 1" || time.Since(began) != 3*time.Second || s.count() != 1 {
			t.Errorf("%v, %v after %v, asked %d times", ring, err, time.Since(began), s.count())
		}
		if err := k.close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhoWaitsForKeysHearsOfTheEnd, as does a question that is not answered.
func TestWhoWaitsForKeysHearsOfTheEnd(t *testing.T) {
	for name, end := range map[string]func(k *blockKeys, cancel func()){
		"close":   func(k *blockKeys, _ func()) { _ = k.close() },
		"context": func(_ *blockKeys, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &keyService{delay: time.Hour}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				k := followBlockKeys(ctx, slog.New(slog.DiscardHandler), s.ask)
				var waiting sync.WaitGroup
				waiting.Go(func() {
					if _, err := k.renewed(t.Context()); !errors.Is(err, muster.ErrUnavailable) {
						t.Error(err)
					}
				})
				synctest.Wait()
				end(k, cancel)
				waiting.Wait()
				time.Sleep(time.Minute)
				if _, err := k.renewed(t.Context()); !errors.Is(err, muster.ErrUnavailable) {
					t.Errorf("afterwards: %v", err)
				}
				_ = k.close()
			})
		})
	}
}

// TestKeysRotateBetweenServers: one that signs and one that checks ask at different times, and each token is good
// at once and for all of its life.
func TestKeysRotateBetweenServers(t *testing.T) {
	followed(t, func(t *testing.T, s *keyService, signs *blockKeys, _ *bytes.Buffer) {
		time.Sleep(30 * time.Second)
		checks := followBlockKeys(t.Context(), slog.New(slog.DiscardHandler), s.ask)
		defer func() { _ = checks.close() }()
		synctest.Wait()
		block := muster.BlockID{Container: 1, LocalID: 1}
		verify := func(tok []byte) error {
			ring, err := checks.current()
			if err == nil {
				_, err = token.Verify(ring, tok, time.Now(), block, token.Read, "u")
			}
			if errors.Is(err, token.ErrUnknownKey) {
				if ring, err = checks.renewed(t.Context()); err == nil {
					_, err = token.Verify(ring, tok, time.Now(), block, token.Read, "u")
				}
			}
			return err
		}
		var tokens [][]byte
		for id := uint32(1); id < 20; id++ {
			all := []uint32{id}
			for old := id - 1; old > 0 && old+5 > id; old-- {
				all = append(all, old)
			}
			s.tell(all...)
			time.Sleep(37*time.Second + time.Millisecond) // sometimes the one has heard of the new key, and sometimes the other
			sign, err := signs.signer("u", token.Read)
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, sign.Token(block, 1, 1))
			for i, tok := range tokens[max(0, len(tokens)-2):] {
				if err := verify(tok); err != nil {
					t.Errorf("step %d, token %d: %v", id, i, err)
				}
			}
		}
	})
}

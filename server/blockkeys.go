package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc/pb"
)

const (
	keysPause    = time.Second      // between two questions, at least: for so long a key that was unknown stays so
	keysRefresh  = time.Minute      // between two questions, if the service does not say
	keysLongest  = 10 * time.Minute // whatever it says
	keysPatience = 10 * time.Second // an answer may take
)

// askKeys asks the location service for the keys of block tokens.
type askKeys func(context.Context, *pb.BlockKeysRequest) (*pb.BlockKeysReply, error)

// blockKeys are the keys of block tokens as the location service last told them, in a namespace server
// that signs, and in a datanode that checks. They are in memory alone. While the service is away those that are
// known stay in use. A nil blockKeys is of a cluster without tokens.
//
// One goroutine asks, again and again; who misses a key wakes it, at most once in keysPause, and
// waits for its next answer.
type blockKeys struct {
	log  *slog.Logger
	ask  askKeys
	stop context.CancelFunc
	done chan struct{} // closed when the goroutine ended
	wake chan struct{} // has room for one

	inUse atomic.Pointer[keysInUse] // nil: none have been told yet

	mu     sync.Mutex    // guards what follows
	asked  time.Time     // when the last question was asked
	answer chan struct{} // closed when the one that is under way, or asked for, is over; nil: none is
}

// keysInUse are the keys at one time. It is never changed.
type keysInUse struct{ ring *token.Ring } // nil: the cluster has no tokens

// followBlockKeys begins to follow the keys, until ctx ends or close is called.
func followBlockKeys(ctx context.Context, log *slog.Logger, ask askKeys) *blockKeys {
	k := &blockKeys{log: log, ask: ask, done: make(chan struct{}), wake: make(chan struct{}, 1), answer: make(chan struct{})}
	ctx, k.stop = context.WithCancel(ctx)
	go func() {
		defer close(k.done)
		k.run(ctx)
	}()
	return k
}

// close ends the following, and waits for that.
func (k *blockKeys) close() error {
	k.stop()
	<-k.done
	return nil
}

func (k *blockKeys) run(ctx context.Context) {
	failing := false
	for {
		pause, err := k.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			k.log.Warn("the keys of block tokens are not up to date", "error", err)
		case err == nil && failing:
			k.log.Info("the keys of block tokens are up to date again")
		}
		failing = err != nil
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// step asks once, and says when to ask again.
func (k *blockKeys) step(ctx context.Context) (pause time.Duration, err error) {
	k.mu.Lock()
	k.asked = time.Now()
	select {
	case <-k.wake: // what it asked for comes now
	default:
	}
	if k.answer == nil {
		k.answer = make(chan struct{})
	}
	answer := k.answer
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.answer = nil
		k.mu.Unlock()
		close(answer)
	}()
	ctx, cancel := context.WithTimeout(ctx, keysPatience)
	defer cancel()
	reply, err := k.ask(ctx, &pb.BlockKeysRequest{})
	if err != nil {
		return keysPause, err
	}
	ring, err := ringFromPB(reply)
	if err != nil {
		return keysPause, err
	}
	if old := k.inUse.Swap(&keysInUse{ring}); old == nil || ring.String() != old.ring.String() {
		k.log.Debug("keys of block tokens", "enabled", ring != nil, "keys", ring.String())
	}
	if ms := reply.GetRefreshMs(); ms > 0 {
		return min(max(time.Duration(min(ms, keysLongest.Milliseconds()))*time.Millisecond, keysPause), keysLongest), nil
	}
	return keysRefresh, nil
}

// ringFromPB makes a ring of what the service told; nil: there are no tokens. No error shows a secret.
func ringFromPB(reply *pb.BlockKeysReply) (*token.Ring, error) {
	if !reply.GetEnabled() {
		return nil, nil
	}
	keys := make([]token.Key, len(reply.GetKeys()))
	for i, m := range reply.GetKeys() {
		secret, err := token.ParseSecret(m.GetSecret())
		if err != nil {
			return nil, fmt.Errorf("block key %d: %w", m.GetId(), err)
		}
		keys[i] = token.Key{ID: m.GetId(), Secret: secret, Expires: time.UnixMilli(m.GetExpires())}
	}
	return token.NewRing(keys)
}

// current returns the keys as they are known; nil: the cluster has no tokens. Before the first answer of
// the service it fails with muster.ErrUnavailable: whether there are tokens is unknown.
func (k *blockKeys) current() (*token.Ring, error) {
	if k == nil {
		return nil, nil
	}
	if in := k.inUse.Load(); in != nil {
		return in.ring, nil
	}
	return nil, fmt.Errorf("%w: the location service has not told the keys of block tokens yet", muster.ErrUnavailable)
}

// renewed is current for somebody who misses a key, or has come before the first answer: unless it was
// asked only just, the service is asked again first.
func (k *blockKeys) renewed(ctx context.Context) (*token.Ring, error) {
	if k == nil {
		return nil, nil
	}
	k.mu.Lock()
	answer := k.answer
	if answer == nil && time.Since(k.asked) >= keysPause {
		k.answer = make(chan struct{})
		answer = k.answer
		select {
		case k.wake <- struct{}{}:
		default: // it is about to ask
		}
	}
	k.mu.Unlock()
	if answer != nil {
		select {
		case <-answer:
		case <-k.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return k.current()
}

// signer returns what signs for a user from now on; nil, which signs nothing: the cluster has no tokens.
func (k *blockKeys) signer(user string, modes token.Modes) (*signing, error) {
	ring, err := k.current()
	if err != nil || ring == nil {
		return nil, err
	}
	s, err := ring.Signer(user, modes, time.Now(), 0)
	if err != nil {
		return nil, err
	}
	return &signing{s}, nil
}

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// fatalGrace is how long calls in progress may take to get their answer when a store has
// failed.
const fatalGrace = 5 * time.Second

// life is how a server of any role lives: it serves calls on a port until it is told to
// stop or cannot go on, then it ends what it is made of, the newest part first.
type life struct {
	log *slog.Logger
	rpc *rpc.Server
	lis net.Listener

	serving context.Context // ends when calls are to finish
	finish  context.CancelFunc
	parts   []func() error // what ends each part, in the order they were made

	mu      sync.Mutex // guards what follows
	leaving bool
	guests  []func(context.Context) error // what ends each part that needs the calls, see leaves

	stop     sync.Once
	stopping chan context.Context // of Shutdown; has room for one
	fatal    chan error           // of a store; has room for one
	done     chan struct{}        // closed when all has ended; guards the errors
	err      error                // why it ended by itself
	stopErr  error                // what went wrong while it stopped
}

func newLife(log *slog.Logger) *life {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &life{log: log, stopping: make(chan context.Context, 1), fatal: make(chan error, 1), done: make(chan struct{})}
	l.serving, l.finish = context.WithCancel(context.Background())
	return l
}

// owns adds a part that was made. It is ended with the server, before those it was made of.
func (l *life) owns(end func() error) { l.parts = append(l.parts, end) }

// leaves adds a part that was made while the server runs, and which needs its calls to end.
// It is ended before the server takes no more of them. It is false if it is too late for that.
func (l *life) leaves(end func(context.Context) error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leaving {
		l.guests = append(l.guests, end)
	}
	return !l.leaving
}

// dismiss ends the parts that need the calls, all at once.
func (l *life) dismiss(ctx context.Context) error {
	l.mu.Lock()
	guests := l.guests
	l.guests, l.leaving = nil, true
	l.mu.Unlock()
	errs := make([]error, len(guests))
	var wg sync.WaitGroup
	for i, end := range guests {
		wg.Go(func() { errs[i] = end(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// end ends the parts.
func (l *life) end() error {
	var errs []error
	for len(l.parts) > 0 {
		last := len(l.parts) - 1
		errs = append(errs, l.parts[last]())
		l.parts = l.parts[:last]
	}
	return errors.Join(errs...)
}

// abandon ends what a failed start has made, and returns why it failed.
func (l *life) abandon(err error) error {
	l.finish()
	return fmt.Errorf("start server: %w", errors.Join(err, l.end()))
}

// onFatal returns what a store calls when it has failed.
func (l *life) onFatal(also func(error)) func(error) {
	return func(err error) {
		select {
		case l.fatal <- err:
		default: // another has failed before it
		}
		if also != nil {
			also(err)
		}
	}
}

// listen opens the port.
func (l *life) listen(ctx context.Context, address string) (err error) {
	var lc net.ListenConfig
	if l.lis, err = lc.Listen(ctx, "tcp", cmp.Or(address, "127.0.0.1:0")); err != nil {
		return fmt.Errorf("%w: %w", muster.ErrUnavailable, err)
	}
	return nil
}

// run serves until the server is told to stop, or cannot go on; then it ends everything.
func (l *life) run() {
	defer close(l.done)
	served := make(chan error, 1)
	go func() { served <- l.rpc.Serve(l.lis) }()
	l.log.Info("serving", "address", l.lis.Addr())
	ctx := context.Background()
	select {
	case ctx = <-l.stopping:
	case l.err = <-l.fatal:
	case l.err = <-served:
		served <- nil
	}
	if l.err != nil {
		l.log.Error("the server ends", "error", l.err)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, fatalGrace)
		defer cancel()
	}
	leaveErr := l.dismiss(ctx)
	l.finish()
	stopErr := l.rpc.Shutdown(ctx)
	<-served
	endErr := l.end()
	if l.err == nil {
		l.stopErr = errors.Join(leaveErr, stopErr, endErr)
	}
	l.log.Info("stopped")
}

// Addr is where the server listens.
func (l *life) Addr() net.Addr { return l.lis.Addr() }

// Done is closed when the server has ended: after Shutdown, or by itself.
func (l *life) Done() <-chan struct{} { return l.done }

// Err says why the server has ended by itself. It is nil while it runs, and after
// Shutdown.
func (l *life) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Shutdown lets the calls in progress finish, ends everything and closes the stores. If
// the context ends first those calls are cancelled and its error is returned; the stores
// are closed all the same. A server that has ended by itself returns why.
func (l *life) Shutdown(ctx context.Context) error {
	l.stop.Do(func() { l.stopping <- ctx })
	<-l.done
	return cmp.Or(l.err, l.stopErr)
}

// abort is Shutdown of a server whose start has failed, of which nobody knows: it waits for
// no calls.
func (l *life) abort() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

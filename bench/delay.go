package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy passes connections on to another address and adds to their round-trip time, as a
// longer wire would: what is read at a time is written half of it later, in order, and
// whatever is on its way meanwhile. It takes no bandwidth away.
type Proxy struct {
	Target    string        // host:port
	RoundTrip time.Duration // added; half of it each way

	carried  atomic.Int64 // bytes, both ways
	newAlarm func() alarm // nil: the system's most exact one
}

// alarm waits for one goroutine.
type alarm interface {
	wait(ctx context.Context, d time.Duration) // or until ctx ends
	close()                                    // also ends a wait, from another goroutine
}

// What may be on its way, for each direction of a connection.
const (
	chunkBytes   = 64 << 10
	chunksOnPath = 1024
)

// Carried is how many bytes have passed in both directions: at least those that have arrived.
func (p *Proxy) Carried() int64 { return p.carried.Load() }

// Serve accepts connections until ctx ends, and then closes them and lis and returns nil.
// A connection whose target does not answer is closed.
func (p *Proxy) Serve(ctx context.Context, lis net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var links sync.WaitGroup
	defer func() { cancel(); _ = lis.Close(); links.Wait() }()
	context.AfterFunc(ctx, func() { _ = lis.Close() })
	for {
		near, err := lis.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = near.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("delay proxy: %w", err)
		}
		links.Go(func() {
			var d net.Dialer
			far, err := d.DialContext(ctx, "tcp", p.Target)
			if err != nil {
				_ = near.Close()
				return
			}
			p.join(ctx, near, far)
		})
	}
}

// join carries between two connections until both directions have ended, one has failed
// or ctx ends, and closes them.
func (p *Proxy) join(ctx context.Context, near, far net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		ways.Go(func() {
			if err := p.carry(ctx, way[0], way[1]); err != nil {
				cancel()
			}
		})
	}
	ways.Wait()
	_, _ = near.Close(), far.Close()
}

// chunk is what one read brought. Without bytes it is the end.
type chunk struct {
	bytes []byte
	due   time.Time
}

// carry carries one direction to its end.
func (p *Proxy) carry(ctx context.Context, from, to net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	path := make(chan chunk, chunksOnPath)
	taken := make(chan error, 1)
	go func() { taken <- p.take(ctx, from, path) }()
	err := p.give(ctx, to, path)
	cancel() // nobody empties the path now
	if err != nil {
		_ = from.Close() // nor waits for what else comes
	}
	return errors.Join(err, <-taken)
}

// take reads until the end and closes path.
func (p *Proxy) take(ctx context.Context, from net.Conn, path chan<- chunk) error {
	defer close(path)
	buffer := make([]byte, chunkBytes)
	for {
		n, err := from.Read(buffer)
		due := time.Now().Add(p.RoundTrip / 2)
		if n > 0 {
			select {
			case path <- chunk{append([]byte(nil), buffer[:n]...), due}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			select {
			case path <- chunk{due: due}:
			case <-ctx.Done():
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// give writes each chunk when it is due, and then ends the direction.
func (p *Proxy) give(ctx context.Context, to net.Conn, path <-chan chunk) error {
	newAlarm := p.newAlarm
	if newAlarm == nil {
		newAlarm = systemAlarm
	}
	a := newAlarm()
	defer a.close()
	defer context.AfterFunc(ctx, a.close)()
	for c := range path {
		if left := time.Until(c.due); left > 0 {
			if a.wait(ctx, left); ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if len(c.bytes) == 0 {
			continue
		}
		p.carried.Add(int64(len(c.bytes))) // before who waits for them can ask
		if _, err := to.Write(c.bytes); err != nil {
			return err
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return to.Close()
}

// sleeper is an alarm where the timers of the Go scheduler are exact enough.
type sleeper struct{}

func (sleeper) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (sleeper) close() {}

package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"storj.io/drpc/drpcmanager"
	"storj.io/drpc/drpcmigrate"
	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
)

// acquire returns a connection for one call, a direct one or another: the one that was used
// last, or a new one. It counts as out until it is released.
func (p *Pool) acquire(ctx context.Context, direct bool) (*conn, error) {
	if err := p.takeSlot(ctx); err != nil {
		return nil, err
	}
	c, ok := p.takeIdle(direct)
	if ok && c != nil {
		return c, nil
	}
	if !ok {
		<-p.slots
		return nil, p.closedError()
	}
	c, err := p.dial(ctx, direct)
	p.dialed()
	if err != nil {
		<-p.slots
		p.out.Done()
		return nil, err
	}
	return c, nil
}

// dialed says that a connection that takeIdle has made room for was made, or not.
func (p *Pool) dialed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing--
}

// takeSlot waits until fewer calls than connections are allowed are out.
func (p *Pool) takeSlot(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	wait := time.NewTimer(p.options.WaitTimeout)
	defer wait.Stop()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-p.open.Done():
		return p.closedError()
	case <-ctx.Done():
		return fmt.Errorf("%w: all %d connections to %s are in use: %w", muster.ErrUnavailable, cap(p.slots), p.address, contextError(ctx))
	case <-wait.C:
		return fmt.Errorf("%w: all %d connections to %s were in use for %v", muster.ErrUnavailable, cap(p.slots), p.address, p.options.WaitTimeout)
	}
}

// takeIdle returns an unused connection of a kind that is still open, or nil if there is
// none; if that makes one too many, one of the other kind is closed. It is false if the pool
// is closed, and else counts the call as out.
func (p *Pool) takeIdle(direct bool) (*conn, bool) {
	var dead []*conn
	defer func() { closeAll(dead) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	p.out.Add(1)
	for i := len(p.idle) - 1; i >= 0; i-- {
		c := p.idle[i]
		closed := c.isClosed()
		if !closed && (c.direct != nil) != direct {
			continue
		}
		p.idle = slices.Delete(p.idle, i, i+1)
		if !closed {
			return c, true
		}
		delete(p.conns, c)
		dead = append(dead, c)
	}
	if p.dialing++; len(p.idle) > 0 && len(p.conns)+p.dialing > p.options.MaxConnections {
		dead = append(dead, p.idle[0])
		delete(p.conns, p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	return nil, true
}

// dial makes a connection.
func (p *Pool) dial(ctx context.Context, direct bool) (*conn, error) {
	dialCtx, cancel := context.WithTimeout(ctx, p.options.DialTimeout)
	defer cancel()
	defer context.AfterFunc(p.open, cancel)()
	nc, err := p.options.Dial(dialCtx, p.address)
	switch {
	case err == nil:
	case p.open.Err() != nil:
		return nil, p.closedError()
	case ctx.Err() != nil:
		return nil, contextError(ctx)
	default:
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // without the address, which is named already
		}
		return nil, broken("no connection to %s: %v", p.address, err)
	}
	c := newConn(nc, direct, p.options.StallTimeout)
	if !p.add(c) {
		_ = c.Close() // unused
		return nil, p.closedError()
	}
	if p.options.PeerKey == nil {
		return c, nil
	}
	if err := p.prove(dialCtx, c); err != nil {
		p.keep(c, false)
		_ = c.Close() // the error says it all
		switch {
		case p.open.Err() != nil:
			return nil, p.closedError()
		case ctx.Err() != nil:
			return nil, contextError(ctx)
		}
		return nil, err
	}
	return c, nil
}

// add makes the connection one that Close closes. It is false if that was called.
func (p *Pool) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// release takes a connection back from its call, to keep it if it is of use.
func (p *Pool) release(c *conn, reusable bool) {
	if !p.keep(c, reusable) {
		_ = c.Close() // nothing of it is needed any more
	}
	<-p.slots
	p.out.Done()
}

func (p *Pool) keep(c *conn, reusable bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !reusable || p.closed || c.isClosed() {
		delete(p.conns, c)
		return false
	}
	c.unused = time.Now()
	p.idle = append(p.idle, c)
	if p.expiry == nil {
		p.out.Add(1)
		p.expiry = time.AfterFunc(p.options.IdleTimeout, p.expire)
	}
	return true
}

// expire closes the connections that were unused for long, and those that were closed
// by the other side.
func (p *Pool) expire() {
	defer p.out.Done()
	closeAll(p.takeExpired(time.Now()))
}

func (p *Pool) takeExpired(now time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var dead []*conn
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
		if !c.isClosed() && now.Sub(c.unused) < p.options.IdleTimeout {
			return false
		}
		delete(p.conns, c)
		dead = append(dead, c)
		return true
	})
	p.expiry = nil
	if len(p.idle) > 0 && !p.closed {
		p.out.Add(1)
		p.expiry = time.AfterFunc(p.options.IdleTimeout-now.Sub(p.idle[0].unused), p.expire)
	}
	return dead
}

func newConn(nc net.Conn, isDirect bool, stall time.Duration) *conn {
	c := new(conn)
	c.transport.begin(nc, stall)
	if isDirect {
		c.direct = &direct{reader: drpcwire.NewReaderWithOptions(&c.transport.incoming, managerOptions().Reader)}
		return c
	}
	o := managerOptions()
	o.SoftCancel = true
	c.Manager = drpcmanager.NewWithOptions(drpcmigrate.NewHeaderConn(&c.transport, preface), o)
	return c
}

// Close closes the connection, and waits for its goroutines.
func (c *conn) Close() error {
	if c.direct != nil {
		return c.transport.stallConn.Conn.Close()
	}
	return c.Manager.Close()
}

// isClosed says whether the connection is known to be closed. Of a direct one that shows when
// it is used.
func (c *conn) isClosed() bool {
	if c.direct != nil {
		return false
	}
	select {
	case <-c.Closed():
		return true
	default:
		return false
	}
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		_ = c.Close() // an unused connection has nothing to lose
	}
}

func (p *Pool) closedError() error {
	return fmt.Errorf("%w: the client of %s was closed: %w", muster.ErrUnavailable, p.address, net.ErrClosed)
}

// Close closes the connections and waits for their calls, which fail. Further calls
// fail, too. Closing again only waits.
func (p *Pool) Close() error {
	closeAll(p.takeAll())
	p.out.Wait()
	return nil
}

// takeAll ends the pool and returns its connections.
func (p *Pool) takeAll() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.close()
	p.idle = nil
	if p.expiry != nil && p.expiry.Stop() {
		p.out.Done()
	}
	p.expiry = nil
	return slices.Collect(maps.Keys(p.conns))
}

// Closed returns a channel that is closed once Close was called.
func (p *Pool) Closed() <-chan struct{} { return p.open.Done() }

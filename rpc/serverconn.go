package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"storj.io/drpc/drpcmanager"

	"github.com/muster-fs/muster"
)

// The states of a server's connection.
const (
	connIdle  = iota // between calls
	connBusy         // a call is in progress
	connEnded        // closed because the server stops
)

// lingerTime is how long the server waits for the client to close a connection that it
// ends itself: closing at once could lose the last answer.
const lingerTime = time.Second

// serverConn is one connection of a server. Its calls run one after another, in the
// goroutine of serve.
type serverConn struct {
	transport
	server  *Server
	refused bool // past the limit of connections
	state   atomic.Int32

	// The caller of the last call, who most often is that of the next. The goroutine of
	// serve uses them.
	caller muster.Identity
	groups string // of the caller, as they came

	peer peerState
}

// serve carries out the calls of the connection until one side ends it.
func (c *serverConn) serve() {
	defer c.server.forget(c)
	if err := c.handshake(); err != nil {
		_ = c.Close() // the handshake's error says it all
		c.reject(err)
		return
	}
	if c.server.direct && !c.refused {
		if more, err := c.serveDirect(); !more {
			c.endDirect(err)
			return
		}
	}
	o := managerOptions()
	o.InactivityTimeout = c.server.options.IdleTimeout
	if c.refused {
		o.InactivityTimeout = c.server.options.HandshakeTimeout
	}
	man := drpcmanager.NewWithOptions(c, o)
	defer func() { _ = man.Close() }() // whatever is wrong with it was seen before
	err := c.calls(man)
	if err == nil {
		c.linger(man)
		return
	}
	c.server.log.Debug("connection ended", "remote", c.RemoteAddr(), "error", err)
}

// endDirect ends a connection without a manager.
func (c *serverConn) endDirect(err error) {
	if err == nil {
		c.lingerDirect()
	} else {
		c.server.log.Debug("connection ended", "remote", c.RemoteAddr(), "error", err)
	}
	_ = c.Close() // nothing of it is needed any more
}

// handshake reads the preface.
func (c *serverConn) handshake() error {
	if err := c.SetReadDeadline(time.Now().Add(c.server.options.HandshakeTimeout)); err != nil {
		return err
	}
	got := make([]byte, len(preface))
	n, err := io.ReadFull(c.Conn, got)
	switch {
	case err == io.EOF:
		return errNothing
	case err != nil:
		return fmt.Errorf("it sent only %q: %w", got[:n], err)
	case string(got) != preface:
		return fmt.Errorf("it is not a Muster client: it starts with %q", got)
	}
	return c.SetReadDeadline(time.Time{})
}

// errNothing is a connection that was closed before anything came, as health checks do.
var errNothing = errors.New("it sent nothing")

// reject counts and logs a connection that never came to a call.
func (c *serverConn) reject(err error) {
	level := slog.LevelInfo
	if err == errNothing || c.server.isStopping() {
		level = slog.LevelDebug
	}
	c.server.refused.Add(1)
	c.server.log.Log(context.Background(), level, "refused a connection", "remote", c.RemoteAddr(), "error", err)
}

// calls carries out calls until the connection fails, which is the error, or is to be
// ended by the server.
func (c *serverConn) calls(man *drpcmanager.Manager) error {
	for {
		stream, name, err := man.NewServerStream(c.server.ctx)
		if err != nil {
			return err
		}
		if !c.state.CompareAndSwap(connIdle, connBusy) {
			return net.ErrClosed
		}
		c.server.handle(c, stream, name)
		c.state.Store(connIdle)
		if c.refused || c.server.isStopping() {
			return nil
		}
	}
}

// authenticate is authenticate for a call of the connection.
func (c *serverConn) authenticate(md map[string]string) (muster.Identity, error) {
	// No user has no name: before the first call there is no caller to be the same as.
	if user := md[keyUser]; user != "" && user == c.caller.User && md[keyGroups] == c.groups {
		return c.caller, nil
	}
	id, err := authenticate(md)
	if err != nil {
		return muster.Identity{}, err
	}
	c.caller, c.groups = id, md[keyGroups]
	return id, nil
}

// endIfIdle closes the connection unless a call is in progress.
func (c *serverConn) endIfIdle() bool {
	if !c.state.CompareAndSwap(connIdle, connEnded) {
		return c.state.Load() == connEnded
	}
	_ = c.Close() // it was not in use
	return true
}

// linger ends the sending side and waits a little for the client to end its own.
func (c *serverConn) linger(man *drpcmanager.Manager) {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	wait := time.NewTimer(lingerTime)
	defer wait.Stop()
	select {
	case <-man.Closed():
	case <-wait.C:
	case <-c.server.ctx.Done():
	}
}

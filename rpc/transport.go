package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"storj.io/drpc/drpcmanager"
	"storj.io/drpc/drpcmigrate"
	"storj.io/drpc/drpcstream"
	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
)

// preface is what a client sends before its first call: dRPC's own, by which a port can
// be shared with other protocols. Frames have no sign of their own by which to tell
// them from garbage.
var preface = drpcmigrate.DRPCHeader

// writeBuffer is how many bytes of messages are sent in one piece: a reply and the end of
// its call, if that is no more.
const writeBuffer = 16 << 10

// managerOptions are those of the dRPC connections on both sides.
func managerOptions() drpcmanager.Options {
	return drpcmanager.Options{
		WriterBufferSize: writeBuffer,
		Reader:           drpcwire.ReaderOptions{MaximumBufferSize: MaxMessage},
		// No buffer is kept with a stream: messages are encoded into pooled ones, see raw.
		Stream: drpcstream.Options{MaximumBufferSize: 1},
	}
}

// transport is a connection of either side, as dRPC sees it.
type transport struct {
	stallConn
	incoming
}

// begin makes it one of nc.
func (t *transport) begin(nc net.Conn, stall time.Duration) {
	t.stallConn.Conn, t.stallConn.timeout, t.incoming.from = nc, stall, nc
}

// stallConn is the writing side of a connection, which ends when a write makes no progress
// for a time. One goroutine at a time writes.
type stallConn struct {
	net.Conn
	timeout  time.Duration
	stalled  atomic.Bool              // it has ended so
	outgoing atomic.Pointer[outgoing] // what is written for a stand-in; nil: nothing
	buffers  net.Buffers              // being written
}

// Write writes b, and a large message for its stand-in. When the other side takes nothing
// for the timeout, the connection is closed, so that nobody else waits for it as long.
func (c *stallConn) Write(b []byte) (int, error) {
	if m := c.outgoing.Load(); m != nil {
		if at := bytes.LastIndex(b, standIn); at > 0 {
			c.outgoing.Store(nil)
			return c.writeLarge(b, m.exchange(b, at))
		}
	}
	done := 0
	err := c.write(func() (int64, error) {
		n, err := c.Conn.Write(b[done:])
		done += n
		return int64(n), err
	})
	return done, err
}

// writeLarge writes what b was exchanged for.
func (c *stallConn) writeLarge(b []byte, instead net.Buffers) (int, error) {
	c.buffers = instead
	if err := c.write(func() (int64, error) { return c.buffers.WriteTo(c.Conn) }); err != nil {
		return 0, err
	}
	return len(b), nil
}

// write calls some, which writes what it can, until it has written all.
func (c *stallConn) write(some func() (int64, error)) error {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return err
		}
		n, err := some()
		switch {
		case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case n == 0:
			c.stalled.Store(true)
			_ = c.Close() // the stall is the error to report
			return c.stallError()
		}
	}
}

func (c *stallConn) stallError() error {
	return fmt.Errorf("%w: the other side took no data for %v", muster.ErrUnavailable, c.timeout)
}

package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"storj.io/drpc"
	"storj.io/drpc/drpcerr"
	"storj.io/drpc/drpcmetadata"
	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
)

// A direct call is one with one request and one reply that the caller's own goroutine makes
// on a connection of its own: it writes the request and reads the reply, as it would over
// bare TCP. On the wire it is as any other. It is for calls that are many and short, whose
// time would else go into waking the goroutines of dRPC. To cancel one closes its connection.

// direct is what a connection has for direct calls instead of a manager.
type direct struct {
	reader *drpcwire.Reader
	stream uint64 // of the last call; 0: there was none
	packet []byte // the reader's
	buffer []byte // of what is written
}

// invokeDirect makes a direct call that may be made again: one that a kept connection did not
// carry, since the server had closed it, is.
func (p *Pool) invokeDirect(ctx context.Context, name string, enc drpc.Encoding, in, out drpc.Message) error {
	if !p.hasDirect() {
		return p.Invoke(ctx, name, enc, in, out)
	}
	md, err := callMetadata(ctx)
	if err != nil {
		return unsentError{err}
	}
	for {
		c, err := p.acquire(ctx, true)
		if err != nil {
			return unsentError{err}
		}
		kept := !c.unused.IsZero()
		answered, err := c.callDirect(ctx, name, md, enc, in, out)
		p.release(c, answered)
		if !kept || !errors.Is(err, errUnanswered) || ctx.Err() != nil {
			return p.failure(ctx, err)
		}
	}
}

// errUnanswered is a connection that has ended before the answer came.
var errUnanswered = errors.New("the connection has ended")

// hasDirect says whether a direct call costs no connection that others have.
func (p *Pool) hasDirect() bool {
	if p.options.PeerKey != nil {
		return false // the proof needs calls of both kinds
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns)+p.dialing < p.options.MaxConnections {
		return true
	}
	for _, c := range p.idle {
		if c.direct != nil {
			return true
		}
	}
	return len(p.idle) == 0
}

// callDirect makes the call. It says whether the server has ended it, so that the connection
// can carry another one.
func (c *conn) callDirect(ctx context.Context, name string, md []byte, enc drpc.Encoding, in, out drpc.Message) (answered bool, err error) {
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = c.transport.stallConn.Conn.Close() })
	}
	if err = c.request(name, md, enc, in); err == nil {
		answered, err = c.answer(enc, out)
	}
	return stop() && answered, err
}

// request writes a call, all at once.
func (c *conn) request(name string, md []byte, enc drpc.Encoding, in drpc.Message) error {
	d := c.direct
	request, err := encode(in, enc)
	if err != nil {
		return err
	}
	defer release(request)
	d.buffer = d.buffer[:0]
	if d.stream++; d.stream == 1 {
		d.buffer = append(d.buffer, preface...)
	}
	frame := drpcwire.Frame{ID: drpcwire.ID{Stream: d.stream}, Done: true}
	add := func(kind drpcwire.Kind, data []byte) {
		frame.ID.Message++
		frame.Kind, frame.Data = kind, data
		d.buffer = drpcwire.AppendFrame(d.buffer, frame)
	}
	if len(md) > 0 {
		add(drpcwire.KindInvokeMetadata, md)
	}
	add(drpcwire.KindInvoke, []byte(name))
	add(drpcwire.KindMessage, *request)
	add(drpcwire.KindCloseSend, nil)
	if _, err := c.transport.Write(d.buffer); err != nil {
		return fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return nil
}

// answer reads the reply and the end of the call.
func (c *conn) answer(enc drpc.Encoding, out drpc.Message) (answered bool, err error) {
	d, got := c.direct, false
	for {
		p, err := d.reader.ReadPacketUsing(d.packet[:0])
		if err != nil && !got {
			return false, fmt.Errorf("%w: %w", errUnanswered, err)
		} else if err != nil {
			return false, err
		}
		d.packet = p.Data
		switch {
		case p.ID.Stream != d.stream || p.Control:
		case p.Kind == drpcwire.KindMessage && !got:
			got = true
			message := &decoding{enc, muster.ErrCorrupt, &c.transport.incoming}
			if err := message.Unmarshal(p.Data, out); err != nil {
				return false, err
			}
		case p.Kind == drpcwire.KindError:
			err := drpcwire.UnmarshalError(p.Data)
			return drpcerr.Code(err) != 0, err
		case got && (p.Kind == drpcwire.KindClose || p.Kind == drpcwire.KindCloseSend):
			return true, nil
		default:
			return false, broken("the server ended the call without an answer")
		}
	}
}

// serveDirect carries out calls as they come, as long as they may be direct ones. Of the first
// other one, what was read is left to be read again. It is false if the connection has ended.
func (c *serverConn) serveDirect() (more bool, err error) {
	d := direct{reader: drpcwire.NewReaderWithOptions(&c.incoming, managerOptions().Reader)}
	for {
		r, err := c.nextDirect(&d)
		if err != nil || r == nil {
			return err == nil, err
		}
		if !c.state.CompareAndSwap(connIdle, connBusy) {
			return false, nil
		}
		err = c.server.handleDirect(c, &d, r)
		r.release()
		c.state.Store(connIdle)
		if err != nil || c.server.isStopping() {
			return false, err
		}
	}
}

// directRequest is a direct call as it came.
type directRequest struct {
	id       uint64
	name     string
	metadata map[string]string
	message  []byte
	memory   *Memory // that the message lies in; nil: a buffer that is used again
}

func (r *directRequest) release() {
	if r.memory != nil {
		r.memory.Release()
	}
}

// nextDirect reads the next call; nil: it is no direct one, and is to be read again. What else
// comes, as the end of what the client sends, and that it gave up a call, says nothing new.
func (c *serverConn) nextDirect(d *direct) (*directRequest, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.server.options.IdleTimeout)); err != nil {
		return nil, err
	}
	r := new(directRequest)
	var again []byte
	for {
		p, err := d.reader.ReadPacketUsing(d.packet[:0])
		if err != nil {
			return nil, err
		}
		d.packet = p.Data
		switch {
		case p.Control || p.ID.Stream <= d.stream:
			continue
		case p.Kind == drpcwire.KindInvokeMetadata:
			again = drpcwire.AppendFrame(again[:0], drpcwire.Frame{Data: p.Data, ID: p.ID, Kind: p.Kind, Done: true})
			r.id = p.ID.Stream
			if r.metadata, err = drpcmetadata.Decode(p.Data); err != nil {
				return nil, err
			}
		case p.Kind == drpcwire.KindInvoke:
			if r.id != p.ID.Stream {
				r.metadata, again = nil, nil
			}
			r.id, r.name = p.ID.Stream, string(p.Data)
			if !c.server.methods[r.name].direct {
				c.again = drpcwire.AppendFrame(again, drpcwire.Frame{Data: p.Data, ID: p.ID, Kind: p.Kind, Done: true})
				return nil, c.SetReadDeadline(time.Time{})
			}
			if len(c.ahead) == 0 { // most often all of a call comes at once
				if err := c.SetReadDeadline(time.Now().Add(c.server.options.StallTimeout)); err != nil {
					return nil, err
				}
			}
		case p.Kind == drpcwire.KindMessage && r.name != "" && r.id == p.ID.Stream:
			d.stream = r.id
			if r.message, r.memory = p.Data, c.take(); r.memory != nil {
				r.message = r.memory.Bytes()
			}
			return r, nil
		}
	}
}

// handleDirect carries out a direct call. An error is one of the connection.
func (s *Server) handleDirect(conn *serverConn, d *direct, r *directRequest) error {
	c := &call{server: s, conn: conn, name: r.name, ctx: s.ctx, direct: r}
	defer c.replied()
	started := time.Now()
	err := c.run()
	s.calls.Add(1)
	if err != nil {
		s.failed.Add(1)
		d.frames(r.id, drpcwire.KindError, drpcwire.MarshalError(ToWire(err)))
	} else if c.reply.large() {
		conn.outgoing.Store(c.reply)
		d.frames(r.id, drpcwire.KindMessage, standIn)
	} else {
		d.frames(r.id, drpcwire.KindMessage, c.reply.join())
	}
	_, lost := conn.Write(d.buffer)
	if lost != nil && err == nil {
		err = c.lost(lost)
	}
	c.report(err, time.Since(started))
	return lost
}

// frames are those of a call's end: an error, or the reply and that no more comes.
func (d *direct) frames(stream uint64, kind drpcwire.Kind, data []byte) {
	f := drpcwire.Frame{Data: data, ID: drpcwire.ID{Stream: stream, Message: 1}, Kind: kind, Done: true}
	if d.buffer = drpcwire.AppendFrame(d.buffer[:0], f); kind == drpcwire.KindMessage {
		f.Data, f.ID.Message, f.Kind = nil, 2, drpcwire.KindClose
		d.buffer = drpcwire.AppendFrame(d.buffer, f)
	}
	if cap(d.packet) > maxPooled {
		d.packet = nil
	}
}

// lingerDirect is linger for a connection without a manager.
func (c *serverConn) lingerDirect() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	defer context.AfterFunc(c.server.ctx, func() { _ = c.Close() })()
	_, _ = io.Copy(io.Discard, c.Conn) // until the client closes, or the time is over
}

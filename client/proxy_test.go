package client_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
)

// proxy stands between client and server and cuts connections.
type proxy struct {
	lis    net.Listener
	target string
	tasks  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
	left   int                   // guarded by mu: bytes of answers until the cut; below 0: there is none
	cuts   int                   // guarded by mu
	again  bool                  // guarded by mu: each new connection is cut after answer bytes
	answer int                   // guarded by mu
	record *bytes.Buffer         // guarded by mu: takes all answers, if not nil
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{lis: lis, target: target, open: make(map[net.Conn]struct{}), left: -1}
	p.tasks.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.lis.Addr().String() }

// cutAfter cuts the connection that gives the n+1st byte of answers from now on.
func (p *proxy) cutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.cuts = n, 0
}

// cutEach does so for each connection from now on.
func (p *proxy) cutEach(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.cuts, p.again, p.answer = n, 0, true, n
}

// spare ends all cutting and tells how many cuts there were.
func (p *proxy) spare() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.again = -1, false
	return p.cuts
}

// recorded starts another record and returns the last one.
func (p *proxy) recorded() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.record
	p.record = new(bytes.Buffer)
	if last == nil {
		return nil
	}
	return last.Bytes()
}

func (p *proxy) accept() {
	for {
		near, err := p.lis.Accept()
		if err != nil {
			return
		}
		far, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.target)
		if err != nil || !p.keep(near, far) {
			near.Close()
			continue
		}
		p.tasks.Go(func() { p.relay(near, far, func(b []byte) []byte { return b }) })
		p.tasks.Go(func() { p.relay(far, near, p.allow) })
	}
}

func (p *proxy) keep(near, far net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		far.Close()
		return false
	}
	p.open[near], p.open[far] = struct{}{}, struct{}{}
	return true
}

// relay copies from one side to the other until either ends or allow keeps bytes back.
func (p *proxy) relay(from, to net.Conn, allow func([]byte) []byte) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		passed := allow(buf[:n])
		if _, err := to.Write(passed); err != nil || len(passed) < n {
			return
		}
	}
}

// allow returns what may pass of an answer.
func (p *proxy) allow(b []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left >= 0 && len(b) > p.left {
		b, p.left = b[:p.left], -1
		p.cuts++
		if p.again {
			p.left = p.answer
		}
	} else if p.left >= 0 {
		p.left -= len(b)
	}
	if p.record != nil {
		p.record.Write(b)
	}
	return b
}

func (p *proxy) close() {
	p.lis.Close()
	p.mu.Lock()
	p.closed = true
	for conn := range p.open {
		conn.Close()
	}
	p.mu.Unlock()
	p.tasks.Wait()
}

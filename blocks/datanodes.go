package blocks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"storj.io/drpc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// DatanodesOptions bound what a program uses to read and write blocks. The zero value works.
type DatanodesOptions struct {
	// Connections is how many connections readers have to a datanode at most; further calls
	// wait. Sequential readers that read by stream hold at most half of them, so that the
	// rest is for positioned reads. 0: 16. At least 2.
	Connections int

	// Writers is how many connections writers have to a datanode at most, one for each block
	// that is being written there. 0: 256.
	Writers int

	// Memory bounds the bytes that all files together have read ahead. Readers that find
	// none left read what they need and no more. 0: 64 MiB.
	Memory int64

	// DialTimeout bounds the making of a connection. 0: 5 s.
	DialTimeout time.Duration

	// IdleTimeout is how long an unused connection is kept. 0: 60 s.
	IdleTimeout time.Duration

	// Dial makes a connection to host:port; nil dials by TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

const (
	defaultConnections = 16
	defaultWriters     = 256
	defaultMemory      = 64 << 20
	defaultDialTimeout = 5 * time.Second
	defaultIdleTimeout = time.Minute
)

// Validate names the first option that is out of bounds.
func (o DatanodesOptions) Validate() error {
	switch {
	case o.Connections < 0 || o.Connections == 1:
		return fmt.Errorf("%w: Connections is %d; use at least 2, or 0 for %d", muster.ErrInvalid, o.Connections, defaultConnections)
	case o.Writers < 0:
		return fmt.Errorf("%w: Writers is %d; use 1 or more, or 0 for %d", muster.ErrInvalid, o.Writers, defaultWriters)
	case o.Memory < 0:
		return fmt.Errorf("%w: Memory is %d; use 1 or more bytes, or 0 for %d", muster.ErrInvalid, o.Memory, defaultMemory)
	case o.DialTimeout < 0:
		return fmt.Errorf("%w: DialTimeout is %v; use 0 for %v", muster.ErrInvalid, o.DialTimeout, defaultDialTimeout)
	case o.IdleTimeout < 0:
		return fmt.Errorf("%w: IdleTimeout is %v; use 0 for %v", muster.ErrInvalid, o.IdleTimeout, defaultIdleTimeout)
	}
	return nil
}

func (o DatanodesOptions) withDefaults() DatanodesOptions {
	o.Connections = cmp.Or(o.Connections, defaultConnections)
	o.Writers = cmp.Or(o.Writers, defaultWriters)
	o.Memory = cmp.Or(o.Memory, defaultMemory)
	o.DialTimeout = cmp.Or(o.DialTimeout, defaultDialTimeout)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, defaultIdleTimeout)
	return o
}

// Datanodes are a program's connections to datanodes: for each address one pool for those
// who read and one for those who write, so that neither waits for the other. It is safe for
// concurrent use, and takes no lock.
type Datanodes struct {
	options DatanodesOptions
	pools   atomic.Pointer[map[string]*pools] // by address; replaced as a whole
	memory  atomic.Int64                      // bytes that are left of options.Memory
}

// pools are the connections to one address.
type pools struct {
	address string
	readers *rpc.Pool
	writers *rpc.Pool
	streams chan struct{} // one for each stream of a sequential reader
	suspect atomic.Int64  // unix time in ns until which others are asked first; 0: it is not
}

// NewDatanodes returns a Datanodes that has no connection yet.
func NewDatanodes(o DatanodesOptions) (*Datanodes, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	d := &Datanodes{options: o.withDefaults()}
	d.memory.Store(d.options.Memory)
	d.pools.Store(&map[string]*pools{})
	return d, nil
}

// Close closes all connections; calls in progress fail with muster.ErrUnavailable, and so
// do later ones. Files and writers are to be closed before.
func (d *Datanodes) Close() error {
	for all := d.pools.Load(); all != nil; all = d.pools.Load() {
		if !d.pools.CompareAndSwap(all, nil) {
			continue
		}
		for _, p := range *all {
			p.close()
		}
	}
	return nil
}

// Conn returns what calls to a datanode are made by: those with one answer, and streams that
// are read to their end at once.
func (d *Datanodes) Conn(n *muster.Node) drpc.Conn { return d.of(n).readers }

// WriteConn returns what blocks are written to a datanode by. A call holds a connection as
// long as it goes on.
func (d *Datanodes) WriteConn(n *muster.Node) drpc.Conn { return d.of(n).writers }

// of returns the pools of a datanode.
func (d *Datanodes) of(n *muster.Node) *pools {
	address := net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port)))
	if all := d.pools.Load(); all != nil {
		if p := (*all)[address]; p != nil {
			return p
		}
	}
	return d.add(address)
}

// add makes the pools of an address, unless somebody else just has. After Close they are
// closed.
func (d *Datanodes) add(address string) *pools {
	made := d.newPools(address)
	for {
		all := d.pools.Load()
		if all == nil {
			made.close()
			return made
		}
		if p := (*all)[address]; p != nil {
			made.close()
			return p
		}
		more := maps.Clone(*all)
		more[address] = made
		if d.pools.CompareAndSwap(all, &more) {
			return made
		}
	}
}

func (d *Datanodes) newPools(address string) *pools {
	o := rpc.PoolOptions{
		MaxConnections: d.options.Connections,
		DialTimeout:    d.options.DialTimeout,
		IdleTimeout:    d.options.IdleTimeout,
		Dial:           d.options.Dial,
	}
	p := &pools{address: address, streams: make(chan struct{}, d.options.Connections/2), readers: rpc.NewPool(address, o)}
	o.MaxConnections = d.options.Writers
	p.writers = rpc.NewPool(address, o)
	return p
}

// suspicion is how long a datanode that did not answer is asked after all others.
const suspicion = 10 * time.Second

// suspicious says whether others should be asked first.
func (p *pools) suspicious() bool {
	until := p.suspect.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// trust ends a suspicion.
func (p *pools) trust() {
	if p.suspect.Load() != 0 {
		p.suspect.Store(0)
	}
}

func (p *pools) distrust() { p.suspect.Store(time.Now().Add(suspicion).UnixNano()) }

// takeMemory takes n bytes of the memory for reading ahead, if there are so many.
func (d *Datanodes) takeMemory(n int64) bool {
	if d.memory.Add(-n) >= 0 {
		return true
	}
	d.memory.Add(n)
	return false
}

func (d *Datanodes) giveMemory(n int64) { d.memory.Add(n) }

func (p *pools) close() {
	_ = p.readers.Close() // is always nil
	_ = p.writers.Close()
}

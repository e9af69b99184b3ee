package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// NoUmask as Options.Umask takes no mode bits away.
const NoUmask = fs.ModeIrregular

// Options say how a client behaves. The zero value works.
type Options struct {
	// User and Groups are the identity of all calls. An empty User is the operating
	// system's user of this process; with both empty its groups are taken too.
	User   string
	Groups []string

	// Connections bounds the open connections, and so the calls at one time;
	// further calls wait. 0: 64.
	Connections int

	// DialTimeout bounds the making of one connection, and Dial's wait for the server's
	// answer. 0: 10 s.
	DialTimeout time.Duration

	// Attempts bounds how often a reading call is tried while it makes no progress
	// and the server cannot be reached. 0: 10, which is about 5 s. 1: no repetition.
	// A call that could not even be sent for a minute, since no connection was free or
	// none could be made, is not tried again either.
	Attempts int

	// CommandTimeout bounds how long commands are repeated under their request id
	// before the call fails with ErrOutcomeUnknown. 0: 60 s. The server remembers a
	// request for 10 minutes at least, so more than that is refused.
	CommandTimeout time.Duration

	// Reader says where those run who will read what is located: a host name, an address,
	// or a network location such as /rack7. Replicas are ordered by their distance from
	// there. Empty: where the calls come from.
	Reader string

	// Datanodes bound the connections to datanodes. Their DialTimeout is that above, if it
	// is 0.
	Datanodes blocks.DatanodesOptions

	// Umask is taken away from the modes of new entries, as a process's umask is.
	// 0: 022. NoUmask: nothing.
	Umask fs.FileMode
}

// The defaults, and the bound of CommandTimeout.
const (
	defaultConnections    = 64
	defaultDialTimeout    = 10 * time.Second
	defaultAttempts       = 10
	defaultCommandTimeout = time.Minute
	maxCommandTimeout     = 5 * time.Minute
	defaultUmask          = fs.FileMode(0o022)
)

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case o.Connections < 0:
		return fmt.Errorf("%w: Connections is %d; use 1 or more, or 0 for %d", muster.ErrInvalid, o.Connections, defaultConnections)
	case o.DialTimeout < 0:
		return fmt.Errorf("%w: DialTimeout is %v; use 0 for %v", muster.ErrInvalid, o.DialTimeout, defaultDialTimeout)
	case o.Attempts < 0:
		return fmt.Errorf("%w: Attempts is %d; use 1 or more, or 0 for %d", muster.ErrInvalid, o.Attempts, defaultAttempts)
	case o.CommandTimeout < 0 || o.CommandTimeout > maxCommandTimeout:
		return fmt.Errorf("%w: CommandTimeout is %v; use at most %v, or 0 for %v", muster.ErrInvalid, o.CommandTimeout, maxCommandTimeout, defaultCommandTimeout)
	}
	if err := o.Datanodes.Validate(); err != nil {
		return fmt.Errorf("datanodes: %w", err)
	}
	return checkReader(o.Reader)
}

// checkReader says whether a reader may be there; "" is unknown.
func checkReader(reader string) error {
	switch {
	case reader == "":
		return nil
	case reader[0] == '/':
		_, err := muster.CleanRack(reader)
		return err
	}
	return muster.CheckHost(reader)
}

// withDefaults returns the options with every zero field filled in.
func (o Options) withDefaults() Options {
	o.Connections = orDefault(o.Connections, defaultConnections)
	o.DialTimeout = orDefault(o.DialTimeout, defaultDialTimeout)
	o.Attempts = orDefault(o.Attempts, defaultAttempts)
	o.CommandTimeout = orDefault(o.CommandTimeout, defaultCommandTimeout)
	o.Datanodes.DialTimeout = orDefault(o.Datanodes.DialTimeout, o.DialTimeout)
	o.Umask = orDefault(o.Umask, defaultUmask)
	return o
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// Client makes calls to one server, as one identity. It is safe for concurrent use.
type Client struct {
	*link
	identity    muster.Identity
	credentials *rpc.Credentials // of the identity
}

// link is what the clients of all identities share.
type link struct {
	options  Options
	pool     *rpc.Pool
	service  pb.DRPCNamespaceClient
	expander *rpc.Expander
	id       [16]byte      // of request ids
	sequence atomic.Uint64 // of the last request id
	nodes    nodeRecords

	datanodes *blocks.Datanodes
	writers   writers

	// What the server takes; written by Dial only.
	maxMessage int // bytes of a message
	maxChunk   int // paths of a message of a stream
}

// Dial returns a client of the server at addr (host:port). It makes one call, so that
// a wrong address and a server of another version are found here: an address where
// nothing answers is ErrUnavailable at once, without repetition.
func Dial(ctx context.Context, addr string, o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	identity, err := identityOf(o)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	l, err := newLink(addr, o.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	c := l.as(identity)
	l.writers.leases.renew, l.writers.leases.ended = c.renewLeases, l.writers.fence
	if err := c.handshake(ctx); err != nil {
		_ = c.Close() // nothing is open that could fail
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return c, nil
}

func newLink(addr string, o Options) (*link, error) {
	expander, err := rpc.NewExpander(rows.MaxFrame)
	if err != nil {
		return nil, err
	}
	datanodes, err := blocks.NewDatanodes(o.Datanodes)
	if err != nil {
		return nil, err
	}
	l := &link{options: o, expander: expander, datanodes: datanodes, maxChunk: rpc.ChunkPaths}
	l.pool = rpc.NewPool(addr, rpc.PoolOptions{MaxConnections: o.Connections, DialTimeout: o.DialTimeout})
	l.service = pb.NewDRPCNamespaceClient(l.pool)
	_, _ = rand.Read(l.id[:]) // never fails, see its documentation
	l.writers.open = make(map[*FileWriter]bool)
	return l, nil
}

// decode decodes a reply about at most so many paths, and checks and decodes its rows.
func (l *link) decode(r *reply, paths int, columns rows.Columns) (*rows.Batch, error) {
	if err := r.decode(paths, &l.nodes); err != nil {
		return nil, err
	}
	frame, err := l.expander.Frame(r.Frame, r.FrameSize)
	if err != nil {
		return nil, err
	}
	return rows.Decode(frame, columns)
}

// handshake makes sure that both sides speak of the same rows.
func (c *Client) handshake(ctx context.Context) error {
	timed, cancel := context.WithTimeout(ctx, c.options.DialTimeout)
	defer cancel()
	caps, err := c.capabilities(c.context(timed))
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case err != nil && overdue(timed):
		return fmt.Errorf("%w: no answer for %v; is this a Muster server?", muster.ErrUnavailable, c.options.DialTimeout)
	case err != nil:
		return err
	}
	if caps.RowSchema != rows.SchemaVersion {
		return fmt.Errorf("%w: the server (%s) sends rows of version %d, this client reads version %d; upgrade the older one",
			muster.ErrInvalid, caps.Version, caps.RowSchema, rows.SchemaVersion)
	}
	c.maxMessage = caps.MaxMessageBytes
	c.maxChunk = min(caps.MaxChunkPaths, rpc.MaxChunkPaths)
	return nil
}

// Close closes the connections of this client and of all that As made from it, and
// waits for their goroutines. Calls in progress fail. Files that are still written keep what
// is durable of them, once their lease has ended.
func (c *Client) Close() error {
	c.writers.close()
	return errors.Join(c.datanodes.Close(), c.pool.Close())
}

// As returns a client that makes its calls as another identity. It shares everything
// else with c, the connections too, and is not closed on its own.
func (c *Client) As(user string, groups ...string) *Client {
	return c.as(muster.Identity{User: user, Groups: slices.Clone(groups)})
}

func (l *link) as(id muster.Identity) *Client {
	return &Client{link: l, identity: id, credentials: rpc.NewCredentials(id)}
}

// Identity returns who the client says it is.
func (c *Client) Identity() muster.Identity {
	return muster.Identity{User: c.identity.User, Groups: slices.Clone(c.identity.Groups)}
}

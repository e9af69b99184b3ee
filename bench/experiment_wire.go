package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// removal is how long the removal of the tables from a running server may take.
const removal = time.Minute

// runOnServer fills the tables on a running server, lists them there and removes them.
func (e *Experiment) runOnServer(ctx context.Context) (err error) {
	c, err := client.Dial(ctx, e.Server, e.Client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return err
	}
	err = c.Mkdir(ctx, e.Root, 0o755)
	if errors.Is(err, muster.ErrExists) {
		return fmt.Errorf("%w; it would be removed in the end, so name a folder that does not exist", err)
	}
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removal)
		defer cancel()
		err = errors.Join(err, c.RemoveAll(ctx, e.Root))
	}()
	for _, t := range e.tables(e.Root) {
		if caps.Superuser {
			t.Owner, t.Group = tableOwner, tableGroup
		}
		t.NoBlocks = !caps.Superuser
		set, stop := e.Progress.begin("filling "+t.Root, t.Entries())
		err := Fill(ctx, c, t, set)
		if stop(); err != nil {
			return err
		}
	}
	if err := e.startProfile(); err != nil {
		return err
	}
	return e.listOver(ctx, running, e.Server, e.Root)
}

// listOver lists in the places of a name, whose server is at addr.
func (e *Experiment) listOver(ctx context.Context, name, addr, root string) error {
	for _, p := range e.Places {
		if p.Name != name {
			continue
		}
		if err := e.listAt(ctx, p, addr, root); err != nil {
			return err
		}
	}
	return nil
}

// listAt lists all shapes in a place. The timed rounds go to the server, or through a
// proxy in a process of its own. What is not timed goes through a proxy here, which counts bytes.
func (e *Experiment) listAt(ctx context.Context, p Place, addr, root string) (err error) {
	near := addr
	if p.Added > 0 {
		var proxy *Process
		if proxy, err = e.Delay(ctx, addr, p.Added); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, proxy.Stop()) }()
		near = proxy.Addr
	}
	counted, err := e.count(ctx, p, addr)
	if err != nil {
		return err
	}
	defer counted.stop()
	timed, err := client.Dial(ctx, near, e.Client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Close()) }()
	for _, s := range e.Shapes {
		err := e.compare(ctx, root, cell{
			shape: s, place: p, carried: counted.proxy.Carried,
			server: func(ctx context.Context) (usage, error) { return serverUsage(ctx, timed) },
			empty:  func(ctx context.Context) error { _, err := timed.Capabilities(ctx); return err },
		}, through(timed, e.reader()), through(counted.client, e.reader()))
		if err != nil {
			return err
		}
	}
	return nil
}

// sources returns a source of columns, with locations or without.
type sources func(columns rows.Columns, located bool) source

// through returns the sources that call a server.
func through(c *client.Client, reader string) sources {
	return func(columns rows.Columns, located bool) source { return wire{c, columns, located, reader} }
}

// counted is a client whose bytes are counted.
type counted struct {
	client *client.Client
	proxy  *Proxy
	stop   func()
}

func (e *Experiment) count(ctx context.Context, p Place, addr string) (*counted, error) {
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	serving, cancel := context.WithCancel(ctx)
	c := &counted{proxy: &Proxy{Target: addr, RoundTrip: p.Added}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = c.proxy.Serve(serving, lis) // then the client fails, and says so
	}()
	c.stop = func() {
		if c.client != nil {
			_ = c.client.Close()
		}
		cancel()
		<-served
	}
	if c.client, err = client.Dial(ctx, lis.Addr().String(), e.Client); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

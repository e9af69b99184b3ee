package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// DatanodeOptions configure a datanode. Dirs, Locations and a key are required; the rest has
// a zero value that works.
type DatanodeOptions struct {
	// Dirs are the folders of the blocks, each on a disk of its own; made if missing.
	Dirs []string
	// Listen is host:port; "": 127.0.0.1:0, loopback, any free port.
	Listen string
	// Host is the name or address that readers and writers dial; "": the host of Listen, or
	// the machine's name if that is none.
	Host string
	// Rack is the network location; "": what the location service's rack file says.
	Rack string
	// Locations is the host:port of the location service.
	Locations string
	// KeyFile is the cluster key, that of all servers; Key is taken instead, if it is set.
	KeyFile string
	Key     []byte
	// Superuser may have all blocks scrubbed, beside the members of the group "supergroup".
	// "": the process's user.
	Superuser string

	Store store.Options // of the blocks
	RPC   rpc.ServerOptions

	// Writers bounds the blocks that are being written at a time; one more is UNAVAILABLE. 0: 1,024.
	Writers int
	// Copies bounds the orders of the location service that are carried out at a time; 0: 2.
	Copies int
	// CopyRate bounds the bytes a second that are copied from other datanodes, all orders
	// together; 0: 64 MiB.
	CopyRate int64
	// UnfinishedAge is how long a block that is not committed was not written to before the
	// location service hears of it; 0: 10 min.
	UnfinishedAge time.Duration

	Logger *slog.Logger // nil discards; also for the parts unless they have their own
}

// The defaults of DatanodeOptions.
const (
	defaultWriters       = 1024
	defaultCopies        = 2
	defaultCopyRate      = 64 << 20
	defaultUnfinishedAge = 10 * time.Minute
)

// maxDirs bounds the disks of a datanode, by what a heartbeat may name.
const maxDirs = 256

// Validate names the first option that is out of bounds.
func (o DatanodeOptions) Validate() error {
	seen := make(map[string]bool)
	for _, dir := range o.Dirs {
		if dir == "" || seen[dir] {
			return fmt.Errorf("%w: data folder %q is empty, or there twice", muster.ErrInvalid, dir)
		}
		seen[dir] = true
	}
	switch {
	case len(o.Dirs) == 0 || len(o.Dirs) > maxDirs:
		return fmt.Errorf("%w: %d data folders; name 1 to %d", muster.ErrInvalid, len(o.Dirs), maxDirs)
	case o.Locations == "":
		return fmt.Errorf("%w: no location service: set locations.server to its HOST:PORT; that of muster up has the same address", muster.ErrInvalid)
	case o.KeyFile == "" && len(o.Key) == 0:
		return fmt.Errorf("%w: the location service knows a datanode by the cluster key: set cluster.key_file, to the same file as that of the servers", muster.ErrInvalid)
	case o.Writers < 0 || o.Copies < 0 || o.CopyRate < 0 || o.UnfinishedAge < 0:
		return fmt.Errorf("%w: a bound below 0 (writers %d, copies %d, copy rate %d, age of unfinished blocks %v)",
			muster.ErrInvalid, o.Writers, o.Copies, o.CopyRate, o.UnfinishedAge)
	}
	if o.Host != "" {
		if err := muster.CheckHost(o.Host); err != nil {
			return err
		}
	}
	return cmp.Or(o.Store.Validate(), o.RPC.Validate())
}

func (o DatanodeOptions) withDefaults() DatanodeOptions {
	o.Writers = cmp.Or(o.Writers, defaultWriters)
	o.Copies = cmp.Or(o.Copies, defaultCopies)
	o.CopyRate = cmp.Or(o.CopyRate, defaultCopyRate)
	o.UnfinishedAge = cmp.Or(o.UnfinishedAge, defaultUnfinishedAge)
	return o
}

// Datanode is a running datanode.
type Datanode struct {
	*life
	id      string
	number  muster.NodeNumber
	blocks  *store.Store
	calls   *blockCalls
	reports *reports
	pool    *rpc.Pool // to the location service
}

// StartDatanode opens the disks, listens, serves, and makes the datanode a member of the
// cluster. It goes on trying while the location service cannot be reached and ctx has not
// ended; blocks are served meanwhile. The context bounds the start alone.
func StartDatanode(ctx context.Context, o DatanodeOptions) (*Datanode, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("start datanode: %w", err)
	}
	d := &Datanode{life: newLife(o.Logger)}
	o = o.withDefaults()
	if err := d.open(ctx, &o); err != nil {
		return nil, d.abandon(err)
	}
	go d.run() // ends with the datanode: Done
	if err := d.join(ctx, &o); err != nil {
		return nil, fmt.Errorf("start datanode: %w", errors.Join(err, d.abort()))
	}
	return d, nil
}

// open makes the parts that serve.
func (d *Datanode) open(ctx context.Context, o *DatanodeOptions) (err error) {
	if o.Store.Logger == nil {
		o.Store.Logger = d.log
	}
	if o.RPC.Logger == nil {
		o.RPC.Logger = d.log
	}
	if len(o.Key) == 0 {
		if o.Key, err = ClusterKey(o.Dirs[0], o.KeyFile, d.log); err != nil {
			return err
		}
	}
	key, err := rpc.NewPeerKey(o.Key)
	if err != nil {
		return err
	}
	superuser, err := superuserOf(o.Superuser)
	if err != nil {
		return err
	}
	if d.blocks, err = openBlocks(o); err != nil {
		return err
	}
	d.owns(d.blocks.Close)
	if d.id, err = datanodeID(o.Dirs, d.blocks.Disks()); err != nil {
		return err
	}
	rememberDisks(d.blocks.Disks(), d.log)
	d.pool = rpc.NewPool(o.Locations, rpc.PoolOptions{DialTimeout: remoteDial, PeerKey: key, PeerRole: rpc.RoleDatanode})
	d.owns(d.pool.Close)
	keys := followBlockKeys(d.serving, d.log, pb.NewDRPCLocationsClient(d.pool).BlockKeys)
	d.owns(keys.close)
	d.calls = &blockCalls{
		id: d.id, blocks: d.blocks, guard: guard{keys: keys, now: time.Now}, serving: d.serving,
		writers: make(chan struct{}, o.Writers), superuser: superuser,
	}
	d.reports = newReports(d.blocks)
	if d.rpc, err = rpc.NewServer(d.calls, pb.DRPCBlocksDescription{}, o.RPC); err != nil {
		return err
	}
	d.calls.rpc = d.rpc
	if err := d.rpc.HandleReadChunk(d.calls.readChunk); err != nil {
		return err
	}
	return d.listen(ctx, o.Listen)
}

// openBlocks opens the disks. One that another process has is an error, and not a disk that
// has failed.
func openBlocks(o *DatanodeOptions) (*store.Store, error) {
	known := readDisks(o.Dirs)
	options := o.Store
	options.Admit = known.admit
	blocks, err := store.Open(o.Dirs, options)
	if err != nil {
		return nil, err
	}
	for _, disk := range blocks.Disks() {
		if disk.State == store.DiskFailed && strings.Contains(disk.Message, "another process owns it") {
			return nil, errors.Join(fmt.Errorf("%w: data folder %s: %s", muster.ErrUnavailable, disk.Name, disk.Message), blocks.Close())
		}
	}
	return blocks, nil
}

// patienceToJoin is after how long the log says that the location service is waited for.
const patienceToJoin = 3 * time.Second

// join makes the datanode a member. Its parts end before the calls do.
func (d *Datanode) join(ctx context.Context, o *DatanodeOptions) error {
	host, err := d.host(o)
	if err != nil {
		return err
	}
	defer time.AfterFunc(patienceToJoin, func() {
		d.log.Warn("waiting for the location service", "address", o.Locations)
	}).Stop()
	orders := newNodeOrders(d, o)
	m, err := member.Join(ctx, d.pool, member.Options{
		ID: d.id, Host: host, Port: uint16(d.Addr().(*net.TCPAddr).Port), Rack: o.Rack,
		Replicas: d.reports.all, Disks: d.disks, Unfinished: func() []muster.UnfinishedBlock { return d.unfinished(o.UnfinishedAge) },
		Order: orders.carryOut, Orders: o.Copies, Logger: d.log,
	})
	if err != nil {
		return err
	}
	d.number = m.Number()
	stop := d.reports.start(m, d.log)
	leave := func(context.Context) error {
		stop()
		return m.Close()
	}
	if !d.leaves(leave) {
		_ = leave(ctx)
		return fmt.Errorf("%w: the datanode has ended while it started", muster.ErrUnavailable)
	}
	d.log.Info("joined", "id", d.id, "number", m.Number(), "host", host, "rack", m.Rack(), "locations", o.Locations)
	return nil
}

// host is what others dial.
func (d *Datanode) host(o *DatanodeOptions) (string, error) {
	if o.Host != "" {
		return o.Host, nil
	}
	if ip := d.Addr().(*net.TCPAddr).IP; !ip.IsUnspecified() {
		return ip.String(), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("%w: the machine has no name; set datanode.host: %v", muster.ErrInvalid, err)
	}
	return name, nil
}

// ID is the datanode's for ever.
func (d *Datanode) ID() string { return d.id }

// Number is the datanode's in placements, for ever.
func (d *Datanode) Number() muster.NodeNumber { return d.number }

// Blocks is what the datanode keeps blocks in.
func (d *Datanode) Blocks() *store.Store { return d.blocks }

// disks are the disks as heartbeats say them.
func (d *Datanode) disks() []muster.Disk {
	var list []muster.Disk
	for _, s := range d.blocks.Disks() {
		list = append(list, muster.Disk{
			Name: s.Name, State: muster.DiskState(s.State), Message: s.Message, Capacity: s.Capacity, Used: s.Used, Free: s.Free,
		})
	}
	return list
}

// unfinished are the blocks that nobody has written to for so long, and not committed.
func (d *Datanode) unfinished(age time.Duration) []muster.UnfinishedBlock {
	var list []muster.UnfinishedBlock
	for _, u := range d.blocks.Unfinished(age, member.MaxUnfinished) {
		list = append(list, muster.UnfinishedBlock{Block: u.ID, File: u.File, Age: u.Age})
	}
	return list
}

// address is the host:port of a datanode's calls.
func address(n *muster.Node) string {
	return net.JoinHostPort(cmp.Or(n.Host, n.Address), strconv.Itoa(int(n.Port)))
}

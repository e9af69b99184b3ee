package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// bubble runs f in a bubble of synctest and with stores in it. Pebble keeps channels in pools, and
// nobody outside may use those of a bubble: two collections empty the pools.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer func() {
		runtime.GC()
		runtime.GC()
	}()
	synctest.Test(t, f)
}

// disks are the blocks of datanodes, as the server's own work sees them.
type disks struct {
	mu      sync.Mutex // guards all below
	down    map[muster.NodeNumber]bool
	refuses map[muster.NodeNumber]error // outcome of each deletion
	blocks  map[muster.NodeNumber]map[muster.BlockID]stored
	deleted map[muster.NodeNumber]map[muster.BlockID]bool // tombstones: such a block is not written any more
	files   map[muster.BlockID]uint64
	asked   map[muster.NodeNumber]int // deletions of blocks, by datanode
	tried   int                       // calls to datanodes that are down
	before  func(n muster.NodeNumber) // nil, or called before blocks are deleted from a datanode
}

func newDisks() *disks {
	return &disks{
		down: map[muster.NodeNumber]bool{}, refuses: map[muster.NodeNumber]error{}, blocks: map[muster.NodeNumber]map[muster.BlockID]stored{},
		deleted: map[muster.NodeNumber]map[muster.BlockID]bool{}, files: map[muster.BlockID]uint64{}, asked: map[muster.NodeNumber]int{},
	}
}

// at returns the blocks of a datanode that is up.
func (d *disks) at(ctx context.Context, n *muster.Node) (map[muster.BlockID]stored, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.down[n.Number] {
		d.tried++
		return nil, fmt.Errorf("%w: datanode %d is down", muster.ErrUnavailable, n.Number)
	}
	if d.blocks[n.Number] == nil {
		d.blocks[n.Number], d.deleted[n.Number] = map[muster.BlockID]stored{}, map[muster.BlockID]bool{}
	}
	return d.blocks[n.Number], nil
}

func (d *disks) GetBlock(ctx context.Context, n *muster.Node, b blockOfFile) (stored, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	blocks, err := d.at(ctx, n)
	if err != nil {
		return stored{}, err
	}
	s, ok := blocks[b.BlockID]
	if !ok {
		return stored{}, fmt.Errorf("%w: block %v", []error{muster.ErrNotFound, muster.ErrNoData}[b.LocalID%2], b.BlockID)
	}
	return s, nil
}

func (d *disks) CommitBlock(ctx context.Context, n *muster.Node, b blockOfFile, length int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	blocks, err := d.at(ctx, n)
	if err != nil {
		return err
	}
	s, ok := blocks[b.BlockID]
	switch {
	case !ok:
		return muster.ErrNoData
	case s.committed && s.length != length:
		return muster.ErrExists
	case length > s.length:
		return fmt.Errorf("%w: %d bytes of %d", muster.ErrInvalid, length, s.length)
	}
	blocks[b.BlockID] = stored{length, true}
	return nil
}

func (d *disks) DeleteBlocks(ctx context.Context, n *muster.Node, list []blockOfFile, how deletion) ([]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	blocks, err := d.at(ctx, n)
	if err != nil {
		return nil, err
	}
	if d.asked[n.Number] += len(list); d.before != nil {
		d.before(n.Number)
	}
	outcomes := make([]error, len(list))
	for i, b := range list {
		if outcomes[i] = d.refuses[n.Number]; outcomes[i] == nil {
			delete(blocks, b.BlockID)
			d.deleted[n.Number][b.BlockID] = how == forGood || d.deleted[n.Number][b.BlockID]
		}
	}
	return outcomes, nil
}

// write makes bytes of a block durable on a datanode.
func (d *disks) write(n muster.NodeNumber, file uint64, b muster.BlockID, s stored) {
	d.mu.Lock()
	defer d.mu.Unlock()
	blocks, err := d.at(context.Background(), &muster.Node{Number: n})
	if err == nil && !d.deleted[n][b] {
		blocks[b], d.files[b] = s, file
	}
}

func (d *disks) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *disks) isDown(n muster.NodeNumber) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down[n]
}

// unfinished returns the blocks of a datanode that nobody has committed.
func (d *disks) unfinished(n muster.NodeNumber) (list []*pb.UnfinishedBlock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, b := range d.blocks[n] {
		if !b.committed {
			list = append(list, rpc.UnfinishedToPB(&muster.UnfinishedBlock{Block: id, File: d.files[id]}))
		}
	}
	return list
}

// on says what a datanode has of a block: "-", "5" or "5 committed".
func (d *disks) on(n muster.NodeNumber, b muster.BlockID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.blocks[n][b]
	switch {
	case !ok:
		return "-"
	case s.committed:
		return fmt.Sprint(s.length, " committed")
	}
	return fmt.Sprint(s.length)
}

// scriptedService is a location service whose calls can fail.
type scriptedService struct {
	*locationCalls
	away    func() error
	missing func() bool // reports are
	about   func(container uint64) ([]*pb.Node, error)
}

func (s *scriptedService) LocationsStatus(ctx context.Context, r *pb.LocationsStatusRequest) (*pb.LocationsStatusReply, error) {
	if s.missing() {
		return &pb.LocationsStatusReply{Counters: []*pb.Gauge{gauge("reports_in", 0)}}, nil
	}
	return s.locationCalls.LocationsStatus(ctx, r)
}

func (s *scriptedService) Unfinished(ctx context.Context, r *pb.UnfinishedRequest) (*pb.UnfinishedReply, error) {
	if err := s.away(); err != nil {
		return nil, err
	}
	return s.locationCalls.Unfinished(ctx, r)
}

func (s *scriptedService) Container(ctx context.Context, r *pb.ContainerRequest) (*pb.ContainerReply, error) {
	if err := s.away(); err != nil {
		return nil, err
	}
	more, err := s.about(r.GetContainer())
	if err != nil {
		return nil, err
	}
	reply, err := s.locationCalls.Container(ctx, r)
	for _, n := range more {
		reply.Nodes = append(reply.Nodes, n)
		reply.Targets = append(reply.Targets, uint32(len(reply.Nodes)))
	}
	return reply, err
}

// kept is a namespace server's upkeep beside a location service of its own in memory, whose
// datanodes are scripted. It is for a bubble.
type kept struct {
	*testing.T
	*disks
	fs       *vfs.MemFS
	tree     *namespace.Tree
	registry *registry.Registry
	service  *scriptedService
	upkeep   *upkeep
	options  Leases
	nodes    []muster.NodeNumber
	sessions []uint64
	stop     func()

	outage     error                 // of the location service; guarded by disks.mu, as the next
	unreported bool                  // reports are missing
	unclear    map[uint64]error      // what the location service fails with, by container
	targets    map[uint64][]*pb.Node // of copies, by container, besides those that it has
}

const keptNodes = 4

func newKept(t *testing.T, o Leases) *kept {
	k := &kept{T: t, disks: newDisks(), fs: vfs.NewStrictMem(), options: o.withDefaults(), unclear: map[uint64]error{}, targets: map[uint64][]*pb.Node{}}
	r, err := registry.Open("locations", registry.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	k.registry = r
	k.service = &scriptedService{&locationCalls{registry: r, serving: t.Context()}, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.outage
	}, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.unreported
	}, func(container uint64) ([]*pb.Node, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.targets[container], k.unclear[container]
	}}
	ctx, cancel := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	for i := range keptNodes {
		known, err := k.service.Register(t.Context(), &pb.RegisterRequest{Id: fmt.Sprintf("dn-%d", i), Host: fmt.Sprintf("dn%d", i), Port: 9866, Rack: fmt.Sprintf("/r%d", i%2)})
		if err != nil {
			t.Fatal(err)
		}
		k.nodes, k.sessions = append(k.nodes, muster.NodeNumber(known.Number)), append(k.sessions, known.Session)
		beating.Go(func() { k.beat(ctx, known) })
	}
	k.start()
	t.Cleanup(func() {
		k.end()
		cancel()
		beating.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// beat is a datanode's heart, while it is up. It reports that it has whatever it is a member of.
func (k *kept) beat(ctx context.Context, known *pb.RegisterReply) {
	for first := true; ctx.Err() == nil; sleep(ctx, 3*time.Second) {
		if k.isDown(muster.NodeNumber(known.Number)) {
			continue
		}
		_, err := k.service.Heartbeat(ctx, &pb.HeartbeatRequest{Number: known.Number, Session: known.Session, Unfinished: k.unfinished(muster.NodeNumber(known.Number))})
		if err != nil {
			k.Errorf("heartbeat: %v", err)
			return
		}
		if first {
			first = false
			if _, err := k.registry.Report(muster.NodeNumber(known.Number), known.Session, true, nil); err != nil {
				k.Errorf("report: %v", err)
			}
		}
	}
}

// start opens the tree, and starts what the server does by itself.
func (k *kept) start() {
	k.Helper()
	tree, err := namespace.Open("tree", namespace.Options{FS: k.fs, Superuser: "root", ImageBytes: 1, CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		k.Fatal(err)
	}
	k.tree = tree
	k.upkeep = &upkeep{tree: tree, service: k.service, nodes: k.disks, leases: newLeases(k.options.Lease), options: k.options, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	wait, err := k.upkeep.start(ctx)
	if err != nil {
		k.Fatal(err)
	}
	k.stop = func() { cancel(); _ = wait() }
}

// end ends the server.
func (k *kept) end() {
	k.stop()
	if err := k.tree.Close(); err != nil {
		k.Error(err)
	}
}

// crash ends the server with no more on its disk than what was synced, and starts it again.
func (k *kept) crash() {
	k.Helper()
	k.stop()
	k.fs.SetIgnoreSyncs(true)
	if err := k.tree.Close(); err != nil {
		k.Error(err)
	}
	k.fs.ResetToSyncedState()
	k.fs.SetIgnoreSyncs(false)
	k.start()
}

var (
	alice   = muster.Identity{User: "root"}
	penOne  = muster.Holder{1}
	penTwo  = muster.Holder{2}
	threeOf = muster.Replicated(3)
)

// request is a batch of the user that the files are of.
func request(commands ...muster.Command) namespace.Request {
	return namespace.Request{Caller: alice, Commands: commands}
}

func (k *kept) apply(commands ...muster.Command) []uint64 {
	k.Helper()
	applied, err := k.tree.Apply(k.Context(), request(commands...))
	if err != nil {
		k.Fatal(err)
	}
	return applied.IDs
}

// begun is a file that is being written, and where its last block goes.
type begun struct {
	file  uint64
	block muster.BlockID
	nodes []muster.NodeNumber
}

// begin starts a file with a block, as StartWrite does.
func (k *kept) begin(path string, holder muster.Holder) begun {
	k.Helper()
	block, nodes := k.allocate()
	return k.beginAt(path, holder, block, nodes)
}

func (k *kept) beginAt(path string, holder muster.Holder, block muster.Block, nodes []muster.NodeNumber) begun {
	k.Helper()
	k.upkeep.leases.grant(holder)
	ids := k.apply(
		muster.StartFile{Path: path, Mode: 0o644, Replication: threeOf, BlockSize: muster.DefaultBlockSize, Holder: holder, Parents: true, Overwrite: true},
		muster.AddBlock{Holder: holder, Block: block},
	)
	return begun{ids[0], idOf(block), nodes}
}

// more gives the file another block, as AddBlock does.
func (k *kept) more(f *begun, holder muster.Holder, previous int64) {
	k.Helper()
	block, nodes := k.allocate()
	k.apply(muster.AddBlock{File: f.file, Holder: holder, Previous: previous, Block: block})
	f.block, f.nodes = idOf(block), nodes
}

func (k *kept) allocate() (muster.Block, []muster.NodeNumber) {
	k.Helper()
	b, nodes, err := k.tryAllocate()
	if err != nil {
		k.Fatal(err)
	}
	return b, nodes
}

// tryAllocate fails if too few datanodes are up.
func (k *kept) tryAllocate() (b muster.Block, nodes []muster.NodeNumber, err error) {
	a, err := k.registry.Allocate(k.Context(), registry.AllocateRequest{Replication: threeOf, Count: 1})
	if err != nil {
		return b, nil, err
	}
	return muster.Block{Container: a.Blocks[0].Container, LocalID: a.Blocks[0].LocalID}, slices.Clone(a.Placements[0].Nodes), nil
}

// state says how a file is: "writing", "gone" or its length.
func (k *kept) state(id uint64) string {
	k.Helper()
	f, err := fileByID(k.tree, id)
	switch {
	case errors.Is(err, muster.ErrNotFound):
		return "gone"
	case err != nil:
		k.Fatal(err)
	case f.writing:
		return "writing"
	}
	return fmt.Sprint(f.length)
}

// queue returns the blocks that are to be deleted.
func (k *kept) queue() []muster.BlockID {
	k.Helper()
	all, err := k.tree.Deletions(muster.BlockID{}, 1_000_000)
	if err != nil {
		k.Fatal(err)
	}
	return all
}

// expect checks how a file is, and what of its last block its datanodes have.
func (k *kept) expect(when string, f begun, state string, on ...string) {
	k.Helper()
	synctest.Wait()
	if got := k.state(f.file); got != state {
		k.Fatalf("%s: the file is %s, not %s", when, got, state)
	}
	for i, want := range on {
		if got := k.on(f.nodes[i], f.block); got != want {
			k.Fatalf("%s: datanode %d of the block has %s, not %s", when, i, got, want)
		}
	}
}

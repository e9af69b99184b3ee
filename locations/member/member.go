// Package member makes a datanode a member of a cluster: it registers with the location
// service, sends heartbeats, and reports which containers it has.
//
// [Join] registers and starts the heartbeats, which go on until [Member.Close]. What
// happens to the service meanwhile is not the caller's concern: a member registers again
// with one that has been restarted, and reports all its containers when it is asked to.
// Heartbeats wait for no report and for no order. Of two datanodes with one id the service hears
// the last that joined; the log of the other says so.
// The calls go through a pool that proves the cluster key; many members may share one, and
// it outlives them. All of it is safe for concurrent use.
package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Replica is a container on a datanode.
type Replica struct {
	Container uint64
	Index     uint8 // erasure-coded: from 1; else 0
	Closed    bool
	Gone      bool // of a change: it was removed

	Blocks, Bytes, Damaged uint64 // that are committed: how many, their bytes, and how many are damaged
}

// Options say who a datanode is.
type Options struct {
	ID       string // for ever: a name, or a UUID that it made
	Host     string // name or IP address that readers dial
	Address  string // IP address; "": the one its calls come from
	Port     uint16 // of its blocks
	HTTPPort uint16 // of its status pages; 0: none
	Rack     string // network location; "": what the service's rack file says

	// Replicas returns all containers of the datanode; nil: it has none. It is called for
	// each full report, which gets none that is gone. What comes or goes after that is for
	// Report, which waits until the full report has arrived.
	Replicas func() []Replica

	// Disks and Unfinished return the datanode's disks, and blocks that were written long ago
	// and not committed; nil: it has none. They are called for each heartbeat, so they answer
	// from memory. Of the blocks, the first MaxUnfinished are sent.
	Disks      func() []muster.Disk
	Unfinished func() []muster.UnfinishedBlock
	// Order carries out an order of the service; nil refuses all. It is called for as many at a
	// time as Orders says, not twice for one order, and not for two of one container at a
	// time. ctx ends with Close, and when the service wants the order no more. What Order returns
	// is sent with the next heartbeats, until one has arrived. What it has changed is reported
	// before, as other changes are: an order is taken for done when its result has arrived, and
	// made anew if the reports do not show it.
	Order  func(ctx context.Context, o muster.Order) error
	Orders int // carried out at a time; 0: 4

	// Logger gets what goes wrong with the heartbeats and orders; nil discards.
	Logger *slog.Logger
}

// Member is a datanode that has joined.
type Member struct {
	options Options
	client  pb.DRPCLocationsClient
	cancel  context.CancelFunc
	orders  *orders
	running sync.WaitGroup // beat, answer, and orders that are carried out

	asked     chan struct{} // has room for one: the service wants a full report
	reporting chan struct{} // has room for the one report on its way: none overtakes another

	mu       sync.Mutex // guards what follows; never held over a call
	known    *pb.RegisterReply
	reported error // of the last full report that was asked for
}

// The times between attempts to register.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// Join registers a datanode, and goes on trying while the service cannot be reached and ctx
// has not ended.
func Join(ctx context.Context, pool *rpc.Pool, o Options) (*Member, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Member{
		options: o, client: pb.NewDRPCLocationsClient(pool), orders: newOrders(&o),
		asked: make(chan struct{}, 1), reporting: make(chan struct{}, 1),
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := m.attempt(ctx)
		if err == nil {
			break
		}
		late := errors.Is(err, muster.ErrDeadline) && ctx.Err() == nil
		if !rpc.Retryable(err) && !late || !sleep(ctx, pause) {
			return nil, err
		}
	}
	beating, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.orders.start(beating, &m.running)
	m.running.Go(func() { m.beat(beating) })
	m.running.Go(func() { m.answer(beating) })
	return m, nil
}

// Close ends the heartbeats, and the orders that are being carried out, for which it waits. The
// service finds out by and by that the datanode is gone.
func (m *Member) Close() error {
	m.cancel()
	m.running.Wait()
	return nil
}

// Number is the datanode's in placements, for ever.
func (m *Member) Number() muster.NodeNumber {
	known := m.registered()
	return muster.NodeNumber(known.GetNumber())
}

// Rack is where the service sees the datanode.
func (m *Member) Rack() string {
	known := m.registered()
	return known.GetRack()
}

func (m *Member) registered() *pb.RegisterReply {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known
}

// attempt is register, and not for ever.
func (m *Member) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.register(ctx)
}

func (m *Member) register(ctx context.Context) error {
	o := &m.options
	known, err := m.client.Register(ctx, &pb.RegisterRequest{
		Id: o.ID, Host: o.Host, Address: o.Address, Port: uint32(o.Port), HttpPort: uint32(o.HTTPPort), Rack: o.Rack,
	})
	if err != nil {
		return fmt.Errorf("register datanode %.64q: %w", o.ID, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = known
	return nil
}

// The bounds of the time between heartbeats, whatever the service says.
const (
	shortestInterval = time.Millisecond
	longestInterval  = time.Minute
)

// beat sends heartbeats until ctx ends.
func (m *Member) beat(ctx context.Context) {
	for failing := false; ; {
		interval := time.Duration(m.registered().GetHeartbeatMs()) * time.Millisecond
		if !sleep(ctx, min(max(interval, shortestInterval), longestInterval)) {
			return
		}
		err := m.heartbeat(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && !failing:
			m.options.Logger.Warn("the location service does not hear this datanode", "error", err)
		case err == nil && failing:
			m.options.Logger.Info("the location service hears this datanode again")
		}
		failing = err != nil
	}
}

// The bounds of a heartbeat with what follows from it at once, and of a report. A
// service that takes longer is tried again.
const (
	callTimeout   = 10 * time.Second
	reportTimeout = time.Minute
)

// heartbeat sends one, and does what the service asks for, or has it done. It also fails if
// the last full report did.
func (m *Member) heartbeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	known := m.registered()
	request := &pb.HeartbeatRequest{Number: known.GetNumber(), Session: known.GetSession(), Results: m.orders.ended()}
	m.describe(request)
	reply, err := m.client.Heartbeat(ctx, request)
	if err != nil {
		m.orders.unheard()
	}
	switch {
	case errors.Is(err, muster.ErrNotFound):
		return m.register(ctx) // the next one brings the wish for a report
	case err != nil:
		return fmt.Errorf("heartbeat: %w", err)
	}
	m.orders.told(request.GetResults())
	m.orders.wanted(reply.GetOrders())
	if !reply.GetReport() {
		return nil
	}
	select {
	case m.asked <- struct{}{}:
	default:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reported
}

// MaxUnfinished bounds the unfinished blocks of a heartbeat.
const MaxUnfinished = 1000

// describe says in a heartbeat how the datanode is.
func (m *Member) describe(r *pb.HeartbeatRequest) {
	o := &m.options
	if o.Disks != nil {
		r.Disks = rpc.DisksToPB(o.Disks())
	}
	if o.Unfinished == nil {
		return
	}
	blocks := o.Unfinished()
	for i := range blocks[:min(MaxUnfinished, len(blocks))] {
		r.Unfinished = append(r.Unfinished, rpc.UnfinishedToPB(&blocks[i]))
	}
}

// answer sends the full reports that the service asks for, until ctx ends. One that fails is
// asked for again.
func (m *Member) answer(ctx context.Context) {
	for {
		select {
		case <-m.asked:
		case <-ctx.Done():
			return
		}
		err := m.ReportAll(ctx)
		if errors.Is(err, muster.ErrNotFound) {
			err = nil // a heartbeat finds that out, too
		}
		m.mu.Lock()
		m.reported = err
		m.mu.Unlock()
		select {
		case <-m.asked: // meanwhile, for this report; for another one a heartbeat asks again
		default:
		}
	}
}

// ReportAll reports all containers of the datanode, at once. It is also done whenever the
// service asks for it.
func (m *Member) ReportAll(ctx context.Context) error {
	_, err := m.report(ctx, true, m.options.Replicas)
	return err
}

// Report reports what has changed: replicas that are new, closed or gone. It returns how
// many of them are of containers that the service does not know. A service that was
// restarted gets all containers instead.
func (m *Member) Report(ctx context.Context, changes []Replica) (unknown uint64, err error) {
	unknown, err = m.report(ctx, false, func() []Replica { return changes })
	if !errors.Is(err, muster.ErrNotFound) {
		return unknown, err
	}
	if err := m.attempt(ctx); err != nil {
		return 0, err
	}
	return m.report(ctx, true, m.options.Replicas)
}

// report sends a report of what replicas returns, when the one before it is done.
func (m *Member) report(ctx context.Context, full bool, replicas func() []Replica) (unknown uint64, err error) {
	select {
	case m.reporting <- struct{}{}:
		defer func() { <-m.reporting }()
	case <-ctx.Done():
		return 0, fmt.Errorf("report: %w", ctx.Err())
	}
	var list []Replica
	if replicas != nil {
		list = replicas()
	}
	if unknown, err = m.send(ctx, full, list); err != nil {
		return 0, fmt.Errorf("report: %w", err)
	}
	return unknown, nil
}

// reportChunk is how many replicas go into one message.
const reportChunk = 10_000

// send sends a report, in as many messages as it takes.
func (m *Member) send(ctx context.Context, full bool, replicas []Replica) (unknown uint64, err error) {
	known := m.registered()
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	stream, err := m.client.Report(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = stream.Close() }() // the answer says how it went
	for message := (&pb.ReportRequest{Number: known.GetNumber(), Session: known.GetSession(), Full: full}); !message.GetLast(); {
		n := min(len(replicas), reportChunk)
		message.Replicas, message.Last = toPB(replicas[:n]), n == len(replicas)
		replicas = replicas[n:]
		if err := stream.Send(message); errors.Is(err, io.EOF) {
			break // the service has answered already
		} else if err != nil {
			return 0, err
		}
	}
	reply, err := stream.CloseAndRecv()
	if err != nil {
		return 0, err
	}
	return reply.GetUnknown(), nil
}

func toPB(replicas []Replica) []*pb.Replica {
	messages, list := make([]pb.Replica, len(replicas)), make([]*pb.Replica, len(replicas))
	for i, r := range replicas {
		m := &messages[i]
		m.Container, m.Index, m.Closed, m.Gone = r.Container, uint32(r.Index), r.Closed, r.Gone
		m.Blocks, m.Bytes, m.Damaged = r.Blocks, r.Bytes, r.Damaged
		list[i] = m
	}
	return list
}

// sleep waits for d, or returns false when ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

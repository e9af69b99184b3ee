package member

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// The bounds of orders: of those carried out at a time, if Options do not say, and of those that
// wait. More come again with later heartbeats.
const (
	defaultOrders = 4
	maxWaiting    = 1000
)

// orders are what the service wants to be carried out. What it said last is what it wants: an order
// that is not named any more is not begun, or ends. Nothing is begun by a datanode that the service
// does not hear.
type orders struct {
	carry   func(context.Context, muster.Order) error // nil: none is carried out
	most    int                                       // carried out at a time
	logger  *slog.Logger
	serving context.Context // set before the first heartbeat: ends with the member
	group   *sync.WaitGroup // of the member

	mu      sync.Mutex // guards what follows
	waiting []muster.Order
	running map[uint64]work
	results []*pb.OrderResult // of which the service has not been told
}

// work is an order that is being carried out.
type work struct {
	container uint64
	cancel    context.CancelFunc
}

func newOrders(o *Options) *orders {
	s := &orders{carry: o.Order, most: o.Orders, logger: o.Logger, running: map[uint64]work{}}
	if s.most <= 0 {
		s.most = defaultOrders
	}
	return s
}

// start says until when orders are carried out, and who waits for them.
func (s *orders) start(serving context.Context, group *sync.WaitGroup) {
	s.serving, s.group = serving, group
}

// wanted notes all orders that the service wants to be carried out.
func (s *orders) wanted(list []*pb.Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named := map[uint64]struct{}{}
	s.waiting = nil
	for _, m := range list[:min(maxWaiting, len(list))] {
		named[m.GetId()] = struct{}{}
		if !s.knows(m.GetId()) {
			s.add(m)
		}
	}
	for id, w := range s.running {
		if _, still := named[id]; !still {
			w.cancel()
		}
	}
	s.begin()
}

// unheard notes that the service cannot be heard.
func (s *orders) unheard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = nil
}

// knows says whether an order has been begun. The caller holds mu.
func (s *orders) knows(id uint64) bool {
	_, running := s.running[id]
	return running || slices.ContainsFunc(s.results, func(r *pb.OrderResult) bool { return r.GetId() == id })
}

// add has an order wait, or refuses it. The caller holds mu.
func (s *orders) add(m *pb.Order) {
	o, err := rpc.OrderFromPB(m)
	if err == nil && s.carry == nil {
		err = fmt.Errorf("%w: this datanode carries out no orders", muster.ErrInvalid)
	}
	if err != nil {
		s.end(m.GetId(), err)
		return
	}
	s.waiting = append(s.waiting, o)
}

// begin begins orders that wait, but none for a container that is worked on. The caller holds mu.
func (s *orders) begin() {
	busy := map[uint64]struct{}{}
	for _, w := range s.running {
		busy[w.container] = struct{}{}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(o muster.Order) bool {
		if _, is := busy[o.Container]; is || len(s.running) >= s.most || s.serving.Err() != nil {
			return false
		}
		busy[o.Container] = struct{}{}
		ctx, cancel := context.WithCancel(s.serving)
		s.running[o.ID] = work{o.Container, cancel}
		s.group.Go(func() {
			defer cancel()
			s.carryOut(ctx, o)
		})
		return true
	})
}

// carryOut carries an order out, and begins the next one.
func (s *orders) carryOut(ctx context.Context, o muster.Order) {
	err := s.carry(ctx, o)
	withdrawn := ctx.Err() != nil
	if err != nil && !withdrawn {
		s.logger.Warn("an order could not be carried out", "order", o.ID, "kind", o.Kind, "container", o.Container, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, o.ID)
	if !withdrawn {
		s.end(o.ID, err)
	}
	s.begin()
}

// end notes how an order ended. The caller holds mu.
func (s *orders) end(id uint64, err error) {
	code, text := rpc.ToStatus(err)
	s.results = append(s.results, &pb.OrderResult{Id: id, Code: code, Message: text})
}

// ended returns the results that the service is to be told of. Only heartbeats call it and told, one
// after another.
func (s *orders) ended() []*pb.OrderResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[:len(s.results):len(s.results)]
}

// told notes that the service has the results that ended returned.
func (s *orders) told(results []*pb.OrderResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = s.results[len(results):]
}

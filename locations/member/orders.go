package member

import (
	"context"
	"fmt"
	"log/slog"
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

// orders are the orders of the service that a datanode has not done with.
type orders struct {
	carry   func(context.Context, muster.Order) error // nil: none is carried out
	workers int
	logger  *slog.Logger
	waiting chan muster.Order

	mu      sync.Mutex // guards what follows
	known   map[uint64]struct{}
	results []*pb.OrderResult // of which the service has not been told; they stay known
}

func newOrders(o *Options) *orders {
	s := &orders{carry: o.Order, workers: o.Orders, logger: o.Logger, waiting: make(chan muster.Order, maxWaiting), known: map[uint64]struct{}{}}
	if s.workers <= 0 {
		s.workers = defaultOrders
	}
	return s
}

// start has orders carried out until ctx ends.
func (s *orders) start(ctx context.Context, running *sync.WaitGroup) {
	if s.carry == nil {
		return
	}
	for range s.workers {
		running.Go(func() { s.work(ctx) })
	}
}

func (s *orders) work(ctx context.Context) {
	for {
		select {
		case o := <-s.waiting:
			err := s.carry(ctx, o)
			if ctx.Err() != nil {
				return // it ended unfinished, and nobody is told any more
			}
			s.end(o.ID, err)
			if err != nil {
				s.logger.Warn("an order could not be carried out", "order", o.ID, "kind", o.Kind, "container", o.Container, "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// take has orders carried out that are new.
func (s *orders) take(list []*pb.Order) {
	for _, m := range list {
		if !s.note(m.GetId()) {
			continue
		}
		o, err := rpc.OrderFromPB(m)
		if err == nil && s.carry == nil {
			err = fmt.Errorf("%w: this datanode carries out no orders", muster.ErrInvalid)
		}
		if err != nil {
			s.end(m.GetId(), err)
			continue
		}
		select {
		case s.waiting <- o:
		default:
			s.forget(o.ID)
		}
	}
}

// note says whether an order is new, and knows it from now on.
func (s *orders) note(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.known[id]
	s.known[id] = struct{}{}
	return !known
}

func (s *orders) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
}

func (s *orders) end(id uint64, err error) {
	code, text := rpc.ToStatus(err)
	s.mu.Lock()
	defer s.mu.Unlock()
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
	for _, r := range results {
		delete(s.known, r.GetId())
	}
	s.results = s.results[len(results):]
}

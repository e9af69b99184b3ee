package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/locations/member"
)

// reports tell the location service which containers the datanode has, as they change.
type reports struct {
	blocks *store.Store
	member *member.Member // set by start

	turn   chan struct{} // has room for the one who reports
	missed bool          // changes did not arrive: all is to be reported. Of whoever has the turn
}

func newReports(blocks *store.Store) *reports {
	return &reports{blocks: blocks, turn: make(chan struct{}, 1)}
}

// all returns all containers, for a full report.
func (r *reports) all() []member.Replica {
	containers := r.blocks.Containers()
	list := make([]member.Replica, len(containers))
	for i := range containers {
		list[i] = replicaOf(&containers[i])
	}
	return list
}

func replicaOf(c *store.Container) member.Replica {
	return member.Replica{Container: c.ID, Closed: c.Closed, Blocks: c.Blocks, Bytes: c.Bytes, Damaged: c.Damaged}
}

// reportPause is the time between two reports of changes: containers that are being written
// change with each block.
const reportPause = 250 * time.Millisecond

// start reports changes until stop is called, which waits for the last report.
func (r *reports) start(m *member.Member, log *slog.Logger) (stop func()) {
	r.member = m
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.follow(ctx, log) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (r *reports) follow(ctx context.Context, log *slog.Logger) {
	pause := time.NewTicker(reportPause)
	defer pause.Stop()
	for {
		select {
		case <-r.blocks.Changes():
		case <-ctx.Done():
			return
		}
		for failing := false; ; failing = true {
			err := r.changes(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			if !failing {
				log.Warn("the location service does not learn what has changed on this datanode; it will be told", "error", err)
			}
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// changes reports what has changed since the report before. It returns when that has arrived.
func (r *reports) changes(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	changes := r.blocks.TakeChanges()
	if r.missed {
		if err := r.member.ReportAll(ctx); err != nil {
			return err
		}
		r.missed = false
		return nil
	}
	if len(changes) == 0 {
		return nil
	}
	list := make([]member.Replica, len(changes))
	for i := range changes {
		list[i] = replicaOf(&changes[i].Container)
		list[i].Gone = changes[i].Gone
	}
	_, err := r.member.Report(ctx, list)
	r.missed = err != nil
	return err
}

package registry

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
)

// Imported is a container that has blocks already.
type Imported struct {
	Container   uint64 // its id, which no other has
	Replication muster.Replication
	Closed      bool
	Members     []muster.NodeNumber // as many as the replication has nodes; erasure-coded: by replica index
	NextLocalID uint64              // no block has this local id or a higher one; 0: 1
}

// MaxImport bounds the containers of one Import.
const MaxImport = 20_000

// Import makes many containers known at once, all or none. ErrExists: one of the ids is taken.
func (r *Registry) Import(ctx context.Context, all []Imported) error {
	if err := r.alive(); err != nil {
		return err
	}
	if len(all) > MaxImport {
		return fmt.Errorf("%w: import %d containers, at most %d at once", muster.ErrLimit, len(all), MaxImport)
	}
	made, err := imported(all)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	err = r.writer.do(ctx, func(b *batch) (func(), error) { return r.planImport(b, made) })
	if err != nil {
		return fmt.Errorf("import %d containers: %w", len(all), err)
	}
	return nil
}

// imported checks what can be checked of the containers alone, and copies them.
func imported(all []Imported) ([]*container, error) {
	made := make([]*container, len(all))
	named := make(map[uint64]struct{}, len(all))
	for i, c := range all {
		if c.Container == 0 || c.Container > maxContainer {
			return nil, fmt.Errorf("%w: no container has the id %d", muster.ErrInvalid, c.Container)
		}
		if _, again := named[c.Container]; again {
			return nil, fmt.Errorf("%w: container %d is named twice", muster.ErrInvalid, c.Container)
		}
		named[c.Container] = struct{}{}
		record := containerRecord{replication: c.Replication, closed: c.Closed, reserved: max(1, c.NextLocalID), members: append([]muster.NodeNumber(nil), c.Members...)}
		if err := record.check(); err != nil {
			return nil, fmt.Errorf("%w: container %d: %v", muster.ErrInvalid, c.Container, err)
		}
		made[i] = &container{id: c.Container, containerRecord: record, next: record.reserved}
	}
	return made, nil
}

func (r *Registry) planImport(b *batch, made []*container) (func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.counters
	for _, c := range made {
		if r.containers[c.id] != nil {
			return nil, fmt.Errorf("%w: container %d", muster.ErrExists, c.id)
		}
		for _, m := range c.members {
			if int(m) >= len(r.nodes) {
				return nil, fmt.Errorf("%w: container %d: there is no datanode %d", muster.ErrInvalid, c.id, m)
			}
		}
		b.container(c.id, &c.containerRecord)
		next.next = max(next.next, c.id+1)
	}
	if next != r.counters {
		b.counters(next)
	}
	return func() {
		r.counters = next
		for _, c := range made {
			c.since = r.seq
			r.add(c)
		}
	}, nil
}

package registry

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/muster-fs/muster"
)

// A datanode that is ordered to copy a container may have a replica from then on, whatever becomes of
// the order, and whether or not its reports arrive. So that this is not forgotten with the order, or
// by a restart, it is durable before the datanode hears of the order: it is a target of the container.
// It stays one until it serves again, and has nothing of the container for long.

// A target's key has all there is to know; its value is empty:
//
//	't' | container u64 | datanode u32
const targetKeyLen = 13

func targetKey(container uint64, n muster.NodeNumber) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte{tagTarget}, container), uint32(n))
}

func (r *Registry) loadTarget(key, value []byte) error {
	if len(value) > 0 {
		return corrupt("target %x: a value of %d bytes", key, len(value))
	}
	container := binary.BigEndian.Uint64(key[1:])
	r.targets[container] = append(r.targets[container], muster.NodeNumber(binary.BigEndian.Uint32(key[9:])))
	return nil
}

// target is a datanode that was ordered to copy a container.
type target struct {
	container uint64
	node      muster.NodeNumber
}

// giveAll gives orders, once it is durable where copies may come to be, and forgets targets that have
// nothing. If it fails, since the registry has, nothing is ordered.
func (r *Registry) giveAll(ctx context.Context, orders []*order, idle []target) {
	if len(orders)+len(idle) == 0 {
		return
	}
	_ = r.writer.do(ctx, func(b *batch) (func(), error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		var come []target
		for _, o := range orders {
			if t := (target{o.container, o.target}); o.kind == muster.OrderCopy && !r.mayGet(t) {
				come = append(come, t)
				b.set(targetKey(t.container, t.node), nil)
			}
		}
		for _, t := range idle {
			b.delete(targetKey(t.container, t.node))
		}
		return func() {
			for _, t := range come {
				r.targets[t.container] = append(r.targets[t.container], t.node)
			}
			r.forgetTargets(idle)
			for _, o := range orders {
				r.give(o)
			}
		}, nil
	})
}

// mayGet says whether it is durable that a datanode may get a replica. The caller holds mu.
func (r *Registry) mayGet(t target) bool {
	return slices.Contains(r.containers[t.container].members, t.node) || slices.Contains(r.targets[t.container], t.node)
}

// forgetTargets forgets what is not durable any more. The caller holds mu.
func (r *Registry) forgetTargets(some []target) {
	for _, t := range some {
		left := slices.DeleteFunc(r.targets[t.container], func(n muster.NodeNumber) bool { return n == t.node })
		if r.targets[t.container] = left; len(left) == 0 {
			delete(r.targets, t.container)
		}
	}
}

// idleTargets appends the targets of a container that have nothing of it, and will not get anything:
// they serve, and no order to them has ended for so long that they have heard of the end, and have
// reported what came of it. The caller holds mu, and the planning is of now.
func (r *Registry) idleTargets(dst []target, c *container, p *planning, m *memory) []target {
	if p.now.Sub(r.started) < r.opts.OrderTimeout {
		return dst // orders may be under way that were given before
	}
	for _, n := range r.targets[c.id] {
		there := c.of(n)
		switch {
		case !p.sites[n].serves() || there != nil && there.counts(r.nodes[n]):
		case slices.ContainsFunc(r.orders.of[c.id], func(o *order) bool { return o.target == n }):
		case slices.ContainsFunc(m.ended, func(e ending) bool { return e.node == n }):
		default:
			dst = append(dst, target{c.id, n})
		}
	}
	return dst
}

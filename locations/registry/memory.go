package registry

import (
	"time"

	"github.com/muster-fs/muster"
)

// memory is what planning remembers of a container.
type memory struct {
	short   []moment  // replicas that have too few blocks, and since when
	crowded time.Time // since when there are too many replicas; zero: there are not
	ended   []ending  // orders that have ended not long ago
}

// ending is when a datanode ended an order last, and how many in succession.
type ending struct {
	node  muster.NodeNumber
	at    time.Time
	times int
}

// moment is a time on a datanode.
type moment struct {
	node muster.NodeNumber
	at   time.Time
}

func (m *memory) empty() bool {
	return len(m.short) == 0 && len(m.ended) == 0 && m.crowded.IsZero()
}

// end notes that a datanode has ended an order.
func (m *memory) end(n muster.NodeNumber, now time.Time) {
	for i := range m.ended {
		if e := &m.ended[i]; e.node == n {
			e.at = now
			e.times++
			return
		}
	}
	m.ended = append(m.ended, ending{n, now, 1})
}

// shortSince returns since when a replica has been short, which is now if that is new.
func (m *memory) shortSince(n muster.NodeNumber, now time.Time) time.Time {
	for _, s := range m.short {
		if s.node == n {
			return s.at
		}
	}
	m.short = append(m.short, moment{n, now})
	return now
}

package registry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/muster-fs/muster"
)

// TestPlans follows the transcripts. Their commands:
//
//	nodes               a line each: NAME RACK [STATE|full|unreported|away] [free=BYTES]
//	bounds copies=N per-node=N
//	container id=N replicas=N
//	                    a line for each replica: NAME BLOCKS [damaged=N], or NAME presumed
//	plan [after=TIME]   decides what all containers need
//	end id=N node=NAME [failed]
//	                    ends the order of a datanode for a container, and does what it says
func TestPlans(t *testing.T) {
	datadriven.Walk(t, "testdata/plans", func(t *testing.T, path string) {
		s := planScript{numbers: map[string]muster.NodeNumber{}, subjects: map[uint64]*subject{}}
		s.now = time.Unix(0, 0)
		s.bounds = bounds{copies: defaultMaxCopies, copiesPerNode: defaultMaxCopiesPerNode, timeout: defaultOrderTimeout, grace: defaultReplicaGrace}
		datadriven.RunTest(t, path, s.run)
	})
}

type planScript struct {
	planning
	names    []string
	numbers  map[string]muster.NodeNumber
	subjects map[uint64]*subject
}

func (s *planScript) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "nodes":
		for line := range strings.SplitSeq(d.Input, "\n") {
			s.node(t, strings.Fields(line))
		}
	case "bounds":
		d.ScanArgs(t, "copies", &s.bounds.copies)
		d.ScanArgs(t, "per-node", &s.bounds.copiesPerNode)
	case "container":
		s.container(t, d)
	case "plan":
		if d.HasArg("after") {
			var after string
			d.ScanArgs(t, "after", &after)
			wait, err := time.ParseDuration(after)
			if err != nil {
				t.Fatal(err)
			}
			s.now = s.now.Add(wait)
		}
		return s.plan()
	case "end":
		s.end(t, d)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return ""
}

func (s *planScript) node(t *testing.T, words []string) {
	number, known := s.numbers[words[0]]
	if !known {
		number = muster.NodeNumber(len(s.sites))
		s.numbers[words[0]] = number
		s.names, s.sites = append(s.names, words[0]), append(s.sites, site{})
	}
	n := &s.sites[number]
	before := *n
	*n = site{rack: words[1], reported: true, current: true, room: true, sources: before.sources, targets: before.targets, drops: before.drops}
	for _, w := range words[2:] {
		switch w {
		case "draining":
			n.wanted = muster.Draining
		case "maintenance":
			n.wanted = muster.Maintenance
		case "stale":
			n.health = muster.Stale
		case "dead":
			n.health, n.current = muster.Dead, false
		case "full":
			n.room = false
		case "unreported":
			n.reported, n.current = false, false
		case "away":
			n.current = false
		default:
			free, isFree := strings.CutPrefix(w, "free=")
			bytes, err := strconv.ParseUint(free, 10, 64)
			if !isFree || err != nil {
				t.Fatalf("node %v: %s", words, w)
			}
			n.free = bytes
		}
	}
}

func (s *planScript) container(t *testing.T, d *datadriven.TestData) {
	var id uint64
	var need int
	d.ScanArgs(t, "id", &id)
	d.ScanArgs(t, "replicas", &need)
	c := s.subjects[id]
	if c == nil {
		c = &subject{container: id, need: need, memory: &memory{}}
		s.subjects[id] = c
	}
	c.holdings = nil
	for line := range strings.SplitSeq(d.Input, "\n") {
		words := strings.Fields(line)
		h := holding{node: s.numbers[words[0]], presumed: words[1] == "presumed"}
		if !h.presumed {
			h.blocks = number(t, words[1])
		}
		if len(words) > 2 {
			h.damaged = number(t, strings.TrimPrefix(words[2], "damaged="))
		}
		c.holdings = append(c.holdings, h)
	}
}

func number(t *testing.T, s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// plan does what a pass of the registry does, and tells it.
func (s *planScript) plan() string {
	var told strings.Builder
	var ids []uint64
	for id := range s.subjects {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		c := s.subjects[id]
		d := s.decide(c)
		for _, o := range d.withdraw {
			fmt.Fprintf(&told, "%d: do not %s on %s\n", id, o.kind, s.names[o.target])
			s.forget(c, o)
		}
		for _, o := range d.orders {
			if o.kind == muster.OrderDrop {
				fmt.Fprintf(&told, "%d: drop on %s\n", id, s.names[o.target])
			} else {
				fmt.Fprintf(&told, "%d: copy to %s from %s\n", id, s.names[o.target], strings.Join(s.named(o.sources), ", "))
			}
		}
		c.orders = append(c.orders, d.orders...)
		if d.missing > 0 || d.surplus > 0 || d.lost {
			fmt.Fprintf(&told, "%d:   missing %d, surplus %d, lost %v, under way %d\n", id, d.missing, d.surplus, d.lost, len(c.orders))
		}
	}
	return told.String()
}

func (s *planScript) named(nodes []muster.NodeNumber) (names []string) {
	for _, n := range nodes {
		names = append(names, s.names[n])
	}
	return names
}

// forget takes an order from those under way.
func (s *planScript) forget(c *subject, o *order) {
	c.orders = slices.DeleteFunc(slices.Clone(c.orders), func(x *order) bool { return x == o })
	c.memory.end(o.target, s.now)
	if o.kind == muster.OrderDrop {
		s.drops--
		s.sites[o.target].drops--
		return
	}
	s.copies--
	s.sites[o.target].targets--
	s.sites[o.sources[0]].sources--
}

func (s *planScript) end(t *testing.T, d *datadriven.TestData) {
	var id uint64
	var name string
	d.ScanArgs(t, "id", &id)
	d.ScanArgs(t, "node", &name)
	c, n := s.subjects[id], s.numbers[name]
	at := slices.IndexFunc(c.orders, func(o *order) bool { return o.target == n })
	if at < 0 {
		d.Fatalf(t, "%s has no order for container %d", name, id)
	}
	o := c.orders[at]
	s.forget(c, o)
	if d.HasArg("failed") {
		return
	}
	c.holdings = slices.DeleteFunc(c.holdings, func(h holding) bool { return h.node == n })
	if o.kind == muster.OrderCopy {
		best := slices.MaxFunc(c.holdings, func(a, b holding) int { return int(a.blocks) - int(b.blocks) })
		c.holdings = append(c.holdings, holding{node: n, blocks: best.blocks})
	}
}

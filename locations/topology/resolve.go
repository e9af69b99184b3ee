package topology

import "github.com/muster-fs/muster"

// resolution is what a tree knows of a host.
type resolution struct {
	at    int32               // location of the host, or nearest to it; detached: unknown
	self  muster.NodeNumber   // the node that it is; NoNode: none
	local []muster.NodeNumber // if it is several: all of them
}

// resolve finds a host: a node by its id, or nodes by host name or address; a network
// location; a host that the mapping lists. A location without nodes is taken for the
// nearest one above it that has some.
func (t *Tree) resolve(host string) resolution {
	r := resolution{detached, muster.NoNode, nil}
	if number, found := t.byID[host]; found {
		r.self, r.at = number, t.at[number]
		return r
	}
	if numbers := t.byHost[hostKey(host)]; len(numbers) > 0 {
		return t.machine(numbers)
	}
	location := host
	if len(host) == 0 || host[0] != '/' {
		rack, listed := t.mapping.Rack(host)
		if !listed {
			return r
		}
		location = rack
	}
	if path, err := t.schema.Locate(location); err == nil {
		location = path
	}
	r.at = t.nearest(location)
	return r
}

// machine is the resolution of a host with nodes. Its place is that of the first node that
// has one.
func (t *Tree) machine(numbers []muster.NodeNumber) resolution {
	r := resolution{detached, numbers[0], nil}
	for _, n := range numbers {
		if at := t.at[n]; at >= 0 {
			r.self, r.at = n, at
			break
		}
	}
	if len(numbers) > 1 {
		r.local = numbers
	}
	return r
}

// nearest returns the location of a path, or the nearest above it; detached if it is none.
func (t *Tree) nearest(path string) int32 {
	path, err := muster.CleanRack(path)
	if err != nil {
		return detached
	}
	for {
		if at, found := t.byPath[path]; found {
			return at
		}
		path = parentPath(path)
	}
}

// point returns what is at a location without being a node: a client in a rack, or the
// location itself if it is none.
func (t *Tree) point(at int32) Point {
	if l := &t.locations[at]; !t.isRack(at) {
		return Point{locationPoint, l.path, t, at}
	}
	return Point{clientPoint, t.locations[at].path, t, at}
}

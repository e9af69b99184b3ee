package namespace

import (
	"strings"

	"github.com/zeebo/xxh3"
)

// memo remembers directories that a walker passed, by the paths that led to them, so that paths
// in any order share the walks of their directories. Each has one place, where the last one
// that comes stays. The zero value is ready.
type memo struct {
	places []memory
	used   []uint8 // places that are taken
	nodes  int     // of the walker, that a place may refer to
}

type memory struct {
	path string
	step step
}

const (
	memoPlaces = 128
	memoDepth  = 32 // components of a path past which nobody looks: hashing all that leads to each of 1,000 costs more than walking
)

// forget makes m empty.
func (m *memo) forget() {
	for _, i := range m.used {
		m.places[i] = memory{}
	}
	m.used, m.nodes = m.used[:0], 0
}

// place returns where a path belongs.
func (m *memo) place(path string) uint8 {
	return uint8(xxh3.HashString(path) % memoPlaces)
}

// note remembers what a path led to.
func (m *memo) note(path string, at step) {
	if m.places == nil {
		m.places = make([]memory, memoPlaces)
	}
	i := m.place(path)
	if m.places[i].path == "" {
		m.used = append(m.used, i)
	}
	m.places[i] = memory{path, at}
	m.nodes = max(m.nodes, at.nodes)
}

// deepest finds the longest path known to a directory on the way to a clean path, if it is longer
// than some bytes and not far from the path's end.
func (m *memo) deepest(clean string, than int) (step, bool) {
	if m.nodes == 0 {
		return step{}, false
	}
	end := len(clean)
	for range memoDepth {
		if end = strings.LastIndexByte(clean[:end], '/'); end <= than {
			break
		}
		if at := &m.places[m.place(clean[:end])]; at.path == clean[:end] {
			return at.step, true
		}
	}
	return step{}, false
}

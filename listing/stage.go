package listing

import "github.com/muster-fs/muster/namespace"

// The paths of a page are listed in stages: those of one are resolved, then their
// directories are found or loaded, all at once, then their rows are added in order. So
// look-ups wait for memory side by side, and what is not in memory is read in one pass.
const (
	stagePaths = 64 // paths of a stage, at most
	firstStage = 8  // paths of a call's first stage, when nothing is known of them
)

// stage has what the paths of a stage lead to.
type stage struct {
	resolved [stagePaths]namespace.Resolved // valid where failed is nil
	failed   [stagePaths]error
	used     int // the largest stage since reset
}

func (s *stage) reset() {
	clear(s.resolved[:s.used])
	clear(s.failed[:s.used])
	s.used = 0
}

// stageSize is the number of paths that the next stage takes: as many as the page has
// room for, going by the paths before. More would be loaded for nothing.
func (c *collector) stageSize() int {
	return min(max(1, min(c.left.entries/c.perPath.entries, c.left.locations/c.perPath.locations)), stagePaths)
}

// resolve resolves paths, which are a stage, and loads what they lead to. Failures wait
// for their path's turn.
func (c *collector) resolve(r *namespace.Reader, paths []string) {
	s := &c.stage
	s.used = max(s.used, len(paths))
	r.ResolveAll(paths, !c.options.Own || c.options.Follow, s.resolved[:], s.failed[:])
	if !c.options.Own {
		r.Load(s.resolved[:len(paths)])
	}
}

// expect learns from a stage, which took so much, what a path has.
func (c *collector) expect(took bounds, paths int) {
	c.perPath.entries = max(1, (took.examined+paths-1)/paths)
	c.perPath.locations = max(1, (took.locations+paths-1)/paths)
}

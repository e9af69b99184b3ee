package listing

import "testing"

// However fast paths come, a stream takes no more than its bound and one chunk before it
// lists them.
func TestStreamTakesNoMorePathsThanItsBound(t *testing.T) {
	f := &feed{chunks: make(chan []string, 100)}
	for range cap(f.chunks) {
		f.chunks <- make([]string, 10)
	}
	s := &stream{lister: &Lister{config: Config{MaxPaths: 45}}, feed: f}
	if err := s.fill(t.Context()); err != nil || len(s.waiting) != 50 {
		t.Errorf("%d paths wait, %v", len(s.waiting), err)
	}
}

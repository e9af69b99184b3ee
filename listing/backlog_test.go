package listing

import (
	"strings"
	"testing"
)

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

// Nor more bytes of them, of which many may be in few paths; room comes back as they are
// listed.
func TestStreamTakesNoMoreBytesOfPathsThanItsBound(t *testing.T) {
	f := &feed{chunks: make(chan []string, 100)}
	for range cap(f.chunks) {
		f.chunks <- []string{strings.Repeat("x", backlogBytes/4), "y"}
	}
	s := &stream{lister: &Lister{config: Config{MaxPaths: 1000}}, feed: f}
	for range 10 {
		if err := s.fill(t.Context()); err != nil || len(s.waiting) != 8 {
			t.Fatalf("%d paths of %d bytes wait, %v", len(s.waiting), s.backlog, err)
		}
		s.drop(6)
		if want := backlogBytes/4 + 1; len(s.waiting) != 2 || s.backlog != want {
			t.Fatalf("%d paths of %d bytes are left, want %d", len(s.waiting), s.backlog, want)
		}
	}
}

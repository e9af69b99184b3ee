package namespace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

// TestEveryPathResolvesAsIfItWereTheFirst: what a reader remembers of the paths before, whatever they
// were, changes no answer and no message.
func TestEveryPathResolvesAsIfItWereTheFirst(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	user := muster.Identity{User: "u", Groups: []string{"g"}}
	components := []string{"a", "ab", "a.", ".a", "é", "l", "m", "up", "loop", "no", "gone", "f", "abc"}
	for _, o := range []Options{{ImageBytes: 1}, {ImageBytes: 1 << 20}, {ImageBytes: 1 << 20, imageRows: 2}, {ImageBytes: 6 << 10, imageRows: 2}} {
		tree := openMem(t, o)
		random := func() string {
			var b strings.Builder
			for range 1 + rng.IntN(4) {
				b.WriteString([]string{"/", "/", "/", "//"}[rng.IntN(4)])
				b.WriteString(components[rng.IntN(len(components))])
			}
			if rng.IntN(10) == 0 {
				b.WriteString([]string{"/", "/.", "/..", "\x00", "\xff"}[rng.IntN(5)])
			}
			return b.String()
		}
		for range 300 {
			var c muster.Command = muster.Mkdir{Path: random(), Mode: []uint16{0o755, 0o755, 0o700, 0o744, 0o711}[rng.IntN(5)]}
			switch rng.IntN(6) {
			case 0:
				c = muster.Create{Path: random()}
			case 1:
				c = muster.Symlink{Path: random(), Target: []string{random(), "..", ".", "../..", "a/../ab", "loop", "a//./l"}[rng.IntN(7)]}
			}
			tryApply(t, tree, c) // many are refused
		}
		sorted := slices.Sorted(slices.Values(components))
		last := "/a"
		reading(t, tree, user, func(long *Reader) {
			for range 1000 {
				paths := []string{random(), random()}
				if rng.IntN(2) == 0 { // siblings, in order but for the last one
					dir := last[:strings.LastIndexByte(last, '/')+1]
					for _, name := range append(sorted, components[rng.IntN(len(components))]) {
						if rng.IntN(3) > 0 {
							paths = append(paths, dir+name)
						}
					}
				}
				last = paths[rng.IntN(len(paths))]
				follow := rng.IntN(2) == 0
				all, errs := make([]Resolved, len(paths)), make([]error, len(paths))
				long.ResolveAll(paths, follow, all, errs)
				reading(t, tree, user, func(r *Reader) {
					for i, path := range paths {
						got, err := all[i], errs[i]
						r.images = false
						r.walk.init(r, r.walk.who)
						want, wantErr := r.Resolve(path, follow)
						r.images = long.images
						if got.id != want.id || got.kind != want.kind || got.access != want.access || got.path != want.path || string(got.row) != string(want.row) || got.held.as != unknown {
							t.Fatalf("seed %d: %q, follow %v: %+v, alone %+v (%v, %v)", seed, path, follow, got, want, err, wantErr)
						}
						if (err == nil) != (wantErr == nil) || err != nil && (err.Error() != wantErr.Error() || !errors.Is(err, errors.Unwrap(wantErr)) && errors.Unwrap(wantErr) != nil) {
							t.Fatalf("seed %d: %q, follow %v: %v, alone %v", seed, path, follow, err, wantErr)
						}
					}
				})
			}
		})
	}
}

// TestADirectoryResolvedAnewIsKept: a walk that goes on from a directory that was the end of the path
// before, over one that an earlier walk passed, still knows both.
func TestADirectoryResolvedAnewIsKept(t *testing.T) {
	tree := openMem(t, Options{ImageBytes: 1})
	mustApply(t, tree, muster.Mkdir{Path: "/a/ab/z", Parents: true}, muster.Mkdir{Path: "/a/ab/y"}, muster.Mkdir{Path: "/a/q"}, muster.Mkdir{Path: "/b"})
	reading(t, tree, root, func(r *Reader) {
		for _, path := range []string{"/a/ab/z", "/b", "/a", "/a/ab/z", "/a/ab/y", "/a/q", "/a/ab/z"} {
			if res, err := r.Resolve(path, true); err != nil || res.ID() != idOf(t, tree, path) {
				t.Errorf("%s: %d, %v", path, res.ID(), err)
			}
		}
	})
}

// TestDirectoriesThatShareAPlaceAreToldApart: a link leads the reader away to a directory whose image
// takes the place of the one that the next sibling is in.
func TestDirectoriesThatShareAPlaceAreToldApart(t *testing.T) {
	tree := openMem(t, Options{ImageBytes: 1 << 20})
	load(t, tree, "/t", parents+1, 1)
	a, b := "/t/d000000", fmt.Sprintf("/t/d%06d", parents/2) // each file has an id, too
	if idOf(t, tree, a)%parents != idOf(t, tree, b)%parents {
		t.Fatal("they do not share a place")
	}
	mustApply(t, tree, muster.Symlink{Path: b + "/l", Target: a + "/f000000"})
	warm(t, tree, "/t", a, b)
	reading(t, tree, root, func(r *Reader) {
		for _, path := range []string{a + "/f000000", b + "/f000000", b + "/l", b + "/f000000", b + "/l"} {
			want := idOf(t, tree, path)
			if res, err := r.Resolve(path, true); err != nil || res.ID() != want {
				t.Errorf("%s: %d, %v; want %d", path, res.ID(), err, want)
			}
		}
	})
}

package client_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

func ignore(string, fs.DirEntry, error) error { return nil }

// twins makes the same random tree in Muster, at /t, and on the disk.
func twins(t *testing.T, c *client.Client, random *rand.Rand) (disk string) {
	t.Helper()
	disk = t.TempDir()
	letters := []string{"a", "b", "-", "A", "é", "z=1", "x y", "%41", "b*", "[c"}
	dirs, entries := []string{"/t"}, []string{"/t/"}
	must(t, os.Mkdir(disk+"/t", 0o755))
	for range 400 {
		path := dirs[random.IntN(len(dirs))] + "/" + letters[random.IntN(len(letters))] + letters[random.IntN(len(letters))]
		if slices.ContainsFunc(entries, func(e string) bool { return e == path || e == path+"/" || strings.HasPrefix(e, path+" ->") }) {
			continue
		}
		switch random.IntN(6) {
		case 0, 1, 2:
			dirs, entries = append(dirs, path), append(entries, path+"/")
			must(t, os.Mkdir(disk+path, 0o755))
		case 3:
			entries = append(entries, path+" -> nowhere")
			must(t, os.Symlink("nowhere", disk+path))
		default:
			entries = append(entries, path)
			must(t, os.WriteFile(disk+path, nil, 0o644))
		}
	}
	plant(t, c, entries...)
	return disk
}

// transcript notes the calls of a WalkDirFunc, which answers by the path's hash.
func transcript(strip string, skip uint64) (*[]string, fs.WalkDirFunc) {
	var lines []string
	return &lines, func(path string, d fs.DirEntry, err error) error {
		path = strings.TrimPrefix(path, strip)
		line := fmt.Sprintf("%q", path)
		if d != nil {
			line += fmt.Sprintf(" %s %v %v", d.Name(), d.Type(), d.IsDir())
		}
		lines = append(lines, fmt.Sprintf("%s %v", line, errors.Is(err, fs.ErrNotExist)))
		if skip == 0 {
			return nil
		}
		hash := skip
		for _, b := range []byte(path) {
			hash = hash*31 + uint64(b)
		}
		switch hash % 23 {
		case 0:
			return fs.SkipDir
		case 1:
			if len(lines) > 50 {
				return fs.SkipAll
			}
		}
		return nil
	}
}

func TestWalkDirCallsAsFilepathWalkDirDoes(t *testing.T) {
	c := connect(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	disk := twins(t, c, rand.New(rand.NewPCG(seed, 0)))
	for skip := range uint64(40) {
		for _, root := range []string{"/t", "/t/missing"} {
			want, wantFn := transcript(disk, skip)
			wantErr := filepath.WalkDir(disk+root, wantFn)
			got, gotFn := transcript("", skip)
			gotErr := c.WalkDir(t.Context(), root, gotFn)
			same(t, *got, *want)
			if gotErr != wantErr {
				t.Fatalf("got %v, want %v", gotErr, wantErr)
			}
		}
	}
}

func TestWalkDirReturnsTheErrorOfItsFunctionAndReportsThoseOfDirectories(t *testing.T) {
	c, ctx := connect(t), t.Context()
	plant(t, c, "/a/f", "/b/g", "/c/h")
	must(t, c.Chmod(ctx, "/b", 0o700))
	boom := errors.New("boom")
	if err := c.WalkDir(ctx, "/", func(path string, _ fs.DirEntry, _ error) error {
		if path == "/b" {
			return boom
		}
		return nil
	}); err != boom {
		t.Errorf("got %v", err)
	}
	var lines []string
	must(t, c.As("nobody").WalkDir(ctx, "/", func(path string, d fs.DirEntry, err error) error {
		lines = append(lines, path)
		if err != nil {
			lines = append(lines, muster.CodeOf(err).Name())
			return fs.SkipDir
		}
		return nil
	}))
	same(t, lines, []string{"/", "/a", "/a/f", "/b", "/b", "PERMISSION_DENIED", "/c", "/c/h"})
}

func TestWalkDirListsManyDirectoriesInACall(t *testing.T) {
	c, ctx := connect(t), t.Context()
	for name, shape := range map[string]struct{ dirs, files, calls int }{
		"small": {1000, 1, 20},
		"large": {50, 600, 20}, // more than one call may bring
	} {
		t.Run(name, func(t *testing.T) {
			want := []string{"/" + name}
			var entries []string
			for _, dir := range names("/"+name+"/", shape.dirs) {
				files := names(dir+"/", shape.files)
				entries = append(entries, files...)
				want = append(append(want, dir), files...)
			}
			plant(t, c, entries...)
			before := calls(t, c)
			var got []string
			must(t, c.WalkDir(ctx, "/"+name, func(path string, _ fs.DirEntry, err error) error {
				got = append(got, path)
				return err
			}))
			n := calls(t, c) - before
			same(t, got, want)
			if int(n) > shape.calls {
				t.Errorf("%v calls for %d directories", n, shape.dirs)
			}
		})
	}
}

// calls returns how many calls the server has answered, this one too.
func calls(t *testing.T, c *client.Client) float64 {
	t.Helper()
	status, err := c.Status(t.Context())
	must(t, err)
	for _, counter := range status.Counters {
		if counter.Name == "calls" {
			return counter.Value
		}
	}
	t.Fatalf("no counter of calls among %v", status.Counters)
	return 0
}

func TestWalkGivesEachEntryOnceLevelByLevel(t *testing.T) {
	c := connect(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	twins(t, c, rand.New(rand.NewPCG(seed, 1)))
	want := map[string]muster.Kind{}
	must(t, c.WalkDir(t.Context(), "/t", func(path string, d fs.DirEntry, err error) error {
		want[path] = d.(*client.Info).Entry.Kind
		return err
	}))
	delete(want, "/t") // its children are listed, not itself
	depth, outcomes := 0, 0
	for b, err := range c.Walk(t.Context(), "/t", client.ListOptions{Columns: rows.ColName}) {
		must(t, err)
		for i := range b.Len() {
			path := b.Path(i)
			if kind, ok := want[path]; !ok || kind != b.Kind(i) {
				t.Fatalf("%s %v comes twice, or is none", path, b.Kind(i))
			}
			delete(want, path)
			if n := strings.Count(path, "/"); n < depth {
				t.Fatalf("%s comes after level %d", path, depth)
			} else {
				depth = n
			}
		}
		for _, o := range b.Outcomes {
			must(t, o.Err())
			outcomes++
		}
	}
	if len(want) > 0 || outcomes == 0 {
		t.Fatalf("%d entries are missing", len(want))
	}
}

func TestWalkOfAFileAMissingRootAndAPartOnly(t *testing.T) {
	c, ctx := connect(t), t.Context()
	plant(t, c, "/d/f #3", "/d/e/", "/l -> /d")
	walk := func(root string) []string { return listed(t, c.Walk(ctx, root, client.ListOptions{})) }
	if got := walk("/d/f"); len(got) != 2 || !strings.HasPrefix(got[0], `0 "/d/f" "/d/f" file`) {
		t.Errorf("a file: %q", got)
	}
	if got := walk("/no"); len(got) != 1 || !strings.Contains(got[0], "NOT_FOUND") {
		t.Errorf("a missing root: %q", got)
	}
	if got := walk("/l"); len(got) != 4 || !strings.Contains(got[0], `"/l/e" dir`) {
		t.Errorf("a link as root: %q", got)
	}
	for range c.Walk(ctx, "/", client.ListOptions{}) {
		break
	}
}

func TestGlobFindsWhatFilepathGlobFinds(t *testing.T) {
	c := connect(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	disk := twins(t, c, rand.New(rand.NewPCG(seed, 2)))
	for _, pattern := range []string{
		"/t", "/t/*", "/t/a*", "/t/*/*", "/t/*/a?", "/*/*/*/*", "/t/[a-c]*/*é*", "/t/*/b\\*", "/t/\\[c*/*", "/t/aa/*",
		"/t/*/aa", "/t/*/aa/bb", "/t/missing", "/t/missing/*", "/t/%41*", "/t/x y*", "/", "/t/*/*/*/*", "/t/?*/?*",
	} {
		want, err := filepath.Glob(disk + pattern)
		must(t, err)
		for i := range want {
			if want[i] = strings.TrimPrefix(want[i], disk); want[i] == "" {
				want[i] = "/"
			}
		}
		got, err := c.Glob(t.Context(), pattern)
		must(t, err)
		slices.Sort(got)
		slices.Sort(want)
		same(t, got, want)
	}
	for _, pattern := range []string{"/t/[", "/t/a\\", "/t/[a-", "/t/[a/b]", "/[/t"} {
		if _, err := c.Glob(t.Context(), pattern); !errors.Is(err, path.ErrBadPattern) {
			t.Errorf("%s: got %v", pattern, err)
		}
	}
}

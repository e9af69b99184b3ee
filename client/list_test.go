package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

func TestListOfManyPathsGivesRowsAndOneOutcomeEachInOrder(t *testing.T) {
	c := connect(t)
	plant(t, c, "/a/x", "/a/y/", "/a/z -> x", "/empty/", "/file #5", "/to-a -> /a")
	paths := []string{"/a", "/no", "/empty", "/file", "//a/", "relative", "/to-a", "/a/x/below", "/a/"}
	got := listed(t, c.List(t.Context(), slices.Values(paths), client.ListOptions{}))
	for i, line := range got {
		got[i] = line[:strings.LastIndex(line, " ")] // without the ids
	}
	same(t, got, []string{
		`0 "/a" "/a/x" file`, `0 "/a" "/a/y" dir`, `0 "/a" "/a/z" link`,
		`3 "/file" "/file" file`,
		`4 "//a/" "/a/x" file`, `4 "//a/" "/a/y" dir`, `4 "//a/" "/a/z" link`,
		`6 "/to-a" "/to-a/x" file`, `6 "/to-a" "/to-a/y" dir`, `6 "/to-a" "/to-a/z" link`,
		`8 "/a/" "/a/x" file`, `8 "/a/" "/a/y" dir`, `8 "/a/" "/a/z" link`,
		`0 "/a" OK 3 rows of`, `1 "/no" NOT_FOUND 0 rows of`, `2 "/empty" OK 0 rows of`, `3 "/file" OK 1 rows of`,
		`4 "//a/" OK 3 rows of`, `5 "relative" INVALID_ARGUMENT 0 rows of`, `6 "/to-a" OK 3 rows of`,
		`7 "/a/x/below" NOT_A_DIRECTORY 0 rows of`, `8 "/a/" OK 3 rows of`,
	})
}

func TestListOfNoPathsGivesNothingWithoutACall(t *testing.T) {
	in := start(t)
	c := dial(t, in.addr(), client.Options{Attempts: 1})
	in.down() // a call would fail
	for b, err := range c.List(t.Context(), slices.Values([]string(nil)), client.ListOptions{}) {
		t.Errorf("got %v, %v", b, err)
	}
	for s, err := range c.StatAll(t.Context(), slices.Values([]string(nil))) {
		t.Errorf("got %v, %v", s, err)
	}
	if b, err := c.Page(t.Context(), nil, nil, client.ListOptions{}); err != nil || b.Len() != 0 || len(b.Outcomes) != 0 || b.Cursor != nil {
		t.Errorf("page: %v, %v", b, err)
	}
	if found, err := c.Glob(t.Context(), "relative/["); err == nil {
		t.Errorf("glob of a bad pattern: %v", found)
	}
}

func TestRowViewAgreesWithEntryAndPathForms(t *testing.T) {
	c := connect(t)
	plant(t, c, "/d/a #1", "/d/b/", "/d/c -> a", "/f #7")
	for b, err := range c.List(t.Context(), slices.Values([]string{"/d//", "/", "/f"}), client.ListOptions{Columns: rows.AllColumns}) {
		must(t, err)
		for i := range b.Len() {
			info := b.Info(i)
			if info.Path != b.Path(i) || string(b.AppendPath([]byte("> "), i)) != "> "+b.Path(i) {
				t.Errorf("row %d: path %q, appended %q, info's %q", i, b.Path(i), b.AppendPath(nil, i), info.Path)
			}
			want, err := c.Lstat(t.Context(), info.Path)
			must(t, err)
			want.Entry.Name = info.Entry.Name
			if fmt.Sprint(want.Entry) != fmt.Sprint(info.Entry) {
				t.Errorf("listed %+v, stated %+v", info.Entry, want.Entry)
			}
		}
	}
}

func TestRowViewAllocatesNothing(t *testing.T) {
	c := connect(t)
	plant(t, c, names("/d/file", 500)...)
	var batches []*client.Batch
	for b, err := range c.List(t.Context(), slices.Values([]string{"/d"}), client.ListOptions{Columns: rows.AllColumns}) {
		must(t, err)
		batches = append(batches, b)
	}
	var sum int64
	var path []byte
	allocs := testing.AllocsPerRun(20, func() {
		for _, b := range batches {
			for i := range b.Len() {
				sum += int64(len(b.Given(i))+len(b.Name(i))+len(b.Owner(i))+len(b.Group(i))+len(b.LinkTarget(i))+b.NumBlocks(i)) +
					b.Length(i) + b.MTime(i) + b.ATime(i) + b.BlockSize(i) + int64(b.InodeID(i)) + int64(b.Mode(i)) + int64(b.Kind(i))
				path = b.AppendPath(path[:0], i)
			}
		}
	})
	if allocs > 5 { // the server's, which runs beside; each row would be 500
		t.Errorf("%v allocations for 500 rows", allocs)
	}
	if sum == 0 {
		t.Error("nothing was read")
	}
}

func TestListAllocatesNothingForEachRowOrPath(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := connect(t)
	const n = 4000
	paths := names("/t/p", n)
	plant(t, c, slices.Collect(func(yield func(string) bool) {
		for _, path := range paths {
			if !yield(path + "/f") {
				return
			}
		}
	})...)
	list := func() {
		count := 0
		for b, err := range c.List(t.Context(), slices.Values(paths), client.ListOptions{}) {
			must(t, err)
			count += b.Len()
		}
		if count != n {
			t.Fatalf("%d rows", count)
		}
	}
	// The server runs in this process and is counted too: this bounds both together.
	if allocs := testing.AllocsPerRun(3, list); allocs > n {
		t.Errorf("%v allocations for %d paths", allocs, n)
	}
}

func TestRowsComeBackWhileLaterPathsAreStillOnTheirWay(t *testing.T) {
	for _, consistency := range []muster.Consistency{muster.ConsistencyPage, muster.ConsistencySnapshot} {
		t.Run(fmt.Sprint("consistency ", consistency), func(t *testing.T) {
			c := connect(t)
			plant(t, c, "/a/x", "/b/y", "/c/")
			came := make(chan string)
			paths := func(yield func(string) bool) {
				// Each path is given only when the one before it is finished.
				for _, path := range []string{"/a", "/b", "/no", "/c"} {
					if !yield(path) {
						return
					}
					if got := <-came; got != path {
						t.Errorf("%s is finished while %s is listed", got, path)
					}
				}
			}
			var found []string
			for b, err := range c.List(t.Context(), paths, client.ListOptions{Consistency: consistency}) {
				must(t, err)
				for i := range b.Len() {
					found = append(found, b.Path(i))
				}
				for _, o := range b.Outcomes {
					came <- o.Path
				}
			}
			same(t, found, []string{"/a/x", "/b/y"})
		})
	}
}

func TestAHundredThousandPathsGoInOneCallInBoundedMemory(t *testing.T) {
	c := connect(t)
	dir := "/" + strings.Repeat("d", 92) // paths of 100 bytes
	plant(t, c, names(dir+"/", 10)...)   // ten of which are files
	const n = 100_000
	taken := make(chan int, 1)
	taken <- 0
	paths := func(yield func(string) bool) {
		for i := range n {
			taken <- <-taken + 1
			if !yield(fmt.Sprintf("%s/%06d", dir, i%1000)) {
				return
			}
		}
	}
	count, finished := 0, 0
	for b, err := range c.List(t.Context(), paths, client.ListOptions{}) {
		must(t, err)
		count, finished = count+b.Len(), finished+len(b.Outcomes)
		now := <-taken
		if taken <- now; now-finished > 70_000 {
			t.Fatalf("%d paths are read ahead", now-finished)
		}
	}
	if count != n/100 || finished != n {
		t.Fatalf("%d rows and %d outcomes", count, finished)
	}
}

func TestBreakingTheLoopStopsThePathsAndFreesTheConnection(t *testing.T) {
	c := dial(t, start(t).addr(), client.Options{Connections: 1})
	plant(t, c, names("/d/", 3000)...)
	for range 5 {
		stopped := false
		paths := func(yield func(string) bool) {
			defer func() { stopped = true }()
			for yield("/d") {
			}
		}
		for _, err := range c.List(t.Context(), paths, client.ListOptions{}) {
			must(t, err)
			break
		}
		if !stopped {
			t.Fatal("the paths go on after the loop")
		}
		if _, err := c.Stat(t.Context(), "/d"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCancellingEndsAListingThatWaits(t *testing.T) {
	c := dial(t, start(t).addr(), client.Options{Connections: 1})
	plant(t, c, "/d/f")
	for n := range 40 { // what ends first, paths or call, is a race
		given := n % 2
		t.Run(fmt.Sprintf("after %d paths", given), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			waits := make(chan struct{})
			paths := func(yield func(string) bool) {
				for range given {
					yield("/d")
				}
				close(waits)
				<-ctx.Done()
			}
			go func() { <-waits; cancel() }()
			var last error
			for _, err := range c.List(ctx, paths, client.ListOptions{}) {
				last = err
			}
			if !errors.Is(last, context.Canceled) || !errors.Is(last, muster.ErrCancelled) {
				t.Fatalf("got %v", last)
			}
		})
	}
	if _, err := c.Stat(t.Context(), "/d"); err != nil {
		t.Fatal(err)
	}
}

func TestErrorIsYieldedBeforeThePathsAreWaitedFor(t *testing.T) {
	c := connect(t)
	freed := make(chan struct{})
	paths := func(yield func(string) bool) {
		yield("/")
		<-freed // only the loop frees it
	}
	for b, err := range c.List(t.Context(), paths, client.ListOptions{Hidden: 77}) {
		if !errors.Is(err, muster.ErrInvalid) || b != nil {
			t.Fatalf("got %v, %v", b, err)
		}
		close(freed)
	}
}

func TestPanicOfPathsOrOfTheLoopLeavesNothingBehind(t *testing.T) {
	c := dial(t, start(t).addr(), client.Options{Connections: 1})
	plant(t, c, "/d/f")
	try := func(paths iter.Seq[string], body func()) (raised any) {
		defer func() { raised = recover() }()
		for _, err := range c.List(t.Context(), paths, client.ListOptions{}) {
			must(t, err)
			body()
		}
		return nil
	}
	boom := func() { panic("boom") }
	if got := try(func(yield func(string) bool) { yield("/d"); boom() }, func() {}); got != "boom" {
		t.Errorf("panic of paths: got %v", got)
	}
	if got := try(func(yield func(string) bool) { boom() }, func() {}); got != "boom" {
		t.Errorf("panic before the first path: got %v", got)
	}
	if got := try(slices.Values([]string{"/d"}), boom); got != "boom" {
		t.Errorf("panic of the loop: got %v", got)
	}
	if _, err := c.Stat(t.Context(), "/d"); err != nil {
		t.Fatal(err)
	}
}

func TestBadPathsFailAloneAndEachErrorTellsTheBound(t *testing.T) {
	c := connect(t)
	plant(t, c, "/d/f")
	huge := "/" + strings.Repeat("x", 5<<20)
	bad := map[string]string{
		"":                               "empty",
		"d":                              "relative",
		"/a/../b":                        `".."`,
		"/a/./b":                         `"."`,
		"/nul\x00":                       "NUL",
		"/bad\xff":                       "UTF-8",
		"/" + strings.Repeat("n", 256):   "255",
		"/" + strings.Repeat("é/", 3000): "8000",
		"/" + strings.Repeat("d/", 1001): "1000",
		"/" + strings.Repeat("long-enough/", 800): "8000",
		huge: fmt.Sprint(len(huge)),
	}
	var paths []string
	for path := range bad {
		paths = append(paths, path, "/d")
	}
	page, err := c.Page(t.Context(), paths, nil, client.ListOptions{})
	must(t, err)
	for name, batches := range map[string]iter.Seq2[*client.Batch, error]{
		"stream": c.List(t.Context(), slices.Values(paths), client.ListOptions{}),
		"page":   func(yield func(*client.Batch, error) bool) { yield(page, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			count := 0
			for b, err := range batches {
				must(t, err)
				for _, o := range b.Outcomes {
					count++
					if o.Path == "/d" {
						must(t, o.Err())
						continue
					}
					want := bad[o.Path]
					if err := o.Err(); !errors.Is(err, fs.ErrInvalid) || !strings.Contains(o.Message, want) {
						t.Errorf("path %.20q: %.200v, want word %q", o.Path, err, want)
					} else if words := err.(*fs.PathError).Err.Error(); !strings.HasPrefix(words, muster.ErrInvalid.Error()) {
						t.Errorf("path %.20q is told again: %.200s", o.Path, words)
					}
				}
			}
			if count != len(paths) {
				t.Errorf("%d outcomes of %d", count, len(paths))
			}
		})
	}
}

func TestCollectGivesGoodRowsAndAllErrors(t *testing.T) {
	c := connect(t)
	plant(t, c, "/a/x", "/a/y", "/b/")
	infos, err := client.Collect(c.List(t.Context(), slices.Values([]string{"/no1", "/a", "/no2", "/b"}), client.ListOptions{}))
	if len(infos) != 2 || infos[0].Path != "/a/x" || infos[1].Path != "/a/y" {
		t.Errorf("rows %v", infos)
	}
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/no1") || !strings.Contains(err.Error(), "/no2") {
		t.Errorf("error %v", err)
	}
	if infos, err := client.Collect(c.List(t.Context(), slices.Values([]string{"/a"}), client.ListOptions{})); err != nil || len(infos) != 2 {
		t.Errorf("%d rows, %v", len(infos), err)
	}
}

func TestWrongOptionsFailTheWholeCall(t *testing.T) {
	c := connect(t)
	one := slices.Values([]string{"/"})
	for name, o := range map[string]client.ListOptions{
		"unknown columns":     {Columns: 1 << 31},
		"unknown hidden":      {Hidden: 9},
		"unknown consistency": {Consistency: 9},
		"cursor of a stream":  {Cursor: []byte("x")},
	} {
		if _, err := client.Collect(c.List(t.Context(), one, o)); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := client.Collect(c.Walk(t.Context(), "/", client.ListOptions{Own: true})); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("walk of own entries: got %v", err)
	}
}

func TestStatAllAnswersForEachPathInOrder(t *testing.T) {
	c := connect(t)
	var want []string
	var paths []string
	plant(t, c, names("/d/f", 3000)...)
	plant(t, c, "/l -> /d")
	for _, path := range names("/d/f", 6000) { // half of them are there
		paths = append(paths, path, "/l", "bad")
	}
	for i, path := range paths {
		switch {
		case path == "bad":
			want = append(want, "bad INVALID_ARGUMENT")
		case path == "/l":
			want = append(want, "/l OK link l")
		case i < len(paths)/2:
			want = append(want, path+" OK file "+path[3:])
		default:
			want = append(want, path+" NOT_FOUND")
		}
	}
	var got []string
	for s, err := range c.StatAll(t.Context(), slices.Values(paths)) {
		must(t, err)
		line := s.Path + " " + muster.CodeOf(s.Err).Name()
		if s.Err == nil {
			line += " " + s.Info.Entry.Kind.String() + " " + s.Info.Name()
		}
		got = append(got, line)
	}
	same(t, got, want)
	for range c.StatAll(t.Context(), slices.Values(paths)) {
		break
	}
}

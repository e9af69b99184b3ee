package topology

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
)

// TestNoFileOfTheSortPathCanLock: none imports sync, and only the holder of the current
// tree has atomics.
func TestNoFileOfTheSortPathCanLock(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		checked++
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range parsed.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if path == "sync" || path == "sync/atomic" && file != "map.go" || path == "unsafe" || strings.HasPrefix(path, "golang.org/x/") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
	if checked < 5 {
		t.Errorf("only %d files were checked", checked)
	}
}

// TestNothingWaitsForALock looks for contention in a mutex profile of sorts and resolutions
// by many goroutines while trees are swapped. A lock of the test's own shows that the
// profile would tell.
func TestNothingWaitsForALock(t *testing.T) {
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	var m Map
	stop := swapping(t, &m)
	var readers sync.WaitGroup
	var control sync.Mutex
	hosts := []string{"dn-1", "10.9.1.7", "10.9.2.7", "/r3", "unknown"}
	nodes := []muster.NodeNumber{1, 2, 3}
	for i := range 16 {
		readers.Go(func() {
			dst := make([]muster.NodeNumber, 0, 3)
			for k := range 5_000 {
				r := m.ReaderFor(hosts[(i+k)%len(hosts)])
				dst = r.Sort(dst[:0], nodes, uint64(k))
				if k%100 == 0 {
					control.Lock()
					runtime.Gosched()
					control.Unlock()
				}
			}
		})
	}
	readers.Wait()
	stop()
	ours, controls := contended(t)
	for _, stack := range ours {
		t.Errorf("contention:\n%s", stack)
	}
	if controls == 0 {
		t.Error("not even the lock of this test was found")
	}
}

// contended returns the stacks of the profile that have a frame of this package's, and the
// number of those of its tests. Locks inside the runtime, as of its allocator, do not count.
func contended(t *testing.T) (ours []string, tests int) {
	records := make([]runtime.BlockProfileRecord, 10_000)
	n, ok := runtime.MutexProfile(records)
	if !ok {
		t.Fatalf("%d records", n)
	}
	for _, r := range records[:n] {
		stack, own, test := "", false, false
		for frames, more := runtime.CallersFrames(r.Stack()), true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			stack += f.Function + "\n"
			if strings.Contains(f.Function, "locations/topology.") {
				inTest := strings.HasSuffix(f.File, "_test.go")
				test, own = test || inTest, own || !inTest
			}
		}
		switch {
		case strings.HasPrefix(stack, "runtime."):
		case own:
			ours = append(ours, stack)
		case test:
			tests++
		}
	}
	return ours, tests
}

package listing_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster/namespace"
)

// imageModes are how the trees of this package's tests keep directories in memory. All
// tests run in each, since no listing may depend on it.
var imageModes = []imageMode{
	{"hot", func() int64 { return 0 }},
	{"cold", func() int64 { return 1 }},
	{"evicting", func() int64 { return 4<<10 + rand.Int64N(60<<10) }}, // less than most trees of these tests have
}

type imageMode struct {
	name  string
	bytes func() int64 // see namespace.Options
}

var (
	onlyImages = flag.String("images", "", "run the tests with directories hot, cold or evicting only")
	images     = imageModes[0] // the mode in which the tests run now
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(everyMode{m})
}

// everyMode runs the tests once in each mode. Benchmarks, fuzzing and the list of tests
// are for one; so is a short run with the race detector, in the mode that has hits, loads
// and evictions side by side.
type everyMode struct{ *testing.M }

func (m everyMode) Run() int {
	modes := slices.Clone(imageModes)
	if *onlyImages == "" && raceEnabled && testing.Short() {
		*onlyImages = "evicting"
	}
	if *onlyImages != "" {
		modes = slices.DeleteFunc(modes, func(mode imageMode) bool { return mode.name != *onlyImages })
	}
	for _, name := range []string{"test.bench", "test.fuzz", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			modes = modes[:min(1, len(modes))]
		}
	}
	if len(modes) == 0 {
		fmt.Fprintf(os.Stderr, "-images=%s: no such mode; there are hot, cold and evicting\n", *onlyImages)
		return 2
	}
	for _, images = range modes {
		if code := m.M.Run(); code != 0 {
			fmt.Fprintf(os.Stderr, "these tests ran with -images=%s\n", images.name)
			return code
		}
	}
	return 0
}

// withImages sets the budget of images by the mode in which the tests run, unless the test
// has set one.
func withImages(o namespace.Options) namespace.Options {
	if o.ImageBytes == 0 {
		o.ImageBytes = images.bytes()
	}
	return o
}

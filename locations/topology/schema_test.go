package topology

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

// TestBadSchemasAreRefused restates the fixtures of Ozone's schema loader that can be said
// of a list of levels: there are no sections to be missing or doubled, and no paths that
// could name layers wrongly. The error names what is wrong.
func TestBadSchemasAreRefused(t *testing.T) {
	long := strings.Repeat("x", 255)
	for name, c := range map[string]struct {
		levels []Level
		says   string
	}{
		"negative cost":              {[]Level{{Name: "root"}, {Name: "rack", Cost: -1}, {Name: "node"}}, `level 2 ("rack") of the topology: the cost is -1`},
		"negative cost of the leaf":  {[]Level{{Name: "root"}, {Name: "node", Cost: -1}}, `level 2 ("node")`},
		"only a root":                {[]Level{{Name: "root"}}, "1 levels"},
		"too many levels":            {levels(make([]int32, 17)...).Levels, "17 levels"},
		"two of a name":              {[]Level{{Name: "root"}, {Name: "rack"}, {Name: "rack"}, {Name: "node"}}, `level 3 ("rack") of the topology: level 2 has the same name`},
		"a level without name":       {[]Level{{Name: "root"}, {}, {Name: "node"}}, "level 2"},
		"a name with a slash":        {[]Level{{Name: "root"}, {Name: "a/b"}, {Name: "node"}}, `"a/b"`},
		"a root with a prefix":       {[]Level{{Name: "root", Prefix: "r"}, {Name: "node"}}, `level 1 ("root")`},
		"a root with a default":      {[]Level{{Name: "root", Default: "r"}, {Name: "node"}}, `level 1 ("root")`},
		"a leaf with a prefix":       {[]Level{{Name: "root"}, {Name: "node", Prefix: "n"}}, `level 2 ("node")`},
		"a leaf with a default":      {[]Level{{Name: "root"}, {Name: "node", Default: "n"}}, `level 2 ("node")`},
		"a default with a slash":     {[]Level{{Name: "root"}, {Name: "rack", Default: "/default-rack"}, {Name: "node"}}, `default "/default-rack"`},
		"a default that is relative": {[]Level{{Name: "root"}, {Name: "rack", Default: ".."}, {Name: "node"}}, `default ".."`},
		"a prefix with a space":      {[]Level{{Name: "root"}, {Name: "rack", Prefix: "a b"}, {Name: "node"}}, `prefix "a b"`},
		"costs that overflow":        {[]Level{{Name: "root", Cost: math.MaxInt32 / 2}, {Name: "rack", Cost: 1}, {Name: "node"}}, "add up"},
		"a very long default":        {[]Level{{Name: "root"}, {Name: "rack", Default: strings.Repeat("x", 256)}, {Name: "node"}}, "at most 255"},
		"very long defaults":         {[]Level{{Name: "root"}, {Name: "a", Default: long}, {Name: "b", Default: long}, {Name: "c", Default: long}, {Name: "d", Default: long}, {Name: "node"}}, "at most 1000"},
	} {
		s := Schema{c.levels}
		err := s.Validate()
		if !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v does not say %q", name, err, c.says)
		}
		if _, err := New(s, nil, nil); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s: a tree was built: %v", name, err)
		}
	}
}

func TestGoodSchemas(t *testing.T) {
	for location, s := range map[string]Schema{ // which has a name for each inner level
		muster.DefaultRack:                {},
		"/":                               levels(1, 0),
		"/default-rack/default-nodegroup": {[]Level{{Name: "root"}, {Name: "rack", Prefix: "rack"}, {Name: "nodegroup"}, {Name: "node"}}},
		"/dc0/r0":                         {[]Level{{Name: "root", Cost: math.MaxInt32/2 - 1}, {Name: "dc", Default: "dc0"}, {Name: "rack", Default: "r0"}, {Name: "node"}}},
		"/default-l1/default-l2/default-l3/default-l4/default-l5/default-l6/default-l7/default-l8/default-l9/default-l10/default-l11/default-l12/default-l13/default-l14": levels(make([]int32, 16)...),
	} {
		if err := s.Validate(); err != nil || s.DefaultLocation() != location {
			t.Errorf("%v: %v, default location %s", s, err, s.DefaultLocation())
		}
		tree := mustNew(t, s, []muster.Node{{ID: "a"}, {Number: 1, ID: "b", Rack: muster.DefaultRack}, {Number: 2, ID: "c", Rack: location}})
		at := tree.at[0]
		if l := tree.locations[at]; tree.at[1] != at || tree.at[2] != at || l.path != location || !tree.isRack(at) || int(l.level) != strings.Count(strings.TrimSuffix(location, "/"), "/") {
			t.Errorf("the nodes are in %+v, %v; want %s", l, tree.at, location)
		}
	}
}

func TestASchemaWithItsDefaultsWrittenOutIsTheSame(t *testing.T) {
	for _, s := range []Schema{{}, {[]Level{{Name: "root", Cost: 5}, {Name: "dc", Cost: 3, Prefix: "dc", Default: "home"}, {Name: "rack"}, {Name: "node"}}}} {
		e := s.Explicit()
		if err := e.Validate(); err != nil || e.DefaultLocation() != s.DefaultLocation() || e.Depth() != s.Depth() || len(e.Levels) != e.Depth() {
			t.Errorf("%+v is %+v, %v", s, e, err)
		}
		if again := e.Explicit(); !slices.Equal(again.Levels, e.Levels) {
			t.Errorf("%+v is %+v", e, again)
		}
	}
	want := []Level{{Name: "root", Cost: 1}, {Name: "rack", Cost: 1, Default: "default-rack"}, {Name: "node"}}
	if got := (Schema{}).Explicit().Levels; !slices.Equal(got, want) {
		t.Errorf("the default is %+v", got)
	}
}

func TestLocate(t *testing.T) {
	s := Schema{[]Level{{Name: "root"}, {Name: "dc"}, {Name: "rack", Prefix: "rack"}, {Name: "node"}}}
	for location, want := range map[string]string{
		"": "/default-dc/default-rack", "/default-rack": "/default-dc/default-rack", "/a/rack1": "/a/rack1", "//a//rack//": "/a/rack", "/a/default-rack": "/a/default-rack",
	} {
		if got, err := s.Locate(location); got != want || err != nil {
			t.Errorf("%q: %q, %v", location, got, err)
		}
	}
	for location, says := range map[string]string{
		"/": "0 names", "/a": "1 names, and the topology has 2 levels", "/a/rack1/b": "3 names", "/a/r1": `level "rack" to begin with "rack"`,
		"a/rack1": "does not begin with /", "/a/..": "component ..", "/a/rack 1": "a space",
	} {
		if got, err := s.Locate(location); !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %q, %v does not say %q", location, got, err, says)
		}
	}
}

package registry_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/locations/topology"
)

// TestRacksFollowTheMappingFile of those datanodes that do not say where they are. A bad file changes
// nothing and is spoken of, until it is good again.
func TestRacksFollowTheMappingFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "racks")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(6 * time.Second)
			synctest.Wait()
		}
		write("host0 /a\n10.0.0.0/16 /b\n")
		fs := vfs.NewMem()
		r := open(t, registry.Options{FS: fs, MappingFile: file})
		join(t, r, 2, "")
		for _, g := range []registry.Registration{registration(2, "/own"), {ID: "dn3", Host: "other", Port: 1}} {
			if _, err := r.Register(t.Context(), g); err != nil {
				t.Fatal(err)
			}
		}
		var version uint64
		expect := func(what, warning string, want ...string) {
			t.Helper()
			s, err := r.Topology(t.Context(), 0, 0, 0)
			if err != nil || s.Version == version {
				t.Fatalf("%s: version %d still, %v", what, version, err)
			}
			version = s.Version
			var racks []string
			for _, n := range s.Nodes {
				racks = append(racks, n.Rack)
			}
			if !slices.Equal(racks, want) {
				t.Errorf("%s: racks %v, want %v", what, racks, want)
			}
			if (warning == "") != (s.Warning == "") || !strings.Contains(s.Warning, warning) || r.Stats().Warning != s.Warning {
				t.Errorf("%s: warning %q", what, s.Warning)
			}
		}
		expect("at first", "", "/a", "/b", "/own", "/default-rack")
		write("other /c\n10.0.0.0/31 /d\n")
		expect("changed", "", "/d", "/d", "/own", "/c")
		write("other /x\nnonsense\n")
		expect("bad", "line 2", "/d", "/d", "/own", "/c")
		write("other /x/y\n")
		expect("of another depth", "has 2 names", "/d", "/d", "/own", "/c")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		expect("missing", "no such file", "/d", "/d", "/own", "/c")
		write("other /c\n10.0.0.0/31 /d\n")
		expect("as it was", "", "/d", "/d", "/own", "/c")
		write("")
		expect("empty", "", "/default-rack", "/default-rack", "/own", "/default-rack")
		time.Sleep(time.Minute)
		synctest.Wait()
		s, err := r.Topology(t.Context(), 0, 0, 0)
		if err != nil || len(s.Rules) != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestABadMappingFileIsNoStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "racks")
	for text, says := range map[string]string{"a b c": "line 1", "h /r1/x": "has 2 names", "h r": "begin with /"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := registry.Open("locations", registry.Options{FS: vfs.NewMem(), MappingFile: file})
		if !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestASchemaThatNoLongerFits leaves its datanodes what they are, without a place.
func TestASchemaThatNoLongerFits(t *testing.T) {
	fs := vfs.NewMem()
	r := open(t, registry.Options{FS: fs})
	join(t, r, 2, "/r0", "")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	deep := topology.Schema{Levels: []topology.Level{{Name: "root"}, {Name: "site", Default: "here"}, {Name: "rack"}, {Name: "node"}}}
	r = open(t, registry.Options{FS: fs, Schema: deep})
	s, err := r.Topology(t.Context(), 0, 0, 0)
	if err != nil || s.Nodes[0].Rack != "/r0" || s.Nodes[1].Rack != "/here/default-rack" || len(s.Schema.Levels) != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := r.Register(t.Context(), registration(0, "/r0")); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("it registers as before: %v", err)
	}
	if got, err := r.Register(t.Context(), registration(0, "/s/r0")); err != nil || got.Rack != "/s/r0" || got.Number != 0 {
		t.Errorf("it registers as it should: %+v, %v", got, err)
	}
}

package muster_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/muster-fs/muster"

// mayImport is the layout of docs/design.md: for each package the packages of ours
// that it may import directly, beside the root package, which all may. A package that
// is not here fails the test: a new room is added to the plan first.
var mayImport = map[string][]string{
	"":                   {},
	"rpc/pb":             {},
	"rpc":                {"rpc/pb"},
	"listing/rows":       {},
	"namespace/images":   {},
	"namespace":          {"namespace/images", "store"},
	"store":              {},
	"locations/topology": {},
	"locations/registry": {"blocks/token", "locations", "locations/topology", "store"},
	"locations":          {"locations/topology"},
	"locations/member":   {"rpc", "rpc/pb"},
	"blocks/store":       {"store"},
	"blocks/token":       {},
	"listing":            {"namespace", "locations", "locations/topology", "listing/rows"},
	"server":             {"blocks/token", "listing", "listing/rows", "locations", "locations/registry", "locations/topology", "namespace", "rpc", "rpc/pb", "blocks/store", "locations/member"},
	"blocks":             {"rpc", "rpc/pb"},
	"client":             {"blocks/token", "blocks", "rpc", "rpc/pb", "listing/rows"},
	"configs":            {},
	"bench":              {"blocks", "client", "server", "listing", "listing/rows", "locations", "locations/member", "locations/registry", "locations/topology", "namespace", "rpc", "rpc/pb"},
	"cmd/muster":         {"configs", "bench", "server", "client", "listing", "listing/rows", "locations", "locations/registry", "locations/topology", "namespace", "rpc", "blocks/store"},
}

// onlyIn names, for each library that must stay behind one part, who may import it.
// The key is a prefix of the import path.
var onlyIn = map[string][]string{
	"github.com/cockroachdb/pebble": {"store", "namespace", "locations/registry", "blocks/store"},
	"github.com/spf13/viper":        {"configs", "cmd/muster"},
	"github.com/apache/arrow/go/":   {"listing", "listing/rows", "client", "bench", "cmd/muster"},
	"github.com/spf13/cobra":        {"cmd/muster"},
	"gonum.org/v1/":                 {"bench"},
}

// mustNotLink says what a program may not link because it imports a package: the
// client is a library, and its users do not want a server in their program.
var mustNotLink = map[string][]string{
	"client": {
		"github.com/cockroachdb/pebble", "github.com/spf13/viper",
		module + "/server", module + "/namespace", module + "/listing", module + "/locations", module + "/configs",
	},
	"store":              {"storj.io/drpc", "github.com/apache/arrow"},
	"namespace":          {"storj.io/drpc", "github.com/apache/arrow", module + "/rpc", module + "/listing"},
	"namespace/images":   {"github.com/cockroachdb/pebble"},
	"locations":          {"storj.io/drpc", "github.com/apache/arrow", "github.com/cockroachdb/pebble", module + "/rpc", module + "/namespace"},
	"locations/registry": {"storj.io/drpc", "github.com/apache/arrow", module + "/rpc", module + "/namespace"},
	"locations/member":   {"github.com/apache/arrow", "github.com/cockroachdb/pebble"},
	"locations/topology": {"storj.io/drpc", "github.com/cockroachdb/pebble"},
	"blocks/token":       {"storj.io/drpc", "github.com/cockroachdb/pebble", "google.golang.org/protobuf"},
	"blocks/store":       {"storj.io/drpc", "github.com/apache/arrow", module + "/rpc", module + "/namespace"},
	"listing/rows":       {"storj.io/drpc", "github.com/cockroachdb/pebble"},
	"listing":            {"storj.io/drpc"},
	"blocks": {
		"github.com/cockroachdb/pebble", "github.com/spf13/viper", "github.com/apache/arrow",
		module + "/server", module + "/namespace", module + "/listing", module + "/locations", module + "/configs", module + "/blocks/store",
	},
}

type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range goList(t) {
		room := roomOf(p.ImportPath)
		allowed, known := mayImport[room]
		if !known {
			t.Errorf("%s is not in the plan of packages", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if ours := roomOf(imp); isOurs(imp) && ours != "" && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s, which is not below it", p.ImportPath, imp)
			}
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports) {
			for library, rooms := range onlyIn {
				// Tests of server run whole stores in memory, some of them from inside the package, and
				// have their disks fail or forget what was not synced. That takes vfs, which is files and
				// no database, and nothing else of Pebble. What a program links is not relaxed.
				inMemory := imp == "github.com/cockroachdb/pebble/vfs" && !slices.Contains(p.Imports, imp)
				if strings.HasPrefix(imp, library) && !slices.Contains(rooms, room) && !inMemory {
					t.Errorf("%s imports %s; only %v may", p.ImportPath, imp, rooms)
				}
			}
		}
	}
}

func TestLibrariesLinkNoMoreThanTheyMust(t *testing.T) {
	for _, p := range goList(t) {
		for _, banned := range mustNotLink[roomOf(p.ImportPath)] {
			for _, dep := range p.Deps {
				// The codec below listing is the client's too.
				if dep == banned || strings.HasPrefix(dep, banned+"/") && dep != module+"/listing/rows" {
					t.Errorf("%s links %s", p.ImportPath, dep)
				}
			}
		}
	}
}

func isOurs(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

func roomOf(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

func goList(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

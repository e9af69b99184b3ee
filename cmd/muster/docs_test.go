package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	readme     = "../../README.md"
	operations = "../../docs/operations.md"
)

// documented matches the commands of a page: lines of code blocks, and code in a line.
var documented = regexp.MustCompile("(?m)^(muster .*)$|`(muster [^`]+)`")

// TestDocumentedCommandsWork runs all commands of a page in their order, against the
// server that the page's muster up starts, with its datanodes. They say nothing of errors.
func TestDocumentedCommandsWork(t *testing.T) {
	for _, page := range []string{readme, operations} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		example, err := filepath.Abs("../../configs/muster.example.yaml")
		if err != nil {
			t.Fatal(err)
		}
		adapt := strings.NewReplacer(
			"$(go env GOROOT)", "src", "~/muster", "data",
			"[", "", "]", "", "DIR", "data", "HOST:PORT", "127.0.0.1:0", "FILE", example,
		)
		var script strings.Builder
		script.WriteString("env MUSTER_LISTEN=127.0.0.1:0\n")
		found := documented.FindAllSubmatch(text, -1)
		for _, match := range found {
			command := adapt.Replace(string(match[1]) + string(match[2]))
			if len(match[2]) > 0 && command == "muster up" {
				continue // it is spoken of
			}
			if flags, ok := strings.CutPrefix(command, "muster up"); ok {
				flags, _, _ = strings.Cut(flags, "#")
				script.WriteString("server --datanodes 3 " + flags + "\nstdin src/src/a_test.go\nexec muster put - /placed\n")
			} else {
				script.WriteString("exec sh -c '" + strings.ReplaceAll(command, "'", "''") + "'\n! stderr .\n")
			}
		}
		if len(found) < 3 {
			t.Errorf("%s has %d commands", page, len(found))
		}
		script.WriteString("-- src/src/a_test.go --\npackage a\n-- src/src/fmt/print.go --\npackage fmt\n")
		name := strings.TrimSuffix(filepath.Base(page), ".md") + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		params := scriptParams()
		params.Dir, params.UpdateScripts = dir, false
		testscript.Run(t, params)
	}
}

// TestDocumentedRolesWork runs what the page on operations has of a location service in a process
// of its own, and of the server that asks it.
func TestDocumentedRolesWork(t *testing.T) {
	text, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?m)^(head .*)\n(MUSTER_.* muster locations .*)\n(MUSTER_.* muster up .*)$").FindSubmatch(text)
	if block == nil {
		t.Fatal("the page has no such commands")
	}
	service, server := freeAddress(t), freeAddress(t)
	adapt := strings.NewReplacer("127.0.0.1:9401", service)
	script := fmt.Sprintf(`env MUSTER_SERVER=%s
env MUSTER_LISTEN=%s
exec sh -c '%s'
exec env %s &locations&
exec env %s &server&
await '^location_service_reachable +1$' muster status
kill -INT server
wait server
kill -INT locations
wait locations
`, server, server, block[1], adapt.Replace(strings.Replace(string(block[2]), "DIR", "a", 1)), adapt.Replace(strings.Replace(string(block[3]), "DIR", "b", 1)))
	params := scriptParams()
	params.Dir, params.UpdateScripts = t.TempDir(), false
	if err := os.WriteFile(filepath.Join(params.Dir, "roles.txtar"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, params)
}

// freeAddress returns an address of this machine where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestEveryCounterIsExplained: what status prints is what the page on operations has.
func TestEveryCounterIsExplained(t *testing.T) {
	a := startApp(t)
	out := new(bytes.Buffer)
	a.stdout = out
	if err := a.status(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	var report statusReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || len(report.Counters) == 0 {
		t.Fatalf("%v in %s", err, out)
	}
	page, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	for name := range report.Counters {
		if !bytes.Contains(page, []byte("`"+name+"`")) {
			t.Errorf("%s is not in %s", name, operations)
		}
	}
}

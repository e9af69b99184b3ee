package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGOROOTComesBackAsItIs, and also after one of three datanodes was killed: servers and
// datanodes are processes of their own.
func TestGOROOTComesBackAsItIs(t *testing.T) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command: ", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src")
	part := "fmt"
	if testing.Short() {
		source, part = filepath.Join(source, "net"), "http"
	}
	dir := t.TempDir()
	up := startServerProcess(t, "up", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--datanodes", "0")
	t.Setenv("MUSTER_SERVER", up.address)
	t.Setenv("MUSTER_CLUSTER_KEY_FILE", filepath.Join(dir, "data", "cluster.key"))
	t.Setenv("MUSTER_DATANODE_RESERVE", "1MiB")
	var datanodes []*childServer
	for i := range 3 {
		datanodes = append(datanodes, startServerProcess(t, "datanode", "--data", filepath.Join(dir, fmt.Sprint("d", i)), "--listen", "127.0.0.1:0", "--locations", up.address))
	}
	muster := func(args ...string) {
		t.Helper()
		out, err := exec.Command("muster", args...).CombinedOutput()
		t.Logf("muster %s: %.300s", strings.Join(args, " "), out)
		if err != nil {
			t.Fatal(err)
		}
	}
	checksums := func() string {
		t.Helper()
		out, err := exec.Command("sh", "-c", "muster find /src/"+part+" -type f -print0 | muster checksum -0 -").CombinedOutput()
		if err != nil {
			t.Fatalf("checksum: %v\n%.2000s", err, out)
		}
		return string(out)
	}
	same := func(got string) {
		t.Helper()
		if out, err := exec.Command("diff", "-r", source, got).CombinedOutput(); err != nil {
			t.Errorf("diff: %v\n%.2000s", err, out)
		}
	}
	before, after, written := filepath.Join(dir, "before"), filepath.Join(dir, "after"), filepath.Join(dir, "written")
	muster("put", "-r", source, "/src")
	muster("get", "-r", "/src", before)
	same(before)
	all := checksums()
	datanodes[1].kill()
	if now := checksums(); now != all || !strings.Contains(all, checksumAlgorithm) {
		t.Errorf("checksums were\n%.500sand are\n%.500s", all, now)
	}
	muster("get", "-r", "/src", after)
	same(after)
	muster("cp", "-r", "/src/"+part, "/copy")
	source = filepath.Join(source, part)
	muster("get", "-r", "/copy", written)
	same(written)
}

//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// chmod(1) is the oracle: it says what a mode means.
func TestModesMeanWhatChmodSays(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	root := t.TempDir()
	file, dir := filepath.Join(root, "file"), filepath.Join(root, "dir")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	clause := rapid.StringMatching(`[ugoa]{0,2}([-+=]([rwxXt]{0,3}|[ugo])){1,2}`)
	rapid.Check(t, func(t *rapid.T) {
		path, isDir := file, false
		if rapid.Bool().Draw(t, "directory") {
			path, isDir = dir, true
		}
		before := rapid.Uint16Range(0, allBits).Draw(t, "before")
		text := rapid.OneOf(
			rapid.Map(rapid.SliceOfN(clause, 1, 3), func(c []string) string { return strings.Join(c, ",") }),
			rapid.Map(rapid.Uint16Range(0, allBits), func(m uint16) string { return fmt.Sprintf("%04o", m) }),
		).Draw(t, "mode")
		mode, err := parseMode(text, 0o027)
		if err != nil {
			t.Fatal(err)
		}
		got := mode.apply(before, isDir)

		if err := syscall.Chmod(path, uint32(before)); err != nil {
			t.Fatal(err)
		}
		// chmod fails if the umask made the result another than the text says without it.
		out, _ := exec.Command(sh, "-c", `umask 027; exec chmod -- "$1" "$2"`, "sh", text, path).CombinedOutput()
		var after syscall.Stat_t
		if err := syscall.Stat(path, &after); err != nil {
			t.Fatal(err)
		}
		if want := uint16(after.Mode) & allBits; got != want {
			t.Errorf("%q makes %04o of %04o, chmod %04o; it says %q", text, got, before, want, out)
		}
	})
}

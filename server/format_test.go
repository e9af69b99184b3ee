package server_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/server"
)

// contents describes all that lies in a folder, itself included.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		described := info.Mode().String() + " " + info.ModTime().String()
		if !entry.IsDir() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			described += " " + string(content)
		}
		all[path] = described
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAFolderOfANewerFormatIsLeftAsItIs: a whole one of which the key is kept elsewhere, and one of
// which this program knows the format file alone.
func TestAFolderOfANewerFormatIsLeftAsItIs(t *testing.T) {
	whole := t.TempDir()
	s, err := server.Start(t.Context(), server.Options{Dir: whole})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(whole, "cluster.key")); err != nil {
		t.Fatal(err)
	}
	format := filepath.Join(whole, "FORMAT")
	if text, err := os.ReadFile(format); err != nil || string(text) != "muster namespace 2\n" {
		t.Fatalf("the format file says %q, %v", text, err)
	}
	for _, dir := range []string{whole, t.TempDir()} {
		if err := os.WriteFile(filepath.Join(dir, "FORMAT"), []byte("muster namespace 3\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := contents(t, dir)
		_, err := server.Start(t.Context(), server.Options{Dir: dir})
		wantCode(t, err, muster.ErrInvalid)
		if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "version 3") {
			t.Errorf("%v does not name the folder and its version", err)
		}
		after := contents(t, dir)
		if maps.Equal(after, before) {
			continue
		}
		for path, is := range after {
			if before[path] != is {
				t.Errorf("%s was made or changed", path)
			}
		}
		for path := range before {
			if _, there := after[path]; !there {
				t.Errorf("%s is gone", path)
			}
		}
	}
}

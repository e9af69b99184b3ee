package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// disksName is the file, in each of a datanode's folders, with the absolute paths of all of them, one a
// line. A folder that is in it and has no datanode.id is a disk that is not mounted, and not a new one:
// blocks must not be written to what is below its mount point.
const disksName = "datanode.disks"

// knownDisks are folders that a datanode had when it last started, and in whose folder that is written.
type knownDisks map[string]string

// readDisks reads what the folders know of each other.
func readDisks(dirs []string) knownDisks {
	known := knownDisks{}
	for _, dir := range dirs {
		content, err := os.ReadFile(filepath.Join(dir, disksName))
		if err != nil {
			continue // it is new, or not mounted, or the store says what it has
		}
		for path := range strings.Lines(string(content)) {
			known[strings.TrimSpace(path)] = dir
		}
	}
	return known
}

// admit refuses a folder that should have an id, and has none.
func (k knownDisks) admit(dir string) error {
	from, listed := k[absolute(dir)]
	if !listed {
		return nil
	}
	_, err := os.Stat(filepath.Join(dir, idName))
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // if it cannot be read, the store says so
	}
	return fmt.Errorf("%w: %s was a disk of this datanode and has no %s: is it mounted? To use it as a new, empty one: mkdir -p %s; cp %s %s",
		muster.ErrUnavailable, dir, idName, dir, filepath.Join(from, idName), filepath.Join(dir, idName))
}

// rememberDisks writes down which disks there are, for the next start. One that failed stays, if it
// was there before.
func rememberDisks(disks []store.Disk, log *slog.Logger) {
	dirs := make([]string, len(disks))
	for i, d := range disks {
		dirs[i] = d.Name
	}
	known := readDisks(dirs)
	var paths []string
	for _, d := range disks {
		path := absolute(d.Name)
		if _, before := known[path]; before || d.State != store.DiskFailed {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	content := strings.Join(paths, "\n") + "\n"
	for _, d := range disks {
		if d.State == store.DiskFailed {
			continue
		}
		if old, err := os.ReadFile(filepath.Join(d.Name, disksName)); err == nil && string(old) == content {
			continue
		}
		if err := writeSmall(d.Name, disksName, content); err != nil {
			log.Warn("the list of disks was not written; one that is not mounted at the next start may count as new", "disk", d.Name, "error", err)
		}
	}
}

// absolute is a folder's absolute path, as far as it is known.
func absolute(dir string) string {
	if path, err := filepath.Abs(dir); err == nil {
		return path
	}
	return dir
}

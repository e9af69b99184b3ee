package server

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// idName is the file with the datanode's id, in each of its folders: so the id stays when a
// disk is lost, and a disk of another datanode is not taken for one's own.
const idName = "datanode.id"

// datanodeID returns the id that the folders agree on, and makes one at the first start. What
// lacks it, as a disk that is new, gets it. Disks that have failed are not asked.
func datanodeID(dirs []string, disks []store.Disk) (string, error) {
	var id, from string
	var missing []string
	for i, dir := range dirs {
		if disks[i].State == store.DiskFailed {
			continue
		}
		got, err := readID(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, dir)
		case err != nil:
			return "", err
		case id == "":
			id, from = got, dir
		case got != id:
			return "", fmt.Errorf("%w: data folder %s is of datanode %s, and %s of datanode %s: give each datanode its own", muster.ErrInvalid, from, id, dir, got)
		}
	}
	if id == "" {
		id = newID()
	}
	for _, dir := range missing {
		if err := writeID(dir, id); err != nil {
			return "", fmt.Errorf("%w: write the datanode's id: %w", muster.ErrUnavailable, err)
		}
	}
	return id, nil
}

func readID(dir string) (string, error) {
	name := filepath.Join(dir, idName)
	content, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%w: datanode id: %w", muster.ErrUnavailable, err)
	}
	id := strings.TrimSpace(string(content))
	if err := muster.CheckNodeID(id); err != nil {
		return "", fmt.Errorf("%w: %s does not have a datanode's id: %w", muster.ErrCorrupt, name, err)
	}
	return id, nil
}

// newID makes a random UUID (version 4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails: crypto/rand ends the process instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func writeID(dir, id string) error { return writeSmall(dir, idName, id+"\n") }

// writeSmall writes a file whole or not at all. The folder belongs to this datanode alone.
func writeSmall(dir, file, content string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { // it exists, unless the store is in memory
		return err
	}
	name := filepath.Join(dir, file)
	f, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	err = cmp.Or(err, f.Sync())
	err = cmp.Or(err, f.Close(), os.Rename(f.Name(), name))
	if err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return cmp.Or(folder.Sync(), folder.Close())
}

// superuserOf is the user who may do anything, named or the process's own.
func superuserOf(name string) (string, error) {
	if name != "" {
		return name, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("%w: the superuser is not set and the process's user is unknown: %v", muster.ErrInvalid, err)
	}
	return u.Username, nil
}

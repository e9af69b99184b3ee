package server

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/muster-fs/muster"
)

const (
	keyBytes = 32
	keyName  = "cluster.key" // in the data folder
)

// ClusterKey reads the cluster key from file, or if that is "" from the data folder, where it makes
// one at the first start.
func ClusterKey(dir, file string, log *slog.Logger) ([]byte, error) {
	if file != "" {
		key, err := readKey(file, log)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w; copy it from another server of the cluster, or leave the key file unset to have one made in the data folder", err)
		}
		return key, err
	}
	file = filepath.Join(dir, keyName)
	key, err := readKey(file, log)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	log.Info("making a cluster key", "file", file)
	key = make([]byte, keyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make a cluster key: %w", err)
	}
	if err := writeKey(dir, file, key); err != nil {
		return nil, fmt.Errorf("make a cluster key: %w", err)
	}
	return key, nil
}

// readKey reads a key of 32 bytes, raw or as hexadecimal text.
func readKey(file string, log *slog.Logger) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("cluster key: %w", err)
	}
	if info.Size() > 4*keyBytes {
		return nil, badKey(file, fmt.Sprintf("%d bytes", info.Size()))
	}
	if info.Mode().Perm()&0o077 != 0 {
		log.Warn("the cluster key can be read by other users; chmod 600 it", "file", file, "mode", info.Mode())
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cluster key: %w", err)
	}
	if len(content) == keyBytes {
		return content, nil
	}
	text := bytes.TrimSpace(content)
	key := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(key, text); err != nil || len(key) != keyBytes {
		return nil, badKey(file, fmt.Sprintf("%d bytes", len(content)))
	}
	return key, nil
}

func badKey(file, has string) error {
	return fmt.Errorf("%w: cluster key %s has %s; it must have %d raw bytes, or %d hexadecimal digits", muster.ErrInvalid, file, has, keyBytes, 2*keyBytes)
}

// writeKey writes a key whole or not at all, and durably: cursors depend on it. The
// folder belongs to one server, so nobody else writes it at the same time.
func writeKey(dir, file string, key []byte) error {
	if err := os.MkdirAll(dir, 0o777); err != nil { // it exists, unless the store is in memory
		return err
	}
	f, err := os.CreateTemp(dir, keyName+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone by then if all went well
	_, err = fmt.Fprintln(f, hex.EncodeToString(key))
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

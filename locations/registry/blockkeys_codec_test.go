package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
)

func sampleBlockKeys(t testing.TB) []blockKey {
	t.Helper()
	secret, err := token.ParseSecret(bytes.Repeat([]byte{0xab}, token.SecretBytes))
	if err != nil {
		t.Fatal(err)
	}
	key := func(made, expires int64) blockKey {
		return blockKey{token.Key{Secret: secret, Expires: time.UnixMilli(expires)}, time.UnixMilli(made)}
	}
	return []blockKey{key(0x0102, 0x0304), key(-5, 0), key(math.MinInt64, math.MaxInt64)}
}

func TestBlockKeysReadAsTheyWereWritten(t *testing.T) {
	for _, k := range sampleBlockKeys(t) {
		if got, err := decodeBlockKey(appendBlockKey(nil, &k)); err != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("%+v reads as %+v, %v", k, got, err)
		}
	}
	k := sampleBlockKeys(t)[0] // these bytes are on disks
	if got, want := fmt.Sprintf("%x", appendBlockKey(nil, &k)), "0102010000000000000403000000000000"+strings.Repeat("ab", 32); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := fmt.Sprintf("%x", blockKeyKey(0x0102)); got != "6b00000102" {
		t.Errorf("key %s", got)
	}
}

func FuzzBlockKey(f *testing.F) { fuzz(f, sampleBlockKeys(f), decodeBlockKey, appendBlockKey) }

func TestBlockKeysThatCannotBe(t *testing.T) {
	k := sampleBlockKeys(t)[0]
	good := appendBlockKey(nil, &k)
	never := k
	never.Expires = never.made
	for what, entry := range map[string][2][]byte{
		"block key 0: ":              {blockKeyKey(0), good},
		"block key 4294967295: ":     {blockKeyKey(math.MaxUint32), good},
		"before it was made":         {blockKeyKey(1), appendBlockKey(nil, &never)},
		"of 48 bytes: unknown versi": {blockKeyKey(1), good[1:]},
		"unknown key 6b000001":       {[]byte("k\x00\x00\x01"), good},
	} {
		mem := vfs.NewMem()
		r := openAt(t, mem)
		if err := errors.Join(r.store.DB.Set(entry[0], entry[1], pebble.Sync), r.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := Open("locations", Options{FS: mem})
		if !errors.Is(err, muster.ErrCorrupt) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			_ = r.Close()
		}
	}
}

func openAt(t *testing.T, files vfs.FS) *Registry {
	t.Helper()
	r, err := Open("locations", Options{FS: files})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAFolderOfTheVersionBeforeGetsItsKeys: it says that it is of the newer version before it has what
// the older one does not know.
func TestAFolderOfTheVersionBeforeGetsItsKeys(t *testing.T) {
	mem := vfs.NewMem()
	r := openAt(t, mem)
	n := sampleNodes()[0]
	if _, err := r.Register(t.Context(), n.Registration); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Create("locations/FORMAT")
	if err == nil {
		_, err = f.Write([]byte("muster locations 1\n"))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	r = openAt(t, mem)
	defer r.Close()
	if f, err = mem.Open("locations/FORMAT"); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "muster locations 2\n" {
		t.Errorf("FORMAT says %q, %v", text, err)
	}
	if keys, err := r.BlockKeys(t.Context()); err != nil || len(keys.Keys) != 1 || len(r.Datanodes()) != 1 {
		t.Errorf("%d keys, %v, %d datanodes", len(keys.Keys), err, len(r.Datanodes()))
	}
}

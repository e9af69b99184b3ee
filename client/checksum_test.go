package client_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// TestChecksumsAreThoseOfTheBytes whatever the blocks are, of datanodes that want tokens.
func TestChecksumsAreThoseOfTheBytes(t *testing.T) {
	in := startWith(t, func(o *server.Options) {
		o.Locations.Tokens = true
		o.Datanodes = server.LocalDatanodes{Count: 3, Options: server.DatanodeOptions{Store: store.Options{Reserve: 1 << 20}}}
	})
	c := dial(t, in.addr(), client.Options{})
	for _, size := range []int{0, 1, muster.ChecksumBytes + 1, muster.ChunkBytes, muster.ChunkBytes + 1, 9<<20 + 3} {
		data := random(size)
		want := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		for _, blockSize := range []int64{0, muster.MinBlockSize, muster.MinBlockSize + muster.ChecksumBytes} {
			path := fmt.Sprintf("/%d-%d", size, blockSize)
			write(t, c, path, client.WriteOptions{BlockSize: blockSize}, data)
			if got, err := c.Checksum(t.Context(), path); err != nil || got != want {
				t.Errorf("%d bytes in blocks of %d: %08x, %v; want %08x", size, blockSize, got, err, want)
			}
		}
	}
	_, err := c.CreateEntry(t.Context(), "/meta", client.CreateOptions{Length: 5})
	must(t, err)
	must(t, c.Mkdir(t.Context(), "/d", 0o777))
	for path, code := range map[string]muster.Code{"/meta": muster.ErrNoData, "/d": muster.ErrIsDirectory, "/missing": muster.ErrNotFound} {
		var named *fs.PathError
		if _, err := c.Checksum(t.Context(), path); muster.CodeOf(err) != code || !errors.As(err, &named) || named.Path != path {
			t.Errorf("%s: %v", path, err)
		}
	}
}

package client_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// TestFilesOnDatanodesThatWantTokens is the whole way: a server with datanodes on disks, each
// of which checks the tokens of its callers.
func TestFilesOnDatanodesThatWantTokens(t *testing.T) {
	in := startWith(t, func(o *server.Options) {
		o.Locations.Tokens = true
		o.Datanodes = server.LocalDatanodes{Count: 3, Options: server.DatanodeOptions{Store: store.Options{Reserve: 1 << 20}}}
	})
	c := dial(t, in.addr(), client.Options{})
	must(t, c.Mkdir(t.Context(), "/home", 0o777))
	must(t, c.Chmod(t.Context(), "/home", 0o777))
	ada := c.As("ada")
	for _, size := range []int{0, 5, 200_000, 5<<20 + 1} {
		path, data := fmt.Sprint("/home/", size), random(size)
		for range 2 {
			write(t, ada, path, client.WriteOptions{BlockSize: muster.MinBlockSize, Atomic: true, Overwrite: true}, data)
		}
		for _, reader := range []*client.Client{c, ada, c.As("bob")} {
			if got := read(t, reader, path); !bytes.Equal(got, data) {
				t.Errorf("%d bytes: %d were read", size, len(got))
			}
		}
		info, err := c.Stat(t.Context(), path)
		if must(t, err); info.Entry.Owner != "ada" {
			t.Errorf("of %s", info.Entry.Owner)
		}
	}
}

package client_test

import (
	"slices"
	"testing"

	"github.com/muster-fs/muster/client"
)

func TestACompressedListingHasTheSameRows(t *testing.T) {
	c := connect(t)
	plant(t, c, append(names("/d/file-", 3000), "/e/x")...)
	paths := []string{"/d", "/e", "/missing", "/d"}
	plain := listed(t, c.List(t.Context(), slices.Values(paths), client.ListOptions{}))
	packed := listed(t, c.List(t.Context(), slices.Values(paths), client.ListOptions{Compress: true}))
	if same(t, packed, plain); len(packed) != 6001+len(paths) {
		t.Errorf("%d lines", len(packed))
	}
	one := listed(t, c.Pages(t.Context(), "/d", client.ListOptions{}))
	same(t, listed(t, c.Pages(t.Context(), "/d", client.ListOptions{Compress: true})), one)
}

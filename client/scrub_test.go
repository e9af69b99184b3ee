package client_test

import (
	"errors"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// TestChecksOfBlocks of datanodes that cannot list them: all is missing, and report decides whether it goes on.
func TestChecksOfBlocks(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	write(t, c, "/f", client.WriteOptions{}, random(100))
	write(t, c, "/g", client.WriteOptions{}, random(100))
	var kinds []string
	s, err := c.FsckBlocks(t.Context(), "/f", func(p client.Problem) error {
		kinds = append(kinds, p.Kind)
		return nil
	})
	if must(t, err); s.Files != 1 || s.Blocks != 1 || s.Missing != 1 || s.Problems != uint64(len(kinds)) {
		t.Errorf("%+v of %q", s, kinds)
	}
	enough := errors.New("enough")
	if _, err := c.FsckBlocks(t.Context(), "/", func(client.Problem) error { return enough }); err != enough {
		t.Errorf("error of the report: %v", err)
	}
	for path, want := range map[string]error{"f": muster.ErrInvalid, "/no": muster.ErrNotFound} {
		if _, err := c.FsckBlocks(t.Context(), path, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := c.As("nobody").FsckBlocks(t.Context(), "/", nil); !errors.Is(err, muster.ErrPermission) {
		t.Errorf("%v", err)
	}
}

// TestScrubsThatFail are told one by one.
func TestScrubsThatFail(t *testing.T) {
	h := startHouse(t, 2)
	c := dial(t, h.addr(), client.Options{})
	list, err := c.Scrub(t.Context(), "node-1", "nowhere")
	must(t, err)
	if len(list) != 2 || list[0].Err == nil || list[0].Node.Port != uint16(h.nodes[1].port) || !errors.Is(list[1].Err, muster.ErrNotFound) || list[1].Node.ID != "nowhere" {
		t.Errorf("%+v", list)
	}
	if list, err = c.ScrubState(t.Context()); err != nil || len(list) != 2 || list[0].Err == nil {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := c.As("nobody").Scrub(t.Context()); !errors.Is(err, muster.ErrPermission) {
		t.Errorf("%v", err)
	}
}

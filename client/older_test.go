package client_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"storj.io/drpc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc/pb"
)

// older describes the service as it was before most of its calls.
type older struct {
	drpc.Description
	knows []int // methods of the description
}

func newOlder(t *testing.T, names ...string) older {
	t.Helper()
	o := older{Description: pb.DRPCNamespaceDescription{}}
	for i := range o.Description.NumMethods() {
		if name, _, _, _, _ := o.Description.Method(i); slices.Contains(names, name) {
			o.knows = append(o.knows, i)
		}
	}
	if len(o.knows) != len(names) {
		t.Fatalf("not all of %q exist", names)
	}
	return o
}

func (o older) NumMethods() int { return len(o.knows) }

func (o older) Method(n int) (string, drpc.Encoding, drpc.Receiver, interface{}, bool) {
	if n >= len(o.knows) {
		return "", nil, nil, nil, false
	}
	return o.Description.Method(o.knows[n])
}

func TestCallThatAnOlderServerLacksIsNamedAndNotRepeated(t *testing.T) {
	const service = "/muster.v1.Namespace/"
	l := &liar{schema: rows.SchemaVersion}
	s, addr := serveAs(t, l, newOlder(t, service+"Capabilities"))
	c := dial(t, addr, client.Options{Attempts: 5})
	paths := names("/d/", 1000)
	for call, try := range map[string]func() error{
		"List": func() error {
			_, err := client.Collect(c.List(t.Context(), slices.Values(paths), client.ListOptions{}))
			return err
		},
		"ListPage": func() error {
			_, err := c.Page(t.Context(), paths, nil, client.ListOptions{})
			return err
		},
		"Stat":     func() error { _, err := c.Stat(t.Context(), "/d"); return err },
		"Lstat":    func() error { _, err := c.Lstat(t.Context(), "/d"); return err },
		"ReadLink": func() error { _, err := c.ReadLink(t.Context(), "/d"); return err },
		"Apply":    func() error { return c.Mkdir(t.Context(), "/d", 0o755) },
		"Status":   func() error { _, err := c.Status(t.Context()); return err },
		"Fsck": func() error {
			_, err := c.Fsck(t.Context(), func(client.Problem) error { return nil })
			return err
		},
	} {
		t.Run(call, func(t *testing.T) {
			failed := s.Stats().Failed
			err := try()
			if !errors.Is(err, muster.ErrInvalid) || muster.CodeOf(err) != muster.ErrInvalid {
				t.Fatalf("got %v (%s)", err, muster.CodeOf(err).Name())
			}
			for _, want := range []string{`no call "` + service + call + `"`, "older than the client"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %s", err, want)
				}
			}
			if n := s.Stats().Failed - failed; n != 1 {
				t.Errorf("%d calls were made", n)
			}
			if _, err := c.Capabilities(t.Context()); err != nil {
				t.Errorf("a call that it has, afterwards: %v", err)
			}
		})
	}
}

package main

import (
	"slices"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// A directory may change before the next level is listed.
func TestWalkEntersNothingTwiceWhenTheTreeChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change []muster.Command
		fails  bool
		want   []string
	}{
		"nothing happens": {nil, false, []string{"/d", "/d/x", "/d/x/inner"}},
		"it is removed":   {[]muster.Command{muster.Delete{Path: "/d/x", Recursive: true}}, true, []string{"/d", "/d/x"}},
		"it becomes a file": {[]muster.Command{
			muster.Delete{Path: "/d/x", Recursive: true}, muster.Create{Path: "/d/x", Mode: 0o644},
		}, false, []string{"/d", "/d/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, ctx := startApp(t), t.Context()
			c := mustClient(t, a)
			if _, err := c.Apply(ctx, muster.Create{Path: "/d/x/inner", Mode: 0o644, Parents: true}); err != nil {
				t.Fatal(err)
			}
			var entered, left []string
			w := walker{client: c, fail: a.fail, flush: func() error { return nil }}
			w.enter = func(v *visit) (bool, error) {
				entered = append(entered, v.path)
				if v.path == "/d/x" {
					_, err := c.Apply(ctx, test.change...)
					return true, err
				}
				return true, nil
			}
			w.leave = func(v *visit, _ client.Outcome) error { left = append(left, v.path); return nil }
			if err := w.walk(ctx, slices.Values([]string{"/d"})); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(entered, test.want) || !slices.Equal(left, []string{"/d", "/d/x"}) || a.failed != test.fails {
				t.Errorf("entered %q, left %q, failed %v", entered, left, a.failed)
			}
		})
	}
}

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// randomChange returns a change below root; the same random numbers give the same
// change below another root.
func randomChange(random *rand.Rand, root string, i int) change {
	path := func() string {
		p := root
		for range 1 + random.IntN(3) {
			p += "/" + string(rune('a'+random.IntN(3)))
		}
		return p
	}
	c := change{path: fmt.Sprint(i)}
	for range 1 + random.IntN(2) {
		switch random.IntN(6) {
		case 0, 1:
			c.commands = append(c.commands, muster.Mkdir{Path: path(), Mode: 0o755})
		case 2:
			c.commands = append(c.commands, muster.Create{Path: path(), Mode: 0o644})
		case 3:
			c.commands = append(c.commands, muster.Delete{Path: path(), Recursive: true})
		case 4:
			c.commands = append(c.commands, muster.Rename{From: path(), To: path()})
		case 5:
			mode := uint16(random.IntN(0o777))
			c.commands = append(c.commands, muster.SetAttr{Path: path(), Mode: &mode})
		}
	}
	return c
}

// treeBelow describes all below root.
func treeBelow(t *testing.T, c *client.Client, root string) []string {
	t.Helper()
	all, err := client.Collect(c.Walk(t.Context(), root, client.ListOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, info := range all {
		lines = append(lines, fmt.Sprintf("%s %v", info.Path[len(root):], info.Mode()))
	}
	slices.Sort(lines)
	return lines
}

func TestManyChangesInACallAreAsOneAfterAnother(t *testing.T) {
	a := startApp(t)
	c := mustClient(t, a)
	seed := newRandom(t).Uint64()
	for round := range uint64(8) {
		many, single := fmt.Sprintf("/many%d", round), fmt.Sprintf("/single%d", round)
		if _, err := c.Apply(t.Context(), muster.Mkdir{Path: many, Mode: 0o755}, muster.Mkdir{Path: single, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		var refusedOfMany, refusedSingly []string
		w := &changes{client: c, refused: func(r refusal) {
			refusedOfMany = append(refusedOfMany, fmt.Sprint(r.path, " ", muster.CodeOf(r.err)))
		}}
		randomMany, randomSingle := rand.New(rand.NewPCG(seed, round)), rand.New(rand.NewPCG(seed, round))
		for i := range 150 {
			next := randomChange(randomMany, many, i)
			if err := w.add(t.Context(), next.path, next.commands...); err != nil {
				t.Fatal(err)
			}
			next = randomChange(randomSingle, single, i)
			var refused *muster.CommandError
			if _, err := c.Apply(t.Context(), next.commands...); errors.As(err, &refused) {
				refusedSingly = append(refusedSingly, fmt.Sprint(next.path, " ", muster.CodeOf(err)))
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(refusedOfMany, refusedSingly) {
			t.Errorf("refused were %v, one by one %v", refusedOfMany, refusedSingly)
		}
		if got, want := treeBelow(t, c, many), treeBelow(t, c, single); !slices.Equal(got, want) {
			t.Errorf("the tree is %v, one by one %v", got, want)
		}
	}
}

func TestCallsStayBelowTheBoundsOfABatch(t *testing.T) {
	var size changeSize
	long := string(make([]byte, muster.MaxPathBytes))
	commands := 0
	for {
		next := change{commands: []muster.Command{muster.Symlink{Path: long, Target: long}, muster.Rename{From: long, To: long}}}
		if size.full(next) {
			break
		}
		size.add(next)
		commands += len(next.commands)
	}
	if bytes := commands * 2 * len(long); commands == 0 || bytes > muster.MaxBatchBytes {
		t.Errorf("a call takes %d commands of %d bytes", commands, bytes)
	}
}

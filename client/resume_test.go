package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// orchard plants directories of many sizes and returns paths that name them, twice
// here and there, with files and faults among them.
func orchard(t *testing.T, c *client.Client) (paths []string) {
	t.Helper()
	var entries []string
	for d := range 40 {
		dir := fmt.Sprintf("/orchard/%03d", d)
		entries = append(entries, dir+"/")
		entries = append(entries, names(dir+"/apple-with-a-longer-name-", d*d%97)...)
		paths = append(paths, dir)
		switch d % 5 {
		case 1:
			paths = append(paths, dir+"/missing", dir)
		case 3:
			paths = append(paths, dir+"/apple-with-a-longer-name-000000", "relative")
		}
	}
	plant(t, c, entries...)
	return paths
}

// boundaries returns the offsets at which messages end in a record of the answers to a call. The
// record may begin with what was late of the call before, which does not count.
func boundaries(t *testing.T, record []byte) (ends []int) {
	t.Helper()
	var call uint64
	begin := 0
	for rest := record; len(rest) > 0; {
		at := len(record) - len(rest)
		next, frame, ok, err := drpcwire.ParseFrame(rest)
		if err != nil || !ok {
			t.Fatalf("answers are no frames after %d bytes: %v", at, err)
		}
		if frame.ID.Stream != call {
			call, begin, ends = frame.ID.Stream, at, nil
		}
		if rest = next; frame.Done {
			ends = append(ends, len(record)-len(rest)-begin)
		}
	}
	return ends
}

func TestListingCutAnywhereIsTheListingUncut(t *testing.T) {
	in := start(t)
	paths := orchard(t, dial(t, in.addr(), client.Options{}))
	p := newProxy(t, in.addr())
	c := dial(t, p.addr(), client.Options{Connections: 1})
	for name, o := range map[string]client.ListOptions{
		"default limit": {}, "limit 7": {Limit: 7}, "own entries": {Own: true}, "hidden": {Hidden: muster.HiddenHive},
	} {
		t.Run(name, func(t *testing.T) {
			list := func() []string { return listed(t, c.List(t.Context(), slices.Values(paths), o)) }
			p.recorded()
			want := list()
			ends := boundaries(t, p.recorded())
			if len(ends) < 2 {
				t.Fatalf("%d message is too few to cut", len(ends))
			}
			last := 0
			for _, end := range ends {
				for _, at := range []int{last, (last + end) / 2, end - 1} {
					p.cutAfter(at)
					same(t, list(), want)
					// The answer may come out shorter than in the record, in fewer messages
					// with fewer cursors, so that its end may be missed.
					if cuts := p.spare(); cuts != 1 && at <= ends[len(ends)-1]/2 {
						t.Errorf("cut after %d bytes: %d cuts", at, cuts)
					}
				}
				last = end
			}
		})
	}
}

func TestListingCutAgainAndAgainGoesOnAsLongAsThereIsProgress(t *testing.T) {
	in := start(t)
	paths := orchard(t, dial(t, in.addr(), client.Options{}))
	p := newProxy(t, in.addr())
	c := dial(t, p.addr(), client.Options{Attempts: 2})
	want := listed(t, c.List(t.Context(), slices.Values(paths), client.ListOptions{}))
	for _, size := range []int{25_000, 40_000, 80_000} { // of one or more messages
		p.cutEach(size)
		same(t, listed(t, c.List(t.Context(), slices.Values(paths), client.ListOptions{Limit: 50})), want)
		if cuts := p.spare(); cuts < 2 {
			t.Errorf("%d cuts at %d bytes", cuts, size)
		}
	}
}

func TestListingWithoutProgressEndsAfterItsAttempts(t *testing.T) {
	in := start(t)
	p := newProxy(t, in.addr())
	c := dial(t, p.addr(), client.Options{Attempts: 3})
	p.cutEach(0)
	_, err := client.Collect(c.List(t.Context(), slices.Values([]string{"/"}), client.ListOptions{}))
	if cuts := p.spare(); !errors.Is(err, muster.ErrUnavailable) || cuts != 3 {
		t.Fatalf("after %d attempts: %v", cuts, err)
	}
}

func TestBrokenSnapshotStreamFailsAndIsNotResumed(t *testing.T) {
	in := start(t)
	paths := orchard(t, dial(t, in.addr(), client.Options{}))
	p := newProxy(t, in.addr())
	c := dial(t, p.addr(), client.Options{})
	o := client.ListOptions{Consistency: muster.ConsistencySnapshot}
	p.recorded()
	want := listed(t, c.List(t.Context(), slices.Values(paths), o))
	ends := boundaries(t, p.recorded())
	if len(ends) < 5 {
		t.Fatalf("%d messages are too few to cut", len(ends))
	}
	for _, at := range ends[1 : len(ends)-2] { // what is late of the call before may come first; a message passes anyway
		p.cutAfter(at + 1)
		_, err := client.Collect(c.List(t.Context(), slices.Values(paths), o))
		if cuts := p.spare(); !errors.Is(err, muster.ErrUnavailable) || cuts != 1 {
			t.Fatalf("cut after %d bytes (%d cuts): %v", at, cuts, err)
		}
	}
	same(t, listed(t, c.List(t.Context(), slices.Values(paths), client.ListOptions{})), want)
}

func TestListingGoesOnAfterARestartOfTheServer(t *testing.T) {
	in := start(t)
	c := dial(t, in.addr(), client.Options{})
	paths := orchard(t, c)
	want := listed(t, c.List(t.Context(), slices.Values(paths), client.ListOptions{}))
	restarted := make(chan struct{})
	held := func(yield func(string) bool) {
		for i, path := range paths {
			if i == len(paths)/2 {
				<-restarted
			}
			if !yield(path) {
				return
			}
		}
	}
	first := true
	same(t, listed(t, func(yield func(*client.Batch, error) bool) {
		for b, err := range c.List(t.Context(), held, client.ListOptions{Limit: 3}) {
			if first {
				first = false
				in.kill()
				in.up()
				close(restarted)
			}
			if !yield(b, err) {
				return
			}
		}
	}), want)
}

func TestReadingCallsAreRepeatedOnAnotherConnection(t *testing.T) {
	in, ctx := start(t), t.Context()
	p := newProxy(t, in.addr())
	c := dial(t, p.addr(), client.Options{})
	plant(t, c, "/d/f", "/d/l -> f")
	for name, call := range map[string]func() error{
		"stat":         func() error { _, err := c.Stat(ctx, "/d/f"); return err },
		"lstat":        func() error { _, err := c.Lstat(ctx, "/d/l"); return err },
		"readlink":     func() error { _, err := c.ReadLink(ctx, "/d/l"); return err },
		"readdir":      func() error { _, err := c.ReadDir(ctx, "/d"); return err },
		"page":         func() error { _, err := c.Page(ctx, []string{"/d"}, nil, client.ListOptions{}); return err },
		"status":       func() error { _, err := c.Status(ctx); return err },
		"capabilities": func() error { _, err := c.Capabilities(ctx); return err },
		"walkdir":      func() error { return c.WalkDir(ctx, "/", ignore) },
	} {
		p.cutAfter(3)
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if cuts := p.spare(); cuts != 1 {
			t.Errorf("%s: %d cuts", name, cuts)
		}
	}
}

func TestCommandWhoseAnswerIsLostIsAppliedOnce(t *testing.T) {
	in, ctx := start(t), t.Context()
	p := newProxy(t, in.addr())
	c := dial(t, p.addr(), client.Options{})
	for i := range 20 {
		before, err := c.Status(ctx)
		must(t, err)
		p.cutAfter(i % 4)
		// A second mkdir of the same path would be refused.
		if err := c.Mkdir(ctx, fmt.Sprintf("/d%d", i), 0o755); err != nil {
			t.Fatal(err)
		}
		if cuts := p.spare(); cuts != 1 {
			t.Fatalf("%d cuts", cuts)
		}
		after, err := c.Status(ctx)
		must(t, err)
		if after.Txid != before.Txid+1 {
			t.Fatalf("%d commits for one command", after.Txid-before.Txid)
		}
	}
}

func TestCommandThatIsNeverAnsweredHasAnUnknownOutcome(t *testing.T) {
	in := start(t)
	p := newProxy(t, in.addr())
	c := dial(t, p.addr(), client.Options{CommandTimeout: 1e8}) // 0.1 s
	p.cutEach(0)
	err := c.Mkdir(t.Context(), "/d", 0o755)
	p.spare()
	if !errors.Is(err, client.ErrOutcomeUnknown) || !errors.Is(err, muster.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1e8)
	defer cancel()
	p.cutEach(0)
	err = c.Mkdir(ctx, "/e", 0o755)
	p.spare()
	if !errors.Is(err, client.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("under a deadline: %v", err)
	}
}

func TestCommandThatWasNeverSentHasNoUnknownOutcome(t *testing.T) {
	in := start(t)
	c := dial(t, in.addr(), client.Options{CommandTimeout: 1e8, Attempts: 3}) // 0.1 s
	in.down()
	if _, err := c.Status(t.Context()); err == nil { // takes the connections that have gone
		t.Fatal("a server that is down answers")
	}
	err := c.Mkdir(t.Context(), "/d", 0o755)
	if errors.Is(err, client.ErrOutcomeUnknown) || !errors.Is(err, muster.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	in.up()
	if err := c.Mkdir(t.Context(), "/d", 0o755); err != nil {
		t.Fatal(err)
	}
}

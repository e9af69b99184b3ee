package listing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

func TestStreamTellsThatNoPathsCame(t *testing.T) {
	l := newWorld(t).lister(listing.Config{})
	for _, paths := range [][]string{nil, {}} {
		got, err := resume(t, l, root, paths, listing.Options{}, 1, nil, 0)
		if !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), "no paths") || got.messages != 0 {
			t.Errorf("%d messages, %v", got.messages, err)
		}
	}
}

func TestEmptyChunksAreNoPaths(t *testing.T) {
	w := newWorld(t)
	w.build("/d/f")
	chunks := [][]string{nil, {}, {"/d"}, nil, {"/", "/d"}, {}}
	var got listed
	err := w.lister(listing.Config{}).Stream(t.Context(), root, listing.Options{}, nil, func(context.Context) ([]string, error) {
		if len(chunks) == 0 {
			return nil, io.EOF
		}
		chunk := chunks[0]
		chunks = chunks[1:]
		return chunk, nil
	}, func(m *listing.Message) error { got.add(t, m, 0); return nil })
	if err != nil || len(got.outcomes) != 3 || len(got.rows) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// The first rows come while later paths are still on their way: here the second chunk is
// only given once the rows of the first were received.
func TestRowsComeWhilePathsAreStillOnTheirWay(t *testing.T) {
	w := newWorld(t)
	w.build("/d0/f", "/d1/f", "/d2/f")
	received := make(chan uint64, 10)
	given := 0
	next := func(ctx context.Context) ([]string, error) {
		if given > 0 {
			if index := <-received; index != uint64(given-1) {
				t.Errorf("outcome %d after %d paths", index, given)
			}
		}
		if given == 3 {
			return nil, io.EOF
		}
		given++
		return []string{fmt.Sprintf("/d%d", given-1)}, nil
	}
	var got listed
	err := w.lister(listing.Config{}).Stream(t.Context(), root, listing.Options{}, nil, next, func(m *listing.Message) error {
		got.add(t, m, 0)
		for _, o := range m.Outcomes {
			received <- o.Index
		}
		return nil
	})
	if err != nil || len(got.rows) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMessagesGrowFromSmallToLarge(t *testing.T) {
	w := newWorld(t)
	w.build(filesIn("/d", 12000)...)
	var sizes []int
	err := w.lister(listing.Config{}).Stream(t.Context(), root, listing.Options{Columns: rows.ColName}, nil, feedOf([]string{"/d"}, 1), func(m *listing.Message) error {
		b, err := rows.Decode(slices.Clone(m.Frame), rows.ColName.Normal())
		if err != nil {
			return err
		}
		sizes = append(sizes, b.Len())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sizes[:4], []int{64, 128, 256, 512}) {
		t.Errorf("%v", sizes)
	}
	if most := slices.Max(sizes); most < 4096 || most > 5096 {
		t.Errorf("%v", sizes)
	}
}

func TestMessagesStayUnderAMebibyte(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("\u0800", 85) // 255 bytes
	var files []string
	for i := range 6000 {
		files = append(files, fmt.Sprintf("/d/%s%04d", long[:251], i))
	}
	for i := range files {
		files[i] = strings.ToValidUTF8(files[i], "")
	}
	w.build(files...)
	paths := slices.Repeat([]string{"/d", "/missing" + long}, 5)
	for _, limit := range []int{0, 10000} {
		got := stream(t, w.lister(listing.Config{}), root, paths, listing.Options{Limit: limit}, 100) // checks each frame
		if len(got.rows) != 5*6000 {
			t.Errorf("%d rows", len(got.rows))
		}
	}
}

func TestStreamOfAHundredThousandLongPaths(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 paths")
	}
	w := newWorld(t)
	dir := "/" + strings.Repeat("x", 90)
	w.build(dir+"/f", "/y/")
	l := w.lister(listing.Config{})
	n := 0
	next := func(context.Context) ([]string, error) {
		if n == 100 {
			return nil, io.EOF
		}
		n++
		chunk := make([]string, 1000)
		for i := range chunk {
			chunk[i] = fmt.Sprintf("%s/%08d", dir, n*1000+i)
		}
		chunk[0] = dir
		return chunk, nil
	}
	var rowCount, outcomes uint64
	err := l.Stream(t.Context(), root, listing.Options{}, nil, next, func(m *listing.Message) error {
		for _, o := range m.Outcomes {
			if o.Index != outcomes {
				t.Fatalf("outcome %d, want %d", o.Index, outcomes)
			}
			outcomes++
			rowCount += o.Rows
		}
		if m.Done && (m.TotalOutcomes != 100_000 || m.TotalRows != 100) {
			t.Errorf("totals %d, %d", m.TotalOutcomes, m.TotalRows)
		}
		return nil
	})
	if err != nil || outcomes != 100_000 || rowCount != 100 {
		t.Errorf("%d outcomes, %d rows, %v", outcomes, rowCount, err)
	}
}

// A client that does not read must not make the server take in its paths without bound.
func TestBacklogIsBoundedWhileTheClientDoesNotRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.build("/d/f")
		l := w.lister(listing.Config{MaxPaths: 50})
		given, reading := 0, make(chan struct{})
		next := func(context.Context) ([]string, error) {
			if given == 10_000 {
				return nil, io.EOF
			}
			given += 10
			return slices.Repeat([]string{"/d"}, 10), nil
		}
		var got listed
		done := make(chan error)
		go func() {
			done <- l.Stream(t.Context(), root, listing.Options{}, nil, next, func(m *listing.Message) error {
				<-reading
				got.add(t, m, 0)
				return nil
			})
		}()
		synctest.Wait() // the stream waits in send, its feed for room
		// One message is sent, one waits, one is gathered, each with a page too many at
		// most; then what is left of the backlog, and what is on its way to it.
		if most := 64 + 128 + 256 + 4*60 + 3*10; given > most {
			t.Errorf("%d paths were taken in, at most %d", given, most)
		}
		close(reading)
		if err := <-done; err != nil || len(got.outcomes) != 10_000 {
			t.Errorf("%d outcomes, %v", len(got.outcomes), err)
		}
	})
}

func TestSnapshotStreamFailsWhenItIsTooOld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.build("/d/f")
		l := w.lister(listing.Config{SnapshotAge: time.Minute})
		o := listing.Options{Consistency: muster.ConsistencySnapshot}
		start := time.Now()

		// While it waits for paths that never come.
		var cause error
		err := l.Stream(t.Context(), root, o, nil, func(ctx context.Context) ([]string, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, ctx.Err()
		}, func(*listing.Message) error { return nil })
		if !errors.Is(err, muster.ErrLimit) || !strings.Contains(err.Error(), "older than 1m0s") {
			t.Error(err)
		}
		if !errors.Is(cause, muster.ErrLimit) {
			t.Errorf("next was told %v", cause)
		}
		if age := time.Since(start); age != time.Minute {
			t.Errorf("after %v", age)
		}

		// While its client takes long to read.
		paths := slices.Repeat([]string{"/d"}, 1000)
		messages := 0
		err = l.Stream(t.Context(), root, o, nil, feedOf(paths, 1000), func(*listing.Message) error {
			messages++
			time.Sleep(40 * time.Second)
			return nil
		})
		if !errors.Is(err, muster.ErrLimit) || messages != 2 {
			t.Errorf("%d messages, %v", messages, err)
		}

		// A page stream may take as long as it likes.
		err = l.Stream(t.Context(), root, listing.Options{}, nil, feedOf(paths, 1000), func(*listing.Message) error {
			time.Sleep(time.Hour)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A client that reads slowly cannot keep a snapshot past its age: the view is given back
// while the stream still waits for it.
func TestSnapshotIsGivenBackWhenItIsTooOld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.build("/d/f")
		l := w.lister(listing.Config{SnapshotAge: time.Minute})
		o := listing.Options{Consistency: muster.ConsistencySnapshot}
		reading, done := make(chan struct{}), make(chan error, 1)
		go func() {
			paths := slices.Repeat([]string{"/d"}, 1000)
			done <- l.Stream(t.Context(), root, o, nil, feedOf(paths, 1000), func(*listing.Message) error {
				<-reading
				return nil
			})
		}()
		synctest.Wait() // it is in send
		closed := make(chan error, 1)
		go func() { closed <- w.tree.Close() }() // waits for the view
		time.Sleep(59 * time.Second)
		synctest.Wait()
		select {
		case <-closed:
			t.Error("the view was given back before its time")
		default:
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the view is kept past its age")
		}
		close(reading)
		if err := <-done; !errors.Is(err, muster.ErrLimit) {
			t.Error(err)
		}
	})
}

// What ends a stream reaches next as the cause of its context, and Stream returns only
// when next has.
func TestStreamEndsItsFeedWithTheReason(t *testing.T) {
	w := newWorld(t)
	w.build("/d/f")
	l := w.lister(listing.Config{})
	broken := errors.New("broken pipe")
	run := func(ctx context.Context, cursor []byte, send func() error) (err, cause error) {
		first := true
		next := func(ctx context.Context) ([]string, error) {
			if first {
				first = false
				return []string{"/d"}, nil
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, ctx.Err()
		}
		err = l.Stream(ctx, root, listing.Options{}, cursor, next, func(*listing.Message) error { return send() })
		return err, cause
	}

	err, cause := run(t.Context(), nil, func() error { return broken })
	if !errors.Is(err, broken) || !errors.Is(cause, broken) {
		t.Errorf("send failed: %v, %v", err, cause)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err, cause = run(ctx, nil, func() error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || muster.CodeOf(err) != muster.ErrCancelled || cause == nil {
		t.Errorf("cancelled: %v, %v", err, cause)
	}
	cursor := onePage(t, l, []string{"/other", "/d"}, listing.Options{Limit: 1}, nil).Cursor
	if cursor == nil { // both paths were done on one page
		cursor = onePage(t, w.lister(listing.Config{PageBytes: 1}), []string{"/other", "/d"}, listing.Options{}, nil).Cursor
	}
	err, cause = run(t.Context(), cursor, func() error { return nil })
	if !errors.Is(err, muster.ErrCursor) || !errors.Is(cause, muster.ErrCursor) {
		t.Errorf("bad cursor: %v, %v", err, cause)
	}
}

func TestFailureOfNextFailsTheStream(t *testing.T) {
	w := newWorld(t)
	w.build("/d/f")
	l := w.lister(listing.Config{})
	broken := errors.New("connection reset")
	for _, paths := range [][]string{nil, {"/d"}, slices.Repeat([]string{"/d"}, 3000)} {
		err := l.Stream(t.Context(), root, listing.Options{}, nil, func(context.Context) ([]string, error) {
			if len(paths) == 0 {
				return nil, broken
			}
			chunk := paths
			paths = nil
			return chunk, nil
		}, func(m *listing.Message) error {
			if m.Done {
				t.Error("a broken stream was done")
			}
			return nil
		})
		if !errors.Is(err, broken) {
			t.Error(err)
		}
	}
}

func TestPanicOfNextOrSendReachesTheCaller(t *testing.T) {
	w := newWorld(t)
	l := w.lister(listing.Config{})
	panics := func(next func(context.Context) ([]string, error), send func(*listing.Message) error) (got any) {
		defer func() { got = recover() }()
		err := l.Stream(t.Context(), root, listing.Options{}, nil, next, send)
		t.Errorf("no panic but %v", err)
		return nil
	}
	if got := panics(func(context.Context) ([]string, error) { panic("next") }, func(*listing.Message) error { return nil }); !strings.Contains(fmt.Sprint(got), "next") {
		t.Error(got)
	}
	waits := func(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }
	first := true
	next := func(ctx context.Context) ([]string, error) {
		if first {
			first = false
			return []string{"/"}, nil
		}
		return waits(ctx)
	}
	if got := panics(next, func(*listing.Message) error { panic("send") }); got != "send" {
		t.Error(got)
	}
}

func TestCancelledPageFailsTheWholeCall(t *testing.T) {
	l := newWorld(t).lister(listing.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, err := page(ctx, l, root, []string{"/"}, listing.Options{}, nil)
	if m != nil || muster.CodeOf(err) != muster.ErrCancelled {
		t.Errorf("%v, %v", m, err)
	}
}

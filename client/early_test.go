package client

import (
	"errors"
	"slices"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// resumed returns a listing of two blocks of paths whose first call finished all before
// next and broke, and whose second call has sent nothing yet.
func resumed(t *testing.T, next int) *listing {
	t.Helper()
	link, err := newLink("", Options{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	l := &listing{client: link.as(muster.Identity{User: "u"}), window: newWindow(maxWindowPaths)}
	paths := make([]string, 2*blockPaths)
	for i := range paths {
		paths[i] = "/a"
	}
	l.window.fill(t.Context(), t.Context(), slices.Values(paths))
	for from := 0; from < len(paths); from += blockPaths {
		l.window.next(t.Context(), uint64(from), blockPaths, rpc.ChunkBytes)
	}
	first := rpc.ListReply{Cursor: []byte("c"), CursorIndex: uint64(next - 1)}
	for i := range next {
		first.Outcomes = append(first.Outcomes, muster.Outcome{Index: uint64(i)})
	}
	if _, err := l.enterEncoded(&first); err != nil {
		t.Fatal(err)
	}
	l.ledger.resume()
	l.window.rewind()
	return l
}

// enterEncoded enters a message as it comes from the wire.
func (l *listing) enterEncoded(m *rpc.ListReply) (*Batch, error) {
	if err := (replyEncoding{}).Unmarshal(m.Append(nil), &l.reply); err != nil {
		return nil, err
	}
	return l.enter(&l.reply)
}

// A server that speaks before it has got a path knows none, whatever an earlier call was
// told: it may say nothing, and what it says of a path is corrupt.
func TestAnAnswerBeforeAnyPathOfACallIsNoPanic(t *testing.T) {
	for _, next := range []int{1, 2, blockPaths, blockPaths + 1} {
		at := uint64(next)
		l := resumed(t, next)
		b, err := l.enterEncoded(&rpc.ListReply{Cursor: []byte("c"), CursorIndex: at - 1})
		if err != nil || b.Len() != 0 || len(b.Outcomes) != 0 {
			t.Errorf("nothing, after %d paths: %v, %v", next, b, err)
		}
		for name, m := range map[string]rpc.ListReply{
			"an outcome":     {Outcomes: []muster.Outcome{{Index: at}}},
			"a later cursor": {Cursor: []byte("c"), CursorIndex: at},
			"the end":        {Done: true},
		} {
			if _, err := resumed(t, next).enterEncoded(&m); !errors.Is(err, muster.ErrCorrupt) {
				t.Errorf("%s, after %d paths: %v", name, next, err)
			}
		}
	}
}

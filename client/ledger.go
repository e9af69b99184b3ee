package client

import (
	"fmt"

	"github.com/muster-fs/muster"
)

// indexed are rows in the order of their paths, as rows.Batch has them.
type indexed interface {
	Len() int
	PathIndex(i int) uint32
}

// ledger checks that a listing is complete: rows and outcomes in the order of their
// paths, one outcome for each path after its last row, as many rows as it says. That
// holds for a whole listing, over all the calls that it is resumed by; the totals are
// of the call in progress.
type ledger struct {
	next          uint64 // index of the first path without an outcome
	rows          uint64 // of that path so far
	totalRows     uint64 // of the call
	totalOutcomes uint64 // of the call
}

// resume begins another call of the same listing.
func (l *ledger) resume() { l.totalRows, l.totalOutcomes = 0, 0 }

// enter books a message. known is the number of paths that the server can know.
func (l *ledger) enter(b indexed, outcomes []Outcome, known uint64) error {
	n, i := b.Len(), 0
	for k := range outcomes {
		o := &outcomes[k]
		if o.Index != l.next || o.Index >= known {
			return corrupt("outcome of path %d where that of path %d of %d follows", o.Index, l.next, known)
		}
		for ; i < n && uint64(b.PathIndex(i)) == o.Index; i++ {
			l.rows++
		}
		if o.Code == muster.OK && o.Rows != l.rows {
			return corrupt("path %d has %d rows, and its outcome says %d", o.Index, l.rows, o.Rows)
		}
		l.next, l.rows = l.next+1, 0
	}
	for ; i < n && uint64(b.PathIndex(i)) == l.next && l.next < known; i++ {
		l.rows++
	}
	if i < n {
		return corrupt("row of path %d where path %d of %d is listed", b.PathIndex(i), l.next, known)
	}
	l.totalRows += uint64(n)
	l.totalOutcomes += uint64(len(outcomes))
	return nil
}

// close checks the server's account of the call against ours. paths is the number of
// all paths; all says that no more follow.
func (l *ledger) close(rows, outcomes, paths uint64, all bool) error {
	switch {
	case !all || l.next != paths:
		return corrupt("the listing ends at path %d of %d", l.next, paths)
	case rows != l.totalRows || outcomes != l.totalOutcomes:
		return corrupt("%d rows and %d outcomes came of %d and %d", l.totalRows, l.totalOutcomes, rows, outcomes)
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", muster.ErrCorrupt, fmt.Sprintf(format, args...))
}

package client

import (
	"errors"
	"testing"

	"github.com/muster-fs/muster"
)

// indexes are rows of which only the path matters.
type indexes []uint32

func (x indexes) Len() int               { return len(x) }
func (x indexes) PathIndex(i int) uint32 { return x[i] }

func outcome(index, rows uint64) Outcome {
	return Outcome{Outcome: muster.Outcome{Index: index, Rows: rows}}
}

// message is what a server sends, as far as the ledger looks at it.
type message struct {
	rows     indexes
	outcomes []Outcome
}

func TestLedgerAcceptsWholeListings(t *testing.T) {
	failed := outcome(1, 7)
	failed.Code = muster.ErrChanged // rows of a path that failed are not counted on
	for name, messages := range map[string][]message{
		"one message":         {{indexes{0, 0, 1, 2}, []Outcome{outcome(0, 2), outcome(1, 1), outcome(2, 1)}}},
		"no rows":             {{nil, []Outcome{outcome(0, 0), outcome(1, 0), outcome(2, 0)}}},
		"rows before outcome": {{indexes{0, 0}, nil}, {indexes{0, 1}, []Outcome{outcome(0, 3)}}, {nil, []Outcome{outcome(1, 1), outcome(2, 0)}}},
		"a failed path":       {{indexes{0, 1}, []Outcome{outcome(0, 1), failed, outcome(2, 0)}}},
	} {
		t.Run(name, func(t *testing.T) {
			var l ledger
			rows, outcomes := 0, 0
			for _, m := range messages {
				if err := l.enter(m.rows, m.outcomes, 3); err != nil {
					t.Fatal(err)
				}
				rows, outcomes = rows+len(m.rows), outcomes+len(m.outcomes)
			}
			if err := l.close(uint64(rows), uint64(outcomes), 3, true); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestLedgerRefusesWhatIsLostRepeatedOrOutOfOrder(t *testing.T) {
	for name, m := range map[string]message{
		"outcome twice":              {nil, []Outcome{outcome(0, 0), outcome(0, 0)}},
		"outcome left out":           {nil, []Outcome{outcome(1, 0)}},
		"outcome of no path":         {nil, []Outcome{outcome(0, 0), outcome(1, 0), outcome(2, 0), outcome(3, 0)}},
		"row lost":                   {indexes{0}, []Outcome{outcome(0, 2)}},
		"row too many":               {indexes{0, 0}, []Outcome{outcome(0, 1)}},
		"row after outcome":          {indexes{0, 1, 0}, []Outcome{outcome(0, 1), outcome(1, 1)}},
		"row of a later path":        {indexes{0, 2}, []Outcome{outcome(0, 1)}},
		"row of no path":             {indexes{3}, []Outcome{outcome(0, 0), outcome(1, 0), outcome(2, 0)}},
		"rows of two unended paths":  {indexes{0, 1}, nil},
		"row before those of a path": {indexes{1, 0}, []Outcome{outcome(0, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			var l ledger
			if err := l.enter(m.rows, m.outcomes, 3); !errors.Is(err, muster.ErrCorrupt) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestLedgerRefusesATotalThatDiffersAndAnEndThatIsNone(t *testing.T) {
	booked := func() *ledger {
		l := new(ledger)
		if err := l.enter(indexes{0, 0, 1}, []Outcome{outcome(0, 2), outcome(1, 1)}, 2); err != nil {
			t.Fatal(err)
		}
		return l
	}
	for name, err := range map[string]error{
		"row of the call lost":     booked().close(4, 2, 2, true),
		"outcome of the call lost": booked().close(3, 3, 2, true),
		"path without outcome":     booked().close(3, 2, 3, true),
		"paths still to come":      booked().close(3, 2, 2, false),
	} {
		if !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	resumed := booked()
	resumed.resume()
	if err := resumed.close(0, 0, 2, true); err != nil {
		t.Errorf("totals of an earlier call were counted: %v", err)
	}
}

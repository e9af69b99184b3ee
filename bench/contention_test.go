package bench

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestContentionComparesPaces runs the experiment for moments: what it finds is noise, but every
// arm must move.
func TestContentionComparesPaces(t *testing.T) {
	c := startServer(t)
	table := Table{Root: "/t", Partitions: 50, Files: 2}
	if err := Fill(t.Context(), c, table, nil); err != nil {
		t.Fatal(err)
	}
	e := Contention{Client: c, Table: table, Root: "/w", Writers: 2, Batch: 3, Rounds: 2, RoundTime: 50 * time.Millisecond}
	r, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]Figure{
		"stream alone": r.StreamAlone, "stream beside writers": r.StreamWriters, "stream beside burners": r.StreamBurners,
		"writers alone": r.WritersAlone, "writers beside the stream": r.WritersStream, "writers beside burners": r.WritersBurners,
		"stream's ratio": r.StreamRatio, "writers' ratio": r.WritersRatio,
	} {
		if !f.Known() || f <= 0 {
			t.Errorf("%s: %v", name, f)
		}
	}
	if err := (&Contention{Client: c, Table: table, Root: "/w"}).Validate(); err == nil {
		t.Error("no writers, and no error")
	}
}

// TestWhatIsInterruptedFails: half a result must not be taken for one.
func TestWhatIsInterruptedFails(t *testing.T) {
	c := startServer(t)
	table := Table{Root: "/t", Partitions: 50, Files: 2}
	fill(t, c, table)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := Contention{Client: c, Table: table, Root: "/w", Writers: 2, Batch: 3, Rounds: 1, RoundTime: 10 * time.Millisecond}
	e.Progress = func(string, int) (func(int), func()) { cancel(); return func(int) {}, func() {} }
	if _, err := e.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a contention that was interrupted: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer time.AfterFunc(300*time.Millisecond, cancel).Stop()
	if _, err := MeasureLockWait(ctx, t.TempDir(), table, 1, 1, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("lock waits that were interrupted: %v", err)
	}
}

func TestLockWaitsAreMeasured(t *testing.T) {
	w, err := MeasureLockWait(t.Context(), t.TempDir(), Table{Root: "/t", Partitions: 20, Files: 1}, 2, 1, 100*time.Millisecond)
	if err != nil || w.Samples == 0 || w.Commits == 0 || w.P99 < w.Median || w.Max < w.P99 {
		t.Errorf("%+v, %v", w, err)
	}
}

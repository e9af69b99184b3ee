package bench

import (
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

func TestLockWaitsAreMeasured(t *testing.T) {
	w, err := MeasureLockWait(t.Context(), t.TempDir(), Table{Root: "/t", Partitions: 20, Files: 1}, 2, 1, 100*time.Millisecond)
	if err != nil || w.Samples == 0 || w.Commits == 0 || w.P99 < w.Median || w.Max < w.P99 {
		t.Errorf("%+v, %v", w, err)
	}
}

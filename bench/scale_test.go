package bench

import (
	"context"
	"testing"

	"github.com/muster-fs/muster/server"
)

// serveHere starts servers in this process, which a kill only stops.
func serveHere(ctx context.Context, dir string) (*Process, error) {
	s, err := server.Start(ctx, server.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	stop := func() error { return s.Shutdown(context.Background()) }
	return &Process{Addr: s.Addr().String(), Stop: stop, Kill: stop}, nil
}

func TestScaleListsWhatItFilledIn(t *testing.T) {
	titles := map[string]int{}
	s := Scale{
		Table: Table{Root: "/t", Partitions: 700, Files: 3}, Callers: 3, Hot: 2,
		Dir: t.TempDir(), Serve: serveHere,
		Progress: func(title string, parts int) (func(int), func()) {
			return func(int) {}, func() { titles[title] = parts }
		},
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Directories != 700 || r.Files != 2100 || !r.RowsEqual {
		t.Errorf("%+v", r)
	}
	for name, f := range map[string]Figure{
		"fill": r.Fill, "fill rate": r.FillRate, "store": r.StoreBytes, "open after a kill": r.OpenKilled, "open": r.Open,
		"cold": r.Cold.Rate, "hot": r.Hot.Rate, "first row": r.Cold.First,
	} {
		if !f.Known() || f <= 0 {
			t.Errorf("%s: %v", name, f)
		}
	}
	if titles["filling the table"] != 2800 || titles["listing, cold"] != 700 || titles["listing, hot (2 of 2)"] != 700 {
		t.Errorf("steps: %v", titles)
	}
}

// TestScaleSeesOtherRows: the check of rows can fail.
func TestScaleSeesOtherRows(t *testing.T) {
	c := startServer(t)
	s := Scale{Table: Table{Root: "/t", Partitions: 5, Files: 2}, Callers: 2, Hot: 1}
	sum, err := fillScale(t.Context(), c, s.Table, s.Callers, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	var r ScaleResult
	if err := s.list(t.Context(), c, &r, sum); err != nil || !r.RowsEqual {
		t.Errorf("rows equal: %v, %v", r.RowsEqual, err)
	}
	if err := s.list(t.Context(), c, &r, sum+1); err != nil || r.RowsEqual {
		t.Errorf("with another sum, rows equal: %v, %v", r.RowsEqual, err)
	}
	if err := c.RemoveAll(t.Context(), s.Table.Partition(3)); err != nil {
		t.Fatal(err)
	}
	if err := s.list(t.Context(), c, &r, sum); err == nil {
		t.Error("a directory is missing, and no error")
	}
}

func TestScaleRefusesWhatItCannotRun(t *testing.T) {
	for name, s := range map[string]Scale{
		"no directories": {Table: Table{Files: 1}, Callers: 1, Hot: 1},
		"no files":       {Table: Table{Partitions: 1}, Callers: 1, Hot: 1},
		"many files":     {Table: Table{Partitions: 1, Files: MaxScaleFiles + 1}, Callers: 1, Hot: 1},
		"no callers":     {Table: Table{Partitions: 1, Files: 1}, Hot: 1},
		"no hot listing": {Table: Table{Partitions: 1, Files: 1}, Callers: 1},
	} {
		if _, err := s.Run(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestAMillionPartitionsAscend: the hours of 114 years, in byte order and each once.
func TestAMillionPartitionsAscend(t *testing.T) {
	last, n := "", 0
	for path := range (Table{Root: "/t", Partitions: 1_000_000}).Paths() {
		if path <= last {
			t.Fatalf("%s after %s", path, last)
		}
		last, n = path, n+1
	}
	if n != 1_000_000 || last != "/t/day=2137-01-29/hour=15" {
		t.Errorf("%d partitions, the last %s", n, last)
	}
}

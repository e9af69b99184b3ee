package client_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// replay is a server that answers every List with the same messages, which are encoded
// already: what a listing costs beside it is the client's.
type replay struct {
	liar
	messages [][]byte
	paths    []uint32 // how many each message and those before it are about
}

// replayOf answers for directories of one file each.
func replayOf(paths, perMessage int) *replay {
	r := &replay{liar: liar{schema: rows.SchemaVersion}}
	builder := rows.NewBuilder(0)
	for next := 0; next < paths; {
		builder.Reset()
		var m rpc.ListReply
		for ; next < paths && builder.Len() < perMessage; next++ {
			builder.Append(uint32(next), &muster.Row{
				ID: uint64(1000 + next), Name: []byte("part-00000-3b1c1f7e.c000.snappy.parquet"), Kind: muster.File, Mode: 0o644,
				Owner: []byte("etl"), Group: []byte("analysts"), Length: 128 << 20, MTime: 1_790_000_000_000,
			})
			m.Outcomes = append(m.Outcomes, muster.Outcome{Index: uint64(next), Rows: 1, ID: uint64(1000 + next), ChangedAt: uint64(next), Txid: 40_000})
		}
		m.Frame = builder.AppendFrame(nil)
		if next == paths {
			m.Done, m.TotalRows, m.TotalOutcomes = true, uint64(paths), uint64(paths)
		}
		r.messages, r.paths = append(r.messages, m.Append(nil)), append(r.paths, uint32(next))
	}
	return r
}

func (r *replay) List(stream pb.DRPCNamespace_ListStream) error {
	var message []byte
	came := uint32(0)
	for i, m := range r.messages {
		for came < r.paths[i] {
			if err := rpc.ReceiveRaw(stream, &message); err != nil {
				return err
			}
			var request rpc.ListRequest
			if err := request.Unmarshal(message); err != nil {
				return err
			}
			came += request.Count
		}
		if err := rpc.SendRaw(stream, m); err != nil {
			return err
		}
	}
	return nil
}

// connect returns a client of the replay.
func (r *replay) connect(tb testing.TB) *client.Client {
	_, addr := serveAs(tb, r, pb.DRPCNamespaceDescription{})
	return dial(tb, addr, client.Options{})
}

func partitions(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/warehouse/sales.db/orders/day=2026-11-30/bucket=%05d", i)
	}
	return paths
}

// look reads what a planner reads of each row.
func look(b *client.Batch) (sum int64) {
	for i := range b.Len() {
		sum += b.Length(i) + int64(len(b.Name(i))) + int64(len(b.Given(i)))
	}
	return sum
}

// TestAStreamedStatusCostsTheClientNoAllocation counts both ends of a stream of
// directories with one file each: in the run before, everything has grown.
func TestAStreamedStatusCostsTheClientNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("calls allocate")
	}
	const n = 30_000
	c := replayOf(n, 4096).connect(t)
	paths := partitions(n)
	list := func() {
		count := 0
		for b, err := range c.List(t.Context(), slices.Values(paths), client.ListOptions{}) {
			must(t, err)
			look(b)
			count += b.Len()
		}
		if count != n {
			t.Fatalf("%d rows", count)
		}
	}
	if got := testing.AllocsPerRun(3, list) / n; got > 0.008 {
		t.Errorf("%.4f allocations a status", got)
	}
}

// TestMessagesAreReceivedWhileTheConsumerIsBusy holds the first batch until three more
// were received: only then is there room for so many paths.
func TestMessagesAreReceivedWhileTheConsumerIsBusy(t *testing.T) {
	const window, perMessage, received = 48 << 10, 4096, 4
	const enough = window + received*perMessage
	c := replayOf(enough+perMessage, perMessage).connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	came := make(chan struct{})
	paths := func(yield func(string) bool) {
		for i := range enough + perMessage {
			if i == enough-1 {
				close(came)
			}
			if !yield("/d") {
				return
			}
		}
	}
	count := 0
	for b, err := range c.List(ctx, paths, client.ListOptions{}) {
		must(t, err)
		count += b.Len()
		select {
		case <-came:
		case <-ctx.Done():
			t.Fatal("nothing is received while a batch is looked at")
		}
	}
	if count != enough+perMessage {
		t.Errorf("%d rows", count)
	}
}

// TestAPageCostsAFewAllocationsAndNoneForAPath counts both ends of a page call, with all
// that a caller gets.
func TestAPageCostsAFewAllocationsAndNoneForAPath(t *testing.T) {
	if raceEnabled {
		t.Skip("calls allocate")
	}
	c := connect(t)
	paths := partitions(500)
	for _, path := range paths {
		plant(t, c, path+"/part-00000")
	}
	cost := func(paths []string) float64 {
		return testing.AllocsPerRun(50, func() {
			b, err := c.Page(t.Context(), paths, nil, client.ListOptions{})
			must(t, err)
			if b.Len() != len(paths) {
				t.Fatalf("%d rows", b.Len())
			}
			look(b)
		})
	}
	one, all := cost(paths[:1]), cost(paths)
	if one > 42 {
		t.Errorf("a page of one path takes %v allocations", one)
	}
	if more := (all - one) / float64(len(paths)); more > 0.01 {
		t.Errorf("a page of %d paths takes %v allocations, %.3f for each path more than one", len(paths), all, more)
	}
}

// BenchmarkReceive is the client's part of a stream: the server has all its messages ready.
func BenchmarkReceive(b *testing.B) {
	const n = 30_000
	c := replayOf(n, 4096).connect(b)
	paths := partitions(n)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		for batch, err := range c.List(b.Context(), slices.Values(paths), client.ListOptions{}) {
			if err != nil {
				b.Fatal(err)
			}
			look(batch)
		}
	}
	runtime.ReadMemStats(&after)
	all := float64(b.N) * n
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/row")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/all, "allocs/row")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/all, "allocB/row")
	b.ReportMetric(0, "ns/op")
}

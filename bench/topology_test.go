package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
)

// TestTopologyIsMeasured runs the experiment for moments: what it finds is noise, but each arm must
// move and give right answers.
func TestTopologyIsMeasured(t *testing.T) {
	e := NewTopology()
	e.Goroutines, e.Rounds, e.RoundTime, e.Swap = []int{1, 8}, 2, 10*time.Millisecond, time.Millisecond
	results, err := e.Run(t.Context())
	if err != nil || len(results) != 8 {
		t.Fatal(results, err)
	}
	var seen []string
	for _, r := range results {
		seen = append(seen, fmt.Sprint(r.Case, " ", r.Goroutines, " ", r.Arm))
		if r.Bench != "topology" || !r.Equal || r.OpsPerSecond <= 0 || r.P50 <= 0 || r.P99 < r.P50 || !r.Ratio.Known() || r.Arm == "rwmutex" && r.Ratio != 1 {
			t.Errorf("%+v", r)
		}
	}
	if got := strings.Join(seen, ", "); got != "datanode 1 rwmutex, datanode 1 snapshot, datanode 8 rwmutex, datanode 8 snapshot, "+
		"edge 1 rwmutex, edge 1 snapshot, edge 8 rwmutex, edge 8 snapshot" {
		t.Error(got)
	}
}

// TestWrongAnswersOfATopologyAreNoticed: a comparison that cannot fail would be none.
func TestWrongAnswersOfATopologyAreNoticed(t *testing.T) {
	e := NewTopology()
	for _, edge := range []bool{false, true} {
		s, err := e.sorts(edge)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.check(); err != nil {
			t.Error(err)
		}
		moved := append([]muster.Node(nil), s.nodes...)
		moved[7].Rack = "/rack0"
		tree, err := topology.New(topology.Schema{}, moved, s.mapping)
		if err != nil {
			t.Fatal(err)
		}
		s.new.Swap(tree)
		if err := s.check(); err == nil {
			t.Error("a node is in another rack, and nobody notices")
		}
	}
}

func TestTopologiesThatCannotBeMeasured(t *testing.T) {
	for says, change := range map[string]func(*Topology){
		"0 racks":       func(e *Topology) { e.Racks = 0 },
		"3 nodes":       func(e *Topology) { e.Nodes = 3 },
		"17 replicas":   func(e *Topology) { e.Replicas = 17 },
		"4 replicas":    func(e *Topology) { e.Replicas, e.Nodes, e.Racks = 4, 3, 1 },
		"goroutines":    func(e *Topology) { e.Goroutines = nil },
		"[4 0]":         func(e *Topology) { e.Goroutines = []int{4, 0} },
		"0 rounds":      func(e *Topology) { e.Rounds = 0 },
		"rounds of 0s":  func(e *Topology) { e.RoundTime = 0 },
		"changes every": func(e *Topology) { e.Swap = 0 },
	} {
		e := NewTopology()
		change(&e)
		if _, err := e.Run(t.Context()); !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	e := NewTopology()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an experiment that was interrupted: %v", err)
	}
}

// BenchmarkTopology is muster bench topology, without percentiles.
func BenchmarkTopology(b *testing.B) {
	e := NewTopology()
	for _, client := range []string{"datanode", "edge"} {
		s, err := e.sorts(client == "edge")
		if err != nil {
			b.Fatal(err)
		}
		for _, arm := range []entrant{
			{name: "rwmutex", begin: s.locked, beside: s.touching(e.Swap)},
			{name: "snapshot", begin: s.snapshot, beside: s.swapping(e.Swap)},
		} {
			for _, goroutines := range e.Goroutines {
				b.Run(fmt.Sprintf("client=%s/arm=%s/goroutines=%d", client, arm.name, goroutines), func(b *testing.B) {
					benchmarkEntrant(b, arm, goroutines)
				})
			}
		}
	}
}

// benchmarkEntrant deals b.N operations out to goroutines.
func benchmarkEntrant(b *testing.B, e entrant, goroutines int) {
	end := func(int) error { return nil }
	if e.beside != nil {
		var err error
		if end, err = e.beside(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	done := make(chan error)
	for i := range goroutines {
		ops := (b.N + i) / goroutines
		go func() {
			do := e.begin(b.Context())
			for range ops {
				if err := do(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	var err error
	for range goroutines {
		err = errors.Join(err, <-done)
	}
	b.StopTimer()
	if err := errors.Join(err, end(b.N)); err != nil {
		b.Fatal(err)
	}
}

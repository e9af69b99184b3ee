package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// inThisProcess starts the servers of the experiment here.
func inThisProcess(e *Locations, dir string) {
	e.Dir = dir
	e.ServeLocations = func(ctx context.Context, dir, keyFile string) (*Process, error) {
		s, err := server.StartLocations(ctx, server.LocationsOptions{Dir: dir, KeyFile: keyFile})
		if err != nil {
			return nil, err
		}
		return &Process{Addr: s.Addr().String(), Stop: func() error { return s.Shutdown(context.Background()) }}, nil
	}
	e.ServeNamespace = func(ctx context.Context, o LocationsNamespace) (*Process, error) {
		s, err := server.Start(ctx, server.Options{Dir: o.Dir, KeyFile: o.KeyFile, Locations: server.Locating{Server: o.Locations, Direct: o.Direct}})
		if err != nil {
			return nil, err
		}
		return &Process{Addr: s.Addr().String(), Stop: func() error { return s.Shutdown(context.Background()) }}, nil
	}
}

// TestLocationsAreMeasured runs the experiment for moments: what it finds is noise, but each arm
// must move and give right answers.
func TestLocationsAreMeasured(t *testing.T) {
	e := NewLocations()
	e.Files, e.Goroutines, e.Rounds, e.RoundTime = 2, []int{1, 3}, 2, 10*time.Millisecond
	inThisProcess(&e, t.TempDir())
	results, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, r := range results {
		seen = append(seen, fmt.Sprint(r.Case, " ", r.Goroutines, " ", r.Arm))
		if r.Bench != "locations" || !r.Equal || r.OpsPerSecond <= 0 || r.P99 < r.P50 || r.Arm == "service" && r.Ratio != 1 ||
			!r.CPUNamespace.Known() || !r.CPULocations.Known() || !r.CPUClient.Known() {
			t.Errorf("%+v", r)
		}
	}
	var want []string
	for _, of := range []string{"status ec/rs-3-2", "head ec/rs-3-2", "status replicated/3", "head replicated/3"} {
		for _, goroutines := range e.Goroutines {
			want = append(want, fmt.Sprint(of, " ", goroutines, " service"), fmt.Sprint(of, " ", goroutines, " cache"))
		}
	}
	if !slices.Equal(seen, want) {
		t.Errorf("%q", seen)
	}
}

// TestTheArmsDoWhatTheyAreCalled: one asks in each call and the other in none.
func TestTheArmsDoWhatTheyAreCalled(t *testing.T) {
	e := NewLocations()
	inThisProcess(&e, t.TempDir())
	l, err := e.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	lookups := func() float64 {
		s, err := l.clients[caching].Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return counterOf(s, "location_service_lookups")
	}
	for _, k := range fileKinds() {
		paths := e.paths(k)
		if equal, err := l.compare(t.Context(), k, paths); err != nil || !equal {
			t.Fatal(equal, err)
		}
		for arm, want := range []float64{float64(k.blocks), 0} {
			before := lookups()
			for range 5 {
				if err := located(t.Context(), l.clients[arm], paths[1]); err != nil {
					t.Fatal(err)
				}
				if err := head(t.Context(), l.clients[arm], paths[1]); err != nil {
					t.Fatal(err)
				}
			}
			// Containers are asked for once in a call; 12 blocks may be in fewer of them.
			if n := (lookups() - before) / 5; n > want || n < want/2 {
				t.Errorf("%v, %s: %v containers were asked for in a call", k.replication, armNames[arm], n)
			}
		}
	}
}

// TestWrongLocationsAreNoticed: a comparison that cannot fail would be none.
func TestWrongLocationsAreNoticed(t *testing.T) {
	e := NewLocations()
	inThisProcess(&e, t.TempDir())
	l, err := e.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	k := fileKinds()[1]
	paths := e.paths(k)
	if equal, err := l.compare(t.Context(), k, paths); err != nil || !equal {
		t.Fatal(equal, err)
	}
	full, err := l.clients[caching].StatLocated(t.Context(), paths[0])
	if err != nil {
		t.Fatal(err)
	}
	has := 0
	for i := range l.cluster.Len() {
		if slices.Contains(l.cluster.Holds(i), full.Blocks[0].Container) {
			has = i
		}
	}
	if err := l.cluster.Lose(t.Context(), has, full.Blocks[0].Container); err != nil {
		t.Fatal(err)
	}
	if err := l.cluster.CloseContainer(t.Context(), full.Blocks[0].Container); err != nil {
		t.Fatal(err)
	}
	if equal, err := l.compare(t.Context(), k, paths); err != nil || equal {
		t.Errorf("a replica is lost, and nobody notices; %v", err)
	}
}

func TestLocationsThatCannotBeMeasured(t *testing.T) {
	for says, change := range map[string]func(*Locations){
		"0 files":      func(e *Locations) { e.Files = 0 },
		"4 datanodes;": func(e *Locations) { e.Cluster.Nodes = 4 },
		"9 racks":      func(e *Locations) { e.Cluster = ClusterOptions{Nodes: 8, Racks: 9} },
		"goroutines":   func(e *Locations) { e.Goroutines = nil },
		"[4 0]":        func(e *Locations) { e.Goroutines = []int{4, 0} },
		"0 rounds":     func(e *Locations) { e.Rounds = 0 },
		"rounds of 0s": func(e *Locations) { e.RoundTime = 0 },
	} {
		e := NewLocations()
		change(&e)
		if _, err := e.Run(t.Context()); !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	e := NewLocations()
	inThisProcess(&e, filepath.Join(t.TempDir(), "missing"))
	if _, err := e.Run(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	e.Dir = t.TempDir()
	bad := errors.New("it does not start")
	e.ServeNamespace = func(context.Context, LocationsNamespace) (*Process, error) { return nil, bad }
	if _, err := e.Run(t.Context()); !errors.Is(err, bad) {
		t.Error(err)
	}
}

// BenchmarkLocations is muster bench locations with all servers in one process.
func BenchmarkLocations(b *testing.B) {
	e := NewLocations()
	inThisProcess(&e, b.TempDir())
	l, err := e.start(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer l.close()
	for _, k := range fileKinds() {
		paths := e.paths(k)
		if equal, err := l.compare(b.Context(), k, paths); err != nil || !equal {
			b.Fatal(equal, err)
		}
		for name, do := range map[string]func(context.Context, *client.Client, string) error{"status": located, "head": head} {
			for arm := range armNames {
				for _, goroutines := range e.Goroutines {
					b.Run(fmt.Sprintf("call=%s/file=%s/arm=%s/goroutines=%d", name, strings.ReplaceAll(k.replication.String(), "/", "-"), armNames[arm], goroutines), func(b *testing.B) {
						benchmarkEntrant(b, entrant{begin: operation{name, do}.over(l.clients[arm], paths)}, goroutines)
					})
				}
			}
		}
	}
}

package bench

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// experiment is a small one, whose processes are this one.
func experiment(t *testing.T, shapes ...Shape) *Experiment {
	return &Experiment{
		Shapes: shapes, Places: []Place{{Name: inProcess}, {Name: loopback}, {loopback, time.Millisecond}}, Arms: Arms(),
		Rounds: 2, RoundTime: 5 * time.Millisecond,
		Dir: t.TempDir(),
		Serve: func(ctx context.Context, dir string) (*Process, error) {
			s, err := server.Start(ctx, server.Options{Dir: dir})
			if err != nil {
				return nil, err
			}
			return &Process{Addr: s.Addr().String(), Stop: func() error { return s.Shutdown(context.Background()) }}, nil
		},
		Delay: func(_ context.Context, target string, roundTrip time.Duration) (*Process, error) {
			addr, stop := serveProxy(t, &Proxy{Target: target, RoundTrip: roundTrip})
			return &Process{Addr: addr, Stop: func() error { stop(); return nil }}, nil
		},
	}
}

// run runs an experiment and returns all results.
func run(t *testing.T, e *Experiment) (all []Result) {
	t.Helper()
	e.Report = func(results []Result) error {
		all = append(all, results...)
		return nil
	}
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAnExperimentTellsEverythingOfEveryArmInEveryPlace(t *testing.T) {
	shapes := []Shape{
		{Partitions: 70, Entries: 2},
		{Partitions: 70, Entries: 2, Shuffled: true},
		{Partitions: 1, Entries: 1300},
		{Partitions: 1, Entries: 60, Directories: true},
		{Partitions: 1, Entries: 60, Directories: true, NoMTime: true},
	}
	e := experiment(t, shapes...)
	results := run(t, e)
	var want []string
	for _, p := range e.Places {
		for _, s := range shapes {
			for _, a := range Arms() {
				if a.Goroutines <= s.Partitions {
					want = append(want, s.String()+" "+p.String()+" "+a.String())
				}
			}
		}
	}
	var got []string
	for _, r := range results {
		got = append(got, r.Shape+" "+r.Place+" "+r.ArmName())
		name := got[len(got)-1]
		if !r.RowsEqual || r.Rounds != 2 || r.Statuses < 1 || r.Calls < 1 || r.Directories < 1 || r.Located {
			t.Errorf("%s: %+v", name, r)
		}
		for field, f := range map[string]Figure{
			"rate": r.StatusesPerSecond, "least": r.MinStatusesPerSecond, "most": r.MaxStatusesPerSecond, "µs": r.MicrosPerStatus,
			"bytes": r.Bytes, "first row": r.FirstRow, "ratio": r.Ratio,
		} {
			if !f.Known() || f <= 0 || math.IsInf(float64(f), 0) {
				t.Errorf("%s: %s is %v", name, field, f)
			}
		}
		if r.MinStatusesPerSecond > r.StatusesPerSecond || r.StatusesPerSecond > r.MaxStatusesPerSecond {
			t.Errorf("%s: %v is not from %v to %v", name, r.StatusesPerSecond, r.MinStatusesPerSecond, r.MaxStatusesPerSecond)
		}
		if sequential := r.Arm == "iterator" && r.Goroutines == 1; r.EmptyCall.Known() != (sequential && r.Place != inProcess) || sequential && r.Ratio != 1 {
			t.Errorf("%s: an empty call took %v, and the ratio is %v", name, r.EmptyCall, r.Ratio)
		}
		if r.Place == inProcess {
			if !r.AllocsServer.Known() || r.AllocsClient.Known() || r.CPUClient.Known() {
				t.Errorf("%s: allocations %v and %v", name, r.AllocsServer, r.AllocsClient)
			}
		} else if !r.AllocsClient.Known() || !r.AllocBytesClient.Known() {
			t.Errorf("%s: allocations of the client %v", name, r.AllocsClient)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var image bytes.Buffer
	if err := Draw(&image, results); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"<svg", "70x2", "1x60d-nomtime", "in-process", "loopback+1ms", "iterator-64", "stream", "statuses a second"} {
		if !strings.Contains(image.String(), text) {
			t.Errorf("the chart does not show %s", text)
		}
	}
}

// An arm that is too slow for its round lists the first directories only, and says so.
func TestASlowArmListsASampleOfTheDirectories(t *testing.T) {
	e := experiment(t, Shape{Partitions: 200, Entries: 3})
	e.Places = []Place{{loopback, 10 * time.Millisecond}}
	e.Arms = []Arm{iterator(1), iterator(64), pages(100)}
	e.RoundTime = 30 * time.Millisecond
	for _, r := range run(t, e) {
		if sequential := r.Arm == "iterator" && r.Goroutines == 1; sequential && (r.Directories >= 100 || r.Statuses != 3*r.Directories) {
			t.Errorf("in rounds of %v: %d directories, %d statuses", e.RoundTime, r.Directories, r.Statuses)
		}
		if !r.RowsEqual {
			t.Errorf("%s: the sample's rows differ", r.ArmName())
		}
		if r.Arm == "pages-100" && r.Directories%100 != 0 {
			t.Errorf("pages of 100 list %d directories", r.Directories)
		}
	}
}

// lossy loses the rows of one directory, and repeats those of another.
type lossy struct{ source }

func (l lossy) page(ctx context.Context, paths []string, cursor []byte, limit int, each func(part)) ([]byte, error) {
	if strings.HasSuffix(paths[0], "hour=07") {
		paths = []string{strings.Replace(paths[0], "hour=07", "hour=06", 1)}
	}
	return l.source.page(ctx, paths, cursor, limit, each)
}

func TestOtherRowsAreNoticed(t *testing.T) {
	e := experiment(t, Shape{Partitions: 20, Entries: 2})
	e.RoundTime = time.Minute // a sample would do without the directory
	e.Places = e.Places[:2]
	bad := iterator(1)
	bad.list = func(ctx context.Context, s source, paths []string, each func(part)) (int, error) {
		return iterate(ctx, lossy{s}, paths, each)
	}
	e.Arms = []Arm{pages(100), bad}
	for _, r := range run(t, e) {
		if r.RowsEqual != (r.Arm != "iterator") {
			t.Errorf("%s, %s: rows equal: %v", r.Place, r.Arm, r.RowsEqual)
		}
	}
	e = experiment(t, Shape{Partitions: 20, Entries: 2})
	rounds := 0
	e.Arms = []Arm{{Name: "stream", Goroutines: 1, unit: 1, list: func(ctx context.Context, s source, paths []string, each func(part)) (int, error) {
		if rounds++; rounds > 4 {
			paths = paths[1:]
		}
		return stream(ctx, s, paths, each)
	}}}
	e.Report = func([]Result) error { return nil }
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "20x2, in-process: stream listed ") {
		t.Errorf("rows were lost while the time ran: %v", err)
	}
}

func TestTablesAreRemovedFromARunningServer(t *testing.T) {
	s, err := server.Start(t.Context(), server.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Shutdown(context.Background()) }()
	own, err := client.Dial(t.Context(), s.Addr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	e := experiment(t, Shape{Partitions: 20, Entries: 2})
	e.Places, e.Server, e.Root = []Place{{Name: running}, {running, time.Millisecond}}, s.Addr().String(), "/tables"
	e.Serve = func(context.Context, string) (*Process, error) {
		return nil, errors.New("no server of our own is needed")
	}
	for _, r := range run(t, e) {
		if !r.RowsEqual {
			t.Errorf("%+v", r)
		}
	}
	gone := func(when string) {
		t.Helper()
		if _, err := own.Lstat(t.Context(), e.Root); !errors.Is(err, muster.ErrNotFound) {
			t.Errorf("%s %s is there: %v", when, e.Root, err)
		}
	}
	gone("afterwards")

	ctx, cancel := context.WithCancel(t.Context())
	e.Report = func([]Result) error { cancel(); return nil }
	if err := e.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an experiment that was interrupted: %v", err)
	}
	gone("after an interrupted experiment")

	if err := own.Mkdir(t.Context(), e.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := own.Mkdir(t.Context(), e.Root+"/precious", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); !errors.Is(err, muster.ErrExists) || !strings.Contains(err.Error(), e.Root) {
		t.Errorf("a folder that is there: %v", err)
	}
	if _, err := own.Lstat(t.Context(), e.Root+"/precious"); err != nil {
		t.Errorf("a folder that was there is gone: %v", err)
	}
}

func TestWhatCannotBeRunIsNamed(t *testing.T) {
	for want, change := range map[string]func(*Experiment){
		"0 rounds":                                   func(e *Experiment) { e.Rounds = 0 },
		"rounds of 1µs":                              func(e *Experiment) { e.RoundTime = time.Microsecond },
		"no shape":                                   func(e *Experiment) { e.Arms = nil },
		"cold, on a server that runs":                func(e *Experiment) { e.Server, e.Cold = "127.0.0.1:1", true },
		"without one the places are in-process":      func(e *Experiment) { e.Places = []Place{{running, time.Millisecond}} },
		"1x1 has fewer directories than iterator-16": func(e *Experiment) { e.Arms = []Arm{iterator(16)} },
		"place in-process: on a runn":                func(e *Experiment) { e.Server = "127.0.0.1:1" },
	} {
		e := experiment(t, Shape{Partitions: 1, Entries: 1})
		if change(e); e.Validate() == nil || !strings.Contains(e.Run(t.Context()).Error(), want) {
			t.Errorf("%s: %v", want, e.Validate())
		}
	}
}

// A proxy that could not be reached must not leave an experiment hanging.
func TestAServerThatIsGoneEndsAnExperiment(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = lis.Close()
	e := experiment(t, Shape{Partitions: 1, Entries: 1})
	stopped := false
	e.Serve = func(context.Context, string) (*Process, error) {
		return &Process{Addr: lis.Addr().String(), Stop: func() error { stopped = true; return nil }}, nil
	}
	e.Report = func([]Result) error { return nil }
	if err := e.Run(t.Context()); !errors.Is(err, muster.ErrUnavailable) || !stopped {
		t.Errorf("%v; stopped: %v", err, stopped)
	}
}

func TestAProcessThatFailsInTheEndIsReported(t *testing.T) {
	for _, name := range []string{"server", "proxy"} {
		e := experiment(t, Shape{Partitions: 1, Entries: 1})
		e.Report = func([]Result) error { return nil }
		broken := errors.New("the " + name + " was killed")
		fails := func(p *Process, err error) (*Process, error) {
			if err != nil {
				return nil, err
			}
			stop := p.Stop
			p.Stop = func() error { return errors.Join(stop(), broken) }
			return p, nil
		}
		serve, delay := e.Serve, e.Delay
		if name == "server" {
			e.Serve = func(ctx context.Context, dir string) (*Process, error) { return fails(serve(ctx, dir)) }
		} else {
			e.Delay = func(ctx context.Context, target string, roundTrip time.Duration) (*Process, error) {
				return fails(delay(ctx, target, roundTrip))
			}
		}
		if err := e.Run(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%v, want %v", err, broken)
		}
	}
}

func TestEstimatesGrowWithWhatIsAskedFor(t *testing.T) {
	e := &Experiment{Shapes: Shapes(), Places: Places(true), Arms: Arms(), Rounds: 5, RoundTime: 5 * time.Second}
	all := e.Estimate()
	if all < time.Minute || all > time.Hour {
		t.Errorf("everything takes %v", all)
	}
	e.Rounds = 10
	if more := e.Estimate(); more <= all {
		t.Errorf("more rounds take %v, not more than %v", more, all)
	}
	e.Rounds, e.Places = 5, e.Places[:1]
	if less := e.Estimate(); less >= all {
		t.Errorf("one place takes %v, not less than %v", less, all)
	}
}

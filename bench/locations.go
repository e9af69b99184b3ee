package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/rpc"
)

// Locations holds the shared cache of locations against asking the location service for each
// call. An operation is a full status: the entry of a file, and where its blocks are. The same
// without locations, which asks nobody, is the control.
//
// Each arm has a namespace server in a process of its own, with the same files; both have the
// same location service in a third. The datanodes are in this process.
type Locations struct {
	Files      int   // of each kind
	Goroutines []int // each number is measured by itself
	Rounds     int
	RoundTime  time.Duration
	Cluster    ClusterOptions

	// Dir is an empty folder. ServeLocations and ServeNamespace start servers in processes of
	// their own.
	Dir            string
	ServeLocations func(ctx context.Context, dir, keyFile string) (*Process, error)
	ServeNamespace func(ctx context.Context, o LocationsNamespace) (*Process, error)

	Progress Progress
}

// LocationsNamespace is a namespace server of the experiment.
type LocationsNamespace struct {
	Dir, KeyFile string
	Locations    string // address of the location service
	Direct       bool   // asks it each time, and no cache
}

// LocationsMeasurement adds the CPU time of all three processes.
type LocationsMeasurement struct {
	Measurement
	CPUNamespace Figure `json:"cpu_us_namespace"` // an operation
	CPULocations Figure `json:"cpu_us_locations"`
	CPUClient    Figure `json:"cpu_us_client"`
}

// NewLocations returns the experiment of HDDS-17731: 8 files of each kind, 1 and 10 threads.
func NewLocations() Locations {
	return Locations{Files: 8, Goroutines: []int{1, 10}, Rounds: 5, RoundTime: time.Second}
}

// Validate says what cannot be measured.
func (e *Locations) Validate() error {
	switch {
	case e.Files < 1 || e.Files > 1000:
		return fmt.Errorf("%w: %d files; use 1 to 1,000", muster.ErrInvalid, e.Files)
	case len(e.Goroutines) == 0 || slices.Min(e.Goroutines) < 1 || slices.Max(e.Goroutines) > maxCallers:
		return fmt.Errorf("%w: %d goroutines; use numbers from 1 to %d", muster.ErrInvalid, e.Goroutines, maxCallers)
	}
	for _, k := range fileKinds() {
		if nodes := e.Cluster.withDefaults().Nodes; nodes < k.replication.Nodes() {
			return fmt.Errorf("%w: %d datanodes; %v needs %d", muster.ErrInvalid, nodes, k.replication, k.replication.Nodes())
		}
	}
	if err := e.Cluster.Validate(); err != nil {
		return err
	}
	return validateRounds(e.Rounds, e.RoundTime)
}

// maxCallers is how many goroutines call a server at most: each has a connection.
const maxCallers = 1000

// fileKind is a kind of files that are located.
type fileKind struct {
	replication muster.Replication
	blocks      int
	length      int64 // of a block
}

// fileKinds are files of 24 MB.
func fileKinds() []fileKind {
	coded, _ := muster.ParseReplication("ec/rs-3-2") // it is one
	return []fileKind{{coded, 4, 6 << 20}, {muster.Replicated(3), 12, 2 << 20}}
}

// Run starts the servers, measures all cases and ends the servers.
func (e *Locations) Run(ctx context.Context) (all []LocationsMeasurement, err error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	l, err := e.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	set, stop := e.Progress.begin("locating blocks", 2*len(fileKinds())*len(e.Goroutines)*(e.Rounds+1))
	defer stop()
	done := 0
	for _, k := range fileKinds() {
		paths := e.paths(k)
		equal, err := l.compare(ctx, k, paths)
		if err != nil {
			return nil, err
		}
		for _, does := range []operation{{"status", located}, {"head", head}} {
			for _, goroutines := range e.Goroutines {
				c := contest{
					bench: "locations", of: fmt.Sprintf("%s %v", does.name, k.replication), goroutines: goroutines, rounds: e.Rounds, roundTime: e.RoundTime,
				}
				var cpu [arms]allCPU
				for arm, name := range armNames {
					c.entrants = append(c.entrants, entrant{name: name, equal: equal, begin: does.over(l.clients[arm], paths), beside: cpu[arm].beside(l.clients[arm])})
				}
				results, err := c.run(ctx, func() { done++; set(done) })
				if err != nil {
					return nil, err
				}
				for arm, r := range results {
					all = append(all, LocationsMeasurement{r, median(cpu[arm].namespace), median(cpu[arm].locations), median(cpu[arm].client)})
				}
			}
		}
	}
	return all, nil
}

// The arms.
const (
	asking = iota
	caching
	arms
)

var armNames = [arms]string{"service", "cache"}

// operation is what is measured.
type operation struct {
	name string
	do   func(ctx context.Context, c *client.Client, path string) error
}

// over returns what one goroutine does: it goes through the files, beginning anywhere.
func (o operation) over(c *client.Client, paths []string) func(context.Context) func() error {
	var begun atomic.Int64
	return func(ctx context.Context) func() error {
		at := int(begun.Add(1))
		return func() error {
			at++
			return o.do(ctx, c, paths[at%len(paths)])
		}
	}
}

// located is a full status. It fails if a block's place is unknown.
func located(ctx context.Context, c *client.Client, path string) error {
	l, err := c.StatLocated(ctx, path)
	for i := 0; i < len(l.Blocks) && err == nil; i++ {
		err = l.Blocks[i].Err
	}
	return err
}

func head(ctx context.Context, c *client.Client, path string) error {
	_, err := c.Stat(ctx, path)
	return err
}

// locating is a running experiment.
type locating struct {
	processes []*Process
	cluster   *Cluster
	clients   [arms]*client.Client
}

// close ends all that was started, the servers last.
func (l *locating) close() error {
	var errs []error
	for _, c := range l.clients {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if l.cluster != nil {
		errs = append(errs, l.cluster.Close())
	}
	for _, p := range slices.Backward(l.processes) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

// start starts the servers and makes the files.
func (e *Locations) start(ctx context.Context) (l *locating, err error) {
	l = &locating{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	key, keyFile := make([]byte, rpc.ClusterKeyBytes), filepath.Join(e.Dir, "cluster.key")
	_, _ = rand.Read(key) // it does not fail
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		return l, err
	}
	service, err := e.ServeLocations(ctx, filepath.Join(e.Dir, "locations"), keyFile)
	if err != nil {
		return l, err
	}
	l.processes = append(l.processes, service)
	if l.cluster, err = JoinCluster(ctx, service.Addr, key, e.Cluster); err != nil {
		return l, err
	}
	commands, err := e.files(ctx, l.cluster)
	if err != nil {
		return l, err
	}
	for arm, name := range armNames {
		p, err := e.ServeNamespace(ctx, LocationsNamespace{Dir: filepath.Join(e.Dir, name), KeyFile: keyFile, Locations: service.Addr, Direct: arm == asking})
		if err != nil {
			return l, err
		}
		l.processes = append(l.processes, p)
		if l.clients[arm], err = client.Dial(ctx, p.Addr, client.Options{Connections: maxCallers}); err != nil {
			return l, err
		}
		if _, err := l.clients[arm].Apply(ctx, commands...); err != nil {
			return l, err
		}
		if err := awaitTopology(ctx, l.clients[arm], l.cluster.Len()); err != nil {
			return l, err
		}
	}
	return l, nil
}

// paths returns the paths of the files of a kind.
func (e *Locations) paths(k fileKind) []string {
	paths := make([]string, e.Files)
	for i := range paths {
		paths[i] = fmt.Sprintf("/warehouse/%s/file-%d", strings.ReplaceAll(k.replication.String(), "/", "-"), i)
	}
	return paths
}

// files returns the commands that make the files, in blocks that the service allocates.
func (e *Locations) files(ctx context.Context, cluster *Cluster) (commands []muster.Command, err error) {
	written := hour(0).UnixMilli()
	for _, k := range fileKinds() {
		for _, path := range e.paths(k) {
			given, err := cluster.Allocate(ctx, k.replication, k.blocks)
			if err != nil {
				return nil, err
			}
			file := muster.Create{
				Path: path, Mode: 0o644, Parents: true, Replication: k.replication, BlockSize: k.length,
				Length: int64(k.blocks) * k.length, MTime: &written, ATime: &written,
			}
			for _, b := range given.Blocks {
				file.Blocks = append(file.Blocks, muster.Block{Container: b.Container, LocalID: b.LocalID, Length: k.length})
			}
			commands = append(commands, file)
		}
	}
	return commands, nil
}

// awaitTopology waits until a server knows so many datanodes.
func awaitTopology(ctx context.Context, c *client.Client, nodes int) error {
	for {
		s, err := c.Status(ctx)
		if err != nil || slices.Contains(s.Counters, client.Counter{Name: "topology_nodes", Value: float64(nodes)}) {
			return err
		}
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// compare says whether the answers of both arms are those that they have to be: the same blocks,
// each with all its replicas, whose order is not for an answer to say; and the same entries.
func (l *locating) compare(ctx context.Context, k fileKind, paths []string) (bool, error) {
	for _, path := range paths {
		var told [arms]string
		for arm, c := range l.clients {
			full, err := c.StatLocated(ctx, path)
			if err != nil {
				return false, err
			}
			entry, err := c.Stat(ctx, path)
			if err != nil {
				return false, err
			}
			told[arm] = tell(&full, &entry)
			if !whole(&full, k) {
				return false, nil
			}
		}
		if told[asking] != told[caching] {
			return false, nil
		}
	}
	return true, nil
}

// whole says whether all replicas of all blocks are known.
func whole(l *client.Located, k fileKind) bool {
	for i := range l.Blocks {
		if b := &l.Blocks[i]; b.Err != nil || len(b.Replicas) != k.replication.Nodes() {
			return false
		}
	}
	return len(l.Blocks) == k.blocks
}

// tell writes an answer, with replicas in no order.
func tell(l *client.Located, entry *client.Info) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %+v %v\n%+v\n", l.Path, l.Entry, l.NoData, entry.Entry)
	for _, b := range l.Blocks {
		var replicas []string
		for _, r := range b.Replicas {
			replicas = append(replicas, fmt.Sprintf("%d:%+v", r.Index, *r.Node))
		}
		slices.Sort(replicas)
		fmt.Fprintf(&text, "%+v %d %v %v %q\n", b.Block, b.Offset, b.Replication, b.Err, replicas)
	}
	return text.String()
}

// allCPU is the CPU time of the servers and of this process for an operation, in µs, round by round.
type allCPU struct {
	warm                         bool
	namespace, locations, client []float64
}

// beside measures a round. The first one makes connections and fills caches.
func (a *allCPU) beside(c *client.Client) func(context.Context) (func(int) error, error) {
	return func(ctx context.Context) (func(int) error, error) {
		namespace, service, err := serversCPU(ctx, c)
		own := ownUsage().cpu
		return func(ops int) error {
			if !a.warm || ops == 0 {
				a.warm = true
				return nil
			}
			ours := ownUsage().cpu - own
			n, l, err := serversCPU(ctx, c)
			each := 1e6 / float64(ops)
			a.namespace, a.locations = append(a.namespace, (n-namespace)*each), append(a.locations, (l-service)*each)
			a.client = append(a.client, ours*each)
			return err
		}, err
	}
}

// serversCPU asks a namespace server for the CPU time, in seconds, of its process and of that of its
// location service.
func serversCPU(ctx context.Context, c *client.Client) (namespace, service float64, err error) {
	s, err := c.Status(ctx)
	if err != nil {
		return 0, 0, err
	}
	return counterOf(s, "cpu_seconds"), counterOf(s, "location_service_cpu_seconds"), nil
}

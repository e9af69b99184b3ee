package registry

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
)

// Options configures a registry. The zero value works.
type Options struct {
	// FS holds the store; nil is the disk. Tests pass vfs.NewStrictMem().
	FS vfs.FS
	// Schema is the shape of the topology; zero is racks below one root.
	Schema topology.Schema
	// MappingFile has rules by which nodes and clients get their racks, see
	// topology.ParseMapping; "" is none. It is read when the registry opens, where a bad one is
	// an error, and again and again: what it says then holds, but for a bad one, which changes
	// nothing, and is logged.
	MappingFile string
	// MappingCheck is how often the file is read; 0 is 5 s.
	MappingCheck time.Duration
	// Heartbeat is how often datanodes are told to send heartbeats; 0 is 3 s.
	Heartbeat time.Duration
	// StaleAfter and DeadAfter say when a datanode that is silent counts as stale, and as
	// dead; 0 is 30 s and 10 min.
	StaleAfter, DeadAfter time.Duration
	// ReportGrace is how long after the start a container without replicas is UNAVAILABLE and
	// not simply without replicas, since reports are still coming in. It ends before if all
	// datanodes that are not dead have reported; 0 is 1 min.
	ReportGrace time.Duration
	// ContainerBlocks is how many blocks a container takes; 0 is 1,000.
	ContainerBlocks int
	// OpenContainers is how many containers of one replication take blocks at a time; 0 is 8.
	OpenContainers int
	// KeyEvery is how often there is a new key for block tokens; 0 is 24 h. KeyLife is how long a key is
	// good, and must be longer; 0 is 9 days.
	KeyEvery, KeyLife time.Duration
	// Now is the clock that block keys go by; nil is time.Now.
	Now func() time.Time
	// PlanEvery is how often the registry looks whether containers have as many complete replicas as
	// they should, and orders datanodes to copy and to drop some; 0 is 10 s, less than 0 is never. It
	// walks over 100,000 containers each time.
	PlanEvery time.Duration
	// MaxCopies and MaxCopiesPerNode bound the copies under way: in all, and of a datanode as the
	// source, and as the target; 0 is 20 and 2.
	MaxCopies, MaxCopiesPerNode int
	// OrderTimeout is how long an order may make no progress before another is made in its place;
	// 0 is 10 min.
	OrderTimeout time.Duration
	// ReplicaGrace is how long a replica has fewer blocks than others before the rest is copied there
	// (once more as long if the container is open, and has to be closed first), and how long a container has too many replicas before one is dropped; 0 is 5 min.
	ReplicaGrace time.Duration
	// MemTableBytes is the size of the store's table of new entries in memory; 0 is 4 MiB.
	MemTableBytes int64
	// Logger gets what the registry has to say; nil discards it.
	Logger *slog.Logger
	// OnFatal is called once, from a goroutine of the registry, when a write to the log failed
	// and the registry refuses all further calls. It must not call Close; nil is nothing.
	OnFatal func(error)
}

// The defaults of Options.
const (
	defaultMappingCheck    = 5 * time.Second
	defaultHeartbeat       = 3 * time.Second
	defaultStaleAfter      = 30 * time.Second
	defaultDeadAfter       = 10 * time.Minute
	defaultReportGrace     = time.Minute
	defaultContainerBlocks = 1000
	defaultOpenContainers  = 8
	defaultKeyEvery        = 24 * time.Hour
	defaultKeyLife         = 9 * 24 * time.Hour
	defaultMemTableBytes   = 4 << 20

	defaultPlanEvery        = 10 * time.Second
	defaultMaxCopies        = 20
	defaultMaxCopiesPerNode = 2
	defaultOrderTimeout     = 10 * time.Minute
	defaultReplicaGrace     = 5 * time.Minute
)

// Validate names the first setting that is out of bounds.
func (o Options) Validate() error {
	o = o.withDefaults()
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"heartbeat", o.Heartbeat}, {"mapping check", o.MappingCheck}, {"report grace", o.ReportGrace}, {"order timeout", o.OrderTimeout}, {"replica grace", o.ReplicaGrace}} {
		if d.d < time.Millisecond {
			return fmt.Errorf("%w: %s %v; at least 1 ms", muster.ErrInvalid, d.name, d.d)
		}
	}
	switch {
	case o.StaleAfter <= o.Heartbeat:
		return fmt.Errorf("%w: datanodes are stale after %v, which must be more than their heartbeat of %v", muster.ErrInvalid, o.StaleAfter, o.Heartbeat)
	case o.DeadAfter <= o.StaleAfter:
		return fmt.Errorf("%w: datanodes are dead after %v, which must be more than the %v after which they are stale", muster.ErrInvalid, o.DeadAfter, o.StaleAfter)
	case o.ContainerBlocks < 1 || o.ContainerBlocks > maxContainerBlocks:
		return fmt.Errorf("%w: %d blocks a container; from 1 to %d", muster.ErrInvalid, o.ContainerBlocks, maxContainerBlocks)
	case o.OpenContainers < 1 || o.OpenContainers > maxOpenContainers:
		return fmt.Errorf("%w: %d open containers; from 1 to %d", muster.ErrInvalid, o.OpenContainers, maxOpenContainers)
	case o.PlanEvery > 0 && o.PlanEvery < time.Millisecond:
		return fmt.Errorf("%w: replicas are looked after every %v; at least every 1 ms, or less than 0 for never", muster.ErrInvalid, o.PlanEvery)
	case o.MaxCopies < 1 || o.MaxCopies > maxMaxCopies || o.MaxCopiesPerNode < 1 || o.MaxCopiesPerNode > maxMaxCopies:
		return fmt.Errorf("%w: %d copies at a time, and %d of a datanode; from 1 to %d", muster.ErrInvalid, o.MaxCopies, o.MaxCopiesPerNode, maxMaxCopies)
	case o.MemTableBytes < minMemTableBytes || o.MemTableBytes > maxMemTableBytes:
		return fmt.Errorf("%w: memtable of %d bytes; from %d to %d", muster.ErrInvalid, o.MemTableBytes, minMemTableBytes, maxMemTableBytes)
	}
	return cmp.Or(o.validateKeys(), o.Schema.Validate())
}

// The bounds of Options.
const (
	maxContainerBlocks = 1 << 30
	maxOpenContainers  = 1000
	maxMaxCopies       = 10_000
	minMemTableBytes   = 64 << 10
	maxMemTableBytes   = 2 << 30
)

// withDefaults returns o with its zeros replaced.
func (o Options) withDefaults() Options {
	o.MappingCheck = cmp.Or(o.MappingCheck, defaultMappingCheck)
	o.Heartbeat = cmp.Or(o.Heartbeat, defaultHeartbeat)
	o.StaleAfter = cmp.Or(o.StaleAfter, defaultStaleAfter)
	o.DeadAfter = cmp.Or(o.DeadAfter, defaultDeadAfter)
	o.ReportGrace = cmp.Or(o.ReportGrace, defaultReportGrace)
	o.ContainerBlocks = cmp.Or(o.ContainerBlocks, defaultContainerBlocks)
	o.OpenContainers = cmp.Or(o.OpenContainers, defaultOpenContainers)
	o.PlanEvery = cmp.Or(o.PlanEvery, defaultPlanEvery)
	o.MaxCopies = cmp.Or(o.MaxCopies, defaultMaxCopies)
	o.MaxCopiesPerNode = cmp.Or(o.MaxCopiesPerNode, defaultMaxCopiesPerNode)
	o.OrderTimeout = cmp.Or(o.OrderTimeout, defaultOrderTimeout)
	o.ReplicaGrace = cmp.Or(o.ReplicaGrace, defaultReplicaGrace)
	o.MemTableBytes = cmp.Or(o.MemTableBytes, defaultMemTableBytes)
	o.keyDefaults()
	o.Schema = o.Schema.Explicit()
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

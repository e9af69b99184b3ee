package configs

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"strconv"
	"time"
)

// Validate names the first key whose value is out of its bounds.
func (c Config) Validate() error {
	checks := []error{
		notEmpty("data", c.Data),
		address("server.listen", c.Server.Listen, 0),
		within("server.max_connections", c.Server.MaxConnections, 1, 1_000_000),
		within("server.max_calls", c.Server.MaxCalls, 1, 1_000_000),
		within("server.stop_timeout", c.Server.StopTimeout, 0, Duration(time.Hour)),
		within("namespace.image_size", c.Namespace.ImageSize, 0, 1<<50),
		within("namespace.cache_size", c.Namespace.CacheSize, 1<<20, 1<<50),
		within("namespace.memtable_size", c.Namespace.MemTableSize, 1<<20, 2<<30),
		within("namespace.request_age", c.Namespace.RequestAge, Duration(10*time.Minute), Duration(24*time.Hour)),
		within("namespace.request_max", c.Namespace.RequestMax, 1000, 100_000_000),
		within("namespace.lease", c.Namespace.Lease, Duration(time.Second), Duration(24*time.Hour)),
		within("listing.max_paths", c.Listing.MaxPaths, 1, 1_000_000),
		within("listing.max_limit", c.Listing.MaxLimit, 1, 100_000),
		within("listing.limit", c.Listing.Limit, 1, c.Listing.MaxLimit),
		within("listing.page_size", c.Listing.PageSize, 1<<10, 512<<10),
		within("listing.snapshot_age", c.Listing.SnapshotAge, Duration(time.Second), Duration(time.Hour)),
		c.Locations.validate(),
		c.Datanode.validate(),
		oneOf("log.format", c.Log.Format, "text", "json"),
		address("client.server", c.Client.Server, 1),
		within("client.connections", c.Client.Connections, 1, 10_000),
		within("client.umask", c.Client.Umask, 0, 0o777),
		c.Client.validateGroups(),
	}
	return cmp.Or(checks...)
}

func (l Locations) validate() error {
	checks := []error{
		within("locations.cache_size", l.CacheSize, 1, 100_000_000),
		within("locations.cache_ttl", l.CacheTTL, Duration(time.Second), Duration(30*24*time.Hour)),
		address("locations.listen", l.Listen, 0),
		notEmpty("locations.data", l.Data),
		within("locations.heartbeat", l.Heartbeat, Duration(10*time.Millisecond), Duration(time.Minute)),
		longer("locations.stale_after", l.StaleAfter, "locations.heartbeat", l.Heartbeat),
		longer("locations.dead_after", l.DeadAfter, "locations.stale_after", l.StaleAfter),
		within("locations.report_grace", l.ReportGrace, Duration(time.Millisecond), Duration(time.Hour)),
		within("locations.container_blocks", l.ContainerBlocks, 1, 1_000_000_000),
		within("locations.open_containers", l.OpenContainers, 1, 1000),
		within("locations.copies", l.Copies, 1, 10_000),
		within("locations.copies_per_node", l.CopiesPerNode, 1, 10_000),
		within("locations.replica_grace", l.ReplicaGrace, Duration(time.Millisecond), Duration(24*time.Hour)),
		oneOf("locations.tokens", l.Tokens, TokensAuto, TokensOn, TokensOff),
	}
	if l.Server != "" {
		checks = append(checks, address("locations.server", l.Server, 1))
	}
	if n := len(l.Levels); n == 1 || n > 16 {
		checks = append(checks, fmt.Errorf("locations.levels: %d levels; name 2 to 16, from the root to the nodes, or none", n))
	}
	return cmp.Or(checks...)
}

func (d Datanode) validate() error {
	checks := []error{
		within("datanode.count", d.Count, 0, 100),
		address("datanode.listen", d.Listen, 0),
		within("datanode.reserve", d.Reserve, 1, 1<<50),
		within("datanode.scrub_rate", d.ScrubRate, 64<<10, 1<<40),
		within("datanode.scrub_every", d.ScrubEvery, Duration(time.Second), Duration(10*365*24*time.Hour)),
		within("datanode.copies", d.Copies, 1, 1000),
		within("datanode.copy_rate", d.CopyRate, 64<<10, 1<<40),
	}
	if len(d.Data) == 0 {
		checks = append(checks, fmt.Errorf("datanode.data: name the folder of its blocks, or one for each disk"))
	}
	return cmp.Or(checks...)
}

func (c Client) validateGroups() error {
	if len(c.Groups) > 0 && c.User == "" {
		return fmt.Errorf("client.groups: %v needs client.user: groups without a user are the operating system's", c.Groups)
	}
	return nil
}

func notEmpty(key, value string) error {
	if value == "" {
		return fmt.Errorf("%s: must not be empty", key)
	}
	return nil
}

// within refuses a value outside low to high, both of which are allowed.
func within[T int | Size | Duration | Mode](key string, value, low, high T) error {
	if value < low || value > high {
		return fmt.Errorf("%s: %v is out of range; it must be %v to %v", key, value, low, high)
	}
	return nil
}

// longer refuses a time that is not longer than that of another key, or more than a month.
func longer(key string, value Duration, than string, other Duration) error {
	if value <= other {
		return fmt.Errorf("%s: %v must be more than the %v of %s", key, value, other, than)
	}
	return within(key, value, 0, Duration(31*24*time.Hour))
}

func oneOf[T ~string](key string, value T, allowed ...T) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("%s: %q is unknown; it must be one of %v", key, value, allowed)
}

// address refuses what is not HOST:PORT with a port of at least low.
func address(key, value string, low int) error {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		return fmt.Errorf("%s: %q is no address; write it as HOST:PORT", key, value)
	}
	if n, err := strconv.Atoi(port); err != nil || n < low || n > math.MaxUint16 {
		return fmt.Errorf("%s: port %q of %q must be a number from %d to %d", key, port, value, low, math.MaxUint16)
	}
	return nil
}

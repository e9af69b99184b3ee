package configs

import (
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
		within("listing.max_paths", c.Listing.MaxPaths, 1, 1_000_000),
		within("listing.max_limit", c.Listing.MaxLimit, 1, 100_000),
		within("listing.limit", c.Listing.Limit, 1, c.Listing.MaxLimit),
		within("listing.page_size", c.Listing.PageSize, 1<<10, 512<<10),
		within("listing.snapshot_age", c.Listing.SnapshotAge, Duration(time.Second), Duration(time.Hour)),
		oneOf("log.format", c.Log.Format, "text", "json"),
		address("client.server", c.Client.Server, 1),
		within("client.connections", c.Client.Connections, 1, 10_000),
		within("client.umask", c.Client.Umask, 0, 0o777),
		c.Client.validateGroups(),
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
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

func oneOf(key, value string, allowed ...string) error {
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

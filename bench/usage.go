package bench

import (
	"context"
	"math"
	"runtime"

	"github.com/muster-fs/muster/client"
)

// usage is what a process has used since it started. What is not known is NaN.
type usage struct {
	cpu     float64 // seconds
	mallocs float64 // objects
	bytes   float64 // of all objects ever made
}

// unknown is the usage of a process that does not exist, or does not tell.
func unknown() usage { return usage{math.NaN(), math.NaN(), math.NaN()} }

func (u usage) since(before usage) usage {
	return usage{u.cpu - before.cpu, u.mallocs - before.mallocs, u.bytes - before.bytes}
}

// per returns the usage for each of n.
func (u usage) per(n int) usage {
	return usage{u.cpu / float64(n), u.mallocs / float64(n), u.bytes / float64(n)}
}

// ownUsage is this process's.
func ownUsage() usage {
	u := unknown()
	if cpu, ok := cpuTime(); ok {
		u.cpu = cpu.Seconds()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.mallocs, u.bytes = float64(m.Mallocs), float64(m.TotalAlloc)
	return u
}

// serverUsage is that of the server's process, as far as its status tells.
func serverUsage(ctx context.Context, c *client.Client) (usage, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return unknown(), err
	}
	return usage{counterOf(s, "cpu_seconds"), counterOf(s, "mallocs"), counterOf(s, "alloc_bytes")}, nil
}

// counterOf is a counter of a server; NaN: it does not tell.
func counterOf(s client.Status, name string) float64 {
	for _, c := range s.Counters {
		if c.Name == name {
			return c.Value
		}
	}
	return math.NaN()
}

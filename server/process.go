package server

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
)

// process is what the server's process has used since it started, and what it holds.
type process struct {
	cpuSeconds    float64 // of user and system
	mallocs       uint64  // objects allocated
	allocBytes    uint64  // in them
	heapBytes     uint64  // objects on the heap
	residentBytes uint64
}

// The metrics of processNow, in its order. Unlike runtime.ReadMemStats they do not stop
// the world; what a processor has allocated since its last span is missing.
var processMetrics = [...]string{
	"/gc/heap/allocs:objects",
	"/gc/heap/tiny/allocs:objects",
	"/gc/heap/allocs:bytes",
	"/memory/classes/heap/objects:bytes",
	"/memory/classes/total:bytes",
	"/memory/classes/heap/released:bytes",
}

func processNow() process {
	var samples [len(processMetrics)]metrics.Sample
	for i, name := range processMetrics {
		samples[i].Name = name
	}
	metrics.Read(samples[:])
	value := func(i int) uint64 { return samples[i].Value.Uint64() }
	p := process{
		cpuSeconds: cpuSeconds(),
		mallocs:    value(0) + value(1),
		allocBytes: value(2),
		heapBytes:  value(3),
	}
	var ok bool
	if p.residentBytes, ok = residentBytes(); !ok {
		p.residentBytes = value(4) - value(5) // what Go's runtime knows of
	}
	return p
}

// residentBytes is the process's memory as the kernel counts it, where that can be asked
// for cheaply.
func residentBytes() (uint64, bool) {
	b, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(b)
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	return pages * uint64(os.Getpagesize()), err == nil
}

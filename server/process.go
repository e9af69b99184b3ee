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
	residentBytes uint64  // of memory, now
	residentMax   uint64  // the most so far, 0 where nobody knows
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
	if p.residentBytes, p.residentMax = residentMemory(); p.residentBytes == 0 {
		p.residentBytes = value(4) - value(5) // what Go's runtime knows of
	}
	return p
}

// residentMemory is the process's memory as the kernel counts it, in bytes, now and at most so
// far; 0 where that cannot be asked for cheaply.
func residentMemory() (now, most uint64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) != 3 || string(fields[2]) != "kB" {
			continue
		}
		n, err := strconv.ParseUint(string(fields[1]), 10, 64)
		switch {
		case err != nil:
		case string(fields[0]) == "VmRSS:":
			now = n << 10
		case string(fields[0]) == "VmHWM:":
			most = n << 10
		}
	}
	return now, most
}

//go:build !unix

package server

import "runtime/metrics"

// cpuSeconds is the processor time of the process as Go's runtime estimates it, at the
// last collection of garbage.
func cpuSeconds() float64 {
	samples := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(samples)
	return samples[0].Value.Float64() - samples[1].Value.Float64()
}

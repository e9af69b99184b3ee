package bench

import (
	"math"
	"time"
)

// ContentionMeasurement is what an arm of a Contention did, or how long views took beside one.
// What a figure means nothing for is NaN.
type ContentionMeasurement struct {
	Measurement
	Max   Figure `json:"max_us"`
	CPU   Figure `json:"cpu_us"` // of both processes, an operation; of what runs alone
	Burnt Figure `json:"burnt"`  // of the CPU time that was to be burnt beside it
}

// Measurements are what the experiment found: the stream and the writers, each held against its
// pace beside what burns CPU, and the views.
func (r *ContentionResult) Measurements(w LockWait) []ContentionMeasurement {
	none := Figure(math.NaN())
	of := func(name, arm string, goroutines int, pace, ratio Figure) ContentionMeasurement {
		m := Measurement{Bench: "writers", Case: name, Arm: arm, Goroutines: goroutines, OpsPerSecond: pace, P50: none, P99: none, Ratio: ratio, Equal: true}
		return ContentionMeasurement{m, none, none, none}
	}
	all := []ContentionMeasurement{
		of("stream", "burners", 1, r.StreamBurners, 1),
		of("stream", "writers", 1, r.StreamWriters, r.StreamRatio),
		of("stream", "alone", 1, r.StreamAlone, r.StreamAlone/r.StreamBurners),
		of("writers", "burners", r.Writers, r.WritersBurners, 1),
		of("writers", "stream", r.Writers, r.WritersStream, r.WritersRatio),
		of("writers", "alone", r.Writers, r.WritersAlone, r.WritersAlone/r.WritersBurners),
		of("view", "writers", 1, none, none),
	}
	all[0].Burnt, all[2].CPU = r.StreamBurnt, r.CPUStream
	all[3].Burnt, all[5].CPU = r.WritersBurnt, r.CPUWriter
	micros := func(d time.Duration) Figure { return Figure(d.Seconds() * 1e6) }
	view := &all[6]
	view.P50, view.P99, view.Max = micros(w.Median), micros(w.P99), micros(w.Max)
	return all
}

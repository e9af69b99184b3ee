package bench

import "math"

// ScaleMeasurement is a part of what a Scale found. What a figure means nothing for is NaN.
type ScaleMeasurement struct {
	Measurement
	Directories  int    `json:"directories"`
	Files        int    `json:"files"`
	Seconds      Figure `json:"s"`
	CPUServer    Figure `json:"cpu_us_server"` // a status
	CPUClient    Figure `json:"cpu_us_client"`
	AllocsServer Figure `json:"allocs_per_status_server"`
	First        Figure `json:"first_row_ms"`
	Memory       Figure `json:"resident_max_bytes"` // of the server that did it
	StoreBytes   Figure `json:"store_bytes"`
	Images       Figure `json:"images"`
	ImageBytes   Figure `json:"image_bytes"`
}

// Measurements are the filling in inodes a second, the openings, and the listings in statuses a
// second, which are held against the cold one.
func (r *ScaleResult) Measurements() []ScaleMeasurement {
	none := Figure(math.NaN())
	of := func(name, arm string, goroutines int, rate, seconds, ratio Figure) ScaleMeasurement {
		m := Measurement{Bench: "scale", Case: name, Arm: arm, Goroutines: goroutines, OpsPerSecond: rate, P50: none, P99: none, Ratio: ratio, Equal: r.RowsEqual}
		return ScaleMeasurement{
			Measurement: m, Directories: r.Directories, Files: r.Files, Seconds: seconds, CPUServer: none, CPUClient: none, AllocsServer: none, First: none,
			Memory: none, StoreBytes: r.StoreBytes, Images: none, ImageBytes: none,
		}
	}
	fill := of("fill", "batches", r.Callers, r.FillRate, r.Fill, none)
	fill.Memory = r.FillMemory
	list := func(arm string, l *ScaleListing) ScaleMeasurement {
		m := of("list", arm, 1, l.Rate, l.Took, l.Rate/r.Cold.Rate)
		m.CPUServer, m.CPUClient, m.AllocsServer, m.First = l.CPUServer, l.CPUClient, l.AllocsServer, l.First
		m.Memory, m.Images, m.ImageBytes = r.Memory, r.Images, r.ImageBytes
		return m
	}
	return []ScaleMeasurement{
		fill,
		of("open", "stopped", 1, 1/r.Open, r.Open, 1), of("open", "killed", 1, 1/r.OpenKilled, r.OpenKilled, r.Open/r.OpenKilled),
		list("cold", &r.Cold), list("hot", &r.Hot),
	}
}

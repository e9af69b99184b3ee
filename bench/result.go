package bench

import (
	"math"
	"slices"
)

// Result is what one arm did in one place with one shape: medians of its rounds. Bytes are
// those of messages, without the headers of TCP; in process, those of the rows' frames.
type Result struct {
	Shape       string `json:"shape"`
	Place       string `json:"place"`
	Arm         string `json:"arm"`
	Goroutines  int    `json:"goroutines"`
	Located     bool   `json:"located"`
	Cold        bool   `json:"cold"` // the server kept no directory in memory
	Rounds      int    `json:"rounds"`
	Directories int    `json:"directories"` // listed in a round; fewer than the shape has if all would take too long
	Statuses    int    `json:"statuses"`    // rows of a round
	Calls       int    `json:"calls"`       // of a round

	StatusesPerSecond    Figure `json:"statuses_per_s"`
	MinStatusesPerSecond Figure `json:"statuses_per_s_min"`
	MaxStatusesPerSecond Figure `json:"statuses_per_s_max"`
	MicrosPerStatus      Figure `json:"us_per_status"`

	// Of CPU time, in user and system mode: µs for each status are seconds for a million.
	CPUServer Figure `json:"cpu_us_server"`
	CPUClient Figure `json:"cpu_us_client"`

	Bytes            Figure `json:"bytes_per_status"`
	AllocsServer     Figure `json:"allocs_per_status_server"`
	AllocsClient     Figure `json:"allocs_per_status_client"`
	AllocBytesServer Figure `json:"alloc_bytes_per_status_server"`
	AllocBytesClient Figure `json:"alloc_bytes_per_status_client"`

	FirstRow  Figure `json:"first_row_ms"`
	Ratio     Figure `json:"ratio_to_iterator"` // statuses a second, to those of one iterator with this shape and place
	RowsEqual bool   `json:"rows_equal"`

	// Of one iterator with a wire: what a call costs that does nothing, and how many times
	// that a call of the iterator takes.
	EmptyCall        Figure `json:"empty_call_us"`
	RatioToEmptyCall Figure `json:"ratio_to_empty_call"`
}

// ArmName is the arm's name with the number of its goroutines, as Arm.String writes it.
func (r *Result) ArmName() string { return Arm{Name: r.Arm, Goroutines: r.Goroutines}.String() }

// Label is ArmName, and says whether locations were listed too.
func (r *Result) Label() string {
	if r.Located {
		return r.ArmName() + " located"
	}
	return r.ArmName()
}

// round is one timed listing by an arm, or several in a row of a small table.
type round struct {
	rows, calls    int
	seconds        float64
	first          float64 // seconds to the first row
	server, client usage   // for each row
	empty          float64 // seconds of an empty call
}

// summarize fills in what the rounds say.
func (r *Result) summarize(rounds []round) {
	of := func(value func(round) float64) []float64 {
		values := make([]float64, len(rounds))
		for i := range rounds {
			values[i] = value(rounds[i])
		}
		return values
	}
	rates := of(func(r round) float64 { return float64(r.rows) / r.seconds })
	r.Rounds, r.Statuses, r.Calls = len(rounds), rounds[0].rows, rounds[0].calls
	r.StatusesPerSecond = median(rates)
	r.MinStatusesPerSecond, r.MaxStatusesPerSecond = Figure(slices.Min(rates)), Figure(slices.Max(rates))
	r.MicrosPerStatus = 1e6 / r.StatusesPerSecond
	r.CPUServer = 1e6 * median(of(func(r round) float64 { return r.server.cpu }))
	r.CPUClient = 1e6 * median(of(func(r round) float64 { return r.client.cpu }))
	r.AllocsServer = median(of(func(r round) float64 { return r.server.mallocs }))
	r.AllocsClient = median(of(func(r round) float64 { return r.client.mallocs }))
	r.AllocBytesServer = median(of(func(r round) float64 { return r.server.bytes }))
	r.AllocBytesClient = median(of(func(r round) float64 { return r.client.bytes }))
	r.FirstRow = 1e3 * median(of(func(r round) float64 { return r.first }))
	r.EmptyCall = 1e6 * median(of(func(r round) float64 { return r.empty }))
	r.RatioToEmptyCall = 1e6 * median(of(func(r round) float64 { return r.seconds / float64(r.calls) })) / r.EmptyCall
}

// compare fills in the ratios to the sequential iterator among the results of one shape
// and place: with locations to that with them.
func compare(results []Result) {
	for _, located := range [...]bool{false, true} {
		base := Figure(math.NaN())
		for _, r := range results {
			if r.Arm == "iterator" && r.Goroutines == 1 && r.Located == located {
				base = r.StatusesPerSecond
			}
		}
		for i := range results {
			if r := &results[i]; r.Located == located {
				r.Ratio = r.StatusesPerSecond / base
			}
		}
	}
}

// CostOfLocations says how many times as long as without locations a status took with them, which
// r is of. It is not known if the same without was not measured.
func (r *Result) CostOfLocations(results []Result) Figure {
	for _, other := range results {
		if r.Located && !other.Located && other.Shape == r.Shape && other.Place == r.Place && other.ArmName() == r.ArmName() {
			return r.MicrosPerStatus / other.MicrosPerStatus
		}
	}
	return Figure(math.NaN())
}

package bench

import (
	"math"
	"slices"
	"strconv"
)

// Figure is a measured number. One that could not be measured is NaN, which is null in
// JSON.
type Figure float64

// Known says whether it was measured. What was divided by nothing was not.
func (f Figure) Known() bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// MarshalJSON writes six digits and no exponent.
func (f Figure) MarshalJSON() ([]byte, error) {
	if !f.Known() {
		return []byte("null"), nil
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', 6, 64), 64)
	return strconv.AppendFloat(nil, rounded, 'f', -1, 64), err
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Figure) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*f = Figure(math.NaN())
		return nil
	}
	value, err := strconv.ParseFloat(string(text), 64)
	*f = Figure(value)
	return err
}

// median returns the middle of the values, or the mean of the two in the middle. It is NaN
// if there are none or one of them is not known.
func median(values []float64) Figure {
	if len(values) == 0 || slices.ContainsFunc(values, math.IsNaN) {
		return Figure(math.NaN())
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return Figure(sorted[middle])
	}
	return Figure((sorted[middle-1] + sorted[middle]) / 2)
}

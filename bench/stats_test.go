package bench

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   Figure
	}{
		{[]float64{7}, 7}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 100}, 3.5}, {[]float64{-1, -3, -2}, -2},
	} {
		before := slices.Clone(test.values)
		if got := median(test.values); got != test.want || !slices.Equal(before, test.values) {
			t.Errorf("median of %v: %v", before, got)
		}
	}
	if median(nil).Known() || median([]float64{1, math.NaN(), 2}).Known() {
		t.Error("a median of nothing is known")
	}
}

func TestFiguresInJSON(t *testing.T) {
	for figure, want := range map[Figure]string{
		0: "0", 1.5: "1.5", 1_234_567.89: "1234570", 0.000123456789: "0.000123457", 3e9: "3000000000", -2: "-2", Figure(math.Inf(1)): "null",
	} {
		text, err := json.Marshal(figure)
		if err != nil || string(text) != want {
			t.Errorf("%v: %s, %v; want %s", float64(figure), text, err, want)
		}
	}
	text, err := json.Marshal(Figure(math.NaN()))
	var back Figure
	if err != nil || string(text) != "null" || json.Unmarshal(text, &back) != nil || back.Known() {
		t.Errorf("what is not known: %s, %v, %v", text, back, err)
	}
}

// All that is said of an arm is the median of its rounds, or their bounds.
func TestResultsAreMediansOfRounds(t *testing.T) {
	rounds := []round{
		{rows: 1000, calls: 10, seconds: 2, first: 0.002, server: usage{2e-6, 3, 30}, client: usage{1e-6, 1, 5}, empty: 0.1},
		{rows: 1000, calls: 10, seconds: 1, first: 0.001, server: usage{1e-6, 2, 20}, client: usage{3e-6, 3, 15}, empty: 0.05},
		{rows: 1000, calls: 10, seconds: 4, first: 0.009, server: usage{9e-6, 9, 90}, client: usage{2e-6, 2, 10}, empty: 0.2},
	}
	var r Result
	r.summarize(rounds)
	for name, got := range map[string][2]Figure{
		"rounds":           {Figure(r.Rounds), 3},
		"statuses":         {Figure(r.Statuses), 1000},
		"calls":            {Figure(r.Calls), 10},
		"statuses/s":       {r.StatusesPerSecond, 500},
		"least":            {r.MinStatusesPerSecond, 250},
		"most":             {r.MaxStatusesPerSecond, 1000},
		"µs":               {r.MicrosPerStatus, 2000},
		"CPU, server":      {r.CPUServer, 2},
		"CPU, client":      {r.CPUClient, 2},
		"allocs, server":   {r.AllocsServer, 3},
		"allocs, client":   {r.AllocsClient, 2},
		"bytes, server":    {r.AllocBytesServer, 30},
		"bytes, client":    {r.AllocBytesClient, 10},
		"first row":        {r.FirstRow, 2},
		"empty call":       {r.EmptyCall, 1e5},
		"to an empty call": {r.RatioToEmptyCall, 2},
	} {
		if math.Abs(float64(got[0]-got[1])) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got[0], got[1])
		}
	}
}

func TestRatiosAreToTheSequentialIterator(t *testing.T) {
	all := []Result{
		{Arm: "iterator", Goroutines: 16, StatusesPerSecond: 300},
		{Arm: "iterator", Goroutines: 1, StatusesPerSecond: 100},
		{Arm: "stream", Goroutines: 1, StatusesPerSecond: 5000},
	}
	compare(all)
	if all[0].Ratio != 3 || all[1].Ratio != 1 || all[2].Ratio != 50 {
		t.Errorf("%v, %v, %v", all[0].Ratio, all[1].Ratio, all[2].Ratio)
	}
	compare(all[2:])
	if all[2].Ratio.Known() {
		t.Errorf("without an iterator the ratio is %v", all[2].Ratio)
	}
}

// Programs read these fields.
func TestFieldsOfAResult(t *testing.T) {
	text, err := json.Marshal(Result{Shape: "30000x1", Place: "loopback+1ms", Arm: "pages-100", EmptyCall: Figure(math.NaN())})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"shape":"30000x1","place":"loopback+1ms","arm":"pages-100","goroutines":0,"located":false,"cold":false,"rounds":0,` +
		`"directories":0,"statuses":0,"calls":0,"statuses_per_s":0,"statuses_per_s_min":0,"statuses_per_s_max":0,"us_per_status":0,` +
		`"cpu_us_server":0,"cpu_us_client":0,"bytes_per_status":0,"allocs_per_status_server":0,"allocs_per_status_client":0,` +
		`"alloc_bytes_per_status_server":0,"alloc_bytes_per_status_client":0,"first_row_ms":0,"ratio_to_iterator":0,` +
		`"rows_equal":false,"empty_call_us":null,"ratio_to_empty_call":0}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

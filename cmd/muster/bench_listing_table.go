package main

import (
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/muster-fs/muster/bench"
)

// printListingTable prints the results of one shape in one place. µs, bytes and
// allocations are for each status; µs of CPU for each are seconds for a million.
func (a *app) printListingTable(results []bench.Result) error {
	first := results[0]
	cold := ""
	if first.Cold {
		cold = ", cold"
	}
	fmt.Fprintf(a.stdout, "\n%s, %s%s\n", first.Shape, first.Place, cold)
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "arm\tstatuses/s\tmin\tmax\tµs\tto iterator\tstatuses\tcalls\tbytes\t"+
		"CPU µs srv\tCPU µs cli\tallocs srv\tallocs cli\talloc B srv\talloc B cli\tfirst row ms\trows\t\n")
	for _, r := range results {
		rows := "equal"
		if !r.RowsEqual {
			rows = "DIFFER"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.Label(),
			whole(r.StatusesPerSecond), whole(r.MinStatusesPerSecond), whole(r.MaxStatusesPerSecond), short(r.MicrosPerStatus), times(r.Ratio),
			humanize.Comma(int64(r.Statuses)), humanize.Comma(int64(r.Calls)), short(r.Bytes), short(r.CPUServer), short(r.CPUClient),
			short(r.AllocsServer), short(r.AllocsClient), short(r.AllocBytesServer), short(r.AllocBytesClient), short(r.FirstRow), rows)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if cost := r.CostOfLocations(results); cost.Known() {
			fmt.Fprintf(a.stdout, "With locations %s takes %s times as long for a status.\n", r.ArmName(), short(cost))
		}
	}
	for _, r := range results {
		if r.EmptyCall.Known() {
			fmt.Fprintf(a.stdout, "An empty call takes %s µs; one of the iterator, with %s, %s times that.\n",
				short(r.EmptyCall), english(r.Statuses/r.Calls, "row"), short(r.RatioToEmptyCall))
		}
	}
	return nil
}

// times writes a ratio.
func times(f bench.Figure) string {
	if !f.Known() {
		return "-"
	}
	return short(f) + "x"
}

// whole writes a figure without decimals.
func whole(f bench.Figure) string {
	if !f.Known() {
		return "-"
	}
	return humanize.Comma(int64(f))
}

// short writes a figure with three digits, or all before the point.
func short(f bench.Figure) string {
	switch {
	case !f.Known():
		return "-"
	case f >= 100:
		return whole(f)
	case f < 0.001:
		return strconv.FormatFloat(float64(f), 'f', 4, 64)
	}
	return strconv.FormatFloat(float64(f), 'g', 3, 64)
}

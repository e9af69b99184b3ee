package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-fs/muster/bench"
)

// contestFlags are what an experiment is told whose arms take turns at one operation.
type contestFlags struct {
	output outputFlags
	quick  bool
}

// add adds the flags; rounds and roundTime are the experiment's.
func (f *contestFlags) add(flags *pflag.FlagSet, rounds *int, roundTime *time.Duration, quick string) {
	f.output.addOutput(flags, formatText, formatJSON)
	flags.IntVar(rounds, "rounds", *rounds, "`NUMBER` of rounds")
	flags.DurationVar(roundTime, "round-time", *roundTime, "`TIME` that an arm runs in a round")
	flags.BoolVar(&f.quick, "quick", false, quick)
}

// hurry makes a choice of --quick, unless it is made by a flag.
func hurry[T any](f *contestFlags, flags *pflag.FlagSet, flag string, choice *T, quick T) {
	if f.quick && !flags.Changed(flag) {
		*choice = quick
	}
}

// measured is a measurement, or one with figures of its own.
type measured interface{ Of() bench.Measurement }

// printMeasurements prints the results of an experiment, as a table or an object a line, and
// fails if an arm gave other answers than it had to.
func printMeasurements[M measured](a *app, results []M, f format) error {
	if f == formatJSON {
		out := json.NewEncoder(a.stdout)
		for i := range results {
			if err := out.Encode(&results[i]); err != nil {
				return err
			}
		}
		return judgeMeasurements(results)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "case\tgoroutines\tarm\tops/s\tp50 µs\tp99 µs\tratio\tanswers\t\n")
	for _, r := range results {
		m, answers := r.Of(), "equal"
		if !m.Equal {
			answers = "DIFFER"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", m.Case, m.Goroutines, m.Arm, whole(m.OpsPerSecond), short(m.P50), short(m.P99), times(m.Ratio), answers)
	}
	return errors.Join(t.Flush(), judgeMeasurements(results))
}

func judgeMeasurements[M measured](results []M) error {
	var errs []error
	for _, r := range results {
		if m := r.Of(); !m.Equal {
			errs = append(errs, fmt.Errorf("%s, %s, %s with %s: its answers were not those that they had to be", m.Bench, m.Case, m.Arm, english(m.Goroutines, "goroutine")))
		}
	}
	return errors.Join(errs...)
}

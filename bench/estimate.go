package bench

import "time"

// What Estimate takes things to cost. They need be right to a factor of two.
const (
	callCost  = 150 * time.Microsecond // with a wire
	callCPU   = 60 * time.Microsecond  // the part of it that others cannot use
	pageCost  = 10 * time.Microsecond  // with none
	rowCost   = time.Microsecond
	entryCost = 20 * time.Microsecond // of filling
)

// Estimate is about how long Run will take.
func (e *Experiment) Estimate() time.Duration {
	total := time.Duration(0)
	for _, t := range e.tables(tableRoot) {
		total += time.Duration(t.Entries()) * entryCost
	}
	for _, p := range e.Places {
		for _, s := range e.Shapes {
			for _, a := range e.arms(s) {
				total += e.estimate(p, s, a)
				if e.Located {
					total += e.estimate(p, s, a)
				}
			}
		}
	}
	return total
}

// estimate is about how long an arm takes in a cell: its rounds, and what goes before.
func (e *Experiment) estimate(p Place, s Shape, a Arm) time.Duration {
	calls := 1
	if a.Name != "stream" {
		calls = max((s.Partitions+a.unit-1)/a.unit, s.Statuses()/1000)
	}
	perCall := pageCost
	if p.Name != inProcess {
		perCall = max(callCPU, (callCost+p.Added)/time.Duration(a.Goroutines))
	}
	pass := time.Duration(calls)*perCall + time.Duration(s.Statuses())*rowCost
	once := min(max(pass, leastRound), e.RoundTime)
	return once * time.Duration(e.Rounds+1)
}

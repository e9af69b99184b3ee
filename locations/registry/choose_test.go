package registry

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/muster-fs/muster"
)

// onRacks makes candidates, so many on each rack, of load 0.
func onRacks(counts ...int) (all []candidate) {
	for rack, n := range counts {
		for range n {
			all = append(all, candidate{number: muster.NodeNumber(len(all)), rack: fmt.Sprintf("/r%d", rack)})
		}
	}
	return all
}

// racksOf returns the racks of chosen candidates.
func racksOf(all []candidate, chosen []muster.NodeNumber) (racks []string) {
	for _, n := range chosen {
		i := slices.IndexFunc(all, func(c candidate) bool { return c.number == n })
		racks = append(racks, all[i].rack)
	}
	return racks
}

func distinct[T comparable](all []T) int {
	set := map[T]int{}
	for _, v := range all {
		set[v]++
	}
	return len(set)
}

// TestCopiesGoToTwoRacksFirst: the second elsewhere than the first, the third beside the second.
func TestCopiesGoToTwoRacksFirst(t *testing.T) {
	for range 300 {
		all := onRacks(8, 8, 8, 8)
		chosen := choose(all, 5, false)
		racks := racksOf(all, chosen)
		if distinct(chosen) != 5 || racks[0] == racks[1] || racks[1] != racks[2] || distinct(racks) != 4 {
			t.Fatalf("%v on %v", chosen, racks)
		}
	}
}

// TestRacksThatAreTooSmall bend the rules as little as can be.
func TestRacksThatAreTooSmall(t *testing.T) {
	for _, c := range []struct {
		counts []int
		n      int
		coded  bool
		racks  int // of the chosen
		most   int // on one rack
	}{
		{[]int{3}, 3, false, 1, 3},
		{[]int{1, 1, 1}, 3, false, 3, 1},
		{[]int{1, 2}, 3, false, 2, 2},
		{[]int{5, 1}, 3, false, 2, 2},
		{[]int{1, 1, 1, 2}, 3, false, 3, 2},
		{[]int{2, 2}, 2, false, 2, 1},
		{[]int{9, 9}, 9, false, 2, 5},
		{[]int{4, 4, 4}, 5, true, 3, 2},
		{[]int{5, 1, 1}, 5, true, 3, 3},
		{[]int{1, 1, 12}, 14, true, 3, 12},
		{[]int{9, 9, 9, 9, 9}, 5, true, 5, 1},
		{[]int{9, 9, 9, 9, 9, 9, 9}, 14, true, 7, 2},
	} {
		for range 100 {
			all := onRacks(c.counts...)
			racks := racksOf(all, choose(all, c.n, c.coded))
			most := 0
			for _, r := range racks {
				same := 0
				for _, s := range racks {
					if r == s {
						same++
					}
				}
				most = max(most, same)
			}
			if len(racks) != c.n || distinct(racks) > c.racks || distinct(racks) < min(2, c.racks) || most > c.most {
				t.Fatalf("%d of %v, coded %v: %v", c.n, c.counts, c.coded, racks)
			}
		}
	}
}

// TestEveryDatanodeGetsItsShare: with equal loads each is chosen equally often, within what chance allows.
func TestEveryDatanodeGetsItsShare(t *testing.T) {
	const rounds, nodes = 20_000, 32
	var got [nodes]float64
	for range rounds {
		for _, n := range choose(onRacks(8, 8, 8, 8), 3, false) {
			got[n]++
		}
	}
	p := 3.0 / nodes
	mean, deviation := rounds*p, math.Sqrt(rounds*p*(1-p))
	for n, times := range got {
		if math.Abs(times-mean) > 6*deviation {
			t.Errorf("datanode %d was chosen %.0f times, want about %.0f", n, times, mean)
		}
	}
}

// TestTheLeastLoadedGoFirst as far as racks allow.
func TestTheLeastLoadedGoFirst(t *testing.T) {
	all := onRacks(4, 4)
	for i := range all {
		all[i].load = 5
		if n := all[i].number; n == 1 || n == 5 || n == 6 {
			all[i].load = 0
		}
	}
	for range 50 {
		chosen := choose(all, 3, false)
		slices.Sort(chosen[1:])
		if first := chosen[0]; first != 1 && first != 5 && first != 6 {
			t.Fatalf("%v", chosen)
		}
		if chosen[0] == 1 && !slices.Equal(chosen[1:], []muster.NodeNumber{5, 6}) {
			t.Fatalf("%v", chosen)
		}
	}
}

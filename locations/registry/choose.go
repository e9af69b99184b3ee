package registry

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/muster-fs/muster"
)

// candidate is a datanode that may get a new container.
type candidate struct {
	number muster.NodeNumber
	rack   string
	load   int // open containers that it is a member of
}

// choose returns n of the candidates, which are at least so many, and orders those anew: the least
// loaded go first, in random order among equals, as far as the racks allow.
//
// Of whole copies, the second is on another rack than the first and the third on the rack of the
// second, so that two racks are written to; all others, and all replicas of an erasure-coded
// container, are where the fewest are so far. A rack that has no more candidates is passed over.
func choose(all []candidate, n int, coded bool) []muster.NodeNumber {
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.load, b.load) })
	s := selection{left: slices.Clone(all), used: map[string]int{}, free: map[string]int{}}
	for _, c := range all {
		s.free[c.rack]++
	}
	for len(s.chosen) < n {
		if coded || !s.copies(n) {
			s.spread()
		}
	}
	return s.chosen
}

// selection is a choice that is being made.
type selection struct {
	left   []candidate // from the best
	chosen []muster.NodeNumber
	racks  []string       // of the chosen
	used   map[string]int // chosen on a rack
	free   map[string]int // left on a rack
}

// take chooses the best candidate on a rack that will do, if there is one.
func (s *selection) take(will func(rack string) bool) bool {
	i := slices.IndexFunc(s.left, func(c candidate) bool { return will(c.rack) })
	if i < 0 {
		return false
	}
	c := s.left[i]
	s.left = slices.Delete(s.left, i, i+1)
	s.chosen, s.racks = append(s.chosen, c.number), append(s.racks, c.rack)
	s.used[c.rack]++
	s.free[c.rack]--
	return true
}

// copies chooses the second or third of n whole copies, if racks allow what is wanted of them.
func (s *selection) copies(n int) bool {
	switch len(s.chosen) {
	case 1:
		other := func(rack string) bool { return rack != s.racks[0] }
		roomy := func(rack string) bool { return other(rack) && s.free[rack] > 1 } // for the third as well
		return n > 2 && s.take(roomy) || s.take(other)
	case 2:
		return s.take(func(rack string) bool { return rack == s.racks[1] })
	}
	return false
}

// spread chooses the best candidate of the racks with the fewest chosen.
func (s *selection) spread() {
	fewest := len(s.chosen)
	for _, c := range s.left {
		fewest = min(fewest, s.used[c.rack])
	}
	s.take(func(rack string) bool { return s.used[rack] == fewest })
}

package blocks

import (
	"fmt"
	"slices"
	"time"

	"github.com/muster-fs/muster"
)

// attempts are the calls for one answer, to one replica after the other.
type attempts struct {
	file  *File
	block *block
	where *where // that sites are taken from

	tried []trial // that have failed
	made  int     // calls that have failed
	stale bool    // a failure since the locations were asked for says that they are wrong
	round int     // how often all replicas had failed when they were asked for last
	asked bool    // they were asked for since none were known
	err   error   // of the last failure
	asks  error   // why locations could not be asked for
}

// trial is what became of one replica.
type trial struct {
	number muster.NodeNumber
	times  int
	last   time.Time
}

// attempt begins the attempts for an answer about b.
func (f *File) attempt(b *block) attempts {
	return attempts{file: f, block: b, where: f.located(b)}
}

// next chooses the replica to ask. It waits before one that has failed is asked again, and
// for new locations when all have failed.
func (a *attempts) next() (site, error) {
	for {
		if err := a.file.ended(); err != nil {
			return site{}, err
		}
		if len(a.where.sites) == 0 || a.where.err != nil {
			if err := a.locate(); err != nil {
				return site{}, err
			}
			continue
		}
		if a.made > 0 && a.made >= a.limit() {
			return site{}, a.failure()
		}
		s, t := a.choose()
		switch {
		case t == nil:
			return s, nil
		case a.stale && t.times > a.round:
			a.stale, a.round = false, t.times
			a.refresh()
		default:
			if err := a.file.sleep(time.Until(t.last.Add(a.pause(t)))); err != nil {
				return site{}, err
			}
			return s, nil
		}
	}
}

func (a *attempts) pause(t *trial) time.Duration {
	return a.file.options.Pause << min(t.times-1, 6)
}

func (a *attempts) limit() int {
	if n := a.file.options.Attempts; n > 0 {
		return n
	}
	return attemptsPerReplica * len(a.where.sites)
}

// choose returns the replica that has failed least often. Of several it is one that is not
// suspected of being away, and of these the one that answered last, or else the first.
func (a *attempts) choose() (best site, failed *trial) {
	served := a.block.served.Load()
	least := 0
	for i, s := range a.where.sites {
		t := a.trial(s.number)
		rank := 0
		if t != nil {
			rank = 4 * t.times
		}
		if s.suspicious() {
			rank += 2
		}
		if served != uint32(s.number)+1 {
			rank++
		}
		if i == 0 || rank < least {
			best, failed, least = s, t, rank
		}
	}
	return best, failed
}

func (a *attempts) trial(n muster.NodeNumber) *trial {
	for i := range a.tried {
		if a.tried[i].number == n {
			return &a.tried[i]
		}
	}
	return nil
}

// served says that s has answered.
func (a *attempts) served(s site) {
	s.trust()
	if n := uint32(s.number) + 1; a.block.served.Load() != n {
		a.block.served.Store(n)
	}
}

// failed says that s has not answered, or not rightly. An error that it returns is the end.
func (a *attempts) failed(s site, err error) error {
	if ended := a.file.ended(); ended != nil {
		return ended
	}
	a.made++
	a.err = fmt.Errorf("block %v at %s: %w", a.block.id, s.address, err)
	switch code := muster.CodeOf(err); {
	case code == muster.ErrUnauthenticated || code == muster.ErrPermission:
		return a.err
	case outdated(code):
		a.stale = true
		if code == muster.ErrUnavailable {
			s.distrust()
		}
	}
	t := a.trial(s.number)
	if t == nil {
		a.tried = append(a.tried, trial{number: s.number})
		t = &a.tried[len(a.tried)-1]
	}
	t.times++
	t.last = time.Now()
	return nil
}

// outdated says whether a failure with the code may mean that a block is not where it was.
func outdated(code muster.Code) bool {
	return slices.Contains([]muster.Code{muster.ErrNotFound, muster.ErrChanged, muster.ErrUnavailable}, code)
}

// locate asks once where the block is if that is not known.
func (a *attempts) locate() error {
	err := a.where.err
	if err == nil {
		err = fmt.Errorf("%w: no datanode has it", muster.ErrUnavailable)
	}
	if a.asked || !outdated(muster.CodeOf(err)) {
		if a.err == nil {
			a.err = fmt.Errorf("block %v: %w", a.block.id, err)
		}
		return a.failure()
	}
	a.asked = true
	a.refresh()
	return a.file.ended()
}

// refresh asks where the block is now. If that fails the reader makes do with what it has.
func (a *attempts) refresh() {
	var w *where
	if w, a.asks = a.file.relocate(a.block, a.where); a.asks == nil {
		a.where = w
	}
}

// failure is the error of all attempts.
func (a *attempts) failure() error {
	if a.asks != nil {
		return fmt.Errorf("%w; asked where it is now: %w", a.err, a.asks)
	}
	return a.err
}

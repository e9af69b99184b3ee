package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Place is where the arms list. It is written as in-process (the listing itself, with no
// wire and no client), loopback (a server in a process of its own), server (one that runs
// already), and with a round-trip time added, as in loopback+0.5ms.
type Place struct {
	Name  string        // in-process, loopback or server
	Added time.Duration // to the round-trip time, by a proxy
}

// The names of places.
const (
	inProcess = "in-process"
	loopback  = "loopback"
	running   = "server"
)

// Places returns the places that are compared if nothing else is asked for: on a server
// of the experiment's own, or on one that runs already.
func Places(ownServer bool) []Place {
	if !ownServer {
		return []Place{{Name: running}}
	}
	return []Place{
		{Name: inProcess}, {Name: loopback},
		{loopback, 500 * time.Microsecond}, {loopback, time.Millisecond}, {loopback, 5 * time.Millisecond},
	}
}

// maxAdded bounds the time that a proxy adds.
const maxAdded = time.Second

// ParsePlace reads what String writes.
func ParsePlace(text string) (Place, error) {
	name, added, delayed := strings.Cut(text, "+")
	p := Place{Name: name}
	if name != inProcess && name != loopback && name != running || delayed && name == inProcess {
		return Place{}, fmt.Errorf("place %q: use in-process, loopback or server, the last two also with a round-trip time added, such as loopback+1ms", text)
	}
	if delayed {
		var err error
		if p.Added, err = time.ParseDuration(added); err != nil || p.Added <= 0 || p.Added > maxAdded {
			return Place{}, fmt.Errorf("place %q: %q is no time of more than nothing and at most %v, such as 0.5ms", text, added, maxAdded)
		}
	}
	return p, nil
}

func (p Place) String() string {
	if p.Added == 0 {
		return p.Name
	}
	return fmt.Sprintf("%s+%sms", p.Name, strconv.FormatFloat(p.Added.Seconds()*1000, 'f', -1, 64))
}

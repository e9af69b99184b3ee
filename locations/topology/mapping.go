package topology

import (
	"io"
)

// Rule says where hosts are.
type Rule struct {
	Match string // a network such as 10.1.0.0/16, an IP address or a host name
	Rack  string // network location
}

// Mapping finds the rack of a host. The nil Mapping lists none.
type Mapping struct{}

// NewMapping checks the rules.
func NewMapping(rules []Rule) (*Mapping, error) { panic("not yet") }

// Rack returns where a host is: by its name, which must be the rule's but for the case of
// letters, or by the smallest network that its address is in. Of an unlisted one it
// returns muster.DefaultRack. It asks nobody: a name is not resolved.
func (m *Mapping) Rack(hostOrAddress string) (rack string, listed bool) { panic("not yet") }

// Rules returns the rules as they were given. They are not to be changed.
func (m *Mapping) Rules() []Rule { panic("not yet") }

// ParseMapping reads rules: one a line, a match and a network location with white space
// between; what follows a # is a comment. Errors name the line.
func ParseMapping(r io.Reader) ([]Rule, error) { panic("not yet") }

package topology

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/muster-fs/muster"
)

// MaxRules bounds the rules of a mapping.
const MaxRules = 100_000

// Rule says where hosts are.
type Rule struct {
	Match string // a network such as 10.1.0.0/16, an IP address or a host name
	Rack  string // network location
}

// Mapping finds the rack of a host. The nil Mapping lists none.
type Mapping struct {
	rules    []Rule
	hosts    map[string]string       // by name in small letters
	networks map[netip.Prefix]string // an address is a network of its own
	lengths  [2][]int                // that networks have, of IPv4 and IPv6, from the longest
}

// NewMapping checks the rules.
func NewMapping(rules []Rule) (*Mapping, error) {
	m := &Mapping{hosts: map[string]string{}, networks: map[netip.Prefix]string{}}
	for i, r := range rules {
		if err := m.add(r); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return m, nil
}

// add adds a rule. One that is there already does no harm.
func (m *Mapping) add(r Rule) error {
	rack, err := muster.CleanRack(r.Rack)
	if err != nil {
		return err
	}
	if len(m.rules) == MaxRules {
		return fmt.Errorf("%w: more than %d rules", muster.ErrLimit, MaxRules)
	}
	network, isNetwork, err := parseNetwork(r.Match)
	if err == nil && !isNetwork {
		err = muster.CheckHost(r.Match)
	}
	if err != nil {
		return err
	}
	before, again := "", false
	if isNetwork {
		before, again = m.networks[network]
		m.networks[network] = rack
		m.addLength(network)
	} else {
		name := strings.ToLower(r.Match)
		before, again = m.hosts[name]
		m.hosts[name] = rack
	}
	if again && before != rack {
		return fmt.Errorf("%w: %s is in %s already, and cannot be in %s too", muster.ErrInvalid, r.Match, before, rack)
	}
	m.rules = append(m.rules, Rule{r.Match, rack})
	return nil
}

func (m *Mapping) addLength(network netip.Prefix) {
	lengths := &m.lengths[family(network.Addr())]
	longestFirst := func(a, b int) int { return b - a }
	if at, found := slices.BinarySearchFunc(*lengths, network.Bits(), longestFirst); !found {
		*lengths = slices.Insert(*lengths, at, network.Bits())
	}
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// parseNetwork reads a network or an address, if it looks like one.
func parseNetwork(match string) (network netip.Prefix, ok bool, err error) {
	if a, err := netip.ParseAddr(match); err == nil {
		a = plain(a)
		return netip.PrefixFrom(a, a.BitLen()), true, nil
	}
	if !strings.Contains(match, "/") {
		return network, false, nil
	}
	network, err = netip.ParsePrefix(match)
	if err != nil {
		return network, false, fmt.Errorf("%w: %.64q is no network; write it as 10.1.0.0/16", muster.ErrInvalid, match)
	}
	if network.Masked() != network {
		return network, false, fmt.Errorf("%w: network %s has bits set after the first %d; did you mean %s?", muster.ErrInvalid, match, network.Bits(), network.Masked())
	}
	if a := network.Addr(); a.Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(a.Unmap(), network.Bits()-96)
	}
	return network, true, nil
}

// plain returns an address without what makes it differ from the same one seen elsewhere.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// Rack returns where a host is: by its name, which must be the rule's but for the case of
// letters, or by the smallest network that its address is in. Of an unlisted one it
// returns muster.DefaultRack. It asks nobody: a name is not resolved.
func (m *Mapping) Rack(hostOrAddress string) (rack string, listed bool) {
	if m == nil {
		return muster.DefaultRack, false
	}
	a, err := netip.ParseAddr(hostOrAddress)
	if err != nil {
		rack, listed = m.hosts[strings.ToLower(hostOrAddress)]
	} else {
		rack, listed = m.smallest(plain(a))
	}
	if !listed {
		rack = muster.DefaultRack
	}
	return rack, listed
}

// smallest returns the location of the smallest network that an address is in.
func (m *Mapping) smallest(a netip.Addr) (rack string, listed bool) {
	for _, bits := range m.lengths[family(a)] {
		if rack, listed := m.networks[netip.PrefixFrom(a, bits).Masked()]; listed {
			return rack, true
		}
	}
	return "", false
}

// Rules returns the rules in the order given. They are not to be changed.
func (m *Mapping) Rules() []Rule {
	if m == nil {
		return nil
	}
	return m.rules
}

// ParseMapping reads rules: one a line, a match and a network location with white space
// between; what follows a # is a comment. NewMapping takes what it returns; errors name
// the line.
func ParseMapping(r io.Reader) ([]Rule, error) {
	m := &Mapping{hosts: map[string]string{}, networks: map[netip.Prefix]string{}}
	lines := bufio.NewScanner(r)
	number := 0
	for lines.Scan() {
		number++
		text, _, _ := strings.Cut(lines.Text(), "#")
		if err := m.addLine(strings.Fields(text)); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	return m.rules, nil
}

// addLine adds the rule of a line, if it is not empty.
func (m *Mapping) addLine(fields []string) error {
	switch len(fields) {
	case 0:
		return nil
	case 2:
		return m.add(Rule{fields[0], fields[1]})
	}
	return fmt.Errorf("%w: %d words; write a network, address or host name, and a network location", muster.ErrInvalid, len(fields))
}

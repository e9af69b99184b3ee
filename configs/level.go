package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Level is a level of the topology, written NAME:COST, NAME:COST:PREFIX or
// NAME:COST:PREFIX:DEFAULT.
type Level struct {
	Name    string
	Cost    int    // of arriving at something of this level, on the way from one node to another
	Prefix  string // with which the names of this level begin; empty: any
	Default string // the name of what has no location; empty: default- and the level's name
}

// UnmarshalText reads rack:1 or dc:5:dc:dc-unknown.
func (l *Level) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ":")
	if len(parts) < 2 || len(parts) > 4 || parts[0] == "" {
		return fmt.Errorf("%q is no level; write it as NAME:COST, such as rack:1, or NAME:COST:PREFIX:DEFAULT", text)
	}
	cost, err := strconv.Atoi(parts[1])
	if err != nil || cost < 0 || cost > math.MaxInt32 {
		return fmt.Errorf("level %s: cost %q must be a number from 0 to %d", parts[0], parts[1], math.MaxInt32)
	}
	parts = append(parts, "", "")
	*l = Level{Name: parts[0], Cost: cost, Prefix: parts[2], Default: parts[3]}
	return nil
}

// MarshalText writes the level as UnmarshalText reads it.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String returns the level as MarshalText writes it.
func (l Level) String() string {
	text := l.Name + ":" + strconv.Itoa(l.Cost)
	if l.Prefix != "" || l.Default != "" {
		text += ":" + l.Prefix
	}
	if l.Default != "" {
		text += ":" + l.Default
	}
	return text
}

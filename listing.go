package muster

import (
	"bytes"
	"fmt"
)

// Outcome is how one given path of a listing ended. Each path has exactly one in a
// call, after its last row; rows whose outcome is not OK are partial.
type Outcome struct {
	Index     uint64 // of the path in the call, from 0
	Code      Code
	Message   string // for people; empty if OK
	Rows      uint64 // of this path, over all pages
	ID        uint64 // inode id of what was listed; 0 if it was not found
	ChangedAt uint64 // txid of the last change to the children's rows; 0 for a file or link
	Txid      uint64 // of the view that the path's end was read from
}

// Hidden is a preset of names that a listing leaves out. It applies to children,
// never to given paths.
type Hidden uint8

// The presets.
const (
	HiddenNone  Hidden = 0
	HiddenHive  Hidden = 1 // hides _* and .*
	HiddenSpark Hidden = 2 // hides .*, *._COPYING_, and _* without "=" other than _metadata* and _common_metadata*
)

// ParseHidden reads none, hive or spark; the empty text is none.
func ParseHidden(s string) (Hidden, error) {
	switch s {
	case "", "none":
		return HiddenNone, nil
	case "hive":
		return HiddenHive, nil
	case "spark":
		return HiddenSpark, nil
	}
	return 0, fmt.Errorf("%w: hidden preset %q; use none, hive or spark", ErrInvalid, s)
}

// String returns the preset as ParseHidden reads it.
func (h Hidden) String() string {
	switch h {
	case HiddenNone:
		return "none"
	case HiddenHive:
		return "hive"
	case HiddenSpark:
		return "spark"
	}
	return fmt.Sprintf("hidden(%d)", uint8(h))
}

// Hides says whether the preset leaves out a child of this name.
func (h Hidden) Hides(name []byte) bool {
	if h == HiddenNone || len(name) == 0 {
		return false
	}
	if name[0] == '.' || h == HiddenHive && name[0] == '_' {
		return true
	}
	if h == HiddenHive {
		return false
	}
	if bytes.HasSuffix(name, []byte("._COPYING_")) {
		return true
	}
	return name[0] == '_' && bytes.IndexByte(name, '=') < 0 &&
		!bytes.HasPrefix(name, []byte("_metadata")) && !bytes.HasPrefix(name, []byte("_common_metadata"))
}

// Locations says what a listing tells of where blocks are. The numbers are part of the wire
// format.
type Locations uint8

// What can be told.
const (
	NoLocations   Locations = 0
	LocationsHint Locations = 1 // unknown ones are marked
	LocationsMust Locations = 2 // a path some of whose locations cannot be had now fails with ErrUnavailable; own entries are for those who may read the files
)

// Consistency says what one state a stream's rows come from.
type Consistency uint8

// The consistencies. Within a page all rows are of one state in either.
const (
	ConsistencyPage     Consistency = 0 // each page has a view of its own; the stream can be resumed
	ConsistencySnapshot Consistency = 1 // one view for the whole stream, of bounded age
)

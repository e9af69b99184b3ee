package rows

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/muster-fs/muster"
)

// Columns is a set of columns: bit i stands for the i-th column of the schema. The
// bits are part of the wire format. The zero value stands for [DefaultColumns].
type Columns uint32

// The columns, in the order of the schema. ColPathIndex and ColName are always sent.
const (
	ColPathIndex   Columns = 1 << iota // index of the given path in the call, from 0
	ColName                            // empty for the own entry of a given path
	ColKind                            // muster.Kind
	ColLength                          // bytes; of a file
	ColMTime                           // ms since the epoch, UTC
	ColATime                           // ms since the epoch, UTC
	ColMode                            // permission bits and the sticky bit
	ColOwner                           // user name
	ColGroup                           // group name
	ColReplication                     // muster.Replication, packed
	ColBlockSize                       // bytes; of a file
	ColInodeID                         // never reused
	ColFlags                           // muster.FlagWriting
	ColLinkTarget                      // as it was given; of a link
	ColBlocks                          // list of blocks; of a file

	numColumns = iota
)

// The sets that matter.
const (
	AllColumns      Columns = 1<<numColumns - 1
	DefaultColumns          = AllColumns &^ ColBlocks
	LocatedColumns          = ColBlocks | ColFlags | ColReplication // what a listing with locations has in any case
	requiredColumns         = ColPathIndex | ColName
)

// ParseColumns returns the set of the named columns and of those that are always
// sent. No name at all gives [DefaultColumns]. An unknown name is muster.ErrInvalid.
func ParseColumns(names []string) (Columns, error) {
	var c Columns
next:
	for _, name := range names {
		for i := range columnTable {
			if name == columnTable[i].name {
				c |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("%w: unknown column %q; known are %s", muster.ErrInvalid, name, strings.Join(AllColumns.Names(), ", "))
	}
	return c.Normal(), nil
}

// Normal returns the set as it is sent: the default columns if c is empty, and
// always path_index and name. Bits that [Columns.Validate] refuses are left out.
func (c Columns) Normal() Columns {
	if c == 0 {
		return DefaultColumns
	}
	return c&AllColumns | requiredColumns
}

// Has says whether c holds all columns of x.
func (c Columns) Has(x Columns) bool { return c&x == x }

// Names returns the names of the set's columns in the order of the schema.
func (c Columns) Names() []string {
	names := make([]string, 0, bits.OnesCount32(uint32(c)))
	for i := range columnTable {
		if c.Has(1 << i) {
			names = append(names, columnTable[i].name)
		}
	}
	return names
}

// Validate refuses bits that stand for no column, such as those of a newer client.
func (c Columns) Validate() error {
	unknown := c &^ AllColumns
	if unknown == 0 {
		return nil
	}
	return fmt.Errorf("%w: columns %#x: bits %#x stand for no column; known are the bits of %#x: %s",
		muster.ErrInvalid, uint32(c), uint32(unknown), uint32(AllColumns), strings.Join(AllColumns.Names(), ", "))
}

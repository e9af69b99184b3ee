package locations

import (
	"encoding/binary"
	"fmt"

	"github.com/muster-fs/muster"
)

// SeenBytes is the length of a Seen on the wire.
const SeenBytes = 16

// Seen marks what a reader was told of a container, so that it can say later which
// answer proved wrong. It is opaque to readers: the boot id of the cache and the
// sequence number of the load that the answer came from. The zero value is of no cache.
type Seen [SeenBytes]byte

// ParseSeen reads what Seen[:] was.
func ParseSeen(b []byte) (Seen, error) {
	if len(b) != SeenBytes {
		return Seen{}, fmt.Errorf("%w: a mark of %d bytes; give back the %d bytes that came with the location", muster.ErrInvalid, len(b), SeenBytes)
	}
	return Seen(b), nil
}

func makeSeen(boot, sequence uint64) (s Seen) {
	binary.BigEndian.PutUint64(s[:8], boot)
	binary.BigEndian.PutUint64(s[8:], sequence)
	return s
}

func (s Seen) boot() uint64     { return binary.BigEndian.Uint64(s[:8]) }
func (s Seen) sequence() uint64 { return binary.BigEndian.Uint64(s[8:]) }

package rows

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/muster-fs/muster"
)

// MaxFrame bounds a frame in bytes: with the outcomes, the cursor and the envelope of
// its message it stays under 1 MiB. Whoever fills a [Builder] keeps its Size below;
// [Decode] refuses a longer frame.
const MaxFrame = 1<<20 - 64<<10

// The header of a frame. All integers are little-endian. The first field and what it
// covers are the same in every version, so that damage is never taken for another
// version.
const (
	atCRC       = 0  // uint32: CRC32C of all bytes that follow
	atVersion   = 4  // uint8: SchemaVersion
	atFlags     = 5  // uint8: 0
	atReserved  = 6  // uint16: 0
	atColumns   = 8  // uint32: Columns
	atRows      = 12 // uint32: at least 1
	atHead      = 16 // uint32: bytes of the message before its body
	atBody      = 20 // uint32: bytes of the message's body
	headerBytes = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(frame []byte) uint32 { return crc32.Checksum(frame[atCRC+4:], castagnoli) }

// seal writes the header of a frame that is otherwise complete.
func seal(frame []byte, c Columns, rows, head, body int) {
	le := binary.LittleEndian
	frame[atVersion] = SchemaVersion
	frame[atFlags] = 0
	le.PutUint16(frame[atReserved:], 0)
	le.PutUint32(frame[atColumns:], uint32(c))
	le.PutUint32(frame[atRows:], uint32(rows))
	le.PutUint32(frame[atHead:], uint32(head))
	le.PutUint32(frame[atBody:], uint32(body))
	le.PutUint32(frame[atCRC:], checksum(frame))
}

// open checks the header of a frame and cuts the frame at its bounds.
func open(frame []byte, c Columns) (rows int, head, body []byte, err error) {
	switch {
	case len(frame) < headerBytes:
		return 0, nil, nil, corrupt("%d bytes, fewer than its header of %d", len(frame), headerBytes)
	case len(frame) > MaxFrame:
		return 0, nil, nil, corrupt("%d bytes, at most %d", len(frame), MaxFrame)
	}
	le := binary.LittleEndian
	if want, got := le.Uint32(frame[atCRC:]), checksum(frame); got != want {
		return 0, nil, nil, corrupt("checksum %08x, want %08x", got, want)
	}
	if v := frame[atVersion]; v != SchemaVersion {
		return 0, nil, nil, corrupt("schema version %d; this program reads version %d", v, SchemaVersion)
	}
	if frame[atFlags] != 0 || le.Uint16(frame[atReserved:]) != 0 {
		return 0, nil, nil, corrupt("flags % x, want none", frame[atFlags:atColumns])
	}
	if got := Columns(le.Uint32(frame[atColumns:])); got != c {
		return 0, nil, nil, corrupt("columns %#x, asked for %#x", uint32(got), uint32(c))
	}
	payload := frame[headerBytes:]
	h, b := uint64(le.Uint32(frame[atHead:])), uint64(le.Uint32(frame[atBody:]))
	if h+b != uint64(len(payload)) {
		return 0, nil, nil, corrupt("message of %d and %d bytes in a payload of %d", h, b, len(payload))
	}
	// Two buffers that every frame has cost 8 bytes a row: no later product overflows.
	n := le.Uint32(frame[atRows:])
	if n == 0 || uint64(n) > b/8 {
		return 0, nil, nil, corrupt("%d rows in %d bytes", n, b)
	}
	return int(n), payload[:h:h], payload[h:], nil
}

// corrupt returns an error about a frame.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: row frame: %s", muster.ErrCorrupt, fmt.Sprintf(format, args...))
}

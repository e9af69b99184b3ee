package blocks

import (
	"cmp"
	"fmt"
	"time"

	"github.com/muster-fs/muster"
)

// Mode says how data comes from datanodes.
type Mode uint8

// The modes.
const (
	// Auto reads by chunk, and by stream where a file is read on and on from the cursor.
	Auto Mode = iota
	// ByChunk makes a call for each piece, several at a time when a file is read on and on.
	ByChunk
	// ByStream has the datanode send on from the cursor to the end of the block. Positioned
	// reads are short streams. A sequential reader that finds all streams in use reads by
	// chunk until one is free.
	ByStream
)

// String returns auto, chunk or stream.
func (m Mode) String() string {
	names := [...]string{"auto", "chunk", "stream"}
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("mode(%d)", m)
}

// ParseMode reads what String returns.
func ParseMode(s string) (Mode, error) {
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		if s == m.String() {
			return m, nil
		}
	}
	return 0, fmt.Errorf("%w: mode %q; use auto, chunk or stream", muster.ErrInvalid, s)
}

// ReadOptions say how a file is read. The zero value works.
type ReadOptions struct {
	Mode Mode

	// ReadAhead is how many bytes are read ahead of the cursor by chunk, once the file is
	// read on and on: all the memory that the file takes. 0: 2 MiB; -1: none are.
	ReadAhead int64

	// Timeout is how long a datanode may take for an answer of at most 1 MiB; then the next
	// replica is asked. 0: 30 s.
	Timeout time.Duration

	// Attempts bounds the calls for one answer. 0: 3 for each replica.
	Attempts int

	// Pause is waited before a replica that has failed is asked again, twice as long each
	// time. 0: 200 ms.
	Pause time.Duration

	// Idle is how long nobody reads from the cursor until the connection of a stream, and
	// what was read ahead, is given back. 0: 1 s.
	Idle time.Duration
}

const (
	defaultReadAhead   = 2 << 20
	defaultReadTimeout = 30 * time.Second
	defaultPause       = 200 * time.Millisecond
	defaultIdle        = time.Second
	attemptsPerReplica = 3
)

// Validate names the first option that is out of bounds.
func (o ReadOptions) Validate() error {
	switch {
	case o.Mode > ByStream:
		return fmt.Errorf("%w: Mode is %d; use Auto, ByChunk or ByStream", muster.ErrInvalid, o.Mode)
	case o.ReadAhead < -1:
		return fmt.Errorf("%w: ReadAhead is %d; use a number of bytes, -1 for none, or 0 for %d", muster.ErrInvalid, o.ReadAhead, defaultReadAhead)
	case o.Timeout < 0:
		return fmt.Errorf("%w: Timeout is %v; use 0 for %v", muster.ErrInvalid, o.Timeout, defaultReadTimeout)
	case o.Attempts < 0:
		return fmt.Errorf("%w: Attempts is %d; use 1 or more, or 0 for %d of each replica", muster.ErrInvalid, o.Attempts, attemptsPerReplica)
	case o.Pause < 0:
		return fmt.Errorf("%w: Pause is %v; use 0 for %v", muster.ErrInvalid, o.Pause, defaultPause)
	case o.Idle < 0:
		return fmt.Errorf("%w: Idle is %v; use 0 for %v", muster.ErrInvalid, o.Idle, defaultIdle)
	}
	return nil
}

func (o ReadOptions) withDefaults() ReadOptions {
	o.ReadAhead = max(cmp.Or(o.ReadAhead, defaultReadAhead), 0)
	o.Timeout = cmp.Or(o.Timeout, defaultReadTimeout)
	o.Pause = cmp.Or(o.Pause, defaultPause)
	o.Idle = cmp.Or(o.Idle, defaultIdle)
	return o
}

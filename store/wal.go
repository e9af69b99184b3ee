package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble"
	logs "github.com/cockroachdb/pebble/record"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// The log's format, as far as it takes to find a record: blocks of fixed size hold chunks, of a head
// and bytes, and a record is one full chunk, or one from first to last.
const (
	logBlock      = 32 << 10
	logHead       = 11 // checksum u32, length u16, type u8, number of the log u32
	logFullChunk  = 5
	logFirstChunk = 6
)

// checkLogs looks for damage in the logs of a store that the store itself would take for the end
// of a log, and so lose what was acknowledged. A record is written only when the one
// before it is durable. So a record that cannot be read is the last one, cut short by a crash, or,
// if another begins after it, it was damaged later.
func checkLogs(files vfs.FS, store string) error {
	names, err := files.List(store)
	if err != nil {
		return fmt.Errorf("%w: %v", muster.ErrUnavailable, err)
	}
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, ".log")
		number, err := strconv.ParseUint(digits, 10, 64)
		if !ok || err != nil {
			continue
		}
		if err := checkLog(files, files.PathJoin(store, name), number); err != nil {
			return err
		}
	}
	return nil
}

func checkLog(files vfs.FS, path string, number uint64) (err error) {
	f, err := files.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %v", muster.ErrUnavailable, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := logEnd(f, number)
	if err != nil {
		return fmt.Errorf("%w: read %s: %v", muster.ErrUnavailable, path, err)
	}
	var block [logBlock]byte
	for at := end - end%logBlock; ; at += logBlock {
		n, err := f.ReadAt(block[:], at)
		if err != nil && err != io.EOF {
			return fmt.Errorf("%w: read %s: %v", muster.ErrUnavailable, path, err)
		}
		from := max(0, end-at)
		if int64(n) > from && recordBegins(block[from:n], uint32(number)) {
			return corrupt("log %s: it is damaged at or after byte %d, and goes on after that", path, end-1)
		}
		if err == io.EOF {
			return nil
		}
	}
}

// logEnd returns where records can be sought that begin after those that can be read and after
// the head of the first that cannot.
func logEnd(f io.Reader, number uint64) (int64, error) {
	r := logs.NewReader(f, pebble.FileNum(number))
	for {
		at := r.Offset()
		chunks, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, chunks)
		}
		switch {
		case err == nil:
			continue
		case err != io.EOF && !logs.IsInvalidRecord(err):
			return 0, err
		}
		if left := logBlock - at%logBlock; left < logHead {
			at += left // no head fits in here
		}
		return at + 1, nil
	}
}

// recordBegins says whether a record of a log begins in what is left of a block.
func recordBegins(block []byte, number uint32) bool {
	for ; len(block) >= logHead; block = block[1:] {
		kind, of := block[6], binary.LittleEndian.Uint32(block[7:])
		if of != number || kind != logFullChunk && kind != logFirstChunk {
			continue
		}
		if _, err := logs.NewReader(bytes.NewReader(block), pebble.FileNum(number)).Next(); err == nil {
			return true
		}
	}
	return false
}

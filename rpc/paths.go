package rpc

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/muster-fs/muster"
)

// The bounds of packed paths, in bytes of the paths unpacked. A sender ends a chunk of a
// stream at as many paths as the receiver says that it takes (MaxChunkPaths), or else at
// ChunkPaths; or when it has ChunkBytes, whichever comes first. A receiver takes
// MaxChunkBytes at least. A page call has MaxPageBytes.
const (
	ChunkPaths    = 256
	MaxChunkPaths = 4096
	ChunkBytes    = 512 << 10
	MaxChunkBytes = 1 << 20
	MaxPageBytes  = 8 << 20 // 1,000 paths of muster.MaxPathBytes
)

// AppendPath packs path after prev, the path packed before it ("" for the first):
// the number of leading bytes that it shares with prev, the number of further bytes,
// both as uvarint, and those bytes.
func AppendPath(dst []byte, prev, path string) []byte {
	n := sharedPrefix(prev, path)
	if n < 0x80 && len(path)-n < 0x80 {
		return append(append(dst, byte(n), byte(len(path)-n)), path[n:]...)
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = binary.AppendUvarint(dst, uint64(len(path)-n))
	return append(dst, path[n:]...)
}

// sharedPrefix returns the number of leading bytes that a and b have in common. It
// compares eight at a time.
func sharedPrefix(a, b string) int {
	most := min(len(a), len(b))
	x, y := unsafe.Slice(unsafe.StringData(a), most), unsafe.Slice(unsafe.StringData(b), most)
	n := 0
	for ; n+8 <= most; n += 8 {
		if differ := binary.LittleEndian.Uint64(x[n:]) ^ binary.LittleEndian.Uint64(y[n:]); differ != 0 {
			return n + bits.TrailingZeros64(differ)/8
		}
	}
	for n < most && x[n] == y[n] {
		n++
	}
	return n
}

// UnpackPaths reads count packed paths. It refuses with muster.ErrLimit more than
// maxPaths paths or maxBytes bytes of them, before it takes memory for them, and with
// muster.ErrInvalid bytes that are not count whole paths. The paths themselves are not
// looked at. They share one allocation.
func UnpackPaths(packed []byte, count uint32, maxPaths, maxBytes int) ([]string, error) {
	if uint64(count) > uint64(maxPaths) {
		return nil, fmt.Errorf("%w: %d paths in one message, at most %d", muster.ErrLimit, count, maxPaths)
	}
	total, err := unpackedSize(packed, count, maxBytes)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, total) // never grows: the paths share it
	paths := make([]string, count)
	prev := text
	for i := range paths {
		shared, suffix, rest, _ := nextPacked(packed) // checked above
		packed = rest
		start := len(text)
		text = append(append(text, prev[:shared]...), suffix...)
		prev = text[start:]
		paths[i] = unsafe.String(unsafe.SliceData(prev), len(prev))
	}
	return paths, nil
}

// unpackedSize checks the packed paths and adds up their lengths.
func unpackedSize(packed []byte, count uint32, maxBytes int) (int, error) {
	total, prev := 0, 0
	for i := range count {
		shared, suffix, rest, ok := nextPacked(packed)
		if !ok || shared > uint64(prev) {
			return 0, fmt.Errorf("%w: packed paths are damaged at path %d of %d", muster.ErrInvalid, i, count)
		}
		packed = rest
		prev = int(shared) + len(suffix)
		total += prev
		if total > maxBytes {
			return 0, fmt.Errorf("%w: paths of more than %d bytes in one message", muster.ErrLimit, maxBytes)
		}
	}
	if len(packed) > 0 {
		return 0, fmt.Errorf("%w: %d bytes after %d packed paths", muster.ErrInvalid, len(packed), count)
	}
	return total, nil
}

// nextPacked cuts one path off.
func nextPacked(b []byte) (shared uint64, suffix, rest []byte, ok bool) {
	if len(b) > 1 && b[0] < 0x80 && b[1] < 0x80 && int(b[1]) <= len(b)-2 { // as most are
		end := 2 + int(b[1])
		return uint64(b[0]), b[2:end], b[end:], true
	}
	shared, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, nil, false
	}
	b = b[n:]
	length, n := binary.Uvarint(b)
	if n <= 0 || length > uint64(len(b)-n) {
		return 0, nil, nil, false
	}
	b = b[n:]
	return shared, b[:length], b[length:], true
}

package store

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/muster-fs/muster"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is the size of a checksum.
const sumSize = 4

// sumsOf is how many checksums so many bytes of data have.
func sumsOf(n int64) int64 { return (n + muster.ChecksumBytes - 1) / muster.ChecksumBytes }

func sumBytes(n int64) int64 { return sumSize * sumsOf(n) }

// mismatch returns where the first data begins that does not match its checksum, -1 if all does.
// There are as many checksums as data has.
func mismatch(data, sums []byte) int {
	for at := 0; at < len(data); at += muster.ChecksumBytes {
		piece := data[at:min(at+muster.ChecksumBytes, len(data))]
		if crc32.Checksum(piece, castagnoli) != binary.LittleEndian.Uint32(sums[at/muster.ChecksumBytes*sumSize:]) {
			return at
		}
	}
	return -1
}

// A CRC is linear: the CRC of a and then b is that of a, moved past as many bytes as b has,
// exclusive or that of b. shifter moves a CRC past one length.
type shifter [4][256]uint32

var noData [muster.ChecksumBytes]byte

// shift moves a CRC past n bytes.
func shift(crc uint32, n int) uint32 {
	zeros := noData[:n]
	return crc32.Update(crc, castagnoli, zeros) ^ crc32.Update(0, castagnoli, zeros)
}

// newShifter makes the tables for one length from what becomes of each bit.
func newShifter(n int) *shifter {
	s := new(shifter)
	for i := range s {
		for bit := range 8 {
			moved := shift(1<<(8*i+bit), n)
			for v := range s[i] {
				if v>>bit&1 == 1 {
					s[i][v] ^= moved
				}
			}
		}
	}
	return s
}

func (s *shifter) shift(crc uint32) uint32 {
	return s[0][byte(crc)] ^ s[1][byte(crc>>8)] ^ s[2][byte(crc>>16)] ^ s[3][crc>>24]
}

// pastPiece moves a CRC past the data of one whole checksum.
var pastPiece = newShifter(muster.ChecksumBytes)

// chunkSums returns the CRC-32C of each chunk of a block, from the checksums of its pieces.
func chunkSums(length int64, sums []byte) []uint32 {
	if length == 0 {
		return nil
	}
	chunks := make([]uint32, 0, (length-1)/muster.ChunkBytes+1)
	for at := int64(0); at < length; at += muster.ChunkBytes {
		n := min(muster.ChunkBytes, length-at)
		chunks = append(chunks, joinSums(n, sums[sumBytes(at):sumBytes(at+n)]))
	}
	return chunks
}

// joinSums returns the CRC-32C of n bytes of data from the checksums of its pieces.
func joinSums(n int64, sums []byte) uint32 {
	crc := uint32(0)
	for ; n > 0; n, sums = n-muster.ChecksumBytes, sums[sumSize:] {
		if n >= muster.ChecksumBytes {
			crc = pastPiece.shift(crc)
		} else {
			crc = shift(crc, int(n))
		}
		crc ^= binary.LittleEndian.Uint32(sums)
	}
	return crc
}

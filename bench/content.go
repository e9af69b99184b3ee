package bench

import (
	"encoding/binary"
	"io"
)

// contentAt fills p with what a written file has at an offset: bytes that nothing compresses, and that
// can be told anywhere without those before.
func contentAt(p []byte, offset int64) {
	var word [8]byte
	for len(p) > 0 {
		skip := int(offset % 8)
		x := uint64(offset/8) + 1 // splitmix64
		x *= 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(word[:], x^x>>31)
		n := copy(p, word[skip:])
		p = p[n:]
		offset += int64(n)
	}
}

// content is the whole of a written file.
type content struct{ at, size int64 }

func newContent(size int64) *content { return &content{size: size} }

func (c *content) Read(p []byte) (int, error) {
	if c.at == c.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), c.size-c.at)]
	contentAt(p, c.at)
	c.at += int64(len(p))
	return len(p), nil
}

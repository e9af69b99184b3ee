package namespace

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/muster-fs/muster"
)

// appendCommand appends the encoding by which commands are compared and their size counted.
func appendCommand(dst []byte, c muster.Command) ([]byte, error) {
	switch c := c.(type) {
	case muster.Mkdir:
		dst = appendText(append(dst, 1), c.Path, c.Owner, c.Group)
		return appendTimes(appendFlags(binary.LittleEndian.AppendUint16(dst, c.Mode), c.Parents), c.MTime), nil
	case muster.Create:
		dst = appendText(append(dst, 2), c.Path, c.Owner, c.Group)
		dst = binary.LittleEndian.AppendUint16(dst, c.Mode)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(c.Replication))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Length))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(c.BlockSize))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(c.Blocks)))
		return appendTimes(appendFlags(appendBlocks(dst, c.Blocks), c.Parents, c.Overwrite), c.MTime, c.ATime), nil
	case muster.Symlink:
		return appendTimes(appendText(append(dst, 3), c.Path, c.Target, c.Owner, c.Group), c.MTime), nil
	case muster.Rename:
		if c.File != 0 {
			return appendFlags(appendText(binary.LittleEndian.AppendUint64(append(dst, 11), c.File), c.To), c.Overwrite), nil
		}
		return appendFlags(appendText(append(dst, 4), c.From, c.To), c.Overwrite), nil
	case muster.Delete:
		if c.File != 0 {
			return appendFlags(binary.LittleEndian.AppendUint64(append(dst, 12), c.File), c.Recursive), nil
		}
		return appendFlags(appendText(append(dst, 5), c.Path), c.Recursive), nil
	case muster.SetAttr:
		return appendSetAttr(append(dst, 6), &c), nil
	}
	return appendWrite(dst, c)
}

// appendWrite is appendCommand for those that write a file. What a server chooses, and would
// choose anew for a repeat, is left out: replication, block size and block.
func appendWrite(dst []byte, c muster.Command) ([]byte, error) {
	switch c := c.(type) {
	case muster.StartFile:
		dst = append(appendText(append(dst, 7), c.Path, c.Owner, c.Group), c.Holder[:]...)
		dst = appendTimes(appendFlags(binary.LittleEndian.AppendUint16(dst, c.Mode), c.Parents, c.Overwrite), c.MTime)
		if c.Target != "" {
			dst = appendText(dst, c.Target)
		}
		return dst, nil
	case muster.AddBlock:
		dst = append(binary.LittleEndian.AppendUint64(append(dst, 8), c.File), c.Holder[:]...)
		return appendEnds(binary.LittleEndian.AppendUint64(dst, uint64(c.Previous)), c.Ends), nil
	case muster.FinishFile:
		dst = append(binary.LittleEndian.AppendUint64(append(dst, 9), c.File), c.Holder[:]...)
		return appendEnds(appendTimes(binary.LittleEndian.AppendUint64(dst, uint64(c.Last)), c.MTime), c.Ends), nil
	case muster.TakeLease:
		dst = binary.LittleEndian.AppendUint64(append(dst, 10), c.File)
		return append(append(dst, c.From[:]...), c.Holder[:]...), nil
	}
	return dst, fmt.Errorf("%w: unknown command %T", muster.ErrInvalid, c)
}

// appendEnds appends nothing for a block that is not said, so that requests of before it could be
// are still known.
func appendEnds(dst []byte, id muster.BlockID) []byte {
	if id == (muster.BlockID{}) {
		return dst
	}
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, id.Container), id.LocalID)
}

func appendSetAttr(dst []byte, c *muster.SetAttr) []byte {
	dst = appendFlags(appendText(dst, c.Path), c.Mode != nil, c.Owner != nil, c.Group != nil)
	if c.Mode != nil {
		dst = binary.LittleEndian.AppendUint16(dst, *c.Mode)
	}
	for _, s := range []*string{c.Owner, c.Group} {
		if s != nil {
			dst = appendText(dst, *s)
		}
	}
	return appendTimes(dst, c.MTime, c.ATime)
}

func appendText(dst []byte, texts ...string) []byte {
	for _, s := range texts {
		dst = append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	}
	return dst
}

func appendFlags(dst []byte, flags ...bool) []byte {
	for _, f := range flags {
		if f {
			dst = append(dst, 1)
		} else {
			dst = append(dst, 0)
		}
	}
	return dst
}

func appendTimes(dst []byte, times ...*int64) []byte {
	for _, t := range times {
		dst = appendFlags(dst, t != nil)
		if t != nil {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(*t))
		}
	}
	return dst
}

// hashCommands tells commands apart under one request id.
func hashCommands(encoded []byte) [16]byte { return xxh3.Hash128(encoded).Bytes() }

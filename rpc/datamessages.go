package rpc

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fs/muster"
)

// The messages that carry the data of blocks are read and written here by hand, so that the
// data is copied by nobody: it comes first in its message, is sent from where it lies and
// stays where it was received. The bytes are those of the generated code.

// ReadRequest is a pb.ReadRequest.
type ReadRequest struct {
	Block  muster.BlockID
	Token  []byte
	Offset int64 // in the block
	Length int64 // ReadBlock: 0: to the end
}

// Append appends the message to dst.
func (r *ReadRequest) Append(dst []byte) []byte {
	dst = appendVarint(dst, readContainer, r.Block.Container)
	dst = appendVarint(dst, readLocalID, r.Block.LocalID)
	dst = appendBytes(dst, readToken, r.Token)
	dst = appendVarint(dst, readOffset, uint64(r.Offset))
	return appendVarint(dst, readLength, uint64(r.Length))
}

// Unmarshal sets r to the message; Token aliases b. A damaged message is muster.ErrInvalid.
func (r *ReadRequest) Unmarshal(b []byte) error {
	*r = ReadRequest{}
	for len(b) > 0 {
		tag, value, text, rest, err := nextField(b)
		if err != nil {
			return fmt.Errorf("%w: read request: %w", muster.ErrInvalid, err)
		}
		b = rest
		switch tag {
		case readContainer:
			r.Block.Container = value
		case readLocalID:
			r.Block.LocalID = value
		case readToken:
			r.Token = text
		case readOffset:
			r.Offset = int64(value)
		case readLength:
			r.Length = int64(value)
		}
	}
	return nil
}

// ReadReply is a pb.ReadReply. One that was received keeps the memory that it came in until
// Release.
type ReadReply struct {
	Data      []byte
	Checksums []byte
	Offset    int64
	received
}

// Append appends the message to dst.
func (r *ReadReply) Append(dst []byte) []byte {
	return r.appendRest(appendBytes(dst, dataData, r.Data))
}

func (r *ReadReply) appendRest(dst []byte) []byte {
	dst = appendBytes(dst, dataChecksums, r.Checksums)
	return appendVarint(dst, dataOffset, uint64(r.Offset))
}

// Unmarshal sets r to the message, which Data and Checksums alias. A damaged message is
// muster.ErrCorrupt.
func (r *ReadReply) Unmarshal(b []byte) error {
	r.Data, r.Checksums, r.Offset = nil, nil, 0
	for len(b) > 0 {
		tag, value, text, rest, err := nextField(b)
		if err != nil {
			return fmt.Errorf("%w: read reply: %w", muster.ErrCorrupt, err)
		}
		b = rest
		switch tag {
		case dataData:
			r.Data = text
		case dataChecksums:
			r.Checksums = text
		case dataOffset:
			r.Offset = int64(value)
		}
	}
	return nil
}

// Release gives the memory of a received reply to messages to come: Data and Checksums are
// not to be used any more. Releasing again, or what was not received, does nothing.
func (r *ReadReply) Release() {
	if r.release() {
		r.Data, r.Checksums = nil, nil
	}
}

// WriteRequest is a pb.WriteRequest. One that was received keeps the memory that it came in
// until Release.
type WriteRequest struct {
	Data      []byte
	Checksums []byte
	Offset    int64
	Block     muster.BlockID // first message only, as Token and File
	Token     []byte
	File      uint64
	Sync      bool
	Commit    bool
	received
}

// Append appends the message to dst.
func (r *WriteRequest) Append(dst []byte) []byte {
	return r.appendRest(appendBytes(dst, dataData, r.Data))
}

func (r *WriteRequest) appendRest(dst []byte) []byte {
	dst = appendBytes(dst, dataChecksums, r.Checksums)
	dst = appendVarint(dst, dataOffset, uint64(r.Offset))
	if r.Block != (muster.BlockID{}) {
		at := len(dst)
		dst = appendVarint(dst, blockContainer, r.Block.Container)
		dst = appendVarint(dst, blockLocalID, r.Block.LocalID)
		dst = enclose(dst, at, writeBlock)
	}
	dst = appendBytes(dst, writeToken, r.Token)
	dst = appendVarint(dst, writeFile, r.File)
	dst = appendBool(dst, writeSync, r.Sync)
	return appendBool(dst, writeCommit, r.Commit)
}

// Unmarshal sets r to the message, which Data, Checksums and Token alias. A damaged message
// is muster.ErrInvalid.
func (r *WriteRequest) Unmarshal(b []byte) error {
	*r = WriteRequest{received: r.received}
	for len(b) > 0 {
		tag, value, text, rest, err := nextField(b)
		if err == nil && tag == writeBlock {
			err = mergeBlockID(&r.Block, text)
		}
		if err != nil {
			return fmt.Errorf("%w: write request: %w", muster.ErrInvalid, err)
		}
		b = rest
		switch tag {
		case dataData:
			r.Data = text
		case dataChecksums:
			r.Checksums = text
		case dataOffset:
			r.Offset = int64(value)
		case writeToken:
			r.Token = text
		case writeFile:
			r.File = value
		case writeSync:
			r.Sync = value != 0
		case writeCommit:
			r.Commit = value != 0
		}
	}
	return nil
}

func mergeBlockID(id *muster.BlockID, b []byte) error {
	for len(b) > 0 {
		tag, value, _, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch tag {
		case blockContainer:
			id.Container = value
		case blockLocalID:
			id.LocalID = value
		}
	}
	return nil
}

// Release gives the memory of a received request to messages to come: Data, Checksums and
// Token are not to be used any more. Releasing again, or what was not received, does nothing.
func (r *WriteRequest) Release() {
	if r.release() {
		r.Data, r.Checksums, r.Token = nil, nil, nil
	}
}

// received is what a message was received into.
type received struct {
	memory *Memory // of a large message; nil: it has none
	copied []byte  // of one that is not large, which is used again
}

func (r *received) release() bool {
	if r.memory == nil {
		return false
	}
	r.memory.Release()
	r.memory = nil
	return true
}

// keep returns what a message is to be read from that has memory of its own.
func (r *received) keep(m *Memory) []byte {
	r.release()
	r.memory = m
	return m.Bytes()
}

// copy returns what a message is to be read from that lies in a buffer of dRPC's.
func (r *received) copy(b []byte) []byte {
	r.release()
	r.copied = append(r.copied[:0], b...)
	return r.copied
}

// appendDataHead appends what comes before the data of a message: nothing if there is none.
func appendDataHead(dst, data []byte) []byte {
	if len(data) == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, dataData), uint64(len(data)))
}

// The tags of the fields: number and wire type. All take one byte.
const (
	readContainer = 1<<3 | varint
	readLocalID   = 2<<3 | varint
	readToken     = 3<<3 | length
	readOffset    = 4<<3 | varint
	readLength    = 5<<3 | varint

	dataData      = 1<<3 | length // of replies and of requests
	dataChecksums = 2<<3 | length
	dataOffset    = 3<<3 | varint

	writeBlock  = 4<<3 | length
	writeToken  = 5<<3 | length
	writeFile   = 6<<3 | varint
	writeSync   = 7<<3 | varint
	writeCommit = 8<<3 | varint

	blockContainer = 1<<3 | varint
	blockLocalID   = 2<<3 | varint
)

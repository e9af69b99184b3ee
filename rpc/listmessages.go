package rpc

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// The messages of a listing are read and written here by hand, since they come with each
// path and each few thousand rows: the generated code takes an object for each outcome.
// The bytes are those of the generated code.

// ListRequest is a pb.ListRequest or a pb.ListPageRequest, whose fields are the same but
// for Last.
type ListRequest struct {
	HasOptions bool // whether Options came, or are to be sent
	Options    ListOptions
	Cursor     []byte
	Paths      []byte // packed
	Count      uint32 // of the packed paths
	Last       bool
}

// Append appends the message to dst.
func (r *ListRequest) Append(dst []byte) []byte {
	if r.HasOptions {
		at := len(dst)
		dst = r.Options.append(dst)
		dst = enclose(dst, at, requestOptions)
	}
	dst = appendBytes(dst, requestCursor, r.Cursor)
	dst = appendBytes(dst, requestPaths, r.Paths)
	dst = appendVarint(dst, requestCount, uint64(r.Count))
	return appendBool(dst, requestLast, r.Last)
}

// Unmarshal sets r to the message; Cursor and Paths alias b. A damaged message, and
// options that this version does not know, are muster.ErrInvalid.
func (r *ListRequest) Unmarshal(b []byte) error {
	*r = ListRequest{}
	var options pb.ListOptions
	var reader []byte
	for len(b) > 0 {
		tag, value, text, rest, err := nextField(b)
		if err != nil {
			return fmt.Errorf("%w: list request: %w", muster.ErrInvalid, err)
		}
		b = rest
		switch tag {
		case requestOptions:
			r.HasOptions = true
			if err := mergeOptions(&options, &reader, text); err != nil {
				return fmt.Errorf("%w: list options: %w", muster.ErrInvalid, err)
			}
		case requestCursor:
			r.Cursor = text
		case requestPaths:
			r.Paths = text
		case requestCount:
			r.Count = uint32(value)
		case requestLast:
			r.Last = value != 0
		}
	}
	options.Reader = string(reader[:min(len(reader), muster.MaxRackBytes+1)]) // longer ones are refused
	var err error
	r.Options, err = ListOptionsFromPB(&options)
	return err
}

// append appends the message of the options to dst.
func (o *ListOptions) append(dst []byte) []byte {
	dst = appendVarint(dst, optionLimit, uint64(int64(int32(o.Limit))))
	dst = appendVarint(dst, optionColumns, uint64(o.Columns))
	dst = appendVarint(dst, optionHidden, uint64(o.Hidden))
	dst = appendBool(dst, optionOwn, o.Own)
	dst = appendVarint(dst, optionConsistency, uint64(o.Consistency))
	dst = appendBool(dst, optionCompression, o.Compress) // zstd is 1
	dst = appendVarint(dst, optionLocations, uint64(o.Locations))
	dst = appendBool(dst, optionSorted, o.Sorted)
	dst = appendString(dst, optionReader, o.Reader)
	dst = appendBool(dst, optionFollow, o.Follow)
	return appendVarint(dst, optionLocationLimit, uint64(uint32(max(o.LocationLimit, 0))))
}

// mergeOptions reads options but for the reader, whose text comes apart: a message may have
// it any number of times.
func mergeOptions(o *pb.ListOptions, reader *[]byte, b []byte) error {
	for len(b) > 0 {
		tag, value, text, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch tag {
		case optionLimit:
			o.Limit = int32(value)
		case optionColumns:
			o.Columns = uint32(value)
		case optionHidden:
			o.Hidden = pb.Hidden(value)
		case optionOwn:
			o.Own = value != 0
		case optionCompression:
			o.Compression = pb.Compression(value)
		case optionConsistency:
			o.Consistency = pb.Consistency(value)
		case optionLocations:
			o.Locations = pb.WithLocations(value)
		case optionSorted:
			o.Sorted = value != 0
		case optionReader:
			*reader = text
		case optionFollow:
			o.Follow = value != 0
		case optionLocationLimit:
			o.LocationLimit = uint32(value)
		}
	}
	return nil
}

// ListReply is a pb.ListReply.
type ListReply struct {
	Frame         []byte
	FrameSize     uint32 // not 0: of the frame when it is expanded
	Outcomes      []muster.Outcome
	Cursor        []byte
	CursorIndex   uint64
	Done          bool
	TotalRows     uint64
	TotalOutcomes uint64
	Txid          uint64
	Nodes         []muster.Node // additions to the call's table of nodes; own their memory
}

// Append appends the message to dst. The frame comes first.
func (r *ListReply) Append(dst []byte) []byte {
	return r.appendRest(appendBytes(dst, replyFrame, r.Frame))
}

// AppendAround appends the message to dst, but for the bytes of the frame, which belong
// at the index at of the result.
func (r *ListReply) AppendAround(dst []byte) (b []byte, at int) {
	if n := len(r.Frame); n > 0 {
		dst = protowire.AppendVarint(append(dst, replyFrame), uint64(n))
	}
	return r.appendRest(dst), len(dst)
}

func (r *ListReply) appendRest(dst []byte) []byte {
	for i := range r.Outcomes {
		dst = appendOutcome(dst, &r.Outcomes[i])
	}
	dst = appendBytes(dst, replyCursor, r.Cursor)
	dst = appendBool(dst, replyDone, r.Done)
	dst = appendVarint(dst, replyTotalRows, r.TotalRows)
	dst = appendVarint(dst, replyTotalOutcomes, r.TotalOutcomes)
	dst = appendVarint(dst, replyTxid, r.Txid)
	dst = appendVarint(dst, replyCursorIndex, r.CursorIndex)
	dst = appendVarint(dst, replyFrameSize, uint64(r.FrameSize))
	for i := range r.Nodes {
		dst = appendNode(dst, &r.Nodes[i])
	}
	return dst
}

// CutFrame returns the frame of an encoded pb.ListReply if it comes first, as it should,
// and the fields that follow it, which Unmarshal reads. Both alias b.
func CutFrame(b []byte) (frame, rest []byte) {
	if len(b) == 0 || b[0] != replyFrame {
		return nil, b
	}
	frame, n := protowire.ConsumeBytes(b[1:])
	if n < 0 {
		return nil, b
	}
	return frame, b[1+n:]
}

// Unmarshal sets r to the message but for its outcomes, each of which is handed to
// outcome, encoded, and its nodes if node is not nil, in the same way. What it holds and
// hands out aliases b, but for nodes that it holds. A damaged message, and a node that none
// can be, is muster.ErrCorrupt.
func (r *ListReply) Unmarshal(b []byte, outcome, node func([]byte) error) error {
	*r = ListReply{}
	for len(b) > 0 {
		if o, rest := shortOutcome(b); o != nil {
			if err := outcome(o); err != nil {
				return err
			}
			b = rest
			continue
		}
		tag, value, text, rest, err := nextField(b)
		if err != nil {
			return fmt.Errorf("%w: list reply: %w", muster.ErrCorrupt, err)
		}
		b = rest
		switch tag {
		case replyFrame:
			r.Frame = text
		case replyOutcome:
			if err := outcome(text); err != nil {
				return err
			}
		case replyCursor:
			r.Cursor = text
		case replyDone:
			r.Done = value != 0
		case replyTotalRows:
			r.TotalRows = value
		case replyTotalOutcomes:
			r.TotalOutcomes = value
		case replyTxid:
			r.Txid = value
		case replyCursorIndex:
			r.CursorIndex = value
		case replyFrameSize:
			r.FrameSize = uint32(value)
		case replyNode:
			if node == nil {
				node = r.keepNode
			}
			if err := node(text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *ListReply) keepNode(b []byte) error {
	n, err := UnmarshalNode(b)
	if err == nil {
		r.Nodes = append(r.Nodes, n)
	}
	return err
}

// shortOutcome cuts an outcome off a reply's fields, if it comes next and its length is one
// byte, as of most; nil: it is not.
func shortOutcome(b []byte) (outcome, rest []byte) {
	if len(b) < 2 || b[0] != replyOutcome || int(b[1]) > min(0x7f, len(b)-2) {
		return nil, b
	}
	end := 2 + int(b[1])
	return b[2:end], b[end:]
}

// CountOutcomes returns the number of outcomes in an encoded pb.ListReply, as far as it is
// sound.
func CountOutcomes(b []byte) (n int) {
	for len(b) > 0 {
		if o, rest := shortOutcome(b); o != nil {
			b = rest
			n++
			continue
		}
		tag, _, _, rest, err := nextField(b)
		if err != nil {
			break
		}
		b = rest
		if tag == replyOutcome {
			n++
		}
	}
	return n
}

// The tags of the fields: number and wire type. All take one byte.
const (
	varint = byte(protowire.VarintType)
	length = byte(protowire.BytesType)

	requestOptions = 1<<3 | length
	requestCursor  = 2<<3 | length
	requestPaths   = 3<<3 | length
	requestCount   = 4<<3 | varint
	requestLast    = 5<<3 | varint

	optionLimit       = 1<<3 | varint
	optionColumns     = 2<<3 | varint
	optionHidden      = 3<<3 | varint
	optionOwn         = 4<<3 | varint
	optionConsistency = 5<<3 | varint
	optionCompression = 6<<3 | varint
	optionLocations   = 7<<3 | varint
	optionSorted      = 8<<3 | varint
	optionReader      = 9<<3 | length
	optionFollow      = 10<<3 | varint

	optionLocationLimit = 11<<3 | varint

	replyFrame         = 1<<3 | length
	replyOutcome       = 2<<3 | length
	replyCursor        = 3<<3 | length
	replyDone          = 4<<3 | varint
	replyTotalRows     = 5<<3 | varint
	replyTotalOutcomes = 6<<3 | varint
	replyTxid          = 7<<3 | varint
	replyCursorIndex   = 8<<3 | varint
	replyFrameSize     = 9<<3 | varint
	replyNode          = 10<<3 | length

	nodeNumber   = 1<<3 | varint
	nodeID       = 2<<3 | length
	nodeHost     = 3<<3 | length
	nodeAddress  = 4<<3 | length
	nodePort     = 5<<3 | varint
	nodeHTTPPort = 6<<3 | varint
	nodeRack     = 7<<3 | length
	nodeState    = 8<<3 | varint
)

func appendVarint(dst []byte, tag byte, v uint64) []byte {
	switch {
	case v == 0:
		return dst
	case v < 0x80:
		return append(dst, tag, byte(v))
	}
	return protowire.AppendVarint(append(dst, tag), v)
}

func appendBool(dst []byte, tag byte, v bool) []byte {
	if !v {
		return dst
	}
	return append(dst, tag, 1)
}

func appendBytes(dst []byte, tag byte, b []byte) []byte {
	if len(b) == 0 {
		return dst
	}
	return protowire.AppendBytes(append(dst, tag), b)
}

func appendString(dst []byte, tag byte, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(append(dst, tag), s)
}

// shortTags is how many field numbers have tags of one byte, as all here do.
const shortTags = 16

// nextField cuts a field off: its tag, and its value or its bytes. The tag is 0 if no
// field here has one like it.
func nextField(b []byte) (tag byte, value uint64, text, rest []byte, err error) {
	tag, n := b[0], 1
	if tag >= 0x80 || tag>>3 == 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return 0, 0, nil, nil, protowire.ParseError(size)
		}
		switch {
		case !number.IsValid():
			return 0, 0, nil, nil, fmt.Errorf("a field of number %d", number)
		case number >= shortTags:
			return skipField(b)
		}
		tag, n = byte(protowire.EncodeTag(number, kind)), size // longer than it need be
	}
	switch tag & 7 {
	case varint:
		if len(b) > n && b[n] < 0x80 {
			return tag, uint64(b[n]), nil, b[n+1:], nil
		}
		v, size := protowire.ConsumeVarint(b[n:])
		if size < 0 {
			return 0, 0, nil, nil, protowire.ParseError(size)
		}
		return tag, v, nil, b[n+size:], nil
	case length:
		text, size := protowire.ConsumeBytes(b[n:])
		if size < 0 {
			return 0, 0, nil, nil, protowire.ParseError(size)
		}
		return tag, 0, text, b[n+size:], nil
	}
	return skipField(b)
}

// skipField cuts off a field of a newer version.
func skipField(b []byte) (tag byte, value uint64, text, rest []byte, err error) {
	_, _, n := protowire.ConsumeField(b)
	if n < 0 {
		return 0, 0, nil, nil, protowire.ParseError(n)
	}
	return 0, 0, nil, b[n:], nil
}

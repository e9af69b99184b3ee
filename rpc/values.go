package rpc

import (
	"bytes"
	"fmt"
	"math"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// ListOptions are the options of a listing as they cross the wire.
type ListOptions struct {
	Limit       int    // entries of a page; 0 or less: the server's default
	Columns     uint32 // bit set of the row schema's columns; 0: the default ones
	Hidden      muster.Hidden
	Own         bool
	Consistency muster.Consistency
	Compress    bool // frames by zstd
	Follow      bool // with Own: a link in last place

	Locations     muster.Locations
	LocationLimit int // locations of a page; 0: ten times the limit of entries
	Sorted        bool
	Reader        string // host, address or network location; "": where the call comes from
}

// ListOptionsFromPB returns the options of a message; nil is the zero value. It
// refuses with muster.ErrInvalid presets, consistencies and compressions that this
// version does not know; columns are the row schema's business.
func ListOptionsFromPB(m *pb.ListOptions) (ListOptions, error) {
	o := ListOptions{
		Limit: int(m.GetLimit()), Columns: m.GetColumns(), Own: m.GetOwn(), Follow: m.GetFollow(),
		Sorted: m.GetSorted(), Reader: m.GetReader(), LocationLimit: int(min(m.GetLocationLimit(), math.MaxInt32)),
	}
	if len(o.Reader) > muster.MaxRackBytes {
		return ListOptions{}, fmt.Errorf("%w: reader of more than %d bytes", muster.ErrInvalid, muster.MaxRackBytes)
	}
	switch m.GetLocations() {
	case pb.WithLocations_WITH_LOCATIONS_NONE, pb.WithLocations_WITH_LOCATIONS_HINT, pb.WithLocations_WITH_LOCATIONS_MUST:
		o.Locations = muster.Locations(m.GetLocations())
	default:
		return ListOptions{}, fmt.Errorf("%w: unknown locations %d; this version knows none (0), hint (1) and must (2)", muster.ErrInvalid, m.GetLocations())
	}
	switch m.GetHidden() {
	case pb.Hidden_HIDDEN_NONE, pb.Hidden_HIDDEN_HIVE, pb.Hidden_HIDDEN_SPARK:
		o.Hidden = muster.Hidden(m.GetHidden())
	default:
		return ListOptions{}, fmt.Errorf("%w: unknown hidden preset %d; this version knows none (0), hive (1) and spark (2)", muster.ErrInvalid, m.GetHidden())
	}
	switch m.GetConsistency() {
	case pb.Consistency_CONSISTENCY_PAGE, pb.Consistency_CONSISTENCY_SNAPSHOT:
		o.Consistency = muster.Consistency(m.GetConsistency())
	default:
		return ListOptions{}, fmt.Errorf("%w: unknown consistency %d; this version knows page (0) and snapshot (1)", muster.ErrInvalid, m.GetConsistency())
	}
	switch m.GetCompression() {
	case pb.Compression_COMPRESSION_NONE:
	case pb.Compression_COMPRESSION_ZSTD:
		o.Compress = true
	default:
		return ListOptions{}, fmt.Errorf("%w: unknown compression %d; this version knows none (0) and zstd (1)", muster.ErrInvalid, m.GetCompression())
	}
	return o, nil
}

// RowToPB returns the message of an entry with the given name, which was read from the
// view of txid. It keeps nothing of the row.
func RowToPB(r *muster.Row, name string, txid uint64) *pb.EntryReply {
	return &pb.EntryReply{
		InodeId: r.ID, Kind: uint32(r.Kind), Name: []byte(name), Length: r.Length, Mtime: r.MTime, Atime: r.ATime,
		Mode: uint32(r.Mode), Owner: string(r.Owner), Group: string(r.Group), Replication: uint32(r.Replication), BlockSize: r.BlockSize,
		Flags: uint32(r.Flags), LinkTarget: bytes.Clone(r.Target), Blocks: blocksToPB(r.Blocks), Txid: txid,
	}
}

// EntryFromPB returns the entry of a message. It refuses with muster.ErrCorrupt values
// that no entry has.
func EntryFromPB(m *pb.EntryReply) (muster.Entry, error) {
	kind := muster.Kind(m.GetKind())
	replication, err := replicationFromPB(m.GetReplication())
	switch {
	case m.GetKind() < uint32(muster.File) || m.GetKind() > uint32(muster.Link):
		return muster.Entry{}, fmt.Errorf("%w: entry of unknown kind %d", muster.ErrCorrupt, m.GetKind())
	case m.GetMode()&^muster.ModeMask != 0:
		return muster.Entry{}, fmt.Errorf("%w: entry of mode %#o", muster.ErrCorrupt, m.GetMode())
	case m.GetFlags() > 0xff:
		return muster.Entry{}, fmt.Errorf("%w: entry of flags %#x", muster.ErrCorrupt, m.GetFlags())
	case err != nil:
		return muster.Entry{}, fmt.Errorf("%w: entry of replication %#x", muster.ErrCorrupt, m.GetReplication())
	}
	return muster.Entry{
		ID: m.GetInodeId(), Kind: kind, Name: string(m.GetName()), Length: m.GetLength(), MTime: m.GetMtime(), ATime: m.GetAtime(),
		Mode: uint16(m.GetMode()), Owner: m.GetOwner(), Group: m.GetGroup(), Replication: replication, BlockSize: m.GetBlockSize(),
		Flags: uint8(m.GetFlags()), Target: string(m.GetLinkTarget()), Blocks: blocksFromPB(m.GetBlocks()),
	}, nil
}

// RequestIDFromPB returns the request id of a call; no client is none. It refuses with
// muster.ErrInvalid one that is not 16 bytes.
func RequestIDFromPB(client []byte, sequence uint64) (muster.RequestID, error) {
	id := muster.RequestID{Sequence: sequence}
	switch len(client) {
	case 0:
		return muster.RequestID{}, nil
	case len(id.Client):
		copy(id.Client[:], client)
		return id, nil
	}
	return muster.RequestID{}, fmt.Errorf("%w: client of a request id of %d bytes; it has %d", muster.ErrInvalid, len(client), len(id.Client))
}

// blocksToPB allocates once for all blocks, as a file may have 10,000.
func blocksToPB(blocks []muster.Block) []*pb.Block {
	if len(blocks) == 0 {
		return nil
	}
	messages, list := make([]pb.Block, len(blocks)), make([]*pb.Block, len(blocks))
	for i := range blocks {
		m := &messages[i]
		m.Container, m.LocalId, m.Length = blocks[i].Container, blocks[i].LocalID, blocks[i].Length
		list[i] = m
	}
	return list
}

func blocksFromPB(list []*pb.Block) []muster.Block {
	if len(list) == 0 {
		return nil
	}
	blocks := make([]muster.Block, len(list))
	for i, m := range list {
		blocks[i] = muster.Block{Container: m.GetContainer(), LocalID: m.GetLocalId(), Length: m.GetLength()}
	}
	return blocks
}

// BlockIDToPB returns nil for the zero id.
func BlockIDToPB(id muster.BlockID) *pb.BlockID {
	if id == (muster.BlockID{}) {
		return nil
	}
	return &pb.BlockID{Container: id.Container, LocalId: id.LocalID}
}

// BlockIDFromPB returns the zero id for nil.
func BlockIDFromPB(m *pb.BlockID) muster.BlockID {
	return muster.BlockID{Container: m.GetContainer(), LocalID: m.GetLocalId()}
}

func modeFromPB(mode uint32) (uint16, error) {
	if mode&^muster.ModeMask != 0 {
		return 0, fmt.Errorf("%w: mode %#o; at most %#o", muster.ErrInvalid, mode, muster.ModeMask)
	}
	return uint16(mode), nil
}

func replicationFromPB(packed uint32) (muster.Replication, error) {
	r := muster.Replication(packed)
	if packed > 0xffff || !r.Valid() {
		return 0, fmt.Errorf("%w: unknown replication %#x", muster.ErrInvalid, packed)
	}
	return r, nil
}

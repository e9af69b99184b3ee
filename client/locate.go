package client

import (
	"context"
	"errors"
	"io/fs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// Located is the status of a file, and where its blocks are.
type Located struct {
	Info

	// Blocks are those that were asked for, in the order of the file. Entry.Blocks has the
	// same ones. A directory, or an empty file, has none.
	Blocks []LocatedBlock

	// NoData says that some of the bytes that were asked for are in no block, since the
	// file is metadata only: where they are is unknown.
	NoData bool
}

var _ fs.FileInfo = Located{}

// LocatedBlock is a block and where it is.
type LocatedBlock struct {
	muster.Block
	Offset      int64              // of its first byte in the file
	Replication muster.Replication // of its container, if Err is nil

	// Replicas are in the order of their distance from the reader, which is different for
	// blocks that lie together if they are as far away; those on datanodes that are stale or
	// dead come last. None: the block is lost for now.
	Replicas []Replica

	// Err says why it is unknown where the block is: it carries ErrUnavailable, or
	// ErrNotFound if the block's container does not exist.
	Err error

	seen   string
	tokens *tokens // what reads it; nil: the cluster has no tokens, or none were asked for
	at     int     // among the blocks of the tokens
}

// Stale says that the answer proved wrong: no replica could be read. OpenLocated then asks
// for the block's container anew, unless that was done since.
func (b *LocatedBlock) Stale() Stale { return Stale{Container: b.Container, Seen: b.seen} }

// Stale names the answer for a container that proved wrong.
type Stale struct {
	Container uint64
	Seen      string // opaque: when the server learned what it answered
}

// Replica is a copy of a block on a datanode; of an erasure-coded block a part of it.
type Replica struct {
	*muster.Node     // shared with other replicas, so it is not to be changed
	Index        int // of an erasure-coded block, from 1: data first, then parity; else 0
}

// StatLocated is Stat, and says where the blocks of a file are, as far as the server knows.
// Blocks of which it does not know have an Err. What it knows may be some hours old: good
// for planning where to read, not for reading.
func (c *Client) StatLocated(ctx context.Context, path string) (Located, error) {
	return c.located(ctx, "stat", path, func(ctx context.Context, p []byte, first uint32) (*pb.LocatedReply, error) {
		entry, err := c.service.Stat(ctx, &pb.PathRequest{Path: p, Located: true, Sorted: true, Reader: c.options.Reader, First: first})
		if err != nil {
			return nil, err
		}
		return &pb.LocatedReply{Entry: entry, Located: entry.Located}, nil
	})
}

// Locate returns those blocks of a file that have bytes from offset on; with a length more
// than 0 only those with bytes among so many. A range that ends past the file's end is cut
// there. The caller must be allowed to read the file.
//
// It fails with ErrUnavailable if the server cannot find out now where a block is. Of a
// metadata-only file there is what there is, see Located.NoData.
func (c *Client) Locate(ctx context.Context, path string, offset, length int64) (Located, error) {
	return c.located(ctx, "locate", path, func(ctx context.Context, p []byte, first uint32) (*pb.LocatedReply, error) {
		return c.service.Locate(ctx, &pb.LocateRequest{Path: p, Offset: offset, Length: length, Reader: c.options.Reader, First: first})
	})
}

// OpenLocated returns a file's status and where all its blocks are, for reading it. Answers
// that proved wrong are named by LocatedBlock.Stale: the server then asks for these
// containers, and no others, anew. However many readers name the same answer, it asks once.
//
// It fails with ErrUnavailable as Locate does, and with ErrNoData for a file that is
// metadata only.
func (c *Client) OpenLocated(ctx context.Context, path string, stale ...Stale) (Located, error) {
	refresh := make([]*pb.Stale, len(stale))
	for i, s := range stale {
		refresh[i] = &pb.Stale{Container: s.Container, Seen: []byte(s.Seen)}
	}
	return c.located(ctx, "open", path, func(ctx context.Context, p []byte, first uint32) (*pb.LocatedReply, error) {
		return c.service.Open(ctx, &pb.OpenRequest{Path: p, Refresh: refresh, Reader: c.options.Reader, First: first})
	})
}

// Lookup is OpenLocated for which the server asks for all containers of the file anew, each
// time.
func (c *Client) Lookup(ctx context.Context, path string) (Located, error) {
	return c.located(ctx, "lookup", path, func(ctx context.Context, p []byte, first uint32) (*pb.LocatedReply, error) {
		return c.service.Lookup(ctx, &pb.OpenRequest{Path: p, Reader: c.options.Reader, First: first})
	})
}

// locateAttempts is how often an answer in pieces is begun. Only a file of thousands of
// blocks has more than one piece.
const locateAttempts = 5

// located makes one of the calls above, again and again if the answer comes in pieces: all
// of one state of the file.
func (c *Client) located(ctx context.Context, op, path string, call func(ctx context.Context, path []byte, first uint32) (*pb.LocatedReply, error)) (Located, error) {
	clean, err := muster.CleanPath(path)
	if err != nil {
		return Located{}, pathError(op, path, err)
	}
	for attempt := 1; ; attempt++ {
		l := Located{Info: Info{Path: clean}}
		next := uint32(0)
		for more := true; more && err == nil; more = next > 0 {
			var reply *pb.LocatedReply
			reply, err = retry(ctx, c, func(ctx context.Context) (*pb.LocatedReply, error) { return call(ctx, []byte(clean), next) })
			if err == nil {
				next, err = l.add(reply, next)
			}
		}
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, errReplaced) || attempt == locateAttempts {
			return Located{}, pathError(op, path, err)
		}
		err = nil
	}
}

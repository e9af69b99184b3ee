package client

import (
	"context"
	"iter"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Stat returns the status of what the path names, and follows a link in last place.
func (c *Client) Stat(ctx context.Context, path string) (Info, error) {
	return c.stat(ctx, "stat", path, c.service.Stat)
}

// Lstat returns the status of what the path names; of a link its own.
func (c *Client) Lstat(ctx context.Context, path string) (Info, error) {
	return c.stat(ctx, "lstat", path, c.service.Lstat)
}

func (c *Client) stat(ctx context.Context, op, path string, call func(context.Context, *pb.PathRequest) (*pb.EntryReply, error)) (Info, error) {
	clean, err := muster.CleanPath(path)
	if err != nil {
		return Info{}, pathError(op, path, err)
	}
	entry, err := retry(ctx, c, func(ctx context.Context) (muster.Entry, error) {
		reply, err := call(ctx, &pb.PathRequest{Path: []byte(clean), Blocks: true})
		if err != nil {
			return muster.Entry{}, err
		}
		return rpc.EntryFromPB(reply)
	})
	if err != nil {
		return Info{}, pathError(op, path, err)
	}
	return Info{Path: clean, Entry: entry}, nil
}

// ReadLink returns the target of a link, as it was given.
func (c *Client) ReadLink(ctx context.Context, path string) (string, error) {
	clean, err := muster.CleanPath(path)
	if err != nil {
		return "", pathError("readlink", path, err)
	}
	reply, err := retry(ctx, c, func(ctx context.Context) (*pb.ReadLinkReply, error) {
		return c.service.ReadLink(ctx, &pb.PathRequest{Path: []byte(clean)})
	})
	if err != nil {
		return "", pathError("readlink", path, err)
	}
	return string(reply.Target), nil
}

// Stated is the answer of StatAll for one path.
type Stated struct {
	Path string // as it was given
	Info Info   // if Err is nil
	Err  error  // *fs.PathError
}

// StatAll is Lstat for any number of paths in one call. Exactly one answer comes for
// each path, in their order; the iteration's error is one of the whole call. How paths
// is used is said at List.
func (c *Client) StatAll(ctx context.Context, paths iter.Seq[string]) iter.Seq2[Stated, error] {
	return func(yield func(Stated, error) bool) {
		for p, err := range ownRows(c.List(ctx, paths, ListOptions{Own: true}), (*Batch).Info) {
			if !yield(Stated{Path: p.outcome.Path, Info: p.value, Err: p.outcome.err("lstat")}, err) {
				return
			}
		}
	}
}

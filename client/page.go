package client

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
)

// Page lists one page of the paths: all of one state, at most ListOptions.Limit rows.
// A cursor goes on after the page that had it as its Cursor, with the same paths and
// options; nil begins. The last page has no Cursor. There may be as many paths as
// Capabilities.MaxPaths says. No path gives an empty batch, without a call.
//
// List is faster: it needs no round trip for each page.
func (c *Client) Page(ctx context.Context, paths []string, cursor []byte, o ListOptions) (*Batch, error) {
	b, err := c.page(ctx, paths, cursor, o)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return b, nil
}

func (c *Client) page(ctx context.Context, paths []string, cursor []byte, o ListOptions) (*Batch, error) {
	options, err := o.wire(c.options.Reader)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		decoded, err := rows.Decode(nil, o.columns())
		return &Batch{Batch: decoded}, err
	}
	call := pageCalls.Get().(*pageCall)
	defer call.release()
	call.packed = packPaths(call.packed[:0], paths)
	request := &call.request
	*request = rpc.ListRequest{HasOptions: true, Options: options, Cursor: cursor, Paths: call.packed, Count: uint32(len(paths))}
	if n := len(request.Paths); n > c.maxMessage {
		return nil, fmt.Errorf("%w: the paths take %d bytes, and a page call has at most %d; use List, which has no bound", muster.ErrLimit, n, c.maxMessage)
	}
	err = ended(ctx)
	for b := newBackoff(); err == nil; {
		if err = c.pool.Invoke(c.context(ctx), "/muster.v1.Namespace/ListPage", replyEncoding{}, request, &call.reply); err == nil {
			return c.pageBatch(&call.reply, paths, o)
		}
		err = c.again(ctx, &b, err)
	}
	return nil, err
}

// pageCall is what a page call needs while it lasts.
type pageCall struct {
	packed  []byte
	request rpc.ListRequest
	reply   reply
}

// release gives a call's buffers to the next one.
func (p *pageCall) release() {
	p.reply.receive(nil, nil, nil) // gives back memory that no batch has
	p.request, p.reply = rpc.ListRequest{}, reply{copied: p.reply.copied, nodes: p.reply.nodes[:0]}
	pageCalls.Put(p)
}

var pageCalls = sync.Pool{New: func() any { return new(pageCall) }}

// pageBatch checks a page. Where it begins is the cursor's secret, so that of a whole
// listing no more is checked than the order and that the last page is at the end.
func (l *link) pageBatch(r *reply, paths []string, o ListOptions) (*Batch, error) {
	decoded, err := l.decode(r, len(paths), o.columns())
	if err != nil {
		return nil, err
	}
	nodes, err := extend(decoded, r, nil, o.Locations)
	if err != nil {
		return nil, err
	}
	last := -1
	for i := range decoded.Len() {
		at := int(decoded.PathIndex(i))
		if at < last || at >= len(paths) {
			return nil, corrupt("row of path %d after one of path %d of %d", at, last, len(paths))
		}
		last = at
	}
	for i := range r.outcomes {
		if o := &r.outcomes[i]; o.Index >= uint64(len(paths)) || i > 0 && o.Index != r.outcomes[i-1].Index+1 {
			return nil, corrupt("outcome %d of a page is of path %d of %d", i, o.Index, len(paths))
		}
	}
	if r.Done != (len(r.Cursor) == 0) {
		return nil, corrupt("a page of %d paths that is done and has a cursor, or neither", len(paths))
	}
	if n := len(r.outcomes); r.Done && n > 0 && r.outcomes[n-1].Index+1 != uint64(len(paths)) {
		return nil, corrupt("the last page ends at path %d of %d", r.outcomes[n-1].Index, len(paths))
	}
	b := pageOf(r, decoded, paths)
	b.located, b.nodes = o.Locations != muster.NoLocations, nodes
	return b, nil
}

// pageOf returns the batch of a page, which shares nothing with the reply but what was
// made for it.
func pageOf(r *reply, decoded *rows.Batch, paths []string) *Batch {
	b := &Batch{Batch: decoded, Outcomes: r.outcomes, Txid: r.Txid, Cursor: bytes.Clone(r.Cursor), memory: r.give()}
	b.given = listOf(slices.Clone(paths), &b.room)
	b.namePaths()
	return b
}

// Pages lists one directory page by page, from ListOptions.Cursor on: the iterator
// for readers that stop and go on later, perhaps in another process. The error is one
// of the whole call; the path's own is the outcome in the last batch.
func (c *Client) Pages(ctx context.Context, path string, o ListOptions) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		paths := []string{path}
		for cursor := o.Cursor; ; {
			b, err := c.Page(ctx, paths, cursor, o)
			if err != nil {
				yield(nil, err)
				return
			}
			if cursor = b.Cursor; !yield(b, nil) || len(cursor) == 0 {
				return
			}
		}
	}
}

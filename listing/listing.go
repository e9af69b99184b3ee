package listing

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// Lister lists directories of one tree. It is safe for concurrent use.
type Lister struct {
	tree      *namespace.Tree
	config    Config // defaults filled in, no key
	cursorKey []byte
}

// Message is one answer: a page, or a part of a stream.
type Message struct {
	Frame         []byte           // rows, see rows.Decode; empty: none
	Outcomes      []muster.Outcome // of the paths that ended, in their order
	Cursor        []byte           // goes on after this message; nil if Done, and in snapshot streams
	Done          bool             // every path has its outcome
	TotalRows     uint64           // if Done, of a stream: rows sent by this call
	TotalOutcomes uint64           // if Done, of a stream: outcomes sent by this call
	Txid          uint64           // of the newest view in this message; 0: none was needed
}

// New returns a lister over tree. The tree stays the caller's to close, after the last
// call has returned.
func New(tree *namespace.Tree, c Config) (*Lister, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	if len(c.Key) != keyBytes {
		return nil, fmt.Errorf("listing: %w: cluster key of %d bytes; it has %d", muster.ErrInvalid, len(c.Key), keyBytes)
	}
	key, err := hkdf.Key(sha256.New, c.Key, nil, "muster listing cursor", keyBytes)
	if err != nil {
		return nil, fmt.Errorf("listing: derive the cursor key: %w", err)
	}
	c.Key = nil
	return &Lister{tree: tree, config: c.withDefaults(), cursorKey: key}, nil
}

// Config returns the configuration with its defaults filled in and without the key.
func (l *Lister) Config() Config { return l.config }

// Page lists one page of paths, from cursor on (nil: from the beginning). Every call of
// one listing gives all its paths; those up to the cursor's index must be the same.
//
// The whole call fails with muster.ErrInvalid (no paths, unknown options, snapshot
// consistency), muster.ErrLimit (more than Config.MaxPaths paths), muster.ErrCursor, the
// context's error, or what the tree as a whole fails with, such as muster.ErrUnavailable.
func (l *Lister) Page(ctx context.Context, caller *muster.Identity, paths []string, o Options, cursor []byte) (*Message, error) {
	panic("not yet")
}

// Stream lists any number of paths, page after page, and sends what it gathered: little
// at first, so that the first rows come early, then up to about 4,096 rows or 256 KiB,
// and whenever no path is waiting; always under 1 MiB. The last message is Done.
//
// next returns the next chunk of paths, and io.EOF after the last; the chunk is
// Stream's from then on. It is called from one other goroutine, which has ended when
// Stream returns: so next must return soon after its context ends. That happens when
// Stream fails, and context.Cause then tells why.
// No more than Config.MaxPaths paths and two chunks wait at any time.
//
// send sends a message, which is valid until send returns.
//
// With a cursor the stream goes on after the message that carried it: the first path is
// the cursor's, and paths are numbered from its index on. A snapshot stream has no
// cursors and fails with muster.ErrLimit when it is older than Config.SnapshotAge.
//
// Stream fails with muster.ErrInvalid, muster.ErrCursor, an error of next or send, the
// context's error, or what the tree as a whole fails with.
func (l *Lister) Stream(ctx context.Context, caller *muster.Identity, o Options, cursor []byte, next func(ctx context.Context) ([]string, error), send func(*Message) error) error {
	panic("not yet")
}

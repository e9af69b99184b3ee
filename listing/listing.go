package listing

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// Lister lists directories of one tree. It is safe for concurrent use.
type Lister struct {
	tree       *namespace.Tree
	config     Config // defaults filled in, no key
	cursorKey  []byte
	collectors sync.Pool    // of *collector: their buffers have grown
	rings      sync.Pool    // of *ring
	lent       atomic.Int64 // of both, how many are in use
}

// Message is one answer: a page, or a part of a stream.
type Message struct {
	Frame         []byte           // rows, see rows.Decode; empty: none
	Outcomes      []muster.Outcome // of the paths that ended, in their order
	Cursor        []byte           // goes on after this message; empty if Done, and in snapshot streams
	CursorIndex   uint64           // of the path that Cursor names: a resumed stream starts with it
	Done          bool             // every path has its outcome
	TotalRows     uint64           // if Done, of a stream: rows sent by this call
	TotalOutcomes uint64           // if Done, of a stream: outcomes sent by this call
	Nodes         []muster.Node    // additions to the call's table of nodes, which rows index; a stream may send them ahead, alone
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

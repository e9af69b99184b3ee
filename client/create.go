package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"time"
	"unicode/utf8"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// WriteOptions say how a file is written. The zero value works: a new file, in the place of
// none.
type WriteOptions struct {
	// Mode is less the umask; 0: 0666.
	Mode fs.FileMode

	// Replication of the file; 0: replicated/3, or as many as there are datanodes. Erasure
	// coding is refused.
	Replication muster.Replication

	// BlockSize is the bytes of all blocks but the last: whole checksums, from
	// muster.MinBlockSize to muster.MaxBlockSize. 0: the server's, 256 MiB.
	BlockSize int64

	Overwrite bool      // replace an existing file
	Parents   bool      // make missing parents
	MTime     time.Time // zero: when the file is finished, by the server's clock

	// Atomic writes the file under a temporary name beside its own, which presets of
	// listings hide, and renames it when it is finished, in the same call. So nobody ever
	// sees a part of it, and with Overwrite the file that was there until then stays until
	// then, or for good if writing fails: then the temporary one is removed, by the server if
	// nobody else does. A link is replaced, and not followed.
	Atomic bool

	// Window is how many bytes are kept in memory until they are durable on every replica;
	// when it is full, Write waits. 0: 16 MiB. At least 2 MiB.
	Window int64

	// Timeout is how long a datanode may make no progress while it is waited for; then the
	// file goes on without it. 0: 30 s.
	Timeout time.Duration
}

// Validate says what is wrong with the options.
func (o WriteOptions) Validate() error {
	_, _, coded := o.Replication.Coding()
	switch {
	case coded:
		return fmt.Errorf("%w: files of replication %v cannot be written; use replicated/1 to replicated/9", muster.ErrInvalid, o.Replication)
	case !o.Replication.Valid():
		return fmt.Errorf("%w: replication %#x is none; use replicated/1 to replicated/9", muster.ErrInvalid, uint16(o.Replication))
	case o.BlockSize != 0 && o.BlockSize < muster.MinBlockSize:
		return fmt.Errorf("%w: BlockSize is %d; use at least %d, or 0 for the server's", muster.ErrInvalid, o.BlockSize, muster.MinBlockSize)
	}
	return blocks.WriteOptions{BlockSize: o.BlockSize, Window: o.Window, Timeout: o.Timeout}.Validate()
}

// Create makes a file, in the place of the one that is there, and opens it for writing. See
// CreateFile. Other than by os.Create, an existing one leaves it neither its mode nor its owner,
// and a link is replaced, not followed.
func (c *Client) Create(ctx context.Context, path string) (*FileWriter, error) {
	return c.CreateFile(ctx, path, WriteOptions{Overwrite: true})
}

// CreateFile makes a file and opens it for writing. Until it is closed everybody sees that
// it is being written, and nobody else can write it: that is muster.ErrExists. Options.Reader
// says near which datanodes the data is best.
//
// ctx bounds this call and nothing after it: what Write and Close wait for has bounds of its
// own, WriteOptions.Timeout and Options.CommandTimeout.
func (c *Client) CreateFile(ctx context.Context, path string, o WriteOptions) (*FileWriter, error) {
	w, err := c.createFile(ctx, path, o)
	if err != nil {
		return nil, pathError("create", path, err)
	}
	return w, nil
}

func (c *Client) createFile(ctx context.Context, path string, o WriteOptions) (*FileWriter, error) {
	clean, err := muster.CleanPath(path)
	if err == nil {
		err = o.Validate()
	}
	if err != nil {
		return nil, err
	}
	w := &FileWriter{client: c, path: path, name: clean, options: o, writing: newTurn(), using: newTurn()}
	if o.Atomic {
		w.name, w.target = temporary(clean), clean
	}
	reply, asked, err := w.start(ctx)
	if err != nil {
		return nil, err
	}
	first, err := targetOf(reply.GetFile(), reply.GetTarget())
	if err != nil {
		return nil, err
	}
	w.file, w.block = reply.GetFile(), first.ID
	w.life, w.cancel = context.WithCancelCause(c.context(context.Background()))
	w.writer = blocks.NewWriter(w.life, c.datanodes, first, w.next, blocks.WriteOptions{
		BlockSize: reply.GetBlockSize(), Window: o.Window, Timeout: o.Timeout,
	})
	if err := c.writers.add(w, leaseOf(reply.GetLeaseMs()), asked); err != nil {
		_ = w.writer.Close() // has nothing to write
		w.cancel(err)
		return nil, err
	}
	return w, nil
}

// temporarySuffix ends the names of files that are written atomically; presets of listings
// know it.
const temporarySuffix = "._COPYING_"

// temporary returns another name in the same directory, which nobody else has.
func temporary(path string) string {
	dir, name := muster.SplitPath(path)
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails, see its documentation
	suffix := "." + hex.EncodeToString(random) + temporarySuffix
	for len(name) > muster.MaxNameBytes-len(suffix)-1 {
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-last]
	}
	return muster.JoinPath(dir, "."+name+suffix)
}

// start makes the file, and asks for its first block along with it. It also returns when the server
// was asked that has answered.
func (w *FileWriter) start(ctx context.Context) (reply *pb.StartWriteReply, asked time.Time, err error) {
	c, o := w.client, w.options
	request := &pb.StartWriteRequest{
		Client: c.id[:], Sequence: c.sequence.Add(1), Path: []byte(w.name), Mode: uint32(c.mask(orDefault(o.Mode, 0o666))),
		Replication: uint32(o.Replication), BlockSize: o.BlockSize, Parents: o.Parents, Overwrite: o.Overwrite,
		FirstBlock: true, Reader: c.options.Reader, Target: []byte(w.target),
	}
	reply, err = once(ctx, c, c.options.Attempts, func(ctx context.Context) (*pb.StartWriteReply, error) {
		asked = time.Now()
		return c.service.StartWrite(ctx, request)
	})
	if err == nil && reply.GetFile() == 0 {
		err = corrupt("a file to be written without an inode id")
	}
	return reply, asked, err
}

// targetOf reads a block that is to be written; without a message it is one without nodes.
func targetOf(file uint64, m *pb.WriteTarget) (blocks.Target, error) {
	nodes, err := rpc.NodesFromPB(m.GetNodes())
	if err != nil {
		return blocks.Target{}, err
	}
	return blocks.Target{ID: rpc.BlockIDFromPB(m.GetBlock()), File: file, Nodes: nodes, Token: m.GetToken()}, nil
}

package client

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/muster-fs/muster"
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
	// then, or for good if writing fails: then the temporary one is removed.
	Atomic bool

	// Window is how many bytes are kept in memory until they are durable on every replica;
	// when it is full, Write waits. 0: 16 MiB. At least 2 MiB.
	Window int64

	// Timeout is how long a datanode may make no progress while it is waited for; then the
	// file goes on without it. 0: 30 s.
	Timeout time.Duration
}

// Create makes a file, or truncates the one that is there, and opens it for writing, as
// os.Create does. See CreateFile.
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
	return nil, pathError("create", path, fmt.Errorf("%w: files cannot be written yet", muster.ErrInternal))
}

// FileWriter is a file that is being written, from its beginning to its end. It must be
// closed or aborted, in the end. One goroutine uses it at a time; Abort may come at any time.
// Errors are *fs.PathError.
//
// Write returns when the data is on its way. Only Close says that all of it is durable on
// the file's datanodes. If one of these fails, what it did not confirm goes elsewhere, and
// the writer notices nothing but the pause. After an error of Write every other fails with
// the same one.
type FileWriter struct {
	path string
}

var (
	_ io.WriteCloser  = (*FileWriter)(nil)
	_ io.ReaderFrom   = (*FileWriter)(nil)
	_ io.StringWriter = (*FileWriter)(nil)
)

// Name returns the path that the file was, or will be, given: that of the call which made it.
func (w *FileWriter) Name() string { return w.path }

// Size returns the bytes that were written so far, durable or not.
func (w *FileWriter) Size() int64 { return 0 }

// Write appends p to the file. It keeps nothing of it.
func (w *FileWriter) Write(p []byte) (int, error) { return 0, w.failure("write", muster.ErrInternal) }

// WriteString is Write.
func (w *FileWriter) WriteString(s string) (int, error) {
	return 0, w.failure("write", muster.ErrInternal)
}

// ReadFrom appends all that r has, and returns how much that was. io.Copy uses it, and then
// needs no buffer.
func (w *FileWriter) ReadFrom(r io.Reader) (int64, error) {
	return 0, w.failure("write", muster.ErrInternal)
}

// Close waits until all that was written is durable on the datanodes, and the file has its
// final length, and its name.
//
// After a failed Write, or if it fails itself, it returns that error, and the file has what
// was durable by then, as a local file has after a full disk; of one that is written
// atomically nothing stays. If the server cannot be reached for that, it does so by itself
// once the client has gone. A second Close is fs.ErrClosed.
func (w *FileWriter) Close() error { return w.failure("close", muster.ErrInternal) }

// Abort ends writing and removes the file; what an Overwrite has replaced is not brought
// back, unless the file is written atomically. It ends a Write that waits, and does nothing
// after Close: so it can be deferred.
func (w *FileWriter) Abort(ctx context.Context) error { return nil }

func (w *FileWriter) failure(op string, err error) error { return pathError(op, w.path, err) }

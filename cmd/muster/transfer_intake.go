package main

import (
	"context"
	"io"
)

// intake is a file that is being read. It counts for the progress, ends with ctx, and
// remembers whether reading failed, or else what takes the data.
type intake struct {
	io.ReadCloser
	ctx      context.Context
	progress *transferProgress
	err      *error // of reading
}

func (in *intake) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		*in.err = err
		return 0, err
	}
	n, err := in.ReadCloser.Read(p)
	in.progress.bytes(n)
	if err != nil && err != io.EOF {
		*in.err = err
	}
	return n, err
}

// WriteTo lets the file decide how it is read.
func (in *intake) WriteTo(w io.Writer) (int64, error) {
	out := &outlet{w: w, intake: in}
	n, err := io.Copy(out, in.ReadCloser)
	if err != nil && out.err == nil {
		*in.err = err
	}
	return n, err
}

// outlet is what an intake is written to.
type outlet struct {
	w      io.Writer
	intake *intake
	err    error
}

func (out *outlet) Write(p []byte) (n int, err error) {
	if err := out.intake.ctx.Err(); err != nil {
		return 0, err
	}
	n, out.err = out.w.Write(p)
	out.intake.progress.bytes(n)
	return n, out.err
}

// interruptible returns a reader of r that ends with ctx. A read of a terminal or a silent
// pipe cannot be interrupted: a goroutine is left behind in it then.
func interruptible(ctx context.Context, r io.Reader) io.ReadCloser {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) }) // is always nil
	go func() {
		buffer := make([]byte, 256<<10)
		_, err := io.CopyBuffer(in, struct{ io.Reader }{r}, buffer)
		_ = in.CloseWithError(err) // nil: the end
	}()
	return out
}

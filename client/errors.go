package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// ErrOutcomeUnknown is the error of commands that were sent, whose answer never came,
// and that could not be repeated in time: they are applied, or not, or will be soon.
// It is a muster.ErrUnavailable. Look at the tree before you send them again.
var ErrOutcomeUnknown = fmt.Errorf("%w: the outcome of the commands is unknown", muster.ErrUnavailable)

// pathError adds operation and path to an error of a call about one path.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// linkError is pathError for calls about two paths.
func linkError(op, from, to string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: from, New: to, Err: err}
}

// inner returns an error of a call about one path without operation and path.
func inner(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// ended returns why ctx ended, as an error with a code; nil if it did not.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	return &rpc.Error{Code: muster.CodeOf(err), Text: context.Cause(ctx).Error()}
}

// retriable says whether the same call may work on another connection, or soon. A
// server that stops cancels its calls: that is not this caller's giving up, which
// shows in the caller's context and is looked at first.
func retriable(err error) bool {
	return rpc.Retryable(err) || errors.Is(err, muster.ErrCancelled)
}

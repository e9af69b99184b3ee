package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/muster-fs/muster"
)

// ErrOutcomeUnknown is the error of commands that were sent, whose answer never came,
// and that could not be repeated in time: they are applied, or not, or will be soon.
// It is a muster.ErrUnavailable. Look at the tree before you send them again.
var ErrOutcomeUnknown = fmt.Errorf("%w: the outcome of the commands is unknown", muster.ErrUnavailable)

// status is a code with the server's words for it.
type status struct {
	code    muster.Code
	message string
}

func (s *status) Error() string {
	if s.message == "" {
		return s.code.Error()
	}
	return s.message
}

func (s *status) Unwrap() error { return s.code }

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

// retriable says whether the same call may work on another connection, or soon. A
// server that stops cancels its calls: that is not this caller's giving up, which
// shows in the caller's context and is looked at first.
func retriable(err error) bool {
	return errors.Is(err, muster.ErrUnavailable) || errors.Is(err, muster.ErrCancelled)
}

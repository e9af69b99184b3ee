package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
)

// Error gives an error of Pebble its code: ErrCorrupt for what the files hold, ErrUnavailable for
// a store that is closed, else ErrInternal. The cause stays as text only, lest its own
// sentinels, such as a missing file, be taken for an answer about what is stored.
func Error(err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: store: %v", muster.ErrCorrupt, err)
	case errors.Is(err, pebble.ErrClosed):
		return fmt.Errorf("%w: the store is closed", muster.ErrUnavailable)
	}
	return fmt.Errorf("%w: store: %v", muster.ErrInternal, err)
}

// openError gives an error of opening Pebble its code: what the system did not say is about
// what the files hold.
func openError(err error) error {
	var path *fs.PathError
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist) && (errors.As(err, &path) || errors.As(err, &errno)):
		return fmt.Errorf("%w: store: %v", muster.ErrUnavailable, err)
	}
	return corrupt("store: %v", err)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{muster.ErrCorrupt}, args...)...)
}

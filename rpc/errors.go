package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"storj.io/drpc/drpcerr"

	"github.com/muster-fs/muster"
)

// maxErrorText bounds the text that crosses the wire with an error.
const maxErrorText = 16 << 10

// Error is a failure that the other side reported: its code and its words.
type Error struct {
	Code muster.Code
	Text string // for people; empty: the code's own words
}

func (e *Error) Error() string {
	if e.Text == "" {
		return e.Code.Error()
	}
	return e.Text
}

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }

// brokenError is a connection that could not be made, or ended before the answer.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return muster.ErrUnavailable.Error() + ": " + e.text }
func (e *brokenError) Unwrap() error { return muster.ErrUnavailable }

// unsentError is the failure of a call of which nothing was sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// Unsent says whether a call failed before anything of it was sent: so it was not
// carried out, for certain.
func Unsent(err error) bool {
	var unsent unsentError
	return errors.As(err, &unsent)
}

func broken(format string, args ...any) error {
	return &brokenError{text: fmt.Sprintf(format, args...)}
}

// ToWire gives an error the form that crosses the wire: its code as a number, and text.
func ToWire(err error) error {
	if err == nil {
		return nil
	}
	code, text := ToStatus(err)
	return drpcerr.WithCode(errors.New(text), uint64(code))
}

// FromWire reads an error of a dRPC call. One that the other side sent becomes an
// *[Error]. A failure of the connection becomes muster.ErrUnavailable. A bare io.EOF
// (the end of a stream), the errors of contexts and those that have a code are returned
// as they are. The errors of a [Pool] have passed here already.
func FromWire(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var code muster.Code
	if errors.As(err, &code) {
		return err
	}
	if number := drpcerr.Code(err); number != 0 {
		return FromStatus(uint32(min(number, 1<<32-1)), err.Error())
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return broken("the connection failed: %v", err)
}

// ToStatus splits an error into the code and the words that a message carries. No
// error is (0, "").
func ToStatus(err error) (code uint32, text string) {
	if err == nil {
		return uint32(muster.OK), ""
	}
	text = err.Error()
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "..."
	}
	return uint32(muster.CodeOf(err)), strings.ToValidUTF8(text, "\uFFFD")
}

// FromStatus is the error of a message's code and words; code 0 is none. A code of a
// newer version is muster.ErrInternal.
func FromStatus(code uint32, text string) error {
	if code == uint32(muster.OK) {
		return nil
	}
	return &Error{Code: knownCode(code), Text: text}
}

func knownCode(code uint32) muster.Code {
	if code > uint32(muster.ErrInternal) {
		return muster.ErrInternal
	}
	return muster.Code(code)
}

// Retryable says whether the same call may work if it is made again, at once on
// another connection or a little later: the connection could not be made or ended
// before the answer, or the server said that it is not available now. Whether the call
// was carried out is unknown. The caller's own context, and a closed pool, are final.
func Retryable(err error) bool {
	return errors.Is(err, muster.ErrUnavailable) && !errors.Is(err, net.ErrClosed) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

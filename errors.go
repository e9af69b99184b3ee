package muster

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// Code says what kind of failure an error is. It is the only part of an error
// that programs may act on: it crosses the wire as a number, and it is itself an
// error, so that errors.Is(err, muster.ErrNotFound) works on both sides.
//
// The numbers are part of the wire format and are never reused.
type Code uint32

// The codes. Each matches the sentinels of the standard library that say the
// same (see [Code.Is]).
const (
	OK                 Code = 0
	ErrNotFound        Code = 1  // the path, or the inode, does not exist
	ErrExists          Code = 2  // the target exists already
	ErrNotDirectory    Code = 3  // an ancestor, or the path itself, is no directory
	ErrIsDirectory     Code = 4  // the call wants a file or link
	ErrNotEmpty        Code = 5  // the directory has entries
	ErrPermission      Code = 6  // the caller may not do this
	ErrUnauthenticated Code = 7  // the caller did not say, or prove, who it is
	ErrInvalid         Code = 8  // the request is malformed; the same call never works
	ErrCursor          Code = 9  // the cursor is damaged, foreign, or of another call
	ErrChanged         Code = 10 // the path names another inode than the cursor was in
	ErrLimit           Code = 11 // a documented bound is exceeded
	ErrLinkLoop        Code = 12 // more than MaxLinkHops links on the way
	ErrNoData          Code = 13 // the file is metadata only
	ErrUnavailable     Code = 14 // not now: overload, shutdown, or a broken connection
	ErrDeadline        Code = 15 // the deadline passed
	ErrCancelled       Code = 16 // the caller gave up
	ErrCorrupt         Code = 17 // stored or received bytes are damaged
	ErrInternal        Code = 18 // a fault of ours
)

// codeTable gives each code its name on the wire and its words for people.
var codeTable = [...]struct{ name, text string }{
	OK:                 {"OK", "ok"},
	ErrNotFound:        {"NOT_FOUND", "no such file or directory"},
	ErrExists:          {"ALREADY_EXISTS", "already exists"},
	ErrNotDirectory:    {"NOT_A_DIRECTORY", "not a directory"},
	ErrIsDirectory:     {"IS_A_DIRECTORY", "is a directory"},
	ErrNotEmpty:        {"NOT_EMPTY", "directory not empty"},
	ErrPermission:      {"PERMISSION_DENIED", "permission denied"},
	ErrUnauthenticated: {"UNAUTHENTICATED", "not authenticated"},
	ErrInvalid:         {"INVALID_ARGUMENT", "invalid argument"},
	ErrCursor:          {"INVALID_CURSOR", "invalid cursor"},
	ErrChanged:         {"CHANGED", "changed while it was listed; list it again"},
	ErrLimit:           {"LIMIT_EXCEEDED", "limit exceeded"},
	ErrLinkLoop:        {"LINK_LOOP", "too many levels of symbolic links"},
	ErrNoData:          {"NO_DATA", "the file holds metadata only"},
	ErrUnavailable:     {"UNAVAILABLE", "unavailable"},
	ErrDeadline:        {"DEADLINE_EXCEEDED", "deadline exceeded"},
	ErrCancelled:       {"CANCELLED", "cancelled"},
	ErrCorrupt:         {"CORRUPT", "corrupt data"},
	ErrInternal:        {"INTERNAL", "internal error"},
}

// Name returns the code's name as documents and JSON output give it, such as
// NOT_FOUND. A code that this version does not know is INTERNAL.
func (c Code) Name() string {
	if int(c) >= len(codeTable) {
		c = ErrInternal
	}
	return codeTable[c].name
}

// Error returns the code in words for people.
func (c Code) Error() string {
	if int(c) >= len(codeTable) {
		c = ErrInternal
	}
	return codeTable[c].text
}

// Is makes the codes match the standard library's sentinels.
func (c Code) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return c == ErrNotFound
	case fs.ErrExist:
		return c == ErrExists || c == ErrNotEmpty
	case fs.ErrPermission:
		return c == ErrPermission || c == ErrUnauthenticated
	case fs.ErrInvalid:
		return c == ErrInvalid || c == ErrCursor
	case context.DeadlineExceeded, os.ErrDeadlineExceeded:
		return c == ErrDeadline
	case context.Canceled:
		return c == ErrCancelled
	}
	return false
}

// CodeOf returns the code of err: its own if it carries one, what a context's
// error says, and ErrInternal for anything else. CodeOf(nil) is OK.
func CodeOf(err error) Code {
	var code Code
	switch {
	case err == nil:
		return OK
	case errors.As(err, &code):
		return code
	case errors.Is(err, context.DeadlineExceeded):
		return ErrDeadline
	case errors.Is(err, context.Canceled):
		return ErrCancelled
	}
	return ErrInternal
}

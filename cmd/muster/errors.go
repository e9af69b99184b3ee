package main

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"unicode"

	"github.com/muster-fs/muster"
)

// reason returns what went wrong without the path and the operation, which the line
// that it goes into names already.
func reason(err error) string {
	var command *muster.CommandError
	if errors.As(err, &command) {
		err = command.Err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}

// shown returns path as messages name it: as it is, or quoted if that would break
// the line.
func shown(path string) string {
	odd := func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }
	if path == "" || strings.ContainsFunc(path, odd) {
		return strconv.Quote(path)
	}
	return path
}

package main

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/muster-fs/muster"
)

// reason returns what went wrong without the path and the operation, which the line
// that it goes into names already.
func reason(err error) string { return bare(err).Error() }

// bare takes path and operation off an error.
func bare(err error) error {
	for {
		switch outer := err.(type) {
		case *muster.CommandError:
			err = outer.Err
		case *fs.PathError:
			err = outer.Err
		case *os.LinkError:
			err = outer.Err
		default:
			return err
		}
	}
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

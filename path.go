package muster

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The bounds of names and paths. MaxPathBytes and MaxPathDepth hold for paths in
// requests only: a rename may move a tree to where its deepest paths are longer.
const (
	MaxNameBytes = 255   // bytes of one name
	MaxPathBytes = 8000  // bytes of a path in a request
	MaxPathDepth = 1000  // components of a path in a request
	MaxLinkHops  = 40    // links followed on one walk
	MaxBlocks    = 10000 // blocks of one file
)

// ModeMask has the mode bits an inode keeps: nine permission bits and the sticky bit.
const ModeMask = 0o1777

// ModeSticky is the sticky bit: in such a directory only the owner of an entry,
// the owner of the directory or the superuser may remove or rename the entry.
const ModeSticky = 0o1000

// CheckName says whether name may name an inode: 1 to MaxNameBytes bytes of valid
// UTF-8 with no slash or NUL, and neither "." nor "..". Everything else is an
// ordinary name: a name is never parsed as part of a URI.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: empty name", ErrInvalid)
	case name == "." || name == "..":
		return fmt.Errorf("%w: %q is not a name here; give the whole path", ErrInvalid, name)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%w: name %s... has %d bytes, at most %d", ErrInvalid, abbreviate(name), len(name), MaxNameBytes)
	case strings.IndexByte(name, '/') >= 0:
		return fmt.Errorf("%w: name %q has a slash", ErrInvalid, name)
	}
	return checkText("name", name)
}

// CheckTarget says whether target may be a link's target: absolute or relative, 1
// to MaxPathBytes bytes of valid UTF-8, no NUL, "." and ".." allowed.
func CheckTarget(target string) error {
	switch {
	case target == "":
		return fmt.Errorf("%w: empty link target", ErrInvalid)
	case len(target) > MaxPathBytes:
		return fmt.Errorf("%w: link target has %d bytes, at most %d", ErrInvalid, len(target), MaxPathBytes)
	}
	return checkText("link target", target)
}

// CleanPath checks an absolute path of a request and returns it with repeated and
// trailing slashes collapsed, so that equal paths are equal strings. It does not
// allocate if there is nothing to collapse.
func CleanPath(path string) (string, error) {
	switch {
	case path == "":
		return "", fmt.Errorf("%w: empty path", ErrInvalid)
	case len(path) > MaxPathBytes:
		return "", fmt.Errorf("%w: path %s... has %d bytes, at most %d", ErrInvalid, abbreviate(path), len(path), MaxPathBytes)
	case path[0] != '/':
		return "", fmt.Errorf("%w: path %q is relative; it must start with /", ErrInvalid, path)
	}
	if err := checkText("path", path); err != nil {
		return "", err
	}
	clean := collapse(path)
	depth := 0
	for rest := clean; rest != "" && rest != "/"; depth++ {
		var name string
		name, rest = NextComponent(rest)
		if name == "." || name == ".." {
			return "", fmt.Errorf("%w: path %q has the component %q", ErrInvalid, path, name)
		}
		if len(name) > MaxNameBytes {
			return "", fmt.Errorf("%w: name %s... has %d bytes, at most %d", ErrInvalid, abbreviate(name), len(name), MaxNameBytes)
		}
	}
	if depth > MaxPathDepth {
		return "", fmt.Errorf("%w: path %s... has %d components, at most %d", ErrInvalid, abbreviate(path), depth, MaxPathDepth)
	}
	return clean, nil
}

// NextComponent cuts the first component off a clean path: "/a/b" gives "a" and
// "/b", "/b" gives "b" and "".
func NextComponent(path string) (name, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// SplitPath splits a clean path into its parent and its last name. The parent of
// "/" is "/", its name is empty.
func SplitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i == 0 {
		return "/", path[1:]
	}
	return path[:i], path[i+1:]
}

// JoinPath returns the path of the child name of the clean path dir. An empty name
// is dir itself: that is how a listing names the own entry of a given path.
func JoinPath(dir, name string) string {
	switch {
	case name == "":
		return dir
	case dir == "/":
		return "/" + name
	}
	return dir + "/" + name
}

// collapse removes repeated and trailing slashes of an absolute path.
func collapse(path string) string {
	if !strings.Contains(path, "//") && (len(path) == 1 || path[len(path)-1] != '/') {
		return path
	}
	var b bytes.Buffer
	for i := range len(path) {
		if path[i] == '/' && (i+1 == len(path) || path[i+1] == '/') {
			continue
		}
		b.WriteByte(path[i])
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

func checkText(what, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%w: %s %s has a NUL byte", ErrInvalid, what, abbreviate(s))
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: %s %s is not valid UTF-8", ErrInvalid, what, abbreviate(s))
	}
	return nil
}

// abbreviate quotes the beginning of s for an error message.
func abbreviate(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most]
	}
	return fmt.Sprintf("%q", s)
}

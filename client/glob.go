package client

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

// Glob returns the paths that match the pattern, whose components are as path.Match
// has them, in lexical order within each directory. Directories that are missing or
// closed to the caller are ignored, as in path/filepath; one that cannot be read for
// another reason fails the call. The pattern is absolute. It takes one List call for
// each component with a wildcard.
func (c *Client) Glob(ctx context.Context, pattern string) ([]string, error) {
	if err := checkPattern(pattern); err != nil {
		return nil, fmt.Errorf("glob %s: %w", pattern, err)
	}
	clean, err := muster.CleanPath(pattern)
	if err != nil {
		return nil, pathError("glob", pattern, err)
	}
	found, err := c.glob(ctx, "/", clean)
	if err != nil {
		return nil, fmt.Errorf("glob %s: %w", pattern, err)
	}
	return found, nil
}

// checkPattern returns path.ErrBadPattern if one of the components is malformed.
func checkPattern(pattern string) error {
	for component := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(component, ""); err != nil {
			return err
		}
	}
	return nil
}

// glob matches a clean pattern below a clean directory.
func (c *Client) glob(ctx context.Context, base, pattern string) ([]string, error) {
	found, literal := []string{base}, false
	for rest := pattern; rest != "" && rest != "/"; {
		var component string
		var err error
		component, rest = muster.NextComponent(rest)
		if literal = !strings.ContainsAny(component, `*?[\`); literal {
			for i := range found {
				found[i] = muster.JoinPath(found[i], component)
			}
		} else if found, err = c.matches(ctx, found, component); err != nil {
			return nil, err
		}
	}
	if literal || pattern == "/" {
		return c.existing(ctx, found)
	}
	return found, nil
}

// matches returns the children of the directories whose names match.
func (c *Client) matches(ctx context.Context, dirs []string, pattern string) ([]string, error) {
	var found []string
	for b, err := range c.List(ctx, slices.Values(dirs), ListOptions{Columns: rows.ColName}) {
		if err != nil {
			return nil, err
		}
		for i := range b.Len() {
			// A path that is a file has a row of its own, without a name.
			if name := b.Name(i); name == "" {
				continue
			} else if ok, err := path.Match(pattern, name); err != nil {
				return nil, err
			} else if ok {
				found = append(found, b.Path(i))
			}
		}
		for _, o := range b.Outcomes {
			if err := globErr(o); err != nil {
				return nil, err
			}
		}
		b.Release()
	}
	return found, nil
}

// existing returns those of the paths that exist.
func (c *Client) existing(ctx context.Context, paths []string) ([]string, error) {
	var found []string
	for b, err := range c.List(ctx, slices.Values(paths), ListOptions{Own: true, Columns: rows.ColName}) {
		if err != nil {
			return nil, err
		}
		for _, o := range b.Outcomes {
			if err := globErr(o); err != nil {
				return nil, err
			}
			if o.Code == muster.OK {
				found = append(found, o.Path)
			}
		}
	}
	return found, nil
}

// globErr returns the error of a path that may have matches which nobody can see.
func globErr(o Outcome) error {
	switch o.Code {
	case muster.ErrNotFound, muster.ErrNotDirectory, muster.ErrPermission, muster.ErrLinkLoop:
		return nil
	}
	return o.Err()
}

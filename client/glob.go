package client

import "context"

// Glob returns the paths that match the pattern, whose components are as path.Match
// has them, in lexical order within each directory. Directories that are missing or
// closed to the caller are ignored, as in path/filepath. The pattern is absolute. It
// takes one List call for each component with a wildcard.
func (c *Client) Glob(ctx context.Context, pattern string) ([]string, error) { panic("not yet") }

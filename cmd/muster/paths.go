package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"path"
	"slices"

	"github.com/spf13/pflag"

	"github.com/muster-fs/muster"
)

// maxInputPath bounds one path of standard input, so that input which is no list of
// paths is refused instead of read into memory. It is well above the longest path.
const maxInputPath = 64 << 10

// resolve returns the absolute path that a command line means: there is no working
// directory, so that what is relative starts at the root, and . and .. are resolved in
// the text. The empty path is left to the server, whose answer names it.
func resolve(arg string) string {
	if arg == "" {
		return ""
	}
	return path.Clean("/" + arg)
}

// pathArgs are the paths that a command line names. The argument - stands for those
// that standard input has: one on a line, or each ended by a NUL.
type pathArgs struct {
	args  []string
	stdin io.Reader
	zero  bool // NUL ends a path

	err error // of reading standard input, or why it ended early; set by the sequence that all returned
}

// inputFlag adds -0 to a verb that reads paths from standard input.
func inputFlag(flags *pflag.FlagSet, zero *bool) {
	flags.BoolVarP(zero, "null", "0", false, "with - as a path: the paths on standard input end with NUL, not newline")
}

// pathArgs checks what the command line names; no arguments mean otherwise.
func (a *app) pathArgs(args []string, zero bool, otherwise ...string) (*pathArgs, error) {
	if len(args) == 0 {
		args = otherwise
	}
	p := &pathArgs{args: args, stdin: a.stdin, zero: zero}
	inputs := 0
	for _, arg := range args {
		if arg == "-" {
			inputs++
		}
	}
	switch {
	case inputs > 1:
		return nil, usagef("standard input (-) is named %d times; once is enough", inputs)
	case inputs == 0 && zero:
		return nil, usagef("-0 is about paths on standard input; add - to read them (a file of this name is /-)")
	}
	return p, nil
}

// fromInput says whether paths are read from standard input, so that their number is
// not known ahead.
func (p *pathArgs) fromInput() bool { return slices.Contains(p.args, "-") }

// all returns the resolved paths in their order, reading standard input as they are
// consumed. It may be ranged over once; p.err is valid after that.
func (p *pathArgs) all(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, arg := range p.args {
			if arg != "-" {
				if !yield(resolve(arg)) {
					return
				}
				continue
			}
			if !p.input(ctx, yield) {
				return
			}
		}
	}
}

// input yields the paths of standard input and says whether to go on.
func (p *pathArgs) input(ctx context.Context, yield func(string) bool) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := make(chan string, 256)
	var readErr error
	// A read from a terminal or a silent pipe cannot be interrupted. So it has a
	// goroutine of its own, which an interrupted run leaves behind in that read.
	go func() {
		defer close(lines)
		readErr = p.read(func(line string) bool {
			select {
			case lines <- line:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	for {
		select {
		case line, more := <-lines:
			if !more {
				p.err = readErr
				return readErr == nil
			}
			if !yield(resolve(line)) {
				return false
			}
		case <-ctx.Done():
			p.err = ctx.Err() // those that came are not all
			return false
		}
	}
}

// read calls yield for each path of standard input.
func (p *pathArgs) read(yield func(string) bool) error {
	end := byte('\n')
	if p.zero {
		end = 0
	}
	in := bufio.NewReaderSize(p.stdin, maxInputPath)
	for {
		line, err := in.ReadSlice(end)
		if errors.Is(err, bufio.ErrBufferFull) {
			return p.notAPath(line)
		}
		if err != nil && err != io.EOF {
			return err
		}
		line = bytes.TrimSuffix(line, []byte{end})
		switch {
		case !p.zero && bytes.IndexByte(line, 0) >= 0:
			return p.notAPath(line)
		case len(line) == 0 && (!p.zero || err == io.EOF):
			// A blank line, or nothing after the last path.
		case !yield(string(line)):
			return nil
		}
		if err == io.EOF {
			return nil
		}
	}
}

// notAPath says what is wrong with a line of standard input that can be no path.
func (p *pathArgs) notAPath(line []byte) error {
	switch {
	case !p.zero && bytes.IndexByte(line, 0) >= 0:
		return usagef("standard input: a line has NUL bytes; if they end paths, as find -print0 writes them, add -0")
	case p.zero && bytes.IndexByte(line, '\n') >= 0:
		return usagef("standard input: no NUL in %d bytes; if each line is a path, leave out -0", len(line))
	}
	return usagef("standard input: a path of more than %d bytes", maxInputPath)
}

// baseName returns the last component of a resolved path; / for the root.
func baseName(path string) string {
	if _, name := muster.SplitPath(path); path != "" && name != "" {
		return name
	}
	return path
}

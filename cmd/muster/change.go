package main

import (
	"context"
	"errors"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// The size of a call with commands, well below what the server takes: more per call
// is hardly faster, and a refusal costs a repetition of what came before it.
const (
	callCommands = 1000
	callBytes    = 256 << 10
)

// change is what becomes of one path: commands that are applied together or not at all.
type change struct {
	path     string // as messages name it
	commands []muster.Command
}

// refusal says why a change was not made.
type refusal struct {
	change
	err error
}

// changes applies changes in their order, many in a call. A refused one leaves the
// others be.
type changes struct {
	client  *client.Client
	refused func(refusal) // told of each, in their order
	pending []change
	size    changeSize // of pending
}

// changes returns a writer of changes to the server.
func (a *app) changes(ctx context.Context, refused func(refusal)) (*changes, error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	return &changes{client: c, refused: refused}, nil
}

// refused makes a refusal the failure of its path.
func (a *app) refused(r refusal) { a.fail(r.path, r.err) }

// add makes commands the next change, which is applied by flush at the latest. The
// error is one of a whole call: nothing more can be done.
func (w *changes) add(ctx context.Context, path string, commands ...muster.Command) error {
	next := change{path, commands}
	if w.size.full(next) {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.size.add(next)
	w.pending = append(w.pending, next)
	return nil
}

// flush applies what is pending.
func (w *changes) flush(ctx context.Context) error {
	refusals, err := apply(ctx, w.client, w.pending)
	w.pending, w.size = nil, changeSize{}
	for _, r := range refusals {
		w.refused(r)
	}
	return err
}

// apply applies changes in their order and returns which of them were refused. A call
// is all or nothing: after a refusal those before the refused one are sent again, and
// then those after it.
func apply(ctx context.Context, c *client.Client, changes []change) ([]refusal, error) {
	var refusals []refusal
	for len(changes) > 0 {
		var commands []muster.Command
		var owner []int // of each command: its change
		for i, change := range changes {
			for range change.commands {
				owner = append(owner, i)
			}
			commands = append(commands, change.commands...)
		}
		_, err := c.Apply(ctx, commands...)
		var refused *muster.CommandError
		if !errors.As(err, &refused) {
			return refusals, err
		}
		bad := owner[refused.Index]
		more, err := apply(ctx, c, changes[:bad])
		refusals = append(refusals, more...)
		if err != nil {
			return refusals, err
		}
		refusals = append(refusals, refusal{changes[bad], refused.Err})
		changes = changes[bad+1:]
	}
	return refusals, nil
}

// changeSize is the size of changes as one call.
type changeSize struct{ commands, bytes int }

// full says whether next does not go into the same call.
func (s *changeSize) full(next change) bool {
	var n changeSize
	n.add(next)
	return s.commands > 0 && (s.commands+n.commands > callCommands || s.bytes+n.bytes > callBytes)
}

func (s *changeSize) add(c change) {
	const fixed = 128 // numbers and names of users, generously
	s.commands += len(c.commands)
	for _, command := range c.commands {
		s.bytes += fixed + len(command.Subject())
		switch command := command.(type) {
		case muster.Rename:
			s.bytes += len(command.To)
		case muster.Symlink:
			s.bytes += len(command.Target)
		}
	}
}

// changeEach applies one command for each path of the arguments.
func (a *app) changeEach(ctx context.Context, args []string, zero bool, command func(path string) muster.Command) error {
	paths, err := a.pathArgs(args, zero)
	if err != nil {
		return err
	}
	w, err := a.changes(ctx, a.refused)
	if err != nil {
		return err
	}
	for path := range paths.all(ctx) {
		if err := w.add(ctx, path, command(path)); err != nil {
			return err
		}
	}
	return errors.Join(w.flush(ctx), paths.err, ctx.Err())
}

// stated is what statEach finds of a path.
type stated struct {
	path   string
	info   client.Info // of a link its own
	exists bool
}

// statEach looks up each path of the arguments, all in one call, and has visit add the
// changes of those that are there or missing; paths that cannot be looked up fail.
func (a *app) statEach(ctx context.Context, args []string, zero bool, refused func(refusal), visit func(w *changes, s stated) error) error {
	paths, err := a.pathArgs(args, zero)
	if err != nil {
		return err
	}
	w, err := a.changes(ctx, refused)
	if err != nil {
		return err
	}
	for s, err := range w.client.StatAll(ctx, paths.all(ctx)) {
		if err != nil {
			return errors.Join(w.flush(ctx), err)
		}
		if s.Err != nil && !errors.Is(s.Err, muster.ErrNotFound) {
			a.fail(s.Path, s.Err)
			continue
		}
		if err := visit(w, stated{s.Path, s.Info, s.Err == nil}); err != nil {
			return err
		}
	}
	return errors.Join(w.flush(ctx), paths.err, ctx.Err())
}

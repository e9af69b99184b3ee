package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// ownerAll is added to the mode of directories while they are filled, so that one
// that nobody may write into can be brought in.
const ownerAll = 0o700

// importer brings a tree in, level by level: the entries of one level are made by
// several calls at once, in any order, since the directories of the level above are
// all there. Modes and times of directories come last, from the leaves up: making
// entries changes the times, and needs permissions that the final mode may lack.
type importer struct {
	importFlags
	app      *app
	client   *client.Client
	owners   *ownerNames // nil: all belongs to the caller
	progress *progress
	copied   atomic.Int64 // bytes, with data

	done      tally // what was made
	unchanged int
	skipped   int
}

// folder is a directory of the source and of the target.
type folder struct {
	source  string // path on this machine
	path    string // in Muster
	want    muster.Entry
	exists  bool         // it was there before
	there   muster.Entry // if it exists
	touched bool         // it, or an entry in it, was made
}

func (im *importer) run(ctx context.Context, root *folder) error {
	var levels [][]*folder
	for level := []*folder{root}; len(level) > 0; {
		levels = append(levels, level)
		next, err := im.fill(ctx, level)
		if err != nil {
			return err
		}
		level = next
	}
	for _, level := range slices.Backward(levels) {
		if err := im.settle(ctx, level); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the entries of the folders and returns the folders among them.
func (im *importer) fill(ctx context.Context, level []*folder) ([]*folder, error) {
	calls, copies := newCalls(ctx, im.client), newCopies(ctx, im.client, max(1, im.parallel), &im.copied)
	there := im.listTarget(ctx, level)
	var next []*folder
	err := func() error {
		defer there.stop()
		for _, f := range level {
			folders, err := im.fillOne(ctx, calls, copies, there, f)
			if err != nil {
				return err
			}
			next = append(next, folders...)
		}
		return nil
	}()
	if copyErr := copies.group.Wait(); copyErr != nil {
		err = copyErr // why nothing could be added any more
	}
	collectErr := im.collect(copies, calls)
	refused, callErr := calls.wait()
	lost := im.reportRefused(refused)
	next = slices.DeleteFunc(next, func(f *folder) bool { return lost[f.path] })
	return next, errors.Join(callErr, cmp.Or(err, collectErr))
}

// reportRefused reports what the server did not take, and returns the paths.
func (im *importer) reportRefused(refused []refusal) map[string]bool {
	lost := map[string]bool{}
	for _, r := range refused {
		lost[r.path] = true
		im.done.add(entryOf(r.commands), -1)
		im.skip(r.path, reason(r.err))
	}
	return lost
}

// fillOne makes the entries of one folder.
func (im *importer) fillOne(ctx context.Context, calls *calls, copies *copies, target *target, f *folder) ([]*folder, error) {
	there, err := target.children(f)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			im.skip(f.path, reason(err))
			return nil, nil
		}
		return nil, err
	}
	entries, err := os.ReadDir(f.source)
	if err != nil {
		im.skip(f.source, reason(err))
	}
	var folders []*folder
	for _, entry := range entries {
		child, err := im.child(f, entry)
		if err != nil {
			im.skip(filepath.Join(f.source, entry.Name()), err.Error())
			continue
		}
		child.there, child.exists = there[entry.Name()]
		if err := im.makeChild(calls, copies, f, child); err != nil {
			return nil, err
		}
		if err := im.collect(copies, calls); err != nil {
			return nil, err
		}
		if child.want.Kind == muster.Directory {
			folders = append(folders, child)
		}
		im.progress.add(1)
	}
	return folders, ctx.Err()
}

// makeChild adds the commands that make a child as it should be. What a directory has
// to be is left to settle.
func (im *importer) makeChild(calls *calls, copies *copies, parent, child *folder) error {
	var commands []muster.Command
	if child.exists {
		if im.unchangedEntry(child) {
			im.unchanged++
			return nil
		}
		if child.there.Kind == muster.Directory && child.want.Kind == muster.Directory {
			return nil
		}
		if child.there.Kind != muster.File || child.want.Kind != muster.File {
			commands = append(commands, muster.Delete{Path: child.path})
		}
		child.exists = false
	}
	if im.data && child.want.Kind == muster.File && child.want.Length > 0 {
		return im.copyChild(copies, parent, child)
	}
	parent.touched, child.touched = true, true
	im.done.add(child.want, 1)
	return calls.add(change{child.path, append(commands, child.make())})
}

// unchangedEntry says whether what was there before is as it should be.
func (im *importer) unchangedEntry(f *folder) bool {
	want, there := &f.want, &f.there
	if im.data && want.Kind == muster.File && !hasData(there) {
		return false
	}
	if im.owners != nil && (want.Owner != there.Owner || want.Group != there.Group) {
		return false
	}
	return want.Kind == there.Kind && want.MTime == there.MTime && want.Length == there.Length && want.Target == there.Target &&
		(want.Kind == muster.Link || want.Mode == there.Mode)
}

// settle gives the folders of a level their modes and times.
func (im *importer) settle(ctx context.Context, level []*folder) error {
	calls := newCalls(ctx, im.client)
	var changed []*folder
	var err error
	for _, f := range level {
		same := f.exists && im.unchangedEntry(f)
		if f.path == "/" || same && !f.touched {
			continue
		}
		if f.exists && !same {
			changed = append(changed, f)
		}
		if err = calls.add(change{f.path, []muster.Command{f.attributes(im.owners != nil)}}); err != nil {
			break
		}
	}
	refused, callErr := calls.wait()
	lost := im.reportRefused(refused)
	for _, f := range changed {
		if !lost[f.path] {
			im.done.add(f.want, 1)
		}
	}
	return errors.Join(callErr, err)
}

// attributes returns the command that gives a directory its final attributes.
func (f *folder) attributes(owners bool) muster.Command {
	set := muster.SetAttr{Path: f.path, Mode: &f.want.Mode, MTime: &f.want.MTime}
	if owners {
		set.Owner, set.Group = &f.want.Owner, &f.want.Group
	}
	return set
}

// make returns the command that makes the entry.
func (f *folder) make() muster.Command {
	want := &f.want
	switch want.Kind {
	case muster.Directory:
		return muster.Mkdir{Path: f.path, Mode: want.Mode | ownerAll, Owner: want.Owner, Group: want.Group}
	case muster.Link:
		return muster.Symlink{Path: f.path, Target: want.Target, Owner: want.Owner, Group: want.Group, MTime: &want.MTime}
	}
	return muster.Create{
		Path: f.path, Mode: want.Mode, Length: want.Length, Owner: want.Owner, Group: want.Group, MTime: &want.MTime, Overwrite: f.there.Kind == muster.File,
	}
}

// entryOf returns what commands would have made, as far as it is counted.
func entryOf(commands []muster.Command) muster.Entry {
	switch command := commands[len(commands)-1].(type) {
	case muster.Mkdir:
		return muster.Entry{Kind: muster.Directory}
	case muster.Symlink:
		return muster.Entry{Kind: muster.Link}
	case muster.Create:
		return muster.Entry{Kind: muster.File, Length: command.Length}
	}
	return muster.Entry{}
}

// skip reports something that was not brought in.
func (im *importer) skip(path, why string) {
	im.skipped++
	im.app.failed = true
	im.app.errorf("%s: skipped: %s", shown(path), why)
}

// child returns what an entry of a source folder is to become; an error says why it
// cannot be brought in.
func (im *importer) child(parent *folder, entry fs.DirEntry) (*folder, error) {
	name := entry.Name()
	if !utf8.ValidString(name) {
		return nil, errors.New("its name is not valid UTF-8")
	}
	f := &folder{source: filepath.Join(parent.source, name), path: muster.JoinPath(parent.path, name)}
	if _, err := muster.CleanPath(f.path); err != nil {
		return nil, err
	}
	info, err := entry.Info()
	if err != nil {
		return nil, errors.New(reason(err))
	}
	f.want = im.entry(info)
	switch {
	case f.want.Kind == muster.Link:
		if f.want.Target, err = os.Readlink(f.source); err != nil {
			return nil, errors.New(reason(err))
		}
		return f, muster.CheckTarget(f.want.Target)
	case f.want.Kind == 0:
		return nil, fmt.Errorf("it is %s", special(info.Mode()))
	}
	return f, nil
}

// special names what is neither file, directory nor link.
func special(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "neither a file, a directory nor a link"
}

// entry returns the metadata to keep; the kind is 0 for what cannot be kept.
func (im *importer) entry(info fs.FileInfo) muster.Entry {
	e := muster.Entry{MTime: info.ModTime().UnixMilli()}
	switch info.Mode().Type() {
	case 0:
		e.Kind, e.Mode, e.Length = muster.File, muster.ModeBits(info.Mode()), info.Size()
	case fs.ModeDir:
		e.Kind, e.Mode = muster.Directory, muster.ModeBits(info.Mode())
	case fs.ModeSymlink:
		e.Kind = muster.Link
	}
	if im.owners != nil {
		e.Owner, e.Group = im.owners.of(info)
	}
	return e
}

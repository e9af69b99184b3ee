package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// remoteTarget makes entries of Muster. The modes that it gives to its client are not less
// any umask.
type remoteTarget struct {
	app     *app
	client  *client.Client
	flags   *copyFlags
	umask   uint16
	options client.WriteOptions // of all files
}

var _ copyTarget = (*remoteTarget)(nil)

// remoteTarget returns the target of a verb with these flags.
func (a *app) remoteTarget(ctx context.Context, f *copyFlags, w *writeFlags) (*remoteTarget, error) {
	t := &remoteTarget{app: a, flags: f, umask: uint16(a.config.Client.Umask)}
	t.options = client.WriteOptions{BlockSize: int64(w.blockSize), Atomic: true, Overwrite: f.force}
	var err error
	if w.replication != "" {
		if t.options.Replication, err = muster.ParseReplication(w.replication); err != nil {
			return nil, usagef("--replication: %s", reason(err))
		}
	}
	if err := t.options.Validate(); err != nil {
		return nil, usagef("%s", reason(err))
	}
	t.client, err = a.client(ctx)
	return t, err
}

func (t *remoteTarget) shown(path string) string { return path }

func (t *remoteTarget) child(dir, name string) (string, error) {
	return muster.JoinPath(dir, name), nil
}

func (t *remoteTarget) lstat(ctx context.Context, path string) (muster.Entry, error) {
	info, err := t.client.Lstat(ctx, path)
	return info.Entry, err
}

// mode is what an entry is to have.
func (t *remoteTarget) mode(it item) uint16 {
	if t.flags.keep {
		return it.Mode
	}
	return it.Mode &^ t.umask
}

func (t *remoteTarget) mkdir(ctx context.Context, it item) error {
	if it.to == "/" {
		return muster.ErrExists
	}
	_, err := t.client.Apply(ctx, muster.Mkdir{Path: it.to, Mode: t.mode(it) | ownerAll})
	return refusedCommand(err)
}

func (t *remoteTarget) link(ctx context.Context, it item) error {
	if err := muster.CheckTarget(it.Target); err != nil {
		return err
	}
	make := muster.Symlink{Path: it.to, Target: it.Target}
	if t.flags.keepTimes() {
		make.MTime = &it.MTime
	}
	_, err := t.client.Apply(ctx, make)
	if !errors.Is(err, fs.ErrExist) || !t.flags.force {
		return refusedCommand(err)
	}
	there, err := t.lstat(ctx, it.to)
	switch {
	case err != nil:
		return err
	case there.Kind == muster.Directory:
		return muster.ErrIsDirectory
	}
	_, err = t.client.Apply(ctx, muster.Delete{Path: it.to}, make)
	return refusedCommand(err)
}

// refusedCommand is why a command was refused, without its name.
func refusedCommand(err error) error {
	if refused := (*muster.CommandError)(nil); errors.As(err, &refused) {
		return refused.Err
	}
	return err
}

func (t *remoteTarget) write(ctx context.Context, it item, open opener) error {
	in, err := open(0)
	if err != nil {
		return err
	}
	defer in.Close()
	o := t.options
	o.Mode = modeOf(t.mode(it)) | fs.ModeIrregular // which no file has, so that 0 is not the default
	if t.flags.keepTimes() {
		o.MTime = it.ModTime()
	}
	// An interruption does not end this call, which may have made the file: it is removed then.
	w, err := t.client.CreateFile(context.WithoutCancel(ctx), it.to, o)
	if err != nil {
		return err
	}
	return fill(ctx, w, in)
}

// abortTimeout bounds the removal of what was written in vain.
const abortTimeout = 10 * time.Second

// fill writes all of r, and aborts writing if that fails or ctx ends.
func fill(ctx context.Context, w *client.FileWriter, r io.Reader) error {
	abort := func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		_ = w.Abort(bounded) // the server removes it some time
	}
	aborted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(aborted)
		abort()
	})
	_, err := w.ReadFrom(r)
	if !stop() {
		<-aborted
		return ctx.Err()
	}
	if err != nil {
		abort()
		return err
	}
	return w.Close()
}

func (t *remoteTarget) settle(ctx context.Context, dirs []item, fail func(string, error)) error {
	w := &changes{client: t.client, refused: func(r refusal) { fail(r.path, r.err) }}
	for _, d := range slices.Backward(dirs) {
		set := muster.SetAttr{Path: d.to}
		mode := t.mode(d)
		switch {
		case d.to == "/":
			continue
		case t.flags.keepTimes():
			set.MTime = &d.MTime
		}
		if t.flags.keep || d.made && mode&ownerAll != ownerAll {
			set.Mode = &mode
		}
		if set.Mode == nil && set.MTime == nil {
			continue
		}
		if err := w.add(ctx, d.to, set); err != nil {
			return err
		}
	}
	return w.flush(ctx)
}

func (t *remoteTarget) checksum(ctx context.Context, path string) (uint32, error) {
	return t.client.Checksum(ctx, path)
}

// modeOf returns mode bits as io/fs has them.
func modeOf(bits uint16) fs.FileMode {
	e := muster.Entry{Kind: muster.File, Mode: bits}
	return e.FileMode()
}

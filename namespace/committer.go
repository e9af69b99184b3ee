package namespace

import (
	"context"
	"fmt"
	"sync"

	"github.com/muster-fs/muster"
)

// Request is a batch of commands of one caller, applied as one: all or none.
type Request struct {
	ID       muster.RequestID // the zero value is none: repeating the call then repeats the commands
	Caller   muster.Identity
	Commands []muster.Command // at least 1, at most muster.MaxBatchCommands and muster.MaxBatchBytes
}

// Apply applies a request and returns when it is durable. Later commands see earlier ones.
//
// A refused request changed nothing and takes no txid: *muster.CommandError says which
// command was refused and why; other errors are about the request as a whole. Refusals too
// are only ever based on durable state. After ErrUnavailable, ErrDeadline or ErrCancelled
// the outcome may be unknown: repeat the request under its id, and the repeat gets the
// first one's result. Results are kept for Options.RequestAge; failures are not kept. When the
// context ends first, the request may still be queued: do not reuse its slices.
//
// Who may do what, beside the superuser, who may all: every command needs to execute every
// ancestor. Changing entries needs to write and execute the parent, and removing or renaming
// one in a sticky directory needs to own one of the two. Only the superuser makes somebody
// else an owner; an entry's owner may give it to a group that the owner is in. Mode and
// owners are the owner's to change; times also for who may write a file. Deleting or moving
// a tree checks its top only.
//
// Who started a file, and the superuser, may add blocks to it, finish it and take its lease, if they
// name its holder; nothing else is checked, and a rename or a change of mode does not matter. In
// one batch, StartFile and AddBlock, or FinishFile and Rename, find the file by what the command
// before did. A file that is being written may be renamed, deleted and replaced as any other, but
// not by StartFile; to its writer it is then ErrNotFound.
//
// Create with Overwrite replaces a link itself, and makes a new inode. Rename of an entry to
// itself is ErrExists, and with Overwrite changes nothing. Missing parents belong to whom the
// new entry does; those of a Create have mode 0755, those of a Mkdir its mode with u+wx added and
// without the sticky bit.
func (t *Tree) Apply(ctx context.Context, r Request) (muster.Applied, error) {
	c := &call{ctx: ctx, request: r, done: make(chan struct{})}
	if err := c.check(); err != nil {
		return muster.Applied{}, err
	}
	if err := t.committer.do(ctx, c); err != nil {
		return muster.Applied{}, err
	}
	return c.applied, nil
}

// call is a request in the committer's queue.
type call struct {
	ctx     context.Context
	request Request
	hash    [16]byte
	size    int              // bytes of the commands, encoded
	step    func(*txn) error // the tree's own work, instead of a request

	// Set before done is closed.
	applied muster.Applied
	err     error
	done    chan struct{}
}

// encodings are buffers for encoding requests.
var encodings = sync.Pool{New: func() any { return new([]byte) }}

// check checks what does not depend on the tree, and hashes the commands.
func (c *call) check() error {
	r := &c.request
	if err := checkCaller(&r.Caller); err != nil {
		return err
	}
	if len(r.Commands) == 0 {
		return fmt.Errorf("%w: a batch of no commands", muster.ErrInvalid)
	}
	if len(r.Commands) > muster.MaxBatchCommands {
		return fmt.Errorf("%w: a batch of %d commands, at most %d", muster.ErrLimit, len(r.Commands), muster.MaxBatchCommands)
	}
	buf := encodings.Get().(*[]byte)
	defer encodings.Put(buf)
	*buf = (*buf)[:0]
	for _, cmd := range r.Commands {
		var err error
		if *buf, err = appendCommand(*buf, cmd); err != nil {
			return err
		}
		if len(*buf) > muster.MaxBatchBytes {
			return fmt.Errorf("%w: a batch of more than %d bytes", muster.ErrLimit, muster.MaxBatchBytes)
		}
	}
	c.hash, c.size = hashCommands(*buf), len(*buf)
	return nil
}

// committer applies calls one after another, in groups that share one wait for the disk.
type committer struct {
	tree    *Tree
	queue   chan *call
	stopped chan struct{} // closed when run returned
	meta    meta          // as applied; run's own, like what follows
	last    *View         // published last; no reference
	touched touched       // by the last group
}

// The bounds of a group.
const (
	queueLen      = 1024
	groupCalls    = 1024
	groupCommands = 2 * muster.MaxBatchCommands
	groupBytes    = 2 * muster.MaxBatchBytes
)

// do hands a call to the committer and waits for its answer.
func (c *committer) do(ctx context.Context, call *call) error {
	select {
	case c.queue <- call:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopped:
		return c.tree.refusal()
	}
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopped:
	}
	select { // it may have been answered last
	case <-call.done:
		return call.err
	default:
		return c.tree.refusal()
	}
}

// run serves the queue until the tree stops or fails.
func (c *committer) run() {
	defer close(c.stopped)
	tx := c.tree.newTxn(c.meta)
	for {
		select {
		case <-c.tree.stop:
			return
		case <-c.tree.store.Failed():
			return
		case first := <-c.queue:
			c.commit(tx, c.gather(first))
		}
	}
}

// gather takes what is waiting, up to the bounds of a group.
func (c *committer) gather(first *call) []*call {
	group := []*call{first}
	commands, bytes := len(first.request.Commands), first.size
	for len(group) < groupCalls && commands < groupCommands && bytes < groupBytes {
		select {
		case next := <-c.queue:
			group = append(group, next)
			commands, bytes = commands+len(next.request.Commands), bytes+next.size
		default:
			return group
		}
	}
	return group
}

// commit applies a group and answers it, in this order: into the store, a snapshot of that,
// the wait for the disk, the new view, the answers. Refusals wait for the disk as well, since
// they may be based on what the group applied. Once the tree has failed, nothing that was read
// is an answer: a group before this one may have been applied and be lost.
func (c *committer) commit(tx *txn, group []*call) {
	tx.reset(c.meta)
	for _, call := range group {
		c.apply(tx, call)
	}
	c.tree.counters.gets.Add(tx.gets)
	err := c.tree.store.Failure()
	if err == nil && tx.changed(&c.meta) {
		err = c.write(tx)
	}
	if err != nil {
		for _, call := range group {
			call.applied, call.err = muster.Applied{}, err
		}
	}
	for _, call := range group {
		c.count(call)
		close(call.done)
	}
}

func (c *committer) apply(tx *txn, call *call) {
	switch err := call.ctx.Err(); {
	case err != nil:
		call.err = err
	case call.step != nil:
		call.err = tx.runInternal(call.step)
	default:
		call.applied, call.err = tx.run(call)
	}
}

func (c *committer) count(call *call) {
	switch {
	case call.step != nil:
	case call.err == nil:
		c.tree.counters.commits.Add(1)
	default:
		c.tree.counters.refusals.Add(1)
	}
}

// write makes a group durable and visible. An error is final: the tree has failed.
func (c *committer) write(tx *txn) error {
	t := c.tree
	b, err := tx.batch()
	if err != nil {
		return t.store.Fail(err)
	}
	var v *View
	err = t.store.Commit(b, func() {
		c.touched.collect(tx)
		v = t.newView(tx.meta)
		v.root.Store(newRoot(tx, c.last))
	})
	t.counters.syncs.Add(1)
	if err != nil {
		if v != nil {
			v.Release()
		}
		return err
	}
	c.meta = tx.meta
	t.publish(v, &c.touched)
	c.last = v
	t.janitor.wake(&tx.meta)
	return nil
}

package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// A file whose writer's lease has ended is recovered: the server takes the lease, so that the writer
// can change nothing any more, decides how long the last block is, has the replicas commit it, and
// finishes the file. All blocks before have their final lengths already.
//
// What the writer was told to be durable was so on every replica of the block. So no replica that
// has any of the block has less than that, and nothing acknowledged is lost with the shortest of
// those that answer. A replica that does not answer is no reason to wait: its copy stays
// uncommitted, nobody can read it, and it is committed or deleted when it is back
// (unfinished.go).
//
//   - If a replica has the block committed, the writer, or a recovery before this one, has decided
//     the length. If there are several such lengths, the shortest is what a writer cut the block to.
//   - Otherwise it is the shortest durable length of the replicas that have any of the block.
//   - If none that answers has any of it, one of the others may: one that answers may have had
//     it on a disk that it lost. So it is waited for all of them, but for those that are dead.
//     If nobody answers, dead or not, it is waited for somebody.
//   - If nobody has any of it, the block leaves the file.
//
// A temporary file, which was to be renamed when it is finished, is removed.
//
// A writer that is cut off from this server, and not from the datanodes, stops by itself when its lease
// has ended by its own clock, which is not later than here. If it does not, its replicas take no more
// data once they are committed, and no FinishWrite of it is taken.

// standing is what is known of a block on a datanode.
type standing uint8

const (
	silent    standing = iota // it gave no answer that says anything of the block
	dead                      // silent, and the location service has not heard of it for long
	none                      // it does not have the block
	has                       // it has length bytes of it, durable
	committed                 // it has committed it at length bytes
)

// answer is that of one of a block's replicas.
type answer struct {
	standing standing
	length   int64
}

// verdict is what is to be done about a block.
type verdict struct {
	ready  bool  // else wait for further answers
	length int64 // to be committed on each replica that has as much; 0: nobody has any of it
}

// judge decides on a block, given the answer of each of its replicas.
func judge(answers []answer) verdict {
	var count [committed + 1]int
	shortest := map[standing]int64{}
	for _, a := range answers {
		if a.standing == has && a.length == 0 {
			a.standing = none // begun, and no more
		}
		count[a.standing]++
		if least, ok := shortest[a.standing]; !ok || a.length < least {
			shortest[a.standing] = a.length
		}
	}
	switch {
	case count[committed] > 0:
		return verdict{true, shortest[committed]}
	case count[has] > 0:
		return verdict{true, shortest[has]}
	}
	return verdict{ready: count[none] > 0 && count[silent] == 0}
}

// The bounds of recoveries.
const (
	recoveriesAtOnce = 16
	recoveryTime     = 30 * time.Second // of one attempt
	askTime          = 10 * time.Second // of one call to a datanode
)

// recovery recovers the files whose leases have ended. It is for one goroutine.
type recovery struct {
	*upkeep
	mu    sync.Mutex        // guards tries while a round goes on
	tries map[uint64]*retry // by inode id, of files that could not be recovered yet
}

func (r *recovery) run(ctx context.Context) {
	every := min(r.options.Lease/4, 5*time.Second)
	for began := time.Now(); sleep(ctx, every); began = time.Now() {
		if time.Since(began) > every+r.options.Lease/2 {
			r.leases.renewAll() // this process did not run, so nobody's silence means anything
		}
		if err := r.round(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("files whose writers have gone are not recovered now", "error", err)
		}
	}
}

// round looks for files to recover, and tries each once that is due.
func (r *recovery) round(ctx context.Context) error {
	holders := map[muster.Holder]struct{}{}
	all, err := r.survey(func(h muster.Holder) { holders[h] = struct{}{} })
	if err != nil {
		return err
	}
	tries := make(map[uint64]*retry)
	var due []namespace.Writing
	for _, w := range all {
		if !r.leases.ended(w.Holder) { // of the server's own it always has
			continue
		}
		try := r.tries[w.File]
		if try != nil {
			tries[w.File] = try
		}
		if try == nil || try.due() {
			due = append(due, w)
		}
	}
	r.tries = tries
	r.leases.sweep(holders)
	var group errgroup.Group
	group.SetLimit(recoveriesAtOnce)
	for _, w := range due {
		group.Go(func() error { r.try(ctx, w); return nil })
	}
	return group.Wait()
}

// try recovers a file, or notes when to try again.
func (r *recovery) try(ctx context.Context, w namespace.Writing) {
	timed, cancel := context.WithTimeout(ctx, recoveryTime)
	defer cancel()
	err := r.recover(timed, w)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || ctx.Err() != nil {
		delete(r.tries, w.File)
		return
	}
	try := r.tries[w.File]
	if try == nil {
		try = new(retry)
		r.tries[w.File] = try
	}
	if try.failed() {
		r.log.Warn("a file whose writer has gone is not recovered yet", "inode", w.File, "user", w.User, "error", err)
	}
}

// recover recovers a file. One that is gone, or that its writer has finished meanwhile, is done.
func (r *recovery) recover(ctx context.Context, w namespace.Writing) error {
	if w.Holder != recoverer {
		if !r.leases.ended(w.Holder) {
			return nil // renewed while others were recovered
		}
		err := r.apply(ctx, muster.TakeLease{File: w.File, From: w.Holder, Holder: recoverer})
		if errors.Is(err, muster.ErrNotFound) || errors.Is(err, muster.ErrExists) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if w.Temporary {
		return r.remove(ctx, w)
	}
	f, err := fileByID(r.tree, w.File)
	if errors.Is(err, muster.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var length int64
	if f.blocks > 0 {
		if length, err = r.settle(ctx, blockOfFile{idOf(f.last), w.File}); err != nil {
			return fmt.Errorf("%s: block %v: %w", f.path, idOf(f.last), err)
		}
	}
	err = r.apply(ctx, muster.FinishFile{File: w.File, Holder: recoverer, Last: length})
	if errors.Is(err, muster.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	r.recoveries.Add(1)
	r.log.Info("a file whose writer has gone was closed", "path", f.path, "user", w.User, "length", f.length+length)
	return nil
}

// remove removes a file that was to have another name when it is finished: nobody wants a part of it.
func (r *recovery) remove(ctx context.Context, w namespace.Writing) error {
	err := r.apply(ctx, muster.Delete{File: w.File})
	if errors.Is(err, muster.ErrNotFound) {
		return nil
	}
	if err == nil {
		r.recoveries.Add(1)
		r.log.Info("a temporary file whose writer has gone was removed", "inode", w.File, "user", w.User)
	}
	return err
}

// settle decides how long a block is, and has it committed on at least one replica if it has
// any bytes.
func (r *recovery) settle(ctx context.Context, block blockOfFile) (length int64, err error) {
	nodes, err := replicas(ctx, r.service, block.Container)
	if err != nil {
		// That the location service does not know the container is no reason to give the block up:
		// it may have lost it, and be restored.
		return 0, err
	}
	answers, errs := make([]answer, len(nodes)), make([]error, len(nodes))
	each(nodes, func(i int, n *muster.Node) { answers[i], errs[i] = r.ask(ctx, n, block) })
	v := judge(answers)
	if !v.ready {
		return 0, fmt.Errorf("%w: waiting for replicas that do not answer: %w", muster.ErrUnavailable, errors.Join(errs...))
	}
	if v.length == 0 {
		return 0, nil
	}
	each(nodes, func(i int, n *muster.Node) { errs[i] = r.commit(ctx, n, block, answers[i], v.length) })
	for _, err := range errs {
		if err == nil {
			return v.length, nil
		}
	}
	return 0, fmt.Errorf("%w: no replica could be committed at %d bytes: %w", muster.ErrUnavailable, v.length, errors.Join(errs...))
}

// ask asks a datanode for a block. The error is why it is silent.
func (r *recovery) ask(ctx context.Context, n *muster.Node, block blockOfFile) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	b, err := r.nodes.GetBlock(ctx, n, block)
	switch {
	case err == nil && b.committed:
		return answer{committed, b.length}, nil
	case err == nil:
		return answer{has, b.length}, nil
	case errors.Is(err, muster.ErrNotFound) || errors.Is(err, muster.ErrNoData):
		return answer{standing: none}, nil
	case n.State == muster.Dead:
		return answer{standing: dead}, err
	}
	return answer{standing: silent}, err
}

// commit has a datanode commit a block if it has as much of it.
func (r *recovery) commit(ctx context.Context, n *muster.Node, block blockOfFile, a answer, length int64) error {
	switch {
	case a.standing == committed && a.length == length:
		return nil
	case a.standing != has || a.length < length:
		return fmt.Errorf("%w: datanode %s has %d bytes", muster.ErrNoData, n.ID, a.length)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return r.nodes.CommitBlock(ctx, n, block, length)
}

// each calls a function for all nodes at once, and waits.
func each(nodes []muster.Node, f func(i int, n *muster.Node)) {
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() { f(i, &nodes[i]) })
	}
	all.Wait()
}

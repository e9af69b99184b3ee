package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// A file is written by four calls, which a client may repeat under their request ids when an answer
// was lost: StartWrite, AddBlock for each further block, RenewLeases meanwhile, and FinishWrite.
//
// The location service gives a block before the command that enters it in the file's list is applied,
// so that the list has it before the writer learns of it. If the command is refused, or was applied
// already, the block is never written, and nothing of it is left anywhere.
//
// What the tree remembers of a request are inode ids. So the block that the first of several requests
// with one id was given is found in the file: it is the last one, since a client asks for the next
// block only when it has had the answer for this one.

// StartWrite makes a file that the caller writes.
func (h *handlers) StartWrite(ctx context.Context, r *pb.StartWriteRequest) (*pb.StartWriteReply, error) {
	w, err := writerOf(ctx, r.GetClient(), r.GetSequence())
	if err != nil {
		return nil, err
	}
	start, err := h.startFile(ctx, w.holder, r)
	if err != nil {
		return nil, err
	}
	commands, given, sign := []muster.Command{start}, (*pb.AllocateReply)(nil), (*signing)(nil)
	if r.GetFirstBlock() {
		if sign, err = h.signFor(ctx, &w.caller, token.Write); err != nil {
			return nil, err
		}
		var add muster.AddBlock
		if given, add.Block, err = h.allocate(ctx, start.Replication, nil); err != nil {
			return nil, err
		}
		add.Holder = w.holder
		commands = append(commands, add)
	}
	h.leases.grant(w.holder) // before anybody sees the file, or it would be recovered
	applied, err := h.tree.Apply(ctx, namespace.Request{ID: w.id, Caller: w.caller, Commands: commands})
	if refused := (*muster.CommandError)(nil); errors.As(err, &refused) {
		return nil, refused.Err // the caller knows the path, which may be a temporary one
	}
	if err != nil {
		return nil, err
	}
	h.leases.grant(w.holder) // the disk may have taken its time
	reply := &pb.StartWriteReply{
		File: applied.IDs[0], Replication: uint32(start.Replication), BlockSize: start.BlockSize, LeaseMs: h.leases.lease.Milliseconds(),
	}
	if !applied.Repeat && given == nil {
		return reply, nil
	}
	t := target{file: reply.File, blockSize: start.BlockSize, given: given}
	if applied.Repeat { // the server may have chosen otherwise this time
		f, err := h.writtenFile(reply.File)
		if err != nil {
			return nil, err
		}
		reply.Replication, reply.BlockSize = uint32(f.replication), f.blockSize
		t = target{file: reply.File, blockSize: f.blockSize, block: f.last}
	}
	if r.GetFirstBlock() {
		reply.Target, err = h.target(ctx, sign, t)
	}
	return reply, err
}

// startFile returns the command by which a file is started.
func (h *handlers) startFile(ctx context.Context, holder muster.Holder, r *pb.StartWriteRequest) (muster.StartFile, error) {
	c := muster.StartFile{
		Path: string(r.GetPath()), Mode: uint16(r.GetMode()), Replication: muster.Replication(r.GetReplication()), BlockSize: r.GetBlockSize(),
		Parents: r.GetParents(), Overwrite: r.GetOverwrite(), Holder: holder, Target: string(r.GetTarget()),
	}
	if c.BlockSize == 0 {
		c.BlockSize = muster.DefaultBlockSize
	}
	_, _, coded := c.Replication.Coding()
	switch {
	case r.GetMode() > math.MaxUint16:
		return c, fmt.Errorf("%w: mode %#o", muster.ErrInvalid, r.GetMode())
	case r.GetReplication() > math.MaxUint16 || !c.Replication.Valid():
		return c, fmt.Errorf("%w: no file has the replication %#x; use replicated/N with N from 1 to 9", muster.ErrInvalid, r.GetReplication())
	case coded:
		return c, fmt.Errorf("%w: files of the replication %v cannot be written yet, only their metadata be kept; use replicated/N with N from 1 to 9", muster.ErrInvalid, c.Replication)
	case c.BlockSize < muster.MinBlockSize || c.BlockSize > muster.MaxBlockSize:
		return c, fmt.Errorf("%w: block size %d; from %d to %d bytes", muster.ErrInvalid, c.BlockSize, int64(muster.MinBlockSize), int64(muster.MaxBlockSize))
	}
	if c.Replication == 0 {
		n, err := h.defaultReplicas(ctx)
		c.Replication = muster.Replicated(n)
		return c, err
	}
	return c, nil
}

// replicasWanted is how many replicas a file has if its writer does not say, as far as there
// are datanodes.
const replicasWanted = 3

// defaultReplicas is how many replicas a file is to have whose writer does not say. The location service
// is asked only if there may be too few datanodes.
func (h *handlers) defaultReplicas(ctx context.Context) (int, error) {
	if h.serve(replicasWanted) {
		return replicasWanted, nil
	}
	reply, err := h.locations.Datanodes(ctx, &pb.DatanodesRequest{})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, d := range reply.GetDatanodes() {
		if d.GetNode().GetState() == uint32(muster.InService) {
			n++
		}
	}
	if n == 0 || n > replicasWanted {
		return replicasWanted, nil // if there are none, who allocates says why
	}
	return n, nil
}

// serve says whether as many datanodes are known to be in service.
func (h *handlers) serve(wanted int) bool {
	for number := muster.NodeNumber(0); wanted > 0; number++ {
		n := h.cache.Node(number) // they are numbered without gaps
		if n == nil {
			return false
		}
		if n.State == muster.InService {
			wanted--
		}
	}
	return true
}

// AddBlock gives the file a block to be written next.
func (h *handlers) AddBlock(ctx context.Context, r *pb.AddBlockRequest) (*pb.AddBlockReply, error) {
	w, err := writerOf(ctx, r.GetClient(), r.GetSequence())
	if err != nil {
		return nil, err
	}
	if r.GetPrevious() < 0 {
		return nil, fmt.Errorf("%w: a block of %d bytes", muster.ErrInvalid, r.GetPrevious())
	}
	h.leases.renew(w.holder)
	before, err := h.writtenFile(r.GetFile())
	if err != nil {
		return nil, err
	}
	sign, err := h.signFor(ctx, &w.caller, token.Write)
	if err != nil {
		return nil, err
	}
	given, block, err := h.allocate(ctx, before.replication, r.GetFailed())
	if err != nil {
		return nil, err
	}
	applied, err := h.tree.Apply(ctx, namespace.Request{ID: w.id, Caller: w.caller, Commands: []muster.Command{
		muster.AddBlock{File: r.GetFile(), Holder: w.holder, Previous: r.GetPrevious(), Ends: rpc.BlockIDFromPB(r.GetEnds()), Block: block},
	}})
	if err != nil {
		return nil, h.explain(err, r.GetFile())
	}
	t := target{file: r.GetFile(), blockSize: before.blockSize, given: given}
	if applied.Repeat {
		f, err := h.writtenFile(r.GetFile())
		if err != nil {
			return nil, err
		}
		t.given, t.block = nil, f.last
	} else if len(r.GetFailed()) > 0 && before.blocks > 0 {
		h.closeFailed(ctx, before.last.Container, r.GetFailed())
	}
	reply := new(pb.AddBlockReply)
	reply.Target, err = h.target(ctx, sign, t)
	return reply, err
}

// closeFailed ends adding blocks to a container if a datanode that has failed is a member of it: so
// others find out no more. Of the blocks that come after that one, the writer names the datanode too,
// and their containers are elsewhere and stay open. It is no matter if this fails: a container that
// lacks blocks somewhere is closed by the location service, in time.
func (h *handlers) closeFailed(ctx context.Context, id uint64, failed []uint32) {
	reply, err := h.locations.Container(ctx, &pb.ContainerRequest{Container: id})
	member := func(at uint32) bool {
		return at > 0 && int(at) <= len(reply.GetNodes()) && slices.Contains(failed, reply.GetNodes()[at-1].GetNumber())
	}
	if err == nil && (reply.GetPlacement().GetClosed() || !slices.ContainsFunc(reply.GetMembers(), member)) {
		return
	}
	if err == nil {
		_, err = h.locations.CloseContainer(ctx, &pb.CloseContainerRequest{Container: id})
	}
	if err != nil {
		h.log.Warn("a container of which a datanode has failed stays open", "container", id, "error", err)
	}
}

// FinishWrite gives the file its final length, and its final name if it has another.
func (h *handlers) FinishWrite(ctx context.Context, r *pb.FinishWriteRequest) (*pb.FinishWriteReply, error) {
	w, err := writerOf(ctx, r.GetClient(), r.GetSequence())
	if err != nil {
		return nil, err
	}
	if r.GetLast() < 0 {
		return nil, fmt.Errorf("%w: a block of %d bytes", muster.ErrInvalid, r.GetLast())
	}
	h.leases.renew(w.holder)
	f, err := fileByID(h.tree, r.GetFile())
	if err != nil && !errors.Is(err, muster.ErrNotFound) { // one that is gone may have been finished by the first of several requests
		return nil, err
	}
	length := f.length
	switch {
	case err != nil:
		length = -1
	case f.writing:
		length += r.GetLast()
	}
	commands := []muster.Command{muster.FinishFile{File: r.GetFile(), Holder: w.holder, Last: r.GetLast(), Ends: rpc.BlockIDFromPB(r.GetEnds()), MTime: r.Mtime}}
	if len(r.GetRename()) > 0 {
		commands = append(commands, muster.Rename{File: r.GetFile(), To: string(r.GetRename()), Overwrite: r.GetOverwrite()})
	}
	applied, err := h.tree.Apply(ctx, namespace.Request{ID: w.id, Caller: w.caller, Commands: commands})
	if err != nil {
		return nil, h.explain(err, r.GetFile())
	}
	return &pb.FinishWriteReply{Txid: applied.Txid, Length: length}, nil
}

// RenewLeases says that a client still writes. One that writes nothing may say so too.
func (h *handlers) RenewLeases(ctx context.Context, r *pb.RenewLeasesRequest) (*pb.RenewLeasesReply, error) {
	w, err := writerOf(ctx, r.GetClient(), 0)
	if err != nil {
		return nil, err
	}
	h.leases.renew(w.holder)
	return &pb.RenewLeasesReply{LeaseMs: h.leases.lease.Milliseconds()}, nil
}

// writer is who makes a call that writes a file.
type writer struct {
	caller muster.Identity
	holder muster.Holder
	id     muster.RequestID
}

func writerOf(ctx context.Context, client []byte, sequence uint64) (w writer, err error) {
	if w.caller, err = rpc.Caller(ctx); err != nil {
		return w, err
	}
	if w.id, err = rpc.RequestIDFromPB(client, sequence); err != nil {
		return w, err
	}
	switch w.holder = w.id.Client; w.holder {
	case muster.Holder{}:
		return w, fmt.Errorf("%w: who writes names itself by the 16 random bytes of its request ids", muster.ErrInvalid)
	case recoverer:
		return w, fmt.Errorf("%w: that is how the server names itself; take 16 random bytes", muster.ErrInvalid)
	}
	return w, nil
}

// writtenFile returns a file that is being written; by whom is for the tree to check.
func (h *handlers) writtenFile(id uint64) (fileState, error) {
	f, err := fileByID(h.tree, id)
	if err == nil && !f.writing {
		err = notWritten(h.leases.lease, id)
	}
	return f, err
}

// notWritten names the file by its id alone: who asks may be anybody, and not allowed to see it.
func notWritten(lease time.Duration, id uint64) error {
	return fmt.Errorf("%w: inode %d is not being written any more: it was finished, or its writer was silent for longer than its lease of %v and the server has closed the file at what was durable",
		muster.ErrNotFound, id, lease)
}

// explain says in more words why a command on a file that is being written was refused, as far as
// that is due to its writer or its lease.
func (h *handlers) explain(err error, id uint64) error {
	var refused *muster.CommandError
	if !errors.As(err, &refused) || refused.Index != 0 {
		return err
	}
	f, readErr := fileByID(h.tree, id)
	switch {
	case readErr != nil:
		return err
	case errors.Is(err, muster.ErrNotFound) && !f.writing:
		return notWritten(h.leases.lease, id)
	case errors.Is(err, muster.ErrExists) && f.writing:
		return fmt.Errorf("%w: if it was this client's, it was silent for longer than its lease of %v, and the server recovers the file", err, h.leases.lease)
	}
	return err
}

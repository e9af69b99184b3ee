package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Apply applies a batch of commands as one: all or nothing, at most
// muster.MaxBatchCommands and muster.MaxBatchBytes. A refusal is a
// *muster.CommandError that names the command. No umask is applied to their modes.
//
// The batch is sent under a request id and repeated under it when a connection
// breaks, so it is applied at most once. If no answer comes in time the error is
// ErrOutcomeUnknown, unless it never got as far as to be sent. No command gives no call.
func (c *Client) Apply(ctx context.Context, commands ...muster.Command) (muster.Applied, error) {
	if len(commands) == 0 {
		return muster.Applied{}, nil
	}
	request, err := c.request(commands)
	if err != nil {
		return muster.Applied{}, fmt.Errorf("apply: %w", err)
	}
	reply, err := once(ctx, c, 0, func(ctx context.Context) (*pb.ApplyReply, error) { return c.service.Apply(ctx, request) })
	if err != nil {
		return muster.Applied{}, fmt.Errorf("apply: %w", err)
	}
	if r := reply.Refusal; r != nil {
		return muster.Applied{}, refusal(r, commands)
	}
	if len(reply.InodeIds) != len(commands) {
		return muster.Applied{}, fmt.Errorf("apply: %w", corrupt("%d results of %d commands", len(reply.InodeIds), len(commands)))
	}
	return muster.Applied{Txid: reply.Txid, IDs: reply.InodeIds}, nil
}

// request returns the batch as it is sent, however often.
func (c *Client) request(commands []muster.Command) (*pb.ApplyRequest, error) {
	if n := len(commands); n > muster.MaxBatchCommands {
		return nil, fmt.Errorf("%w: %d commands in a batch, at most %d", muster.ErrLimit, n, muster.MaxBatchCommands)
	}
	r := &pb.ApplyRequest{Client: c.id[:], Sequence: c.sequence.Add(1)}
	for i, command := range commands {
		m, err := rpc.CommandToPB(command)
		if err != nil {
			return nil, fmt.Errorf("command %d: %w", i, err)
		}
		r.Commands = append(r.Commands, m)
	}
	if n := proto.Size(r); n > muster.MaxBatchBytes {
		return nil, fmt.Errorf("%w: a batch of %d commands takes %d bytes, at most %d", muster.ErrLimit, len(commands), n, muster.MaxBatchBytes)
	}
	return r, nil
}

// once makes a call that changes something, under its request id, until there is an answer.
// When an attempt was made that may have been carried out, nothing but an answer is certain.
// If refusals is not 0, the server is asked no more than so many times while it answers that
// it is not able now.
func once[T any](ctx context.Context, c *Client, refusals int, call func(context.Context) (T, error)) (reply T, err error) {
	if err := ended(ctx); err != nil {
		return reply, err
	}
	timed, cancel := context.WithTimeout(ctx, c.options.CommandTimeout)
	defer cancel()
	sent := false
	for b := (backoff{}); ; {
		reply, err := call(c.context(timed))
		if err == nil {
			return reply, nil
		}
		refused := refusals > 0 && isRefusal(err)
		if refused {
			refusals--
		}
		sent = sent || !refused && !rpc.Unsent(err) && (retriable(err) || doubtful(err))
		over := overdue(timed)
		if !over && retriable(err) && !(refused && refusals == 0) {
			_ = b.wait(timed) // that it ended shows in the next attempt
			continue
		}
		switch {
		case ctx.Err() != nil:
			err = ended(ctx)
		case over:
			err = fmt.Errorf("%w: no answer for %v: %w", muster.ErrUnavailable, c.options.CommandTimeout, err)
		}
		if sent {
			err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return reply, err
	}
}

// isRefusal says whether the server has answered that it is not able now.
func isRefusal(err error) bool {
	var answer *rpc.Error
	return errors.As(err, &answer) && answer.Code == muster.ErrUnavailable
}

// overdue says whether ctx has ended. A call can notice that its deadline has passed a
// moment before its context does.
func overdue(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// doubtful says whether commands may be applied although their call failed for good.
func doubtful(err error) bool {
	switch muster.CodeOf(err) {
	case muster.ErrDeadline, muster.ErrCancelled, muster.ErrInternal, muster.ErrCorrupt:
		return true
	}
	return false
}

// refusal names the command that was refused.
func refusal(r *pb.Refusal, commands []muster.Command) error {
	err := rpc.FromStatus(r.Code, r.Message)
	if int(r.Index) >= len(commands) || err == nil {
		return fmt.Errorf("apply: %w", corrupt("refusal of command %d of %d with code %d", r.Index, len(commands), r.Code))
	}
	command := commands[r.Index]
	return &muster.CommandError{Index: int(r.Index), Verb: command.Verb(), Path: command.Subject(), Err: err}
}

// cause takes the error of a batch of one command out of its envelope.
func cause(err error) error {
	var refused *muster.CommandError
	if errors.As(err, &refused) {
		return refused.Err
	}
	return err
}

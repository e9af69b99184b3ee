package client

import (
	"context"
	"errors"

	"github.com/muster-fs/muster"
)

// Apply applies a batch of commands as one: all or nothing, at most
// muster.MaxBatchCommands and muster.MaxBatchBytes. A refusal is a
// *muster.CommandError that names the command. No umask is applied to their modes.
//
// The batch is sent under a request id and repeated under it when a connection
// breaks, so it is applied at most once. If no answer comes in time the error is
// ErrOutcomeUnknown. No command gives no call.
func (c *Client) Apply(ctx context.Context, commands ...muster.Command) (muster.Applied, error) {
	panic("not yet")
}

// cause takes the error of a batch of one command out of its envelope.
func cause(err error) error {
	var refused *muster.CommandError
	if errors.As(err, &refused) {
		return refused.Err
	}
	return err
}

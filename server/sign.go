package server

import (
	"context"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
)

// signing signs tokens for one user; nil signs none, where none are needed.
type signing struct{ *token.Signer }

// token returns a token for a block; nil if there are no tokens.
func (s *signing) token(b blockOfFile, maxLength int64) []byte {
	if s == nil {
		return nil
	}
	return s.Token(b.BlockID, maxLength, b.file)
}

// signRead returns what signs for a user who reads; nil: there are no tokens.
func (h *handlers) signRead(ctx context.Context, caller *muster.Identity) (*signing, error) {
	return h.signFor(ctx, caller, token.Read)
}

// signFor returns what signs for a user; nil: there are no tokens. If the keys are not known yet, since
// the server has only just started, it waits for the service's first answer.
func (h *handlers) signFor(ctx context.Context, caller *muster.Identity, modes token.Modes) (*signing, error) {
	if _, err := h.keys.current(); err != nil {
		if _, err := h.keys.renewed(ctx); err != nil {
			return nil, err
		}
	}
	return h.keys.signer(caller.User, modes)
}

// signAll gives the answer what makes a token for each of its blocks, up to its length.
func (d *description) signAll() {
	blocks := d.file.entry.Blocks
	macs := make([]byte, 0, len(blocks)*token.MACBytes)
	for _, b := range blocks {
		macs = d.sign.AppendMAC(macs, muster.BlockID{Container: b.Container, LocalID: b.LocalId}, b.Length, d.file.entry.InodeId)
	}
	d.located.Grant, d.located.Macs = d.sign.Grant(), macs
	d.located.GrantMs = max(1, time.Until(d.sign.Expires()).Milliseconds())
}

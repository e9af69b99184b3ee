package server

import (
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
)

// keys returns the keys that block tokens are signed with; nil, or a function that returns nil, if
// the cluster has no tokens.
type keys func() *token.Ring

// signing signs tokens for one user; nil signs none, where none are needed.
type signing struct{ *token.Signer }

// signer returns what signs for a user from now on.
func (k keys) signer(user string, modes token.Modes) (*signing, error) {
	if k == nil {
		return nil, nil
	}
	ring := k()
	if ring == nil {
		return nil, nil
	}
	s, err := ring.Signer(user, modes, time.Now(), 0)
	if err != nil {
		return nil, err
	}
	return &signing{s}, nil
}

// token returns a token for a block; nil if there are no tokens.
func (s *signing) token(b blockOfFile, maxLength int64) []byte {
	if s == nil {
		return nil
	}
	return s.Token(b.BlockID, maxLength, b.file)
}

// signWrite returns the token by which a user writes a block.
func (h *handlers) signWrite(caller *muster.Identity, t target) ([]byte, error) {
	s, err := h.keys.signer(caller.User, token.Write)
	if err != nil {
		return nil, err
	}
	return s.token(blockOfFile{idOf(t.block), t.file}, t.blockSize), nil
}

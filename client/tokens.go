package client

import (
	"time"

	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc/pb"
)

// tokens is what a piece of an answer has to make tokens of. Blocks point to it, so that printing one
// does not show it.
type tokens struct {
	grant   []byte
	macs    []byte // token.MACBytes for each block
	file    uint64 // inode id
	expires time.Time
}

// tokensOf takes from an answer about so many blocks of a file what tokens are made of; nil: the cluster
// has no tokens, or the answer is of a call that gives none.
func tokensOf(m *pb.Located, blocks int, file uint64) (*tokens, error) {
	grant, macs := m.GetGrant(), m.GetMacs()
	switch {
	case len(grant) == 0 && len(macs) == 0:
		return nil, nil
	case len(grant) == 0 || len(grant) > token.MaxGrantBytes || len(macs) != blocks*token.MACBytes:
		return nil, corrupt("a grant of %d bytes and signatures of %d for %d blocks", len(grant), len(macs), blocks)
	}
	// The time of this machine need not be the server's, and counts from when it answered or before.
	life := min(max(0, m.GetGrantMs()), maxTokenLife.Milliseconds())
	return &tokens{grant: grant, macs: macs, file: file, expires: time.Now().Add(time.Duration(life) * time.Millisecond)}, nil
}

// maxTokenLife bounds what is believed of how long tokens are valid.
const maxTokenLife = 365 * 24 * time.Hour

// token makes the token by which the block is read, and says until when by this machine's clock; nil: it is
// read without one.
func (b *LocatedBlock) token() (t []byte, expires time.Time) {
	if b.tokens == nil {
		return nil, time.Time{}
	}
	mac := b.tokens.macs[b.at*token.MACBytes:][:token.MACBytes]
	return token.Compose(b.tokens.grant, b.Length, b.tokens.file, mac), b.tokens.expires
}

package token_test

import (
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
)

// BenchmarkSignFile signs a file of as many blocks as one may have.
func BenchmarkSignFile(b *testing.B) {
	r := ring(b, key(b, 1))
	macs := make([]byte, 0, muster.MaxBlocks*token.MACBytes)
	b.ReportAllocs()
	for b.Loop() {
		s, err := r.Signer("alice", token.Read, now, time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		macs = macs[:0]
		for i := range muster.MaxBlocks {
			macs = s.AppendMAC(macs, muster.BlockID{Container: 7, LocalID: uint64(i + 1)}, 256<<20, 55)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*muster.MaxBlocks), "ns/block")
}

func BenchmarkVerify(b *testing.B) {
	r := ring(b, key(b, 2), key(b, 1))
	tok := sign(b, r, token.Read, now, time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := token.Verify(r, tok, now, block, token.Read, "alice"); err != nil {
			b.Fatal(err)
		}
	}
}

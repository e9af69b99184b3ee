package blocks

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// GetBlock answers as a script says: all troubles with a code, short is a block that lacks a
// byte, and stuck is no answer.
func (s *shelf) GetBlock(ctx context.Context, r *pb.GetBlockRequest) (*pb.GetBlockReply, error) {
	id := muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}
	data, what, freed := s.look(asked{block: id, token: string(r.GetToken())})
	if code, ok := codes[what]; ok {
		return nil, fmt.Errorf("%w: %s", code, what)
	}
	switch what {
	case short:
		data = data[:len(data)-1]
	case stuck:
		select {
		case <-ctx.Done():
		case <-freed:
		}
		return nil, muster.ErrUnavailable
	}
	reply := &pb.GetBlockReply{Length: int64(len(data)), Committed: true, ChunkBytes: muster.ChunkBytes}
	for chunk := range slices.Chunk(data, muster.ChunkBytes) {
		reply.Chunks = append(reply.Chunks, crc32.Checksum(chunk, castagnoli))
	}
	return reply, nil
}

// TestChecksumComesFromTheReplicasThatAreWell, as reads do, and locations are asked for again
// only where that may help.
func TestChecksumComesFromTheReplicasThatAreWell(t *testing.T) {
	for what, asks := range map[trouble]bool{well: false, absent: false, short: false, rotten: false, noBox: true, resting: true} {
		t.Run(string(what), func(t *testing.T) {
			l := newLibrary(t, 3, DatanodesOptions{}, 5<<20, 5<<20, 1)
			f := l.open(ReadOptions{Pause: time.Millisecond})
			l.shelves[0].does(always(what))
			l.shelves[1].does(always(what))
			want := crc32.Checksum(l.data, castagnoli)
			if got, err := f.Checksum(t.Context()); err != nil || got != want {
				t.Errorf("%08x, %v; want %08x", got, err, want)
			}
			l.shelves[2].does(always(what))
			if _, err := f.Checksum(t.Context()); (err == nil) != (what == well) {
				t.Errorf("all replicas are of no use: %v", err)
			}
			if asked := l.askedFor(); asks != (len(asked) > 0) {
				t.Errorf("asked for %v", asked)
			}
		})
	}
}

// TestChecksumOfAStranger fails at once.
func TestChecksumOfAStranger(t *testing.T) {
	l := newLibrary(t, 3, DatanodesOptions{}, 10)
	l.shelves[0].does(always(stranger))
	_, err := l.open(ReadOptions{}).Checksum(t.Context())
	wantCode(t, err, muster.ErrUnauthenticated)
	if calls := l.shelves[1].seen(); len(calls) > 0 {
		t.Errorf("another was asked: %v", calls)
	}
}

// TestChecksumWaitsNoLonger than its time for a datanode, than its context, and than the file
// is open.
func TestChecksumWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLibrary(t, 2, DatanodesOptions{}, 10)
		l.shelves[0].does(always(stuck))
		f := l.open(ReadOptions{Timeout: time.Second})
		began := time.Now()
		if got, err := f.Checksum(t.Context()); err != nil || got != crc32.Checksum(l.data, castagnoli) || time.Since(began) != time.Second {
			t.Errorf("%08x, %v after %v", got, err, time.Since(began))
		}
		l.shelves[1].does(always(stuck))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := f.Checksum(ctx); !errors.Is(err, muster.ErrDeadline) {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Millisecond, func() { _ = f.Close() })
		if _, err := f.Checksum(t.Context()); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

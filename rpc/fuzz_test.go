package rpc

import (
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// wantAllocated wants f to allocate at most limit bytes. The rest of the process may
// allocate at the same time: so f has three tries.
func wantAllocated(t *testing.T, limit int, f func()) {
	t.Helper()
	var took uint64
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if took = after.TotalAlloc - before.TotalAlloc; took <= uint64(limit) {
			return
		}
	}
	t.Fatalf("it took %d bytes of memory, want at most %d", took, limit)
}

// marshalled is m's encoding.
func marshalled(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// messageCost bounds the bytes that decoding n bytes takes: of all fields an empty
// message in a list costs most, two bytes become a structure and a pointer to it.
func messageCost(n int) int { return 100*n + 64<<10 }

// Whatever bytes come as the request of a listing, its options are known ones and its
// paths within their bounds, or it is refused.
func FuzzListRequest(f *testing.F) {
	paths := []string{"/a", "/ab", "", "/b"}
	options := &pb.ListOptions{Limit: 7, Columns: 0x7fff, Hidden: pb.Hidden_HIDDEN_HIVE, Own: true, Consistency: pb.Consistency_CONSISTENCY_SNAPSHOT}
	f.Add(marshalled(f, &pb.ListRequest{Options: options, Cursor: []byte("c"), Paths: pack(paths), Count: 4, Last: true}))
	f.Add(marshalled(f, &pb.ListPageRequest{Options: options, Paths: pack(paths), Count: 1 << 31}))
	f.Add(marshalled(f, &pb.ListRequest{Options: &pb.ListOptions{Hidden: 9, Consistency: -1, Limit: math.MinInt32}}))
	f.Add([]byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		stream, page := new(pb.ListRequest), new(pb.ListPageRequest)
		m := new(pb.ListRequest)
		fuzzListRequest(t, b, m, proto.Unmarshal(b, m))
		fuzzRequest(t, b, stream, func() (*pb.ListOptions, []byte, uint32) { return stream.Options, stream.Paths, stream.Count })
		fuzzRequest(t, b, page, func() (*pb.ListOptions, []byte, uint32) { return page.Options, page.Paths, page.Count })
	})
}

func fuzzRequest(t *testing.T, b []byte, m proto.Message, parts func() (*pb.ListOptions, []byte, uint32)) {
	t.Helper()
	var err error
	wantAllocated(t, messageCost(len(b)), func() { err = (&decoding{Encoding: pbEncoding{}, code: muster.ErrInvalid}).Unmarshal(b, m) })
	if err != nil {
		wantCode(t, err, muster.ErrInvalid)
		return
	}
	options, packed, count := parts()
	var o ListOptions
	wantAllocated(t, 8<<10, func() { o, err = ListOptionsFromPB(options) })
	switch {
	case err != nil:
		wantCode(t, err, muster.ErrInvalid)
	case o.Hidden > muster.HiddenSpark || o.Consistency > muster.ConsistencySnapshot:
		t.Fatalf("%v was read as %+v", options, o)
	}
	var paths []string
	wantAllocated(t, 8*len(packed)+ChunkBytes+8<<10, func() { paths, err = UnpackPaths(packed, count, ChunkPaths, ChunkBytes) })
	if err != nil {
		if code := muster.CodeOf(err); code != muster.ErrInvalid && code != muster.ErrLimit {
			t.Fatalf("got %v", err)
		}
		return
	}
	again, err := UnpackPaths(pack(paths), count, ChunkPaths, ChunkBytes)
	if err != nil || !slices.Equal(again, paths) {
		t.Fatalf("%q became %q, %v", paths, again, err)
	}
}

// Whatever bytes come as an answer, an entry has known values only and is the same when it
// is sent on, and an error has a known code and is the same when it is sent on.
func FuzzReplies(f *testing.F) {
	row := &muster.Row{
		ID: 7, Kind: muster.File, Mode: 0o1644, Length: 10, BlockSize: 4, Replication: muster.Replicated(2),
		Owner: []byte("o"), Group: []byte("g"), Blocks: []muster.Block{{Container: 1, LocalID: 2, Length: 3}, {}},
	}
	f.Add(marshalled(f, RowToPB(row, "n", 99)))
	f.Add(marshalled(f, &pb.EntryReply{Kind: 3, LinkTarget: []byte("../x")}))
	f.Add(marshalled(f, &pb.EntryReply{Kind: 257, Mode: 0o2000, Flags: 256, Replication: 1}))
	f.Add(drpcwire.MarshalError(ToWire(muster.ErrNotFound)))
	f.Add(drpcwire.MarshalError(ToWire(errors.New("a fault"))))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'x', 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzEntry(t, b)
		fuzzError(t, b)
	})
}

func fuzzEntry(t *testing.T, b []byte) {
	t.Helper()
	m := new(pb.EntryReply)
	var e muster.Entry
	var err error
	wantAllocated(t, messageCost(len(b)), func() {
		if err = (&decoding{Encoding: pbEncoding{}, code: muster.ErrCorrupt}).Unmarshal(b, m); err == nil {
			e, err = EntryFromPB(m)
		}
	})
	if err != nil {
		wantCode(t, err, muster.ErrCorrupt)
		return
	}
	sent := RowToPB(&muster.Row{
		ID: e.ID, Kind: e.Kind, Length: e.Length, MTime: e.MTime, ATime: e.ATime, Mode: e.Mode, Owner: []byte(e.Owner), Group: []byte(e.Group),
		Replication: e.Replication, BlockSize: e.BlockSize, Flags: e.Flags, Target: []byte(e.Target), Blocks: e.Blocks,
	}, e.Name, m.Txid)
	if again, err := EntryFromPB(sent); err != nil || !reflect.DeepEqual(again, e) {
		t.Fatalf("%+v became %+v, %v", e, again, err)
	}
}

func fuzzError(t *testing.T, b []byte) {
	t.Helper()
	var err error
	wantAllocated(t, 8*len(b)+8<<10, func() { err = FromWire(drpcwire.UnmarshalError(b)) })
	wantKnownError(t, err)
	if len(b) < 4 {
		return
	}
	number := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	for _, number := range []uint32{number, number % 32} { // most numbers are no codes
		err := FromStatus(number, string(b[4:]))
		if (err == nil) != (number == 0) {
			t.Fatalf("code %d is %v", number, err)
		}
		if err != nil {
			wantKnownError(t, err)
		}
	}
}

// wantKnownError wants err to have a code, and to be an equal one after another hop.
func wantKnownError(t *testing.T, err error) {
	t.Helper()
	code := muster.CodeOf(err)
	if err == nil || err == io.EOF || code == muster.OK || code > muster.ErrInternal {
		t.Fatalf("%v has code %d", err, code)
	}
	first := FromWire(drpcwire.UnmarshalError(drpcwire.MarshalError(ToWire(err))))
	again := FromWire(drpcwire.UnmarshalError(drpcwire.MarshalError(ToWire(first))))
	wantCode(t, again, code)
	if len(err.Error()) <= maxErrorText && again.Error() != first.Error() {
		t.Fatalf("%q became %q", first, again)
	}
}

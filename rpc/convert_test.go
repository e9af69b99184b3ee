package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"storj.io/drpc"
	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

func TestErrorsCrossTheWire(t *testing.T) {
	for code := muster.ErrNotFound; code <= muster.ErrInternal; code++ {
		sent := fmt.Errorf("stat /x: %w: more words", code)
		got := FromWire(drpcwire.UnmarshalError(drpcwire.MarshalError(ToWire(sent))))
		wantCode(t, got, code)
		if got.Error() != sent.Error() {
			t.Errorf("%s: sent %q, got %q", code.Name(), sent, got)
		}
		if again := FromWire(fmt.Errorf("op: %w", got)); again.Error() != "op: "+sent.Error() {
			t.Errorf("%s: a second conversion gave %q", code.Name(), again)
		}
		number, text := ToStatus(sent)
		got = FromStatus(number, text)
		wantCode(t, got, code)
		if got := FromStatus(number, ""); got.Error() != code.Error() {
			t.Errorf("%s without words is %q", code.Name(), got)
		}
	}
	if ToWire(nil) != nil || FromWire(nil) != nil || FromStatus(0, "x") != nil || FromWire(io.EOF) != io.EOF {
		t.Error("no error, and the end of a stream, must stay what they are")
	}
	wantCode(t, FromStatus(12345, "from the future"), muster.ErrInternal)
	wantCode(t, FromWire(ToWire(errors.New("a fault of ours"))), muster.ErrInternal)
	wantCode(t, FromWire(ToWire(context.DeadlineExceeded)), muster.ErrDeadline)
	wantCode(t, FromWire(fmt.Errorf("manager closed: %w", io.EOF)), muster.ErrUnavailable)
	if err := FromWire(context.Canceled); err != context.Canceled {
		t.Errorf("a context's error became %v", err)
	}
	_, text := ToStatus(fmt.Errorf("%w: \xff%s", muster.ErrInvalid, strings.Repeat("x", 1<<20)))
	if len(text) > maxErrorText+10 || !strings.Contains(text, "\uFFFD") {
		t.Errorf("text of %d bytes", len(text))
	}
}

func TestRetryable(t *testing.T) {
	for err, want := range map[error]bool{
		broken("x"):                               true,
		FromStatus(14, "overload"):                true,
		fmt.Errorf("op: %w", broken("x")):         true,
		muster.ErrNotFound:                        false,
		muster.ErrCancelled:                       false,
		context.Canceled:                          false,
		NewPool("x", PoolOptions{}).closedError(): false,
		fmt.Errorf("%w: waited: %w", muster.ErrUnavailable, context.DeadlineExceeded): false,
		net.ErrClosed: false,
	} {
		if got := Retryable(err); got != want {
			t.Errorf("%v: got %v", err, got)
		}
	}
	if Retryable(nil) {
		t.Error("no error is nothing to retry")
	}
}

func ptr[T any](v T) *T { return &v }

func TestCommandsCrossTheWire(t *testing.T) {
	for _, c := range []muster.Command{
		muster.Mkdir{},
		muster.Mkdir{Path: "/a\xff", Mode: 0o1777, Parents: true, Owner: "o", Group: "g", MTime: ptr(int64(-5))},
		muster.Create{Path: "/f"},
		muster.Create{Path: "/f", Mode: 0o640, Length: math.MaxInt64, Replication: muster.Replicated(3), BlockSize: 128 << 20,
			Blocks: []muster.Block{{Container: 1, LocalID: math.MaxUint64, Length: 3}, {}}, Owner: "o", Group: "g",
			MTime: ptr(int64(0)), ATime: ptr(int64(1)), Parents: true, Overwrite: true},
		muster.Symlink{Path: "/l", Target: "../x", Owner: "o", Group: "g", MTime: ptr(int64(7))},
		muster.Rename{From: "/a", To: "/b", Overwrite: true},
		muster.Delete{Path: "/a", Recursive: true},
		muster.SetAttr{Path: "/a"},
		muster.SetAttr{Path: "/a", Mode: ptr(uint16(0)), Owner: ptr(""), Group: ptr("g"), MTime: ptr(int64(1)), ATime: ptr(int64(2))},
	} {
		m, err := CommandToPB(c)
		if err != nil {
			t.Fatal(err)
		}
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back := new(pb.Command)
		if err := proto.Unmarshal(b, back); err != nil {
			t.Fatal(err)
		}
		got, err := CommandFromPB(back)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("sent %+v, got %+v, %v", c, got, err)
		}
	}
}

type strangeCommand struct{ muster.Delete }

func TestStrangeValuesAreNamed(t *testing.T) {
	command := func(m *pb.Command) error { _, err := CommandFromPB(m); return err }
	create := func(m *pb.Create) error { return command(&pb.Command{Command: &pb.Command_Create{Create: m}}) }
	options := func(m *pb.ListOptions) error { _, err := ListOptionsFromPB(m); return err }
	entry := func(m *pb.EntryReply) error { _, err := EntryFromPB(m); return err }
	for _, c := range []struct {
		err  error
		code muster.Code
		says string
	}{
		{command(nil), muster.ErrInvalid, "newer than this server"},
		{command(&pb.Command{}), muster.ErrInvalid, "newer than this server"},
		{command(&pb.Command{Command: &pb.Command_Mkdir{Mkdir: &pb.Mkdir{Path: []byte("/d"), Mode: 0o4755}}}), muster.ErrInvalid, `"/d": invalid argument: mode 04755; at most 01777`},
		{command(&pb.Command{Command: &pb.Command_SetAttr{SetAttr: &pb.SetAttr{Mode: ptr(uint32(1 << 16))}}}), muster.ErrInvalid, "mode 0200000"},
		{create(&pb.Create{Mode: 1 << 20}), muster.ErrInvalid, "mode"},
		{create(&pb.Create{Replication: 0x10103}), muster.ErrInvalid, "replication 0x10103"},
		{create(&pb.Create{Replication: 0x0300}), muster.ErrInvalid, "replication 0x300"},
		{options(&pb.ListOptions{Hidden: 9}), muster.ErrInvalid, "hidden preset 9"},
		{options(&pb.ListOptions{Consistency: -1}), muster.ErrInvalid, "consistency -1"},
		{options(&pb.ListOptions{Compression: 7}), muster.ErrInvalid, "compression 7"},
		{entry(&pb.EntryReply{Kind: 4}), muster.ErrCorrupt, "kind 4"},
		{entry(&pb.EntryReply{Kind: 257}), muster.ErrCorrupt, "kind 257"},
		{entry(&pb.EntryReply{Kind: 1, Mode: 0o2000}), muster.ErrCorrupt, "mode 02000"},
		{entry(&pb.EntryReply{Kind: 1, Flags: 256}), muster.ErrCorrupt, "flags 0x100"},
		{entry(&pb.EntryReply{Kind: 1, Replication: 1}), muster.ErrCorrupt, "replication 0x1"},
	} {
		wantCode(t, c.err, c.code)
		if !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%v does not say %q", c.err, c.says)
		}
	}
	for _, c := range []muster.Command{
		strangeCommand{},
		muster.Mkdir{Owner: "\xff"}, muster.Create{Group: "\xff"}, muster.Symlink{Owner: "\xff"},
		muster.SetAttr{Owner: ptr("\xff")}, muster.SetAttr{Group: ptr("\xff")},
		muster.StartFile{}, muster.AddBlock{}, muster.FinishFile{}, muster.TakeLease{}, muster.Rename{File: 1, From: "/a", To: "/b"},
	} {
		_, err := CommandToPB(c)
		wantCode(t, err, muster.ErrInvalid)
	}
	_, err := RequestIDFromPB(make([]byte, 15), 1)
	wantCode(t, err, muster.ErrInvalid)
}

func TestValuesCrossTheWire(t *testing.T) {
	row := muster.Row{
		ID: 7, Kind: muster.File, Mode: 0o1644, Length: 10, MTime: -1, ATime: 2, BlockSize: 4, Replication: muster.Replicated(2), Flags: 1,
		Owner: []byte("o"), Group: []byte("g"), Target: []byte("t"), Blocks: []muster.Block{{Container: 1, LocalID: 2, Length: 3}},
	}
	want := row.Entry()
	want.Name = "n"
	m := RowToPB(&row, "n", 99)
	row.Owner[0], row.Target[0], row.Blocks[0].Length = 'x', 'x', 0 // not the message's any more
	if got, err := EntryFromPB(m); err != nil || !reflect.DeepEqual(got, want) || m.Txid != 99 {
		t.Errorf("got %+v, %v", got, err)
	}
	o, err := ListOptionsFromPB(&pb.ListOptions{Limit: -3, Columns: 5, Hidden: pb.Hidden_HIDDEN_SPARK, Own: true, Consistency: pb.Consistency_CONSISTENCY_SNAPSHOT, Compression: pb.Compression_COMPRESSION_ZSTD,
		Locations: pb.WithLocations_WITH_LOCATIONS_MUST, Sorted: true, Reader: "/r1", Follow: true, LocationLimit: math.MaxUint32})
	wantOptions := ListOptions{
		Limit: -3, Columns: 5, Hidden: muster.HiddenSpark, Own: true, Consistency: muster.ConsistencySnapshot, Compress: true,
		Locations: muster.LocationsMust, Sorted: true, Reader: "/r1", Follow: true, LocationLimit: math.MaxInt32,
	}
	if err != nil || o != wantOptions {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err := ListOptionsFromPB(nil); err != nil || o != (ListOptions{}) {
		t.Errorf("no options: %+v, %v", o, err)
	}
	refusal, ok := RefusalToPB(fmt.Errorf("apply: %w", &muster.CommandError{Index: 3, Verb: "mkdir", Path: "/x", Err: muster.ErrExists}))
	if !ok || !proto.Equal(refusal, &pb.Refusal{Index: 3, Code: 2, Message: "already exists"}) {
		t.Errorf("got %v", refusal)
	}
	if _, ok := RefusalToPB(muster.ErrExists); ok {
		t.Error("an error of the call is no refusal")
	}
	if id, err := RequestIDFromPB(nil, 4); err != nil || id != (muster.RequestID{}) {
		t.Errorf("no request id is %v, %v", id, err)
	}
	if id, err := RequestIDFromPB([]byte("0123456789abcdef"), 4); err != nil || id != (muster.RequestID{Client: [16]byte([]byte("0123456789abcdef")), Sequence: 4}) {
		t.Errorf("got %v, %v", id, err)
	}
}

// Whatever bytes come, reading a batch gives commands that can be sent again, or an error.
func FuzzApplyRequest(f *testing.F) {
	batch := new(pb.ApplyRequest)
	for _, c := range []muster.Command{
		muster.Mkdir{Path: "/a", Mode: 0o755, MTime: ptr(int64(1))},
		muster.Create{Path: "/f", Replication: muster.Replicated(1), Blocks: []muster.Block{{Container: 1}}},
		muster.SetAttr{Path: "/a", Mode: ptr(uint16(1))},
		muster.Symlink{Path: "/l", Target: "x"}, muster.Rename{From: "/a", To: "/b"}, muster.Delete{Path: "/a"},
	} {
		m, err := CommandToPB(c)
		if err != nil {
			f.Fatal(err)
		}
		batch.Commands = append(batch.Commands, m)
		for _, r := range []*pb.ApplyRequest{{Commands: []*pb.Command{m}}, batch} {
			b, err := proto.Marshal(r)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := new(pb.ApplyRequest)
		if err := (&decoding{Encoding: pbEncoding{}, code: muster.ErrInvalid}).Unmarshal(b, r); err != nil {
			if code := muster.CodeOf(err); code != muster.ErrInvalid && code != muster.ErrLimit {
				t.Fatalf("got %v", err)
			}
			return
		}
		if n := len(r.Commands); n > muster.MaxBatchCommands {
			t.Fatalf("%d commands", n)
		}
		for _, m := range r.Commands {
			c, err := CommandFromPB(m)
			if err != nil {
				wantCode(t, err, muster.ErrInvalid)
				continue
			}
			back, err := CommandToPB(c)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := CommandFromPB(back); err != nil || !reflect.DeepEqual(again, c) {
				t.Fatalf("%+v became %+v, %v", c, again, err)
			}
		}
	})
}

// A batch past its bounds is refused before it takes memory, whatever it is made of.
func TestBatchesAreBoundedBeforeTheyAreDecoded(t *testing.T) {
	repeat := func(n int, command string) []byte { return bytes.Repeat([]byte(command), n) }
	damaged := append(repeat(3, "\x1a\x00"), 0x1a, 0x7f)
	for name, c := range map[string]struct {
		sent []byte
		code muster.Code
		says string
	}{
		"as many as may be":      {repeat(muster.MaxBatchCommands, "\x1a\x00"), muster.OK, ""},
		"one command more":       {repeat(muster.MaxBatchCommands+1, "\x1a\x00"), muster.ErrLimit, "10001 commands, at most 10000"},
		"empty commands":         {repeat(muster.MaxBatchBytes/2, "\x1a\x00"), muster.ErrLimit, "524288 commands, at most 10000"},
		"a message full of them": {repeat(MaxMessage/2, "\x1a\x00"), muster.ErrLimit, "4194304 bytes, at most 1048576"},
		"empty deletes":          {repeat(muster.MaxBatchBytes/4, "\x1a\x02\x2a\x00"), muster.ErrLimit, "262144 commands, at most 10000"},
		"damaged":                {damaged, muster.ErrInvalid, "decode"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := (&decoding{Encoding: pbEncoding{}, code: muster.ErrInvalid}).Unmarshal(c.sent, new(pb.ApplyRequest))
		runtime.ReadMemStats(&after)
		if muster.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; err != nil && took > 64<<10 {
			t.Errorf("%s: refusing %d bytes took %d bytes of memory", name, len(c.sent), took)
		}
	}
	if field := new(pb.ApplyRequest).ProtoReflect().Descriptor().Fields().ByName("commands"); field.Number() != batchCommands {
		t.Errorf("the field of commands is %d", field.Number())
	}
}

// pbEncoding is the generated code's.
type pbEncoding struct{}

func (pbEncoding) Marshal(m drpc.Message) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

func (pbEncoding) Unmarshal(b []byte, m drpc.Message) error {
	return proto.Unmarshal(b, m.(proto.Message))
}

func TestPanicOfAnEncodingIsAnError(t *testing.T) {
	wantCode(t, (&decoding{Encoding: pbEncoding{}, code: muster.ErrCorrupt}).Unmarshal(nil, 5), muster.ErrCorrupt)
}

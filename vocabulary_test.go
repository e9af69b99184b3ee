package muster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/muster-fs/muster"
)

func TestCodesMatchTheStandardSentinels(t *testing.T) {
	for _, c := range []struct {
		code   muster.Code
		target error
	}{
		{muster.ErrNotFound, fs.ErrNotExist},
		{muster.ErrExists, fs.ErrExist},
		{muster.ErrNotEmpty, fs.ErrExist},
		{muster.ErrPermission, fs.ErrPermission},
		{muster.ErrUnauthenticated, fs.ErrPermission},
		{muster.ErrInvalid, fs.ErrInvalid},
		{muster.ErrCursor, fs.ErrInvalid},
		{muster.ErrDeadline, context.DeadlineExceeded},
		{muster.ErrDeadline, os.ErrDeadlineExceeded},
		{muster.ErrCancelled, context.Canceled},
	} {
		err := fmt.Errorf("list /a: %w", c.code)
		if !errors.Is(err, c.target) || !errors.Is(err, c.code) {
			t.Errorf("%v does not match %v", err, c.target)
		}
		if c.code != muster.ErrNotFound && errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v matches fs.ErrNotExist", err)
		}
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want muster.Code
	}{
		{nil, muster.OK},
		{muster.ErrNotEmpty, muster.ErrNotEmpty},
		{&muster.CommandError{Err: fmt.Errorf("x: %w", muster.ErrExists)}, muster.ErrExists},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), muster.ErrDeadline},
		{fmt.Errorf("x: %w", context.Canceled), muster.ErrCancelled},
		{errors.New("x"), muster.ErrInternal},
	} {
		if got := muster.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %s, want %s", c.err, got.Name(), c.want.Name())
		}
	}
}

// A newer server may send a code that this version does not know.
func TestAnUnknownCodeIsAnInternalError(t *testing.T) {
	if c := muster.Code(4711); c.Name() != "INTERNAL" || c.Error() != "internal error" {
		t.Errorf("%s, %v", c.Name(), c)
	}
}

func TestReplicationReadsWhatItPrints(t *testing.T) {
	for _, s := range []string{"", "replicated/1", "replicated/3", "replicated/9", "ec/rs-3-2", "ec/rs-10-4"} {
		r, err := muster.ParseReplication(s)
		if err != nil || r.String() != s || !r.Valid() {
			t.Errorf("ParseReplication(%q) = %v, %v", s, r, err)
		}
	}
	for _, s := range []string{"3", "replicated/0", "replicated/10", "replicated/", "ec/rs-3", "ec/rs-0-2", "ec/rs-3-0", "ec/rs-11-4", "ec/rs-16-1", "ec/rs-3-2-1", "x"} {
		if r, err := muster.ParseReplication(s); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("ParseReplication(%q) = %v, %v", s, r, err)
		}
	}
}

func TestReplicationNodes(t *testing.T) {
	for s, want := range map[string]int{"": 0, "replicated/3": 3, "ec/rs-3-2": 5, "ec/rs-10-4": 14} {
		if r, _ := muster.ParseReplication(s); r.Nodes() != want {
			t.Errorf("%q has %d nodes, want %d", s, r.Nodes(), want)
		}
	}
}

func TestNoInvalidReplicationIsValid(t *testing.T) {
	for r := range 1 << 16 {
		r := muster.Replication(r)
		if back, err := muster.ParseReplication(r.String()); r.Valid() != (err == nil && back == r) {
			t.Errorf("%#x: valid %v, but reads back as %#x, %v", uint16(r), r.Valid(), uint16(back), err)
		}
	}
}

func TestHiddenPresets(t *testing.T) {
	for _, c := range []struct {
		name        string
		hive, spark bool
	}{
		{"part-0", false, false},
		{".crc", true, true},
		{"_SUCCESS", true, true},
		{"_x=1", true, false},
		{"_metadata", true, false},
		{"_metadata.x", true, false},
		{"_common_metadata", true, false},
		{"a._COPYING_", false, true},
		{"a_b", false, false},
		{"._COPYING_", true, true},
	} {
		if muster.HiddenNone.Hides([]byte(c.name)) ||
			muster.HiddenHive.Hides([]byte(c.name)) != c.hive || muster.HiddenSpark.Hides([]byte(c.name)) != c.spark {
			t.Errorf("%q: want hive %v, spark %v", c.name, c.hive, c.spark)
		}
	}
	for _, h := range []muster.Hidden{muster.HiddenNone, muster.HiddenHive, muster.HiddenSpark} {
		if got, err := muster.ParseHidden(h.String()); got != h || err != nil {
			t.Errorf("%v reads back as %v, %v", h, got, err)
		}
	}
	if _, err := muster.ParseHidden("impala"); !errors.Is(err, muster.ErrInvalid) {
		t.Error("an unknown preset is taken")
	}
}

func TestModeBitsAndFileModeUndoEachOther(t *testing.T) {
	for mode := range uint16(muster.ModeMask + 1) {
		e := muster.Entry{Mode: mode, Kind: muster.Directory}
		if got := muster.ModeBits(e.FileMode()); got != mode || !e.FileMode().IsDir() {
			t.Fatalf("%o gives %o", mode, got)
		}
	}
}

func TestAnEntryOwnsItsMemory(t *testing.T) {
	row := muster.Row{Name: []byte("n"), Owner: []byte("o"), Group: []byte("g"), Target: []byte("t"), Blocks: []muster.Block{{Container: 1}}}
	e := row.Entry()
	row.Name[0], row.Owner[0], row.Group[0], row.Target[0], row.Blocks[0].Container = 'x', 'x', 'x', 'x', 9
	if e.Name != "n" || e.Owner != "o" || e.Group != "g" || e.Target != "t" || e.Blocks[0].Container != 1 {
		t.Errorf("%+v", e)
	}
}

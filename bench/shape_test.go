package bench

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/muster-fs/muster/listing/rows"
)

func TestShapesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]Shape{
		"30000x1":               {Partitions: 30_000, Entries: 1},
		"1x30000d":              {Partitions: 1, Entries: 30_000, Directories: true},
		"1x30000d-nomtime":      {Partitions: 1, Entries: 30_000, Directories: true, NoMTime: true},
		"1000000x10":            {Partitions: 1_000_000, Entries: 10},
		"2x3d":                  {Partitions: 2, Entries: 3, Directories: true},
		"30000x1-shuffled":      {Partitions: 30_000, Entries: 1, Shuffled: true},
		"2x3d-nomtime-shuffled": {Partitions: 2, Entries: 3, Directories: true, NoMTime: true, Shuffled: true},
		"1x1":                   {Partitions: 1, Entries: 1},
	} {
		got, err := ParseShape(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "30000", "0x1", "1x0", "-1x1", "1x", "1x1f", "1x1-nomtime", "1x1d-", "10000000x2", "999999999x1", " 1x1", "1x1 "} {
		if got, err := ParseShape(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for _, s := range Shapes() {
		if got, err := ParseShape(s.String()); err != nil || got != s {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
}

func TestTheTableOfAShapeHasItsForm(t *testing.T) {
	files, with, without := Shape{Partitions: 2, Entries: 3}, Shape{Partitions: 1, Entries: 4, Directories: true}, Shape{Partitions: 1, Entries: 4, Directories: true, NoMTime: true}
	if got := files.table("/b"); !reflect.DeepEqual(got, Table{Root: "/b/2x3", Partitions: 2, Files: 3}) {
		t.Errorf("%+v", got)
	}
	if got := without.table("/b"); !reflect.DeepEqual(got, with.table("/b")) || !reflect.DeepEqual(got, Table{Root: "/b/1x4d", Partitions: 1, Directories: 4}) {
		t.Errorf("%+v", got)
	}
	mixed := Shape{Partitions: 50, Entries: 3, Shuffled: true}
	ordered, paths := (Shape{Partitions: 50, Entries: 3}).paths("/b"), mixed.paths("/b")
	if slices.Equal(paths, ordered) || !slices.Equal(paths, mixed.paths("/b")) || !slices.Equal(slices.Sorted(slices.Values(paths)), ordered) {
		t.Errorf("shuffled: %q", paths)
	}
	if files.columns() != rows.DefaultColumns || with.columns() != rows.DefaultColumns || without.columns().Has(rows.ColMTime) {
		t.Error("the wrong columns are asked for")
	}
}

func TestPlacesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]Place{
		"in-process":     {Name: "in-process"},
		"loopback":       {Name: "loopback"},
		"loopback+0.5ms": {"loopback", 500 * time.Microsecond},
		"server+20ms":    {"server", 20 * time.Millisecond},
	} {
		got, err := ParsePlace(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "moon", "in-process+1ms", "loopback+", "loopback+1", "loopback+0ms", "loopback+-1ms", "loopback+2s", "Loopback"} {
		if got, err := ParsePlace(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for _, own := range []bool{true, false} {
		for _, p := range Places(own) {
			if got, err := ParsePlace(p.String()); err != nil || got != p {
				t.Errorf("%v: %v, %v", p, got, err)
			}
		}
	}
}

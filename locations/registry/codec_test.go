package registry

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

func sampleContainers() []containerRecord {
	return []containerRecord{
		{replication: muster.Replicated(1), reserved: 1, members: []muster.NodeNumber{0}},
		{replication: muster.Replicated(3), reserved: 65, members: []muster.NodeNumber{9, 0, muster.MaxNodes - 1}},
		{replication: 0x0232, closed: true, reserved: 1 << 63, members: []muster.NodeNumber{1, 2, 3, 4, 5}},
	}
}

func sampleNodes() []nodeRecord {
	return []nodeRecord{
		{Registration: Registration{ID: "a", Host: "h", Port: 1}},
		{Registration: Registration{ID: strings.Repeat("i", 64), Host: strings.Repeat("h", 255), Address: "fd00::1", Port: 65535, HTTPPort: 80, Rack: "/" + strings.Repeat("r", 999)}, wanted: muster.Maintenance},
		{Registration: Registration{ID: "é", Host: "10.0.0.1", Address: "10.0.0.1", Port: 9, Rack: "/dc/r1"}, wanted: muster.Draining},
	}
}

func sampleCounters() []counters { return []counters{{1, 0}, {1 << 63, muster.MaxNodes}} }

func TestRecordsReadAsTheyWereWritten(t *testing.T) {
	for _, c := range sampleContainers() {
		if got, err := decodeContainer(appendContainer(nil, &c)); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v reads as %+v, %v", c, got, err)
		}
	}
	for _, n := range sampleNodes() {
		if got, err := decodeNode(appendNode(nil, &n)); err != nil || got != n {
			t.Errorf("%+v reads as %+v, %v", n, got, err)
		}
	}
	for _, c := range sampleCounters() {
		if got, err := decodeCounters(appendCounters(nil, c)); err != nil || got != c {
			t.Errorf("%+v reads as %+v, %v", c, got, err)
		}
	}
}

// TestTheFormatIsAsItIs: these bytes are on disks.
func TestTheFormatIsAsItIs(t *testing.T) {
	c, n := sampleContainers()[2], nodeRecord{Registration: Registration{ID: "dn", Host: "h", Address: "::1", Port: 0x1234, HTTPPort: 0x5678, Rack: "/r"}, wanted: muster.Draining}
	for _, s := range []struct {
		got  []byte
		want string
	}{
		{appendContainer(nil, &c), "0101320200000000000000800100000002000000030000000400000005000000"},
		{appendNode(nil, &n), "010134127856020103" + "0200" + "646e" + "68" + "3a3a31" + "2f72"},
		{appendCounters(nil, counters{0x0102, 0x03}), "01020100000000000003000000"},
		{containerKey(0x0102), "630000000000000102"},
		{nodeKey(0x0102), "6e00000102"},
		{countersKey(), "6d"},
		{targetKey(0x0102, 0x0304), "74000000000000010200000304"},
	} {
		if got := fmt.Sprintf("%x", s.got); got != s.want {
			t.Errorf("%s, want %s", got, s.want)
		}
	}
}

// recode decodes a value and encodes what it says.
func recode[T any](v []byte, decode func([]byte) (T, error), encode func([]byte, *T) []byte) ([]byte, error) {
	got, err := decode(v)
	if err != nil {
		return nil, err
	}
	return encode(nil, &got), nil
}

// fuzz checks that a decoder takes exactly what the encoder makes, and calls anything else corrupt.
func fuzz[T any](f *testing.F, samples []T, decode func([]byte) (T, error), encode func([]byte, *T) []byte) {
	for i := range samples {
		v := encode(nil, &samples[i])
		f.Add(v)
		f.Add(v[:len(v)-1])
		f.Add(append(v[:len(v):len(v)], 0))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, v []byte) {
		again, err := recode(v, decode, encode)
		if err != nil && !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("code %v", muster.CodeOf(err).Name())
		}
		if err == nil && !bytes.Equal(again, v) {
			t.Errorf("took %x, which is written as %x", v, again)
		}
	})
}

func FuzzContainer(f *testing.F) { fuzz(f, sampleContainers(), decodeContainer, appendContainer) }
func FuzzNode(f *testing.F)      { fuzz(f, sampleNodes(), decodeNode, appendNode) }

func FuzzCounters(f *testing.F) {
	fuzz(f, sampleCounters(), decodeCounters, func(dst []byte, c *counters) []byte { return appendCounters(dst, *c) })
}

// FuzzLoad: whatever a store has, it is loaded as what it says, or refused as corrupt.
func FuzzLoad(f *testing.F) {
	c, n := sampleContainers()[0], sampleNodes()[0]
	f.Add(containerKey(1), appendContainer(nil, &c))
	f.Add(nodeKey(0), appendNode(nil, &n))
	f.Add(countersKey(), appendCounters(nil, counters{2, 1}))
	f.Add([]byte{}, []byte{})
	f.Add([]byte("c1"), []byte{})
	f.Add(targetKey(1, 0), []byte{})
	f.Add(targetKey(1, 0), []byte{1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r := &Registry{byID: map[string]*node{}, containers: map[uint64]*container{}, targets: map[uint64][]muster.NodeNumber{}, open: map[muster.Replication]*openContainers{}, lags: map[uint64]lag{}}
		r.opts = Options{}.withDefaults()
		err := r.loadEntry(key, value)
		if err == nil {
			err = r.checkLoaded()
		}
		if err != nil && !errors.Is(err, muster.ErrCorrupt) {
			t.Error(err)
		}
	})
}

// TestWhatDoesNotFitTogetherIsCorrupt: each record is fine, and all together are not.
func TestWhatDoesNotFitTogetherIsCorrupt(t *testing.T) {
	c, n := sampleContainers()[0], sampleNodes()[0]
	other := n
	other.ID = "b"
	for what, change := range map[string]func(b *batch){
		"target of container 7": func(b *batch) { b.set(targetKey(7, 0), nil) },
		"a value of 1 bytes":    func(b *batch) { b.set(targetKey(1, 0), []byte{1}) },
		"unknown key":           func(b *batch) { b.set([]byte("z"), nil) },
		"container 0":           func(b *batch) { b.container(0, &c) },
		"is to be given next":   func(b *batch) { b.container(2, &c) },
		"member 1 of 1": func(b *batch) {
			b.container(1, &containerRecord{replication: c.replication, reserved: 1, members: []muster.NodeNumber{1}})
		},
		"1 were counted":           func(b *batch) { b.set(nodeKey(1), appendNode(nil, &other)) },
		"before it is missing":     func(b *batch) { b.set(nodeKey(2), appendNode(nil, &other)) },
		"another's too":            func(b *batch) { b.set(nodeKey(1), appendNode(nil, &n)) },
		"0 datanodes, and 1":       func(b *batch) { b.err = b.b.Delete(nodeKey(0), nil) },
		"1 datanodes, and 0":       func(b *batch) { b.err = b.b.Delete(countersKey(), nil) },
		"unknown version or flags": func(b *batch) { b.set(containerKey(1), []byte{2}) },
	} {
		mem := vfs.NewMem()
		r, err := Open("locations", Options{FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		b := &batch{b: r.store.DB.NewBatch()}
		b.counters(counters{2, 1})
		b.set(nodeKey(0), appendNode(nil, &n))
		b.container(1, &c)
		change(b)
		if err := errors.Join(b.err, b.b.Commit(pebble.Sync), r.Close()); err != nil {
			t.Fatal(err)
		}
		if r, err := Open("locations", Options{FS: mem}); !errors.Is(err, muster.ErrCorrupt) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				_ = r.Close()
			}
		}
	}
}

func TestANewerFormatIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	r, err := Open("locations", Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Create("locations/FORMAT")
	if err == nil {
		_, err = f.Write([]byte("muster locations 3\n"))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("locations", Options{FS: mem}); !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), "version 3") {
		t.Error(err)
	}
}

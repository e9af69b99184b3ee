package namespace

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

func sampleBlocks(n int) (blocks []muster.Block) {
	for i := range n {
		blocks = append(blocks, muster.Block{Container: uint64(i), LocalID: math.MaxUint64, Length: int64(i)})
	}
	return blocks
}

func sampleRows() map[string][]byte {
	rows := map[string][]byte{}
	add := func(name string, r muster.Row, blocks []muster.Block) {
		r.Owner, r.Group = []byte("ann"), []byte("staff")
		b := blockList{len(blocks), appendBlocks(nil, blocks[:min(len(blocks), inlineBlocks)])}
		rows[name] = appendRow(nil, &r, b)
	}
	file := muster.Row{ID: 9, Kind: muster.File, Mode: 0o644, Length: 1 << 40, MTime: -1, ATime: math.MaxInt64, BlockSize: 128 << 20, Replication: muster.Replicated(3), Flags: muster.FlagWriting}
	add("empty file", file, nil)
	add("16 blocks", file, sampleBlocks(16))
	add("10,000 blocks", file, sampleBlocks(muster.MaxBlocks))
	add("directory", muster.Row{ID: 1, Kind: muster.Directory, Mode: muster.ModeMask, ATime: 5}, nil)
	add("link", muster.Row{ID: math.MaxUint64, Kind: muster.Link, Mode: 0o777, Target: []byte("../é"), MTime: 1}, nil)
	return rows
}

func sampleRecords() map[string][]byte {
	return map[string][]byte{
		"file":      appendRecord(nil, &record{kind: muster.File, parent: 7, name: []byte("a=1")}),
		"link":      appendRecord(nil, &record{kind: muster.Link, parent: 7, name: bytes.Repeat([]byte("x"), 255)}),
		"directory": appendRecord(nil, &record{kind: muster.Directory, parent: 1, name: []byte("d"), mtime: -5, changedAt: 8, recordAt: 9, entries: 3, dirs: 2}),
		"root":      appendRecord(nil, &record{kind: muster.Directory}),
	}
}

func sampleResults() map[string][]byte {
	return map[string][]byte{
		"one":  appendResult(nil, &result{stamp: 1, txid: 2, hash: [16]byte{3}, user: []byte("ann"), ids: []uint64{4}}),
		"none": appendResult(nil, &result{stamp: math.MinInt64, user: []byte("x")}),
		"most": appendResult(nil, &result{user: bytes.Repeat([]byte("u"), 255), ids: make([]uint64, muster.MaxBatchCommands)}),
	}
}

// recode decodes what one codec reads and encodes it again.
type recode func(v []byte) ([]byte, error)

func recodeRow(v []byte) ([]byte, error) {
	var r muster.Row
	b, err := decodeRow(v, &r)
	if err != nil {
		return nil, err
	}
	if _, err := decodeBlocks(nil, b.inline); err != nil {
		return nil, err
	}
	return appendRow(nil, &r, b), nil
}

func recodeRecord(v []byte) ([]byte, error) {
	var r record
	err := decodeRecord(v, &r)
	return appendRecord(nil, &r), err
}

func recodeResult(v []byte) ([]byte, error) {
	var r result
	err := decodeResult(v, &r)
	return appendResult(nil, &r), err
}

func recodeMeta(v []byte) ([]byte, error) {
	m, old, err := decodeMeta(v)
	again := appendMeta(nil, &m)
	if old {
		again = again[:oldMetaLen]
		again[0]--
	}
	return again, err
}

func recodeWriting(v []byte) ([]byte, error) {
	w, err := decodeWriting(v, 7)
	return appendWriting(nil, &w), err
}

func recodeDropped(v []byte) ([]byte, error) {
	d, err := decodeDropped(v)
	return appendDropped(nil, d), err
}

func recodeQueue(v []byte) ([]byte, error) {
	done, err := decodeQueue(v)
	return appendQueue(nil, done), err
}

func recodeExpiry(v []byte) ([]byte, error) {
	id, stamp, err := decodeExpiry(v)
	return appendExpiry(nil, &id, stamp), err
}

func recodeChunk(v []byte) ([]byte, error) {
	blocks, err := decodeChunk(nil, v, (len(v)-1)/blockSize)
	return appendChunk(nil, blocks), err
}

func sampleMeta() []byte {
	return appendMeta(nil, &meta{txid: 3, nextID: 10, stamp: -4, inodes: 9, detached: 2, requests: 1})
}

func sampleExpiry() []byte {
	return appendExpiry(nil, &muster.RequestID{Client: [16]byte{1, 2}, Sequence: 3}, 4)
}

var codecs = []struct {
	name    string
	recode  recode
	samples func() map[string][]byte
}{
	{"row", recodeRow, sampleRows},
	{"record", recodeRecord, sampleRecords},
	{"result", recodeResult, sampleResults},
	{"meta", recodeMeta, func() map[string][]byte { return map[string][]byte{"": sampleMeta()} }},
	{"expiry", recodeExpiry, func() map[string][]byte { return map[string][]byte{"": sampleExpiry()} }},
	{"chunk", recodeChunk, func() map[string][]byte { return map[string][]byte{"": appendChunk(nil, sampleBlocks(3))} }},
	{"writing", recodeWriting, func() map[string][]byte {
		return map[string][]byte{
			"short": appendWriting(nil, &Writing{Holder: muster.Holder{1}, User: "ann", Since: -1}),
			"temp":  appendWriting(nil, &Writing{Holder: muster.Holder{2}, User: "ben", Since: 5, Temporary: true}),
			"long":  appendWriting(nil, &Writing{Holder: muster.Holder{15: 255}, User: strings.Repeat("u", 255), Since: math.MaxInt64}),
		}
	}},
	{"dropped", recodeDropped, func() map[string][]byte {
		return map[string][]byte{"new": appendDropped(nil, dropped{count: 17}), "most": appendDropped(nil, dropped{count: muster.MaxBlocks, done: 38})}
	}},
	{"queue", recodeQueue, func() map[string][]byte {
		return map[string][]byte{"begun": appendQueue(nil, []byte("name")), "new": appendQueue(nil, nil)}
	}},
}

// TestValuesDecodeToWhatWasEncoded also cuts every value short, makes it longer and gives it
// another version: each must be refused as corrupt.
func TestValuesDecodeToWhatWasEncoded(t *testing.T) {
	for _, c := range codecs {
		for name, v := range c.samples() {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				again, err := c.recode(v)
				if err != nil || !bytes.Equal(again, v) {
					t.Fatalf("decoded and encoded again: %v\n got %x\nwant %x", err, again, v)
				}
				for n := 0; n < len(v); n += 1 + len(v)/512 {
					if again, err := c.recode(v[:n]); c.name != "queue" && !errors.Is(err, muster.ErrCorrupt) && !bytes.Equal(again, v[:n]) {
						t.Errorf("%d of %d bytes: %v", n, len(v), err)
					}
				}
				longer := append(bytes.Clone(v), 0)
				if _, err := c.recode(longer); !errors.Is(err, muster.ErrCorrupt) {
					t.Errorf("one byte more: %v", err)
				}
				newer := bytes.Clone(v)
				newer[0] |= 0x80
				if _, err := c.recode(newer); !errors.Is(err, muster.ErrCorrupt) {
					t.Errorf("unknown version: %v", err)
				}
			})
		}
	}
}

// TestDecodingFillsInAllFields guards against a field that both directions forget.
func TestDecodingFillsInAllFields(t *testing.T) {
	want := muster.Row{
		ID: 1, Length: 2, MTime: 3, ATime: 4, BlockSize: 5, Mode: 6, Replication: muster.Replicated(7), Kind: muster.File,
		Flags: muster.FlagWriting, Owner: []byte("o"), Group: []byte("g"),
	}
	got := muster.Row{Length: 99, Target: []byte("old"), Blocks: sampleBlocks(1), Name: []byte("kept")}
	if _, err := decodeRow(appendRow(nil, &want, blockList{}), &got); err != nil {
		t.Fatal(err)
	}
	want.Name = []byte("kept")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	rec := record{muster.Directory, 2, []byte("n"), 3, 4, 5, 7, 6}
	var gotRec record
	if err := decodeRecord(appendRecord(nil, &rec), &gotRec); err != nil || !reflect.DeepEqual(gotRec, rec) {
		t.Errorf("got %+v (%v), want %+v", gotRec, err, rec)
	}
}

func TestDecodersRefuseWhatNoEncoderMakes(t *testing.T) {
	row := func(change func(r *muster.Row)) []byte {
		r := muster.Row{ID: 9, Kind: muster.File, Owner: []byte("o"), Group: []byte("g")}
		change(&r)
		return appendRow(nil, &r, blockList{})
	}
	rec := func(r record) []byte { return appendRecord(nil, &r) }
	for name, c := range map[string]struct {
		recode recode
		value  []byte
	}{
		"row: id 0":                {recodeRow, row(func(r *muster.Row) { r.ID = 0 })},
		"row: kind 0":              {recodeRow, row(func(r *muster.Row) { r.Kind = 0 })},
		"row: kind 4":              {recodeRow, row(func(r *muster.Row) { r.Kind = 4 })},
		"row: mode":                {recodeRow, row(func(r *muster.Row) { r.Mode = 0o2000 })},
		"row: no owner":            {recodeRow, row(func(r *muster.Row) { r.Owner = nil })},
		"row: owner not UTF-8":     {recodeRow, row(func(r *muster.Row) { r.Owner = []byte{0xff} })},
		"row: length":              {recodeRow, row(func(r *muster.Row) { r.Length = -1 })},
		"row: replication":         {recodeRow, row(func(r *muster.Row) { r.Replication = 0x0100 })},
		"row: flags":               {recodeRow, row(func(r *muster.Row) { r.Flags = 2 })},
		"row: directory's mtime":   {recodeRow, row(func(r *muster.Row) { r.Kind, r.MTime = muster.Directory, 1 })},
		"row: empty target":        {recodeRow, row(func(r *muster.Row) { r.Kind = muster.Link })},
		"row: NUL in target":       {recodeRow, row(func(r *muster.Row) { r.Kind, r.Target = muster.Link, []byte("a\x00") })},
		"row: 10,001 blocks":       {recodeRow, appendRow(nil, &muster.Row{ID: 1, Kind: muster.File, Owner: []byte("o"), Group: []byte("g")}, blockList{10_001, appendBlocks(nil, sampleBlocks(16))})},
		"row: negative block":      {recodeRow, appendRow(nil, &muster.Row{ID: 1, Kind: muster.File, Owner: []byte("o"), Group: []byte("g")}, blockList{1, appendBlocks(nil, []muster.Block{{Length: -1}})})},
		"record: kind":             {recodeRecord, rec(record{kind: 9, parent: 1, name: []byte("n")})},
		"record: name with slash":  {recodeRecord, rec(record{kind: muster.File, parent: 1, name: []byte("a/b")})},
		"record: name ..":          {recodeRecord, rec(record{kind: muster.File, parent: 1, name: []byte("..")})},
		"record: no name":          {recodeRecord, rec(record{kind: muster.Directory, parent: 1})},
		"record: detached file":    {recodeRecord, rec(record{kind: muster.File})},
		"record: counts":           {recodeRecord, rec(record{kind: muster.Directory, parent: 1, name: []byte("n"), entries: 1, dirs: 2})},
		"record: changed later":    {recodeRecord, rec(record{kind: muster.Directory, parent: 1, name: []byte("n"), changedAt: 2, recordAt: 1})},
		"result: no user":          {recodeResult, appendResult(nil, &result{})},
		"result: too many ids":     {recodeResult, appendResult(nil, &result{user: []byte("u"), ids: make([]uint64, muster.MaxBatchCommands+1)})},
		"queue: bad name":          {recodeQueue, appendQueue(nil, []byte("a/b"))},
		"meta: no inodes":          {recodeMeta, appendMeta(nil, &meta{nextID: 2})},
		"meta: more than were":     {recodeMeta, appendMeta(nil, &meta{nextID: 2, inodes: 2})},
		"meta: all detached":       {recodeMeta, appendMeta(nil, &meta{nextID: 9, inodes: 2, detached: 2})},
		"chunk: a block too short": {recodeChunk, appendChunk(nil, sampleBlocks(2))[:2*blockSize]},
		"meta: all being written":  {recodeMeta, appendMeta(nil, &meta{nextID: 9, inodes: 2, writing: 2})},
		"meta: all dropped":        {recodeMeta, appendMeta(nil, &meta{nextID: 9, inodes: 2, dropped: 9})},
		"meta: cut, version 2":     {recodeMeta, sampleMeta()[:oldMetaLen]},
		"meta: long, version 1":    {recodeMeta, append([]byte{1}, sampleMeta()[1:]...)},
		"writing: no holder":       {recodeWriting, appendWriting(nil, &Writing{User: "u"})},
		"writing: no user":         {recodeWriting, appendWriting(nil, &Writing{Holder: muster.Holder{1}})},
		"writing: user not UTF-8":  {recodeWriting, appendWriting(nil, &Writing{Holder: muster.Holder{1}, User: "\xff"})},
		"dropped: no chunks":       {recodeDropped, appendDropped(nil, dropped{count: 16})},
		"dropped: all done":        {recodeDropped, appendDropped(nil, dropped{count: 272, done: 1})},
		"dropped: 10,001 blocks":   {recodeDropped, appendDropped(nil, dropped{count: muster.MaxBlocks + 1})},
		"dropped: far too many":    {recodeDropped, appendDropped(nil, dropped{count: -1, done: -1})},
	} {
		if _, err := c.recode(c.value); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysSortAsTheirNumbersAndNamesDo(t *testing.T) {
	keys := [][]byte{
		appendRowKey(nil, 1, ""), appendRowKey(nil, 1, "a"), appendRowKey(nil, 1, "a=1"), appendRowKey(nil, 1, "b"),
		appendRowKey(nil, 1, "é"), appendRowKey(nil, 1, strings.Repeat("\xf4\x8f\xbf\xbf", 63)), appendRowKey(nil, 2, ""), appendRowKey(nil, 256, ""),
		appendRowKey(nil, math.MaxUint64, "z"),
	}
	for i := range keys[1:] {
		if bytes.Compare(keys[i], keys[i+1]) >= 0 {
			t.Errorf("key %d does not sort before the next: %x, %x", i, keys[i], keys[i+1])
		}
	}
}

// TestEncodedCommandsTellAllFieldsApart changes one field at a time: each must change the encoding
// by which a repeated request is recognised.
func TestEncodedCommandsTellAllFieldsApart(t *testing.T) {
	for _, c := range []muster.Command{muster.Mkdir{}, muster.Create{}, muster.Symlink{}, muster.Rename{}, muster.Delete{}, muster.SetAttr{},
		muster.StartFile{}, muster.AddBlock{}, muster.FinishFile{}, muster.TakeLease{}} {
		left := leftOut[reflect.TypeOf(c)]
		seen := map[string]string{}
		note := func(what string, c muster.Command) {
			b, err := appendCommand(nil, c)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[string(b)]; ok {
				t.Errorf("%T: %s encodes as %s", c, what, other)
			}
			seen[string(b)] = what
		}
		note("zero", c)
		for i := range reflect.TypeOf(c).NumField() {
			v := reflect.New(reflect.TypeOf(c)).Elem()
			if slices.Contains(left, v.Type().Field(i).Name) {
				continue
			}
			for n, x := range values(v.Field(i)) {
				v.Field(i).Set(x)
				note(v.Type().Field(i).Name+string(rune('0'+n)), v.Interface().(muster.Command))
			}
		}
	}
	type pointer = *muster.Mkdir
	if _, err := appendCommand(nil, pointer(&muster.Mkdir{})); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("a command that is none: %v", err)
	}
}

// leftOut are the fields that a server chooses, and may choose anew in a repeat.
var leftOut = map[reflect.Type][]string{
	reflect.TypeFor[muster.StartFile](): {"Replication", "BlockSize"},
	reflect.TypeFor[muster.AddBlock]():  {"Block"},
}

// values are a few that a field can have, none of them zero.
func values(f reflect.Value) []reflect.Value {
	switch f.Kind() {
	case reflect.Pointer:
		some := []reflect.Value{reflect.New(f.Type().Elem())}
		for _, x := range values(reflect.Zero(f.Type().Elem())) {
			p := reflect.New(f.Type().Elem())
			p.Elem().Set(x)
			some = append(some, p)
		}
		return some
	case reflect.Array:
		return []reflect.Value{reflect.ValueOf(muster.Holder{1}), reflect.ValueOf(muster.Holder{15: 1})}
	case reflect.Struct:
		return []reflect.Value{reflect.ValueOf(muster.BlockID{Container: 1}), reflect.ValueOf(muster.BlockID{LocalID: 1})}
	case reflect.Bool:
		return []reflect.Value{reflect.ValueOf(true)}
	case reflect.String:
		return []reflect.Value{reflect.ValueOf("a"), reflect.ValueOf("b")}
	case reflect.Slice:
		return []reflect.Value{reflect.ValueOf(sampleBlocks(1)), reflect.ValueOf(sampleBlocks(2))}
	}
	return []reflect.Value{reflect.ValueOf(1).Convert(f.Type()), reflect.ValueOf(2).Convert(f.Type())}
}

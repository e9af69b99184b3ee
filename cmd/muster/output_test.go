package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

func TestHumanSizesAreThoseOfLs(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "1", 1023: "1023", 1024: "1.0K", 1025: "1.1K", 1126: "1.1K", 1127: "1.2K",
		10137: "9.9K", 10138: "10K", 10240: "10K", 10241: "11K", 15 << 20: "15M",
		1023 << 10: "1023K", 1023<<10 + 1: "1.0M", 1<<20 - 1: "1.0M", 1 << 20: "1.0M",
		1<<40 - 1: "1.0T", 1 << 50: "1.0P", 1 << 60: "1.0E", math.MaxInt64: "8.0E",
	} {
		if got := humanSize(n); got != want {
			t.Errorf("humanSize(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestModesAreThoseOfLs(t *testing.T) {
	for _, test := range []struct {
		kind muster.Kind
		mode uint16
		want string
	}{
		{muster.File, 0o644, "-rw-r--r--"},
		{muster.Directory, 0o1777, "drwxrwxrwt"},
		{muster.Directory, 0o1776, "drwxrwxrwT"},
		{muster.Link, 0o777, "lrwxrwxrwx"},
		{muster.File, 0, "----------"},
		{muster.File, 0o421, "-r---w---x"},
	} {
		if got := modeText(test.kind, test.mode); got != test.want {
			t.Errorf("modeText(%v, %04o) = %s, want %s", test.kind, test.mode, got, test.want)
		}
	}
}

func TestReplicasOfLs(t *testing.T) {
	for text, want := range map[string]string{"": "-", "replicated/3": "3", "ec/rs-6-3": "rs-6-3"} {
		replication, err := muster.ParseReplication(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := replicas(&row{Entry: muster.Entry{Replication: replication}}); got != want {
			t.Errorf("replicas of %q: %s, want %s", text, got, want)
		}
	}
}

func TestTimesOfTheLastSixMonthsHaveTheHour(t *testing.T) {
	zone := time.FixedZone("", 2*60*60)
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, zone)
	for _, test := range []struct {
		at   time.Time
		want string
	}{
		{now, "Jul  1 12:00"},
		{now.Add(-time.Minute), "Jul  1 11:59"},
		{now.Add(time.Minute), "Jul  1  2026"},
		{now.Add(-halfYear), "Dec 30  2025"},
		{now.Add(-halfYear + time.Second), "Dec 30 21:05"},
		{time.Date(1969, 12, 31, 0, 0, 0, 0, zone), "Dec 31  1969"},
	} {
		if got := listTime(test.at.UnixMilli(), now); got != test.want {
			t.Errorf("listTime(%v) = %q, want %q", test.at, got, test.want)
		}
	}
}

// oddRows have everything that quoting in some format must care for.
func oddRows() []row {
	return []row{
		{path: "/d/a \"b\"\\\n\t\r\x01,<&>é\x7f", Entry: muster.Entry{Name: "a \"b\"\\\n\t\r\x01,<&>é\x7f", Kind: muster.File, Length: math.MaxInt64, MTime: -1, ATime: 2, Mode: 0o644,
			Owner: "o,wner", Group: "g\"", Replication: muster.Replicated(3), BlockSize: 1 << 27, ID: math.MaxUint64, Flags: 1}},
		{path: "/l", Entry: muster.Entry{Kind: muster.Link, Mode: 0o777, Target: "../x y", ID: 3}},
		{path: "/", Entry: muster.Entry{Kind: muster.Directory, Mode: 0o1777, ID: 1}},
	}
}

func TestJSONHasAnObjectALine(t *testing.T) {
	var out bytes.Buffer
	write(t, &jsonWriter{out: bufio.NewWriter(&out), fields: fieldsOf(rows.DefaultColumns)}, oddRows())
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	first := oddRows()[0]
	decoder := json.NewDecoder(strings.NewReader(lines[0]))
	decoder.UseNumber()
	var got map[string]any
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"path": first.path, "name": first.Name, "kind": "file", "length": json.Number("9223372036854775807"),
		"mtime": json.Number("-1"), "atime": json.Number("2"), "mode": "0644", "owner": first.Owner, "group": first.Group,
		"replication": "replicated/3", "block_size": json.Number("134217728"), "inode_id": json.Number("18446744073709551615"),
		"flags": json.Number("1"), "target": "",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if want := `{"path":"/l","name":"l","kind":"link","length":0,"mtime":0,"atime":0,"mode":"0777","owner":"","group":"","replication":"","block_size":0,"inode_id":3,"flags":0,"target":"../x y"}`; lines[1] != want {
		t.Errorf("got  %s\nwant %s", lines[1], want)
	}
	if !strings.HasPrefix(lines[2], `{"path":"/","name":"/","kind":"dir",`) || !strings.Contains(lines[2], `"mode":"1777"`) {
		t.Errorf("the root is %s", lines[2])
	}
}

func TestCSVIsReadBackAsItWas(t *testing.T) {
	var out bytes.Buffer
	columns := rows.ColKind | rows.ColLength | rows.ColOwner | rows.ColLinkTarget
	write(t, newCSVWriter(bufio.NewWriter(&out), fieldsOf(columns)), oddRows())
	records, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	first := oddRows()[0]
	want := [][]string{
		{"path", "name", "kind", "length", "owner", "target"},
		{first.path, first.Name, "file", "9223372036854775807", "o,wner", ""},
		{"/l", "l", "link", "0", "", "../x y"},
		{"/", "/", "dir", "0", "", ""},
	}
	if !reflect.DeepEqual(records, want) {
		t.Errorf("got  %q\nwant %q", records, want)
	}
}

func TestArrowIsAStandardStreamOfManyBatches(t *testing.T) {
	var all []row
	for range arrowBatch/3 + 10 {
		all = append(all, oddRows()...)
	}
	var out bytes.Buffer
	write(t, newArrowWriter(&out, rows.DefaultColumns), all)
	paths, kinds := readArrow(t, &out)
	for i, r := range all {
		if paths[i] != r.path || kinds[i] != r.Kind.String() {
			t.Fatalf("row %d is %q, %s; want %q, %v", i, paths[i], kinds[i], r.path, r.Kind)
		}
	}
	if len(paths) != len(all) {
		t.Errorf("%d rows, want %d", len(paths), len(all))
	}
}

func TestArrowOfNoRowsIsAStreamToo(t *testing.T) {
	var out bytes.Buffer
	write(t, newArrowWriter(&out, rows.DefaultColumns), nil)
	if paths, _ := readArrow(t, &out); len(paths) != 0 {
		t.Errorf("rows %q", paths)
	}
}

func readArrow(t *testing.T, in *bytes.Buffer) (paths, kinds []string) {
	t.Helper()
	reader, err := ipc.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	column := func(name string) int {
		indices := reader.Schema().FieldIndices(name)
		if len(indices) != 1 {
			t.Fatalf("column %s: %v in %v", name, indices, reader.Schema())
		}
		return indices[0]
	}
	path, kind := column("path"), column("kind")
	for reader.Next() {
		record := reader.Record()
		for i := range int(record.NumRows()) {
			paths = append(paths, strings.Clone(record.Column(path).(*array.String).Value(i)))
			kinds = append(kinds, strings.Clone(record.Column(kind).(*array.String).Value(i)))
		}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	return paths, kinds
}

func write(t *testing.T, w rowWriter, all []row) {
	t.Helper()
	for i := range all {
		if err := w.write(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}

func TestColumnsFillDownwardsAndFit(t *testing.T) {
	for _, test := range []struct {
		names []string
		width int
		want  string
	}{
		{nil, 80, ""},
		{[]string{"a"}, 80, "a\n"},
		{[]string{"a", "b", "c"}, 80, "a  b  c\n"},
		{[]string{"a", "b", "c", "d", "e"}, 7, "a  d\nb  e\nc\n"},
		{[]string{"a", "b"}, 4, "a\nb\n"}, // ls leaves the last place free
		{[]string{"a", "b"}, 5, "a  b\n"},
		{[]string{"wide name", "b"}, 3, "wide name\nb\n"},
		{[]string{"日本", "b", "c"}, 7, "日本\nb\nc\n"},
		{[]string{"日本", "b", "c"}, 8, "日本  c\nb\n"},
	} {
		var out bytes.Buffer
		buffer := bufio.NewWriter(&out)
		printColumns(buffer, test.names, test.width)
		buffer.Flush()
		if out.String() != test.want {
			t.Errorf("%q in %d:\n%swant:\n%s", test.names, test.width, out.String(), test.want)
		}
	}
}

func TestOutlineKeepsTheOrderOfChildren(t *testing.T) {
	var o outline
	a := o.add(-1)
	b := o.add(-1)
	a1 := o.add(a)
	b1 := o.add(b)
	a2 := o.add(a)
	a3 := o.add(a)
	if got := slices.Collect(o.children(a)); !slices.Equal(got, []int32{a1, a2, a3}) {
		t.Errorf("children of a: %v", got)
	}
	if got := slices.Collect(o.children(b)); !slices.Equal(got, []int32{b1}) {
		t.Errorf("children of b: %v", got)
	}
	if !slices.Equal(o.roots, []int32{a, b}) {
		t.Errorf("roots: %v", o.roots)
	}
}

func TestStatFormat(t *testing.T) {
	r := row{path: "/it's", Entry: muster.Entry{Kind: muster.Link, Length: 42, Mode: 0o1755, Owner: "ann", Group: "g", Target: "a b", ID: 7, MTime: -500, Blocks: make([]muster.Block, 2)}}
	for format, want := range map[string]string{
		"%n":                "/it's",
		"%N":                `"/it's" -> 'a b'`,
		"[%5s][%-5s][%05s]": "[   42][42   ][00042]",
		"[%-05s]":           "[42   ]",
		"%a %A":             "1755 lrwxr-xr-t",
		"%U:%G %i":          "ann:g 7",
		"%Y":                "-1",
		"100%%":             "100%",
		"%r %o %b":          "- 0 2",
		"%F":                "symbolic link",
		"[%06U]":            "[   ann]",
		"no directive":      "no directive",
	} {
		print, err := parseStatFormat(format)
		if err != nil {
			t.Errorf("%q: %v", format, err)
			continue
		}
		var out bytes.Buffer
		buffer := bufio.NewWriter(&out)
		print(buffer, &r)
		buffer.Flush()
		if out.String() != want {
			t.Errorf("%q gives %q, want %q", format, out.String(), want)
		}
	}
	for format, want := range map[string]string{
		"%":                      "format: % at the end",
		"a%5":                    "format: %5 at the end",
		"%q":                     "format: %q is no directive",
		"%n%-3w":                 "format: %-3w is no directive",
		"%99999999999999999999n": "format: %99999999999999999999n: the width",
	} {
		if _, err := parseStatFormat(format); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %s...", format, err, want)
		}
	}
}

func TestFigures(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 100: "100", 12345678901: "12345678901", 0.000301: "0.000301", 2.5: "2.5", 1e-9: "0"} {
		if got := figure(value); got != want {
			t.Errorf("%v is written %s, not %s", value, got, want)
		}
	}
}

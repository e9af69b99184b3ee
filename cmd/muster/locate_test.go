package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// locatedRows are a file with a block of each kind, a file without data, and a directory.
func locatedRows() []row {
	node := func(n int, state muster.NodeState) *muster.Node {
		return &muster.Node{ID: fmt.Sprintf("id%d", n), Host: fmt.Sprintf("dn%d", n), Port: 9866, Rack: fmt.Sprintf("/r%d", n), State: state}
	}
	coded, _ := muster.ParseReplication("ec/rs-2-1")
	file := muster.Entry{Kind: muster.File, ID: 7, Length: 300, Mode: 0o644, Owner: "ann", Group: "staff", Replication: muster.Replicated(2), BlockSize: 100, MTime: 1, ATime: 2}
	return []row{
		{path: "/t/a", Entry: file, located: &client.Located{Blocks: []client.LocatedBlock{
			{Block: muster.Block{Container: 5, LocalID: 1, Length: 100}, Replication: muster.Replicated(2), Replicas: []client.Replica{{Node: node(1, muster.InService)}, {Node: node(2, muster.Stale)}}},
			{Block: muster.Block{Container: 6, LocalID: 2, Length: 100}, Offset: 100, Replication: coded, Replicas: []client.Replica{{Node: node(2, muster.InService), Index: 3}, {Node: node(1, muster.InService), Index: 1}}},
			{Block: muster.Block{Container: 7, LocalID: 3, Length: 50}, Offset: 200, Replication: muster.Replicated(2)},
			{Block: muster.Block{Container: 8, LocalID: 4, Length: 50}, Offset: 250, Err: fmt.Errorf("%w: not now", muster.ErrUnavailable)},
		}}},
		{path: "/t/b", Entry: file, located: &client.Located{NoData: true}},
		{path: "/t", Entry: muster.Entry{Kind: muster.Directory, ID: 2, Mode: 0o755}, located: &client.Located{}},
	}
}

func TestLocatedBlocksAsText(t *testing.T) {
	var out bytes.Buffer
	w := &locateText{out: bufio.NewWriter(&out)}
	write(t, w, locatedRows()[:2])
	want := `/t/a: 300 bytes, 4 blocks, replicated/2
             0          100  5/1  dn1:9866 (/r1), dn2:9866 (/r2, stale)
           100          100  6/2  #3 dn2:9866 (/r2), #1 dn1:9866 (/r1), #2 absent
           200           50  7/3  no replica
           250           50  8/4  unknown: unavailable: not now
/t/b: 300 bytes, 0 blocks, replicated/2
               metadata only: no block has the rest
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// locatedRow is a row as -o json has it.
type locatedRow struct {
	Path   string
	Blocks []struct {
		Container, Offset, Length uint64
		LocalID                   uint64 `json:"local_id"`
		Replicas                  []struct {
			ID, Host, Rack, State string
			Port                  int
			Index                 int
		}
		Error string
	}
	NoData bool `json:"no_data"`
}

func decodeRows(t *testing.T, lines string) (all []locatedRow) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var r locatedRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, r)
	}
	return all
}

// TestLocatedBlocksForPrograms: JSON and Arrow say the same of them.
func TestLocatedBlocksForPrograms(t *testing.T) {
	var text, arrow bytes.Buffer
	write(t, &jsonWriter{out: bufio.NewWriter(&text), fields: append(fieldsOf(rows.AllColumns), noData)}, locatedRows())
	fromJSON := decodeRows(t, text.String())
	a, b, dir := fromJSON[0], fromJSON[1], fromJSON[2]
	if len(a.Blocks) != 4 || a.Blocks[0].Replicas[1].State != "stale" || a.Blocks[1].Replicas[0].Index != 3 || a.NoData {
		t.Errorf("%+v", a)
	}
	if a.Blocks[2].Replicas == nil || len(a.Blocks[2].Replicas) != 0 || a.Blocks[3].Replicas != nil || a.Blocks[3].Error == "" {
		t.Errorf("none must be empty, and unknown null: %+v", a.Blocks[2:])
	}
	if b.Blocks == nil || len(b.Blocks) != 0 || !b.NoData || dir.Blocks == nil || len(dir.Blocks) != 0 || dir.NoData {
		t.Errorf("%+v, %+v", b, dir)
	}
	write(t, newLocatedArrow(&arrow, rows.AllColumns), locatedRows())
	r, err := ipc.NewReader(&arrow)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !r.Next() || r.Record().NumRows() != 3 || r.Record().NumCols() != 16 {
		t.Fatalf("%v, %v", r.Record(), r.Err())
	}
	var lines strings.Builder
	encoder := json.NewEncoder(&lines)
	for i := range 3 {
		values := map[string]any{}
		for column, field := range r.Schema().Fields() {
			values[field.Name] = r.Record().Column(column).GetOneForMarshal(i)
		}
		if err := encoder.Encode(values); err != nil {
			t.Fatal(err)
		}
	}
	for i := range fromJSON { // Arrow has no place for words
		for j := range fromJSON[i].Blocks {
			fromJSON[i].Blocks[j].Error = ""
		}
	}
	if fromArrow := decodeRows(t, lines.String()); !reflect.DeepEqual(fromArrow, fromJSON) {
		t.Errorf("Arrow has\n%+v\nJSON\n%+v", fromArrow, fromJSON)
	}
	for _, part := range []string{`"owner":"ann"`, `"group":"staff"`, `"kind":"dir"`, `"replication":"replicated/2"`, `"mode":420`, `"inode_id":7`, `"block_size":100`, `"length":300`, `"name":"a"`, `"flags":0`, `"atime":"1970-01-01 00:00:00.002`, `"mtime":"1970-01-01 00:00:00.001`} {
		if !strings.Contains(lines.String(), part) {
			t.Errorf("no %s in %s", part, lines.String())
		}
	}
}

package client

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster/rpc/pb"
)

// TestRecordsOfNodesAreBounded however many a server describes; and a record that was forgotten
// stays what it was for those who have it.
func TestRecordsOfNodesAreBounded(t *testing.T) {
	var records nodeRecords
	var table nodeTable
	add := func(i int) {
		b, err := proto.Marshal(&pb.Node{Number: uint32(i % 1000), Id: fmt.Sprint("dn", i), Host: "h", Rack: "/r"})
		if err != nil {
			t.Fatal(err)
		}
		if table, err = records.append(table, b); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2*maxRecords + 10 {
		add(i)
		if n := len(records.known); n > maxRecords {
			t.Fatalf("%d records are kept", n)
		}
	}
	add(2*maxRecords + 9)
	if n := len(table); table[0].ID != "dn0" || table[n-1] != table[n-2] {
		t.Errorf("the first is %v, and the last has two records", table[0])
	}
	kept := len(records.known)
	for range 10 {
		if _, err := records.append(nil, []byte{8, 1}); err == nil {
			t.Fatal("a node of nothing is taken")
		}
	}
	if len(records.known) != kept {
		t.Error("what is no node is kept")
	}
}

package topology_test

import (
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
)

// A client whose address is mapped to a rack reads from that rack's replicas first.
func Example() {
	mapping, err := topology.NewMapping([]topology.Rule{{Match: "10.1.2.0/24", Rack: "/rack2"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, err := topology.New(topology.Schema{}, []muster.Node{
		{Number: 0, ID: "a", Host: "dn-a", Rack: "/rack1"},
		{Number: 1, ID: "b", Host: "dn-b", Rack: "/rack2"},
	}, mapping)
	if err != nil {
		fmt.Println(err)
		return
	}
	var current topology.Map
	current.Swap(tree)

	reader := current.ReaderFor("10.1.2.17")
	fmt.Println(reader.Sort(nil, []muster.NodeNumber{0, 1}, 42))
	fmt.Println(reader.Cost(1), reader.Cost(0))
	// Output:
	// [1 0]
	// 2 4
}

package rpc

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// What datanodes and the location service tell each other comes back as it was.
func TestDisksBlocksAndOrdersCrossTheWire(t *testing.T) {
	disks := []muster.Disk{{Name: "/a", Capacity: 3, Used: 1, Free: 2}, {Name: "/b", State: muster.DiskFailed, Message: "gone"}}
	if got, err := DisksFromPB(DisksToPB(disks), 2); err != nil || !slices.Equal(got, disks) {
		t.Errorf("%+v, %v", got, err)
	}
	block := muster.UnfinishedBlock{Block: muster.BlockID{Container: 1, LocalID: 2}, File: 3, Age: time.Minute}
	if got := UnfinishedFromPB(UnfinishedToPB(&block)); got != block {
		t.Errorf("%+v", got)
	}
	node := muster.Node{Number: 4, ID: "a", Host: "h", Port: 1, Rack: "/r"}
	for _, o := range []muster.Order{
		{ID: 1, Kind: muster.OrderCopy, Container: 2, Sources: []muster.Node{node}, Closed: true},
		{ID: math.MaxUint64, Kind: muster.OrderDrop, Container: 2, Sources: []muster.Node{}},
	} {
		if got, err := OrderFromPB(OrderToPB(&o)); err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestWhatNoDatanodeSaysIsRefused(t *testing.T) {
	long := strings.Repeat("x", maxDiskText+1)
	for what, list := range map[string][]*pb.Disk{"too many": {{}, {}, {}}, "name": {{Name: long}}, "message": {{Message: long}}} {
		if _, err := DisksFromPB(list, 2); muster.CodeOf(err) != muster.ErrInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got, err := DisksFromPB([]*pb.Disk{{State: 77}}, 2); err != nil || got[0].State != muster.DiskFailed {
		t.Errorf("a disk in a state of a newer version: %+v, %v", got, err)
	}
	for _, age := range []int64{math.MinInt64, -1, math.MaxInt64} {
		if got := UnfinishedFromPB(&pb.UnfinishedBlock{AgeMs: age}).Age; got < 0 || age < 0 && got != 0 {
			t.Errorf("age of %d ms: %v", age, got)
		}
	}
	for what, m := range map[string]*pb.Order{
		"nothing": {}, "kind": {Id: 1, Kind: 3, Container: 1}, "no source": {Id: 1, Kind: 1, Container: 1},
		"no id": {Kind: 2, Container: 1}, "no container": {Id: 1, Kind: 2}, "bad source": {Id: 1, Kind: 1, Container: 1, Sources: []*pb.Node{{}}},
	} {
		if _, err := OrderFromPB(m); err == nil {
			t.Errorf("order of %s: no error", what)
		}
	}
}

package main

import (
	"encoding/json"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// TestSpaceOfADatanode is that of the disks that it can use.
func TestSpaceOfADatanode(t *testing.T) {
	const gib = 1 << 30
	ok := muster.Disk{Name: "/a", Capacity: 100 * gib, Used: 10 * gib, Free: 80 * gib}
	full := muster.Disk{Name: "/b", State: muster.DiskFull, Message: "no room", Capacity: 50 * gib, Used: 50 * gib}
	failed := muster.Disk{Name: "/c", State: muster.DiskFailed, Message: "input/output error", Capacity: 50 * gib}
	for _, c := range []struct {
		disks      []muster.Disk
		text, json string
	}{
		{nil, "-\t-\t-\t-", `{"capacity":0,"used":0,"free":0,"disks":[]}`},
		{[]muster.Disk{ok}, "100G\t10G\t80G\t1", `{"capacity":107374182400,"used":10737418240,"free":85899345920,"disks":[{"name":"/a","state":"ok","capacity":107374182400,"used":10737418240,"free":85899345920}]}`},
		{[]muster.Disk{ok, full, failed, failed}, "150G\t60G\t80G\t4, 1 full, 2 failed", ""},
		{[]muster.Disk{failed}, "0\t0\t0\t1, 1 failed", `{"capacity":0,"used":0,"free":0,"disks":[{"name":"/c","state":"failed","message":"input/output error","capacity":53687091200,"used":0,"free":0}]}`},
	} {
		d := client.Datanode{Disks: c.disks}
		if got := spaceColumns(&d); got != c.text {
			t.Errorf("%q, want %q", got, c.text)
		}
		got, err := json.Marshal(reportSpace(&d))
		if err != nil || c.json != "" && string(got) != c.json {
			t.Errorf("%s, %v; want %s", got, err, c.json)
		}
	}
}

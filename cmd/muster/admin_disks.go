package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// diskReport is a disk as -o json prints it.
type diskReport struct {
	Name     string `json:"name"`
	State    string `json:"state"` // ok, full or failed
	Message  string `json:"message,omitempty"`
	Capacity uint64 `json:"capacity"`
	Used     uint64 `json:"used"`
	Free     uint64 `json:"free"`
}

// spaceReport is the space of a datanode as -o json prints it: of its disks, but for failed ones.
type spaceReport struct {
	Capacity uint64       `json:"capacity"`
	Used     uint64       `json:"used"` // by blocks
	Free     uint64       `json:"free"` // for blocks
	Disks    []diskReport `json:"disks"`
}

func reportSpace(d *client.Datanode) spaceReport {
	r := spaceReport{Disks: []diskReport{}}
	for i := range d.Disks {
		k := &d.Disks[i]
		r.Disks = append(r.Disks, diskReport{k.Name, k.State.String(), k.Message, k.Capacity, k.Used, k.Free})
		if k.State != muster.DiskFailed {
			r.Capacity, r.Used, r.Free = r.Capacity+k.Capacity, r.Used+k.Used, r.Free+k.Free
		}
	}
	return r
}

// spaceColumns are capacity, used and free space, and disks, in text.
func spaceColumns(d *client.Datanode) string {
	if len(d.Disks) == 0 {
		return "-\t-\t-\t-"
	}
	size := func(bytes uint64) string { return humanSize(int64(min(bytes, math.MaxInt64))) }
	space := reportSpace(d)
	return fmt.Sprintf("%s\t%s\t%s\t%s", size(space.Capacity), size(space.Used), size(space.Free), disksText(d.Disks))
}

// disksText counts disks, and those that are not well.
func disksText(disks []muster.Disk) string {
	count := map[muster.DiskState]int{}
	for _, d := range disks {
		count[d.State]++
	}
	text := strconv.Itoa(len(disks))
	for _, s := range []muster.DiskState{muster.DiskFull, muster.DiskFailed} {
		if count[s] > 0 {
			text += fmt.Sprintf(", %d %s", count[s], s)
		}
	}
	return text
}

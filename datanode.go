package muster

import (
	"strconv"
	"time"
)

// Disk is how one of a datanode's disks is.
type Disk struct {
	Name     string // its folder
	State    DiskState
	Message  string // why it is not ok
	Capacity uint64 // bytes
	Used     uint64 // bytes of blocks
	Free     uint64 // bytes that blocks may still take
}

// DiskState says what a disk is good for. The numbers are part of the wire format.
type DiskState uint8

// The states of disks.
const (
	DiskOK     DiskState = 0
	DiskFull   DiskState = 1 // takes no new blocks
	DiskFailed DiskState = 2 // taken out, with all that it has
)

// String returns ok, full or failed.
func (s DiskState) String() string {
	names := [...]string{"ok", "full", "failed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// UnfinishedBlock is a block that was written for a file and never committed.
type UnfinishedBlock struct {
	Block BlockID
	File  uint64        // inode id
	Age   time.Duration // since it was last written to
}

// Order is work that the location service has for a datanode.
type Order struct {
	ID        uint64 // of this order; no other has it, also after a restart of the service
	Kind      OrderKind
	Container uint64
	Sources   []Node // of a copy: datanodes that have it, the best first
	Closed    bool   // of the container
}

// OrderKind is what an order is about. The numbers are part of the wire format.
type OrderKind uint8

// The kinds of orders.
const (
	OrderCopy OrderKind = 1 // get the blocks of the container that are missing or damaged here
	OrderDrop OrderKind = 2 // remove the replica
)

// String returns copy or drop.
func (k OrderKind) String() string {
	switch k {
	case OrderCopy:
		return "copy"
	case OrderDrop:
		return "drop"
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

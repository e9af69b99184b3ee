package rpc

import (
	"fmt"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// DisksToPB returns the messages of disks.
func DisksToPB(disks []muster.Disk) []*pb.Disk {
	list := make([]*pb.Disk, len(disks))
	for i := range disks {
		d := &disks[i]
		list[i] = &pb.Disk{Name: d.Name, State: uint32(d.State), Message: d.Message, Capacity: d.Capacity, Used: d.Used, Free: d.Free}
	}
	return list
}

// maxDiskText bounds the name of a disk and the message.
const maxDiskText = 4096

// DisksFromPB returns the disks of messages. It refuses with muster.ErrInvalid more than most, and
// texts that are no names; a state of a newer version is failed: nothing is written there.
func DisksFromPB(list []*pb.Disk, most int) ([]muster.Disk, error) {
	if len(list) > most {
		return nil, fmt.Errorf("%w: %d disks of a datanode, at most %d", muster.ErrInvalid, len(list), most)
	}
	if len(list) == 0 {
		return nil, nil
	}
	disks := make([]muster.Disk, len(list))
	for i, m := range list {
		if len(m.GetName()) > maxDiskText || len(m.GetMessage()) > maxDiskText {
			return nil, fmt.Errorf("%w: the name or the message of disk %.64q has more than %d bytes", muster.ErrInvalid, m.GetName(), maxDiskText)
		}
		disks[i] = muster.Disk{
			Name: m.GetName(), State: muster.DiskState(min(m.GetState(), uint32(muster.DiskFailed))), Message: m.GetMessage(),
			Capacity: m.GetCapacity(), Used: m.GetUsed(), Free: m.GetFree(),
		}
	}
	return disks, nil
}

// UnfinishedToPB returns the message of a block.
func UnfinishedToPB(b *muster.UnfinishedBlock) *pb.UnfinishedBlock {
	return &pb.UnfinishedBlock{Block: &pb.BlockID{Container: b.Block.Container, LocalId: b.Block.LocalID}, File: b.File, AgeMs: b.Age.Milliseconds()}
}

// UnfinishedFromPB returns the block of a message.
func UnfinishedFromPB(m *pb.UnfinishedBlock) muster.UnfinishedBlock {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return muster.UnfinishedBlock{
		Block: muster.BlockID{Container: m.GetBlock().GetContainer(), LocalID: m.GetBlock().GetLocalId()}, File: m.GetFile(),
		Age: time.Duration(min(max(0, m.GetAgeMs()), most)) * time.Millisecond,
	}
}

// OrderToPB returns the message of an order.
func OrderToPB(o *muster.Order) *pb.Order {
	return &pb.Order{Id: o.ID, Kind: uint32(o.Kind), Container: o.Container, Sources: NodesToPB(o.Sources), Closed: o.Closed}
}

// OrderFromPB returns the order of a message. It refuses with muster.ErrCorrupt what no location
// service sends, and with muster.ErrInvalid kinds that this version does not know.
func OrderFromPB(m *pb.Order) (muster.Order, error) {
	o := muster.Order{ID: m.GetId(), Container: m.GetContainer(), Closed: m.GetClosed()}
	if m.GetKind() != uint32(muster.OrderCopy) && m.GetKind() != uint32(muster.OrderDrop) {
		return muster.Order{}, fmt.Errorf("%w: unknown order of kind %d; this version knows copy (1) and drop (2)", muster.ErrInvalid, m.GetKind())
	}
	o.Kind = muster.OrderKind(m.GetKind())
	var err error
	if o.Sources, err = NodesFromPB(m.GetSources()); err != nil {
		return muster.Order{}, err
	}
	if o.ID == 0 || o.Container == 0 || o.Kind == muster.OrderCopy && len(o.Sources) == 0 {
		return muster.Order{}, fmt.Errorf("%w: order %d of container %d from %d datanodes", muster.ErrCorrupt, o.ID, o.Container, len(o.Sources))
	}
	return o, nil
}

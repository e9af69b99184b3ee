package server

import (
	"context"

	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// DatanodeStatus says how the disks are, how far the scrubber is, and counts.
func (b *blockCalls) DatanodeStatus(ctx context.Context, _ *pb.DatanodeStatusRequest) (*pb.DatanodeStatusReply, error) {
	if _, err := rpc.Caller(ctx); err != nil {
		return nil, err
	}
	reply := &pb.DatanodeStatusReply{Id: b.id}
	for _, d := range b.blocks.Disks() {
		reply.Disks = append(reply.Disks, &pb.Disk{
			Name: d.Name, State: uint32(d.State), Message: d.Message, Capacity: d.Capacity, Used: d.Used, Free: d.Free,
		})
	}
	s := b.blocks.ScrubState()
	reply.Scrub = &pb.ScrubState{Running: s.Running, Blocks: s.Blocks, Bytes: s.Bytes, Damaged: s.Damaged}
	if !s.Finished.IsZero() {
		reply.Scrub.Finished = s.Finished.UnixMilli()
	}
	reply.Counters = b.counters()
	return reply, nil
}

// counters are those of the store and of the calls.
func (b *blockCalls) counters() []*pb.Gauge {
	s, calls, used := b.blocks.Stats(), b.rpc.Stats(), processNow()
	var list []*pb.Gauge
	add := func(name string, value float64) { list = append(list, &pb.Gauge{Name: name, Value: value}) }
	add("blocks_reads", float64(s.Reads))
	add("blocks_read_bytes", float64(s.ReadBytes))
	add("blocks_opened", float64(s.Misses))
	add("blocks_handles", float64(s.Handles))
	add("blocks_writes", float64(s.Writes))
	add("blocks_written_bytes", float64(s.WrittenBytes))
	add("blocks_created", float64(s.Created))
	add("blocks_committed", float64(s.Committed))
	add("blocks_deleted", float64(s.Deleted))
	add("blocks_data_syncs", float64(s.DataSyncs))
	add("blocks_folder_syncs", float64(s.FolderSyncs))
	add("blocks_metadata_syncs", float64(s.MetadataSyncs))
	add("blocks_read_errors", float64(s.ReadErrors))
	add("blocks_write_errors", float64(s.WriteErrors))
	add("blocks_bad_checksums", float64(s.BadChecksums))
	add("blocks_damage_found", float64(s.DamageFound))
	add("blocks_scrubbed_bytes", float64(s.ScrubbedBytes))
	add("blocks_writers", float64(len(b.writers)))
	add("blocks_streams", float64(b.streams.Load()))
	add("blocks_write_calls", float64(b.writes.Load()))
	add("rpc_connections", float64(calls.Connections))
	add("rpc_calls", float64(calls.Calls))
	add("rpc_calls_failed", float64(calls.Failed))
	add("rpc_panics", float64(calls.Panics))
	add("process_resident_bytes", float64(used.residentBytes))
	add("process_cpu_seconds", used.cpuSeconds)
	return list
}

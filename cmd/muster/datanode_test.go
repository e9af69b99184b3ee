package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// childServer is a server in a process of its own.
type childServer struct {
	cmd     *exec.Cmd
	line    string // that says that it is ready
	address string
	log     bytes.Buffer
}

// startServerProcess starts a server that is killed at the end of the test, if it is not dead by then.
func startServerProcess(t *testing.T, args ...string) *childServer {
	t.Helper()
	s := &childServer{cmd: exec.Command("muster", args...)}
	s.cmd.Stderr = &s.log
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	ready := readyLine.FindStringSubmatch(line)
	if ready == nil {
		s.kill()
		t.Fatalf("%v: ready line %q, %v; log:\n%s", args, line, err, &s.log)
	}
	s.line, s.address = line, ready[1]
	return s
}

// kill ends the process as a power failure would, but for the disk's cache.
func (s *childServer) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

func TestADatanodeIsAProcessOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	up := startServerProcess(t, "up", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
	if !strings.HasSuffix(up.line, "data, with 3 datanodes\n") {
		t.Errorf("ready line of up: %s", up.line)
	}
	t.Setenv("MUSTER_CLUSTER_KEY_FILE", filepath.Join(dir, "data", "cluster.key"))
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	args := []string{"datanode", "--data", a + "," + b, "--locations", up.address, "--listen", "127.0.0.1:0", "--rack", "/r7"}
	d := startServerProcess(t, args...)
	if !strings.HasPrefix(d.line, "muster datanode is ready on ") || !strings.HasSuffix(d.line, ", data in "+a+","+b+"\n") {
		t.Errorf("ready line of a datanode: %s", d.line)
	}
	if out, err := exec.Command("muster", args...).CombinedOutput(); err == nil || !strings.Contains(string(out), a) || !strings.Contains(string(out), "another process owns it") {
		t.Errorf("a second one on the folders: %v, %s", err, out)
	}
	out, err := exec.Command("muster", "--server", up.address, "admin", "datanodes").CombinedOutput()
	if err != nil || strings.Count(string(out), "127.0.0.1") != 4 || strings.Count(string(out), "/r7") != 1 {
		t.Errorf("datanodes: %v\n%s", err, out)
	}
	for _, s := range []*childServer{d, up} {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("stop: %v; log:\n%s", err, &s.log)
		}
	}
}

// writtenBlock is what a writer was told of a block.
type writtenBlock struct {
	id        muster.BlockID
	durable   int64
	committed bool
}

// blockContent is what is written to a block: it tells its place.
func blockContent(id muster.BlockID, offset int64, n int) []byte {
	b := make([]byte, 0, n+8)
	for at := offset; len(b) < n; at += 8 {
		b = binary.BigEndian.AppendUint64(b, id.LocalID<<40^uint64(at))
	}
	return b[:n]
}

func checksums(b []byte) (sums []byte) {
	for ; len(b) > 0; b = b[min(len(b), muster.ChecksumBytes):] {
		sums = binary.LittleEndian.AppendUint32(sums, crc32.Checksum(b[:min(len(b), muster.ChecksumBytes)], crc32.MakeTable(crc32.Castagnoli)))
	}
	return sums
}

// writeUntilKilled writes blocks, one after another, some of which it commits, until the
// datanode is gone.
func writeUntilKilled(t *testing.T, p *rpc.Pool, writer uint64, acknowledged *atomic.Int64) (all []*writtenBlock) {
	ctx := rpc.ClientContext(t.Context(), muster.Identity{User: "ann"})
	for i := uint64(1); ; i++ {
		b := &writtenBlock{id: muster.BlockID{Container: writer%2 + 1, LocalID: writer*1_000_000 + i}}
		all = append(all, b)
		s, err := rpc.WriteBlock(ctx, p)
		if err != nil {
			return all
		}
		request := rpc.WriteRequest{Block: b.id, File: writer}
		for part := range 5 {
			offset := int64(part) * 10 * muster.ChecksumBytes
			request.Data, request.Offset = blockContent(b.id, offset, 10*muster.ChecksumBytes), offset
			request.Checksums, request.Sync, request.Commit = checksums(request.Data), true, part == 4 && i%2 == 0
			if err := s.Send(&request); err != nil {
				break
			}
			reply, err := s.Receive()
			if err != nil {
				if err != io.EOF && !errors.Is(err, muster.ErrUnavailable) {
					t.Errorf("block %v: %v", b.id, err)
				}
				_ = s.Close()
				return all
			}
			b.durable, b.committed = reply.Durable, reply.Committed
			acknowledged.Add(1)
			request = rpc.WriteRequest{}
		}
		_ = s.Close()
	}
}

// A datanode that is killed while blocks are written has, when it is started again, all that
// it acknowledged, and nothing else can be read.
func TestAKilledDatanodeHasWhatItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	up := startServerProcess(t, "up", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--datanodes", "0")
	t.Setenv("MUSTER_CLUSTER_KEY_FILE", filepath.Join(dir, "data", "cluster.key"))
	t.Setenv("MUSTER_DATANODE_RESERVE", "1MiB")
	datanode := []string{"datanode", "--data", filepath.Join(dir, "a") + "," + filepath.Join(dir, "b"), "--listen", "127.0.0.1:0", "--locations", up.address}
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for round := range uint64(rounds) {
		d := startServerProcess(t, datanode...)
		p := rpc.NewPool(d.address, rpc.PoolOptions{})
		const writers = 4
		written := make([][]*writtenBlock, writers)
		var acknowledged atomic.Int64
		var running sync.WaitGroup
		for i := range uint64(writers) {
			running.Go(func() { written[i] = writeUntilKilled(t, p, round*writers+i+1, &acknowledged) })
		}
		for acknowledged.Load() < 50 {
			check := rpc.ClientContext(t.Context(), muster.Identity{User: "ann"})
			if _, err := pb.NewDRPCBlocksClient(p).DatanodeStatus(check, &pb.DatanodeStatusRequest{}); err != nil {
				t.Fatalf("%v; log:\n%s", err, &d.log)
			}
		}
		d.kill()
		running.Wait()
		_ = p.Close()
		d = startServerProcess(t, datanode...)
		p = rpc.NewPool(d.address, rpc.PoolOptions{})
		for _, list := range written {
			for _, b := range list {
				if err := checkWritten(t, p, b); err != nil {
					t.Errorf("round %d: block %v, of which %d bytes were acknowledged (committed: %v): %v", round, b.id, b.durable, b.committed, err)
				}
			}
		}
		_ = p.Close()
		d.kill()
	}
}

// checkWritten wants a block to have what its writer was told, and no more to be readable
// before it is committed.
func checkWritten(t *testing.T, p *rpc.Pool, b *writtenBlock) error {
	ctx := rpc.ClientContext(t.Context(), muster.Identity{User: "ann"})
	c := pb.NewDRPCBlocksClient(p)
	info, err := c.GetBlock(ctx, &pb.GetBlockRequest{Container: b.id.Container, LocalId: b.id.LocalID})
	if b.durable == 0 && (errors.Is(err, muster.ErrNoData) || errors.Is(err, muster.ErrNotFound)) {
		return nil
	}
	switch {
	case err != nil:
		return err
	case info.Length < b.durable || b.committed && !info.Committed:
		return fmt.Errorf("it is %v", info)
	}
	if !info.Committed {
		var reply rpc.ReadReply
		if err := rpc.ReadChunk(ctx, p, &rpc.ReadRequest{Block: b.id, Length: 1}, &reply); !errors.Is(err, muster.ErrNoData) {
			return fmt.Errorf("before it was committed it was read: %v", err)
		}
		if _, err := c.CommitBlock(ctx, &pb.CommitBlockRequest{Container: b.id.Container, LocalId: b.id.LocalID, Length: info.Length}); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	if info.Length == 0 {
		return nil
	}
	var reply rpc.ReadReply
	defer reply.Release()
	if err := rpc.ReadChunk(ctx, p, &rpc.ReadRequest{Block: b.id, Length: info.Length}, &reply); err != nil {
		return err
	}
	if !bytes.Equal(reply.Data, blockContent(b.id, 0, int(info.Length))) || !bytes.Equal(reply.Checksums, checksums(reply.Data)) {
		return errors.New("its bytes are not those that were written")
	}
	return nil
}

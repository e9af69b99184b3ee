package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/rpc"
)

// preadsReplicas is how many datanodes there are, and replicas.
const preadsReplicas = 3

// preadsFile is the file that is read.
const preadsFile = "/bench/block"

// reading is a running experiment.
type reading struct {
	*Preads
	processes []*Process
	client    *client.Client
	raw       *Process // the FileServer
}

// close ends all that was started, the servers last.
func (r *reading) close() error {
	var errs []error
	if r.client != nil {
		errs = append(errs, r.client.Close())
	}
	for _, p := range slices.Backward(r.processes) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

// start starts the servers and writes the file.
func (e *Preads) start(ctx context.Context) (r *reading, err error) {
	r = &reading{Preads: e}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := r.startCluster(ctx); err != nil {
		return r, err
	}
	if err := r.startRaw(ctx); err != nil {
		return r, err
	}
	return r, r.write(ctx)
}

// startCluster starts the namespace server, with the location service in it, and the datanodes.
func (r *reading) startCluster(ctx context.Context) error {
	key, keyFile := make([]byte, rpc.ClusterKeyBytes), filepath.Join(r.Dir, "cluster.key")
	_, _ = rand.Read(key) // it does not fail
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		return err
	}
	namespace, err := r.ServeNamespace(ctx, filepath.Join(r.Dir, "namespace"), keyFile)
	if err != nil {
		return err
	}
	r.processes = append(r.processes, namespace)
	for i := range preadsReplicas {
		p, err := r.ServeDatanode(ctx, filepath.Join(r.Dir, fmt.Sprintf("datanode-%d", i)), keyFile, namespace.Addr)
		if err != nil {
			return err
		}
		r.processes = append(r.processes, p)
	}
	if r.client, err = client.Dial(ctx, namespace.Addr, client.Options{}); err != nil {
		return err
	}
	return awaitTopology(ctx, r.client, preadsReplicas)
}

// startRaw writes the same bytes to a file of its own, and serves that.
func (r *reading) startRaw(ctx context.Context) error {
	path := filepath.Join(r.Dir, "raw")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, newContent(r.Size))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if r.raw, err = r.ServeFile(ctx, path); err != nil {
		return err
	}
	r.processes = append(r.processes, r.raw)
	return nil
}

// write writes the file.
func (r *reading) write(ctx context.Context) error {
	w, err := r.client.CreateFile(ctx, preadsFile, r.writeOptions())
	if err != nil {
		return err
	}
	if _, err := w.ReadFrom(newContent(r.Size)); err != nil {
		return errors.Join(err, w.Abort(ctx))
	}
	return w.Close()
}

// openFile opens the file with a path of its blocks.
func (r *reading) openFile(ctx context.Context, path string) (*client.File, error) {
	mode, err := blocks.ParseMode(path)
	if err != nil {
		return nil, err
	}
	return r.client.OpenFile(ctx, preadsFile, client.ReadOptions{Mode: mode})
}

// writeOptions make a file of one block.
func (r *reading) writeOptions() client.WriteOptions {
	const whole = muster.ChecksumBytes
	return client.WriteOptions{
		Parents: true, Replication: muster.Replicated(preadsReplicas), BlockSize: max((r.Size+whole-1)/whole*whole, muster.MinBlockSize),
	}
}

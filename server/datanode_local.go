package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/muster-fs/muster"
)

// LocalDatanodes are datanodes in the process of a namespace server, which runs a location
// service of its own. The zero value is none.
type LocalDatanodes struct {
	Count int
	// Options are those of each, but for the folders, which are Dir/datanodes/1 and so on, the
	// ports, which are any on the server's own address, the location service and the key.
	Options DatanodeOptions
}

// validate names the first option that is out of bounds, of a server with this location service.
func (o *LocalDatanodes) validate(location string) error {
	switch {
	case o.Count < 0 || o.Count > maxLocalDatanodes:
		return fmt.Errorf("%w: %d datanodes in one process, at most %d", muster.ErrInvalid, o.Count, maxLocalDatanodes)
	case o.Count > 0 && location != "":
		return fmt.Errorf("%w: %d datanodes of a server that asks the location service at %s: start datanodes in processes of their own", muster.ErrInvalid, o.Count, location)
	}
	return nil
}

const maxLocalDatanodes = 100

// startDatanodes starts the server's own datanodes, which are its last parts, and the first to end.
func (s *Server) startDatanodes(ctx context.Context, o *Options) error {
	n := o.Datanodes.Count
	if n == 0 {
		return nil
	}
	shared := o.Datanodes.Options
	host, _, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		return fmt.Errorf("%w: listening on %v: %v", muster.ErrInternal, s.Addr(), err)
	}
	shared.Listen, shared.Locations = net.JoinHostPort(host, "0"), reachable(s.Addr().(*net.TCPAddr))
	if shared.Key, err = clusterKeyOf(o, s.life); err != nil {
		return err
	}
	if shared.Logger == nil {
		shared.Logger = s.log
	}
	s.datanodes = make([]*Datanode, n)
	errs := make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() {
			own := shared
			name := strconv.Itoa(i + 1)
			own.Dirs = []string{filepath.Join(o.Dir, "datanodes", name)}
			own.Logger = shared.Logger.With("datanode", name)
			if s.datanodes[i], errs[i] = StartDatanode(ctx, own); errs[i] == nil && !s.leaves(s.datanodes[i].Shutdown) {
				errs[i] = cmp.Or(s.datanodes[i].Shutdown(ctx), errEnding)
			}
		})
	}
	starting.Wait()
	return errors.Join(errs...)
}

// reachable is a server's address for those on the same machine.
func reachable(a *net.TCPAddr) string {
	if !a.IP.IsUnspecified() {
		return a.String()
	}
	loopback := "127.0.0.1"
	if a.IP.To4() == nil {
		loopback = "::1"
	}
	return net.JoinHostPort(loopback, strconv.Itoa(a.Port))
}

// clusterKeyOf returns the key that the server has.
func clusterKeyOf(o *Options, l *life) ([]byte, error) {
	if len(o.Listing.Key) > 0 {
		return o.Listing.Key, nil
	}
	return ClusterKey(o.Dir, o.KeyFile, l.log)
}

// LocalDatanodes are the server's own.
func (s *Server) LocalDatanodes() []*Datanode { return s.datanodes }

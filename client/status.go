package client

import (
	"context"
	"time"

	"github.com/muster-fs/muster/rpc/pb"
)

// Status is the state of a server.
type Status struct {
	Version    string
	Started    time.Time
	Txid       uint64 // of the last command
	Inodes     uint64 // attached, and waiting for reclaim
	Reclaiming uint64 // removed trees whose inodes are not all reclaimed yet
	Requests   uint64 // remembered request ids
	StoreBytes uint64
	Counters   []Counter
}

// Counter is one figure of a server, by its name.
type Counter struct {
	Name  string
	Value float64
}

// Status asks the server how it is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return retry(ctx, c, func(ctx context.Context) (Status, error) {
		r, err := c.service.Status(ctx, &pb.StatusRequest{})
		if err != nil {
			return Status{}, err
		}
		s := Status{
			Version: r.Version, Started: time.UnixMilli(r.Started), Txid: r.Txid, Inodes: r.Inodes,
			Reclaiming: r.Reclaiming, Requests: r.Requests, StoreBytes: r.StoreBytes,
		}
		for _, counter := range r.Counters {
			s.Counters = append(s.Counters, Counter{counter.Name, counter.Value})
		}
		return s, nil
	})
}

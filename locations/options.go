package locations

import (
	"cmp"
	"fmt"
	"time"

	"github.com/muster-fs/muster"
)

// MaxBatch is the number of containers in one call to the source at most.
const MaxBatch = 10_000

// The defaults and bounds of Options.
const (
	defaultSize        = 100_000
	maxSize            = 100_000_000
	defaultTTL         = 6 * time.Hour
	defaultLoads       = 16
	maxLoads           = 1024
	defaultLoadTimeout = 10 * time.Second
)

// Options of a cache. The zero value works.
type Options struct {
	// Size is the number of containers that are kept at most; 0 is 100,000. A container
	// with three replicas takes about 120 bytes.
	Size int
	// TTL is how long a placement is used after it was loaded, however often it is read;
	// 0 is 6 hours.
	TTL time.Duration
	// Loads is the number of calls to the source at a time at most; 0 is 16. While there
	// are so many, what is missing is gathered for the next call.
	Loads int
	// LoadTimeout bounds each call to the source; 0 is 10 seconds. Those who wait for it
	// may give up earlier.
	LoadTimeout time.Duration
}

// Validate names the first setting that is out of bounds.
func (o Options) Validate() error {
	switch {
	case o.Size < 0 || o.Size > maxSize:
		return fmt.Errorf("%w: location cache of %d containers; from 1 to %d, 0 is %d", muster.ErrInvalid, o.Size, maxSize, defaultSize)
	case o.TTL < 0:
		return fmt.Errorf("%w: location cache keeps placements for %v; at least 0, which is %v", muster.ErrInvalid, o.TTL, defaultTTL)
	case o.Loads < 0 || o.Loads > maxLoads:
		return fmt.Errorf("%w: %d calls to the location service at a time; from 1 to %d, 0 is %d", muster.ErrInvalid, o.Loads, maxLoads, defaultLoads)
	case o.LoadTimeout < 0:
		return fmt.Errorf("%w: a call to the location service may take %v; at least 0, which is %v", muster.ErrInvalid, o.LoadTimeout, defaultLoadTimeout)
	}
	return nil
}

// withDefaults returns o with its zeros replaced.
func (o Options) withDefaults() Options {
	o.Size = cmp.Or(o.Size, defaultSize)
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	o.Loads = cmp.Or(o.Loads, defaultLoads)
	o.LoadTimeout = cmp.Or(o.LoadTimeout, defaultLoadTimeout)
	return o
}

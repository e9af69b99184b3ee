package namespace

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The default budget of images, and what it is if nobody knows how much memory there is.
const (
	maxDefaultImageBytes     = 3 << 29
	unknownDefaultImageBytes = 256 << 20
)

// defaultImageBytes is a quarter of the memory that the process may use.
func defaultImageBytes() int64 {
	limit := uint64(math.MaxInt64)
	if soft := debug.SetMemoryLimit(-1); soft < math.MaxInt64 {
		limit = uint64(max(soft, 0))
	} else {
		for _, provider := range []memlimit.Provider{memlimit.FromCgroup, memlimit.FromSystem} {
			if n, err := provider(); err == nil && n > 0 {
				limit = min(limit, n)
			}
		}
		if limit == math.MaxInt64 {
			return unknownDefaultImageBytes
		}
	}
	return max(1, int64(min(limit/4, maxDefaultImageBytes)))
}

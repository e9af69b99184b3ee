package images

// Options of a cache. The zero value keeps nothing.
type Options struct {
	// Bytes bounds all memory of the cache: items, index and the rest. A budget too
	// small to hold anything (under 4 KiB, or negative) keeps nothing; more than
	// 64 GiB counts as 64 GiB.
	Bytes int64
}

// Cache keeps items under keys. Everything on it is safe for concurrent use.
type Cache struct{}

// New makes an empty cache.
func New(o Options) *Cache { return &Cache{} }

// Get returns the item under key if it is there and was current at txid or before:
// since <= txid. The item is valid for ever and must not be changed. Get takes no
// lock and allocates nothing.
func (c *Cache) Get(key, txid uint64) (item []byte, since uint64, ok bool) { return nil, 0, false }

// Put keeps a copy of item under key. It replaces what is there, unless that has a
// greater since: then Put does nothing. An item over a quarter of the budget is not
// kept, and neither is what it would have replaced.
func (c *Cache) Put(key, since uint64, item []byte) {}

// Drop removes the item under key, if any: no Get that begins after Drop returned
// sees it.
func (c *Cache) Drop(key uint64) {}

// Evict drops every item whose key pick chooses, as if the budget had run out, and
// returns their number. pick is called under the cache's lock: it must not call the
// cache. Tests of the cache's users choose at random, so that whatever can be
// missing is missing at some time.
func (c *Cache) Evict(pick func(key uint64) bool) int { return 0 }

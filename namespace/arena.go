package namespace

// arena gives out copies of bytes from chunks that it never reuses: a copy lives as long
// as somebody refers to it, and costs no allocation of its own. The zero value is ready.
type arena struct {
	free []byte
	next int // size of the next chunk
}

const (
	minArenaChunk = 512
	maxArenaChunk = 64 << 10
)

func (a *arena) copy(b []byte) []byte {
	if len(b) > len(a.free) {
		a.next = max(minArenaChunk, min(2*a.next, maxArenaChunk), len(b))
		a.free = make([]byte, a.next)
	}
	c := a.free[:len(b):len(b)]
	a.free = a.free[len(b):]
	copy(c, b)
	return c
}

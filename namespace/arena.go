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
	c := a.room(len(b))
	copy(c, b)
	return c
}

func (a *arena) text(s string) []byte {
	c := a.room(len(s))
	copy(c, s)
	return c
}

func (a *arena) room(n int) []byte {
	if n > len(a.free) {
		a.next = max(minArenaChunk, min(2*a.next, maxArenaChunk), n)
		a.free = make([]byte, a.next)
	}
	c := a.free[:n:n]
	a.free = a.free[n:]
	return c
}

package blocks

import "github.com/muster-fs/muster"

// ahead is what is read ahead of the cursor by chunk: calls in progress, and their answers.
type ahead struct {
	reads []*read // one after the other, without gaps, oldest first
}

// read is one call, made by a goroutine of its own.
type read struct {
	from, to int64 // in the file
	memory   int64 // that was taken from the datanodes' for it
	done     chan struct{}
	caller   *caller // has the data, once done is closed
	err      error   // likewise
}

// smallestAhead is the least bytes of a call that reads ahead; at first fewer are wanted.
const smallestAhead = 128 << 10

func (a *ahead) has(at int64) bool {
	return len(a.reads) > 0 && a.reads[0].from <= at && at < a.end()
}

func (a *ahead) end() int64 { return a.reads[len(a.reads)-1].to }

// nextChunk makes the piece one that has the cursor's byte, which is in b. want is how much
// will be read on.
func (f *File) nextChunk(b *block, want int64) error {
	c := &f.cursor
	if !c.ahead.has(c.at) {
		f.drop()
	}
	for len(c.ahead.reads) > 0 && c.ahead.reads[0].to <= c.at {
		f.discard(c.ahead.shift())
	}
	window := min(2*c.run, f.options.ReadAhead)
	if len(c.ahead.reads) > 0 && c.ahead.reads[0].hasFailed() {
		f.drop() // that was then
	}
	if len(c.ahead.reads) == 0 {
		from, to := b.piece(c.at, max(min(want, muster.MaxTransfer), min(window/4, muster.MaxTransfer)))
		if window > 0 && to < c.at+window {
			f.readAhead(to, c.at+window, window)
		}
		caller, err := f.readChunk(b, from-b.offset, to-b.offset)
		if err != nil {
			return err
		}
		c.piece.take(from, caller)
		f.free(caller)
		return nil
	}
	r := c.ahead.shift()
	f.readAhead(r.to, c.at+window, window)
	return f.await(r)
}

// piece returns which bytes of the file to read by one call, if about n from an offset of the
// file on are wanted.
func (b *block) piece(at, n int64) (from, to int64) {
	from, to = b.align(at-b.offset, min(at-b.offset+n, b.length))
	return from + b.offset, min(to, from+muster.MaxTransfer) + b.offset
}

// hasFailed says whether it is over, and was for nothing.
func (r *read) hasFailed() bool {
	select {
	case <-r.done:
		return r.err != nil
	default:
		return false
	}
}

// await makes the piece what r has read.
func (f *File) await(r *read) error {
	select {
	case <-r.done:
	case <-f.done: // r ends, too
		f.discard(r)
		return f.ended()
	}
	f.datanodes.giveMemory(r.memory)
	if r.err != nil {
		return r.err
	}
	f.cursor.piece.take(r.from, r.caller)
	f.free(r.caller)
	return nil
}

// readAhead begins calls so that all up to an offset of the file is read, as far as there is
// memory. The first begins at from if there is none yet. Once a stream is wanted it is not
// put off by more calls.
func (f *File) readAhead(from, to, window int64) {
	c := &f.cursor
	if len(c.ahead.reads) > 0 {
		from = c.ahead.end()
	}
	for from < to && !f.wantsStream() {
		b, err := f.layout.Load().at(from)
		if err != nil {
			return // whoever reads there will find out
		}
		_, end := b.piece(from, max(window/4, smallestAhead))
		if !f.start(b, from, end) {
			return
		}
		from = end
	}
}

// start begins to read the bytes from, to of the file, which are in b.
func (f *File) start(b *block, from, to int64) bool {
	r := &read{from: from, to: to, memory: to - from, done: make(chan struct{})}
	if !f.datanodes.takeMemory(r.memory) {
		return false
	}
	run := func() {
		defer close(r.done)
		r.caller, r.err = f.readChunk(b, from-b.offset, to-b.offset)
	}
	if !f.tasks.start(run) {
		f.datanodes.giveMemory(r.memory)
		return false
	}
	f.cursor.ahead.reads = append(f.cursor.ahead.reads, r)
	return true
}

// shift removes the first read.
func (a *ahead) shift() *read {
	r := a.reads[0]
	a.reads[0] = nil
	if a.reads = a.reads[1:]; len(a.reads) == 0 {
		a.reads = nil
	}
	return r
}

// drop gives up all that was read ahead.
func (f *File) drop() {
	for len(f.cursor.ahead.reads) > 0 {
		f.discard(f.cursor.ahead.shift())
	}
}

// discard gives back what r holds, when it has ended.
func (f *File) discard(r *read) {
	give := func() {
		<-r.done
		f.datanodes.giveMemory(r.memory)
		if r.caller != nil {
			f.free(r.caller)
		}
	}
	select {
	case <-r.done:
		give()
	default:
		if !f.tasks.start(give) {
			give() // the file is closed, it ends at once
		}
	}
}

package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// The paths of blocks to a reader.
const (
	chunkPath  = "chunk"
	streamPath = "stream"
)

// The arms. A locked one holds one mutex in each read, as Apache Ozone's streams did before
// HDDS-17399: a positioned read waits for the sequential one that waits for the datanode. The same
// lock around bare TCP shows what of that is the lock's doing.
const (
	locked    = "locked"
	ours      = "muster"
	bareTCP   = "tcp"
	lockedTCP = "tcp-locked"
)

var preadsArms = []string{locked, ours, bareTCP, lockedTCP}

// unmeasured is what there is no figure of.
var unmeasured = Figure(math.NaN())

// readable is an open file that an arm reads. Read begins again at the end.
type readable interface {
	io.ReaderAt
	io.ReadCloser
}

// open opens the file for an arm.
func (r *reading) open(ctx context.Context, arm, path string) (readable, error) {
	var file readable
	switch arm {
	case bareTCP, lockedTCP:
		file = newRawFile(r.raw.Addr, r.Size, maxCallers)
	default:
		f, err := r.openFile(ctx, path)
		if err != nil {
			return nil, err
		}
		file = &again{f}
	}
	if arm == locked || arm == lockedTCP {
		file = &lockedFile{file: file}
	}
	return file, nil
}

// again is a file that begins again at its end.
type again struct{ readSeekable }

type readSeekable interface {
	readable
	io.Seeker
}

func (f *again) Read(p []byte) (int, error) {
	n, err := io.ReadFull(f.readSeekable, p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, ignoreShort(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	n, err = io.ReadFull(f.readSeekable, p)
	return n, ignoreShort(err)
}

func ignoreShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// lockedFile lets one read at a time.
type lockedFile struct {
	mu   sync.Mutex // held while file is read: that is what is measured
	file readable
}

func (f *lockedFile) ReadAt(p []byte, offset int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.ReadAt(p, offset)
}

func (f *lockedFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Read(p)
}

func (f *lockedFile) Close() error { return f.file.Close() }

// positioned returns what a goroutine does that reads at random offsets.
func (r *reading) positioned(file readable) func(context.Context) func() error {
	return func(context.Context) func() error {
		p := make([]byte, r.Positioned)
		return func() error {
			_, err := file.ReadAt(p, rand.Int64N(r.Size-int64(len(p))+1))
			return err
		}
	}
}

// sequential returns what a goroutine does that reads on.
func (r *reading) sequential(file readable) func(context.Context) func() error {
	return func(context.Context) func() error {
		p := make([]byte, r.Sequential)
		return func() error {
			_, err := file.Read(p)
			return err
		}
	}
}

// sequentially is a sequential reader beside others.
type sequentially struct {
	file  readable
	size  int       // bytes of a read
	paces []float64 // MB/s, round by round
	warm  bool
}

// run reads on until the round is over.
func (s *sequentially) run(context.Context) (func(int) error, error) {
	var over atomic.Bool
	read, failed := 0, error(nil)
	begin := time.Now()
	var running sync.WaitGroup
	running.Go(func() {
		p := make([]byte, s.size)
		for !over.Load() && failed == nil {
			var n int
			n, failed = s.file.Read(p)
			read += n
		}
	})
	return func(int) error {
		over.Store(true)
		running.Wait()
		if s.warm { // the first round makes connections
			s.paces = append(s.paces, float64(read)/1e6/time.Since(begin).Seconds())
		}
		s.warm = true
		return failed
	}, nil
}

// compare says whether a file has the bytes that were written, read either way.
func (r *reading) compare(file readable) (bool, error) {
	got, want := make([]byte, 1<<20), make([]byte, 1<<20)
	content := newContent(r.Size)
	for at := int64(0); at < r.Size; {
		n, err := file.Read(got)
		if err != nil {
			return false, err
		}
		if _, err := io.ReadFull(content, want[:n]); err != nil || !bytes.Equal(got[:n], want[:n]) {
			return false, err
		}
		at += int64(n)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + random.IntN(r.Positioned)
		at := random.Int64N(r.Size - int64(n) + 1)
		if _, err := file.ReadAt(got[:n], at); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if contentAt(want[:n], at); !bytes.Equal(got[:n], want[:n]) {
			return false, nil
		}
	}
	return true, nil
}

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/server"
)

// readInThisProcess starts the servers of the experiment here.
func readInThisProcess(t *testing.T, e *Preads) {
	e.Dir = t.TempDir()
	e.ServeNamespace = func(ctx context.Context, dir, keyFile string) (*Process, error) {
		s, err := server.Start(ctx, server.Options{Dir: dir, KeyFile: keyFile})
		if err != nil {
			return nil, err
		}
		return &Process{Addr: s.Addr().String(), Stop: func() error { return s.Shutdown(context.Background()) }}, nil
	}
	e.ServeDatanode = func(ctx context.Context, dir, keyFile, locations string) (*Process, error) {
		d, err := server.StartDatanode(ctx, server.DatanodeOptions{Dirs: []string{dir}, KeyFile: keyFile, Locations: locations})
		if err != nil {
			return nil, err
		}
		return &Process{Addr: d.Addr().String(), Stop: func() error { return d.Shutdown(context.Background()) }}, nil
	}
	e.ServeFile = func(_ context.Context, path string) (*Process, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		address, stop := serveFile(t, file)
		return &Process{Addr: address, Stop: func() error { stop(); return file.Close() }}, nil
	}
}

// serveFile serves a file over bare TCP until stop.
func serveFile(t *testing.T, file *os.File) (address string, stop func()) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- (&FileServer{File: file}).Serve(ctx, lis) }()
	return lis.Addr().String(), func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// TestPositionedReadsAreMeasured runs the experiment for moments: what it finds is noise, but each
// arm must move and read the right bytes.
func TestPositionedReadsAreMeasured(t *testing.T) {
	e := NewPreads()
	e.Size, e.Positioned, e.Sequential = 1<<20+5, 10_000, 100_000
	e.Beside, e.Alone, e.Rounds, e.RoundTime = []int{2}, []int{1}, 2, 20*time.Millisecond
	readInThisProcess(t, &e)
	results, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, r := range results {
		seen = append(seen, fmt.Sprint(r.Case, " ", r.Goroutines, " ", r.Arm))
		written := r.Case == writtenCase
		if r.Bench != "preads" || !r.Equal || r.OpsPerSecond <= 0 || r.P99 < r.P50 || r.Total <= 0 ||
			(r.Arm == locked || r.Arm == oneFile) && r.Ratio != 1 || r.Arm == bareTCP && (r.ToTCP != 1 || r.TotalTCP != 1) || !written && !r.ToTCP.Known() {
			t.Errorf("%+v", r)
		}
		if beside := r.Case == "chunk, beside" || r.Case == "stream, beside"; beside != r.Beside.Known() {
			t.Errorf("%s: the sequential reader has %v MB/s", r.Case, r.Beside)
		}
	}
	var want []string
	for _, path := range e.Paths {
		for _, of := range []string{"beside 2", "alone 1", "sequential 1"} {
			for _, arm := range preadsArms {
				want = append(want, path+", "+of+" "+arm)
			}
		}
	}
	for _, arm := range []string{oneFile, threeFiles, ours} {
		want = append(want, "write 1 "+arm)
	}
	if !slices.Equal(seen, want) {
		t.Errorf("%q", seen)
	}
}

// TestAnArmThatReadsOtherBytesIsFound: neither a wrong byte nor a shifted one passes.
func TestAnArmThatReadsOtherBytesIsFound(t *testing.T) {
	const size = 1 << 20
	whole, err := io.ReadAll(newContent(size))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[size-1] ^= 1
	for name, c := range map[string]struct {
		bytes []byte
		want  bool
	}{"right": {whole, true}, "damaged": {damaged, false}, "shifted": {append(whole[1:len(whole):len(whole)], 0), false}} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, c.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		address, stop := serveFile(t, file)
		raw := newRawFile(address, size, 2)
		r := &reading{Preads: &Preads{Size: size, Positioned: 1000}}
		if got, err := r.compare(raw); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if err := raw.Close(); err != nil {
			t.Error(err)
		}
		stop()
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestContentIsTheSameFromAnywhere: what is told of an offset does not depend on where it began.
func TestContentIsTheSameFromAnywhere(t *testing.T) {
	whole, err := io.ReadAll(newContent(1000))
	if err != nil || len(whole) != 1000 {
		t.Fatal(len(whole), err)
	}
	for from := range 40 {
		p := make([]byte, 900)
		if contentAt(p, int64(from)); !bytes.Equal(p, whole[from:from+900]) {
			t.Errorf("from %d it is another", from)
		}
	}
}

func TestPreadsSayWhatCannotBeMeasured(t *testing.T) {
	for name, spoil := range map[string]func(*Preads){
		"size":       func(e *Preads) { e.Size = 1 },
		"positioned": func(e *Preads) { e.Positioned = 0 },
		"sequential": func(e *Preads) { e.Sequential = int(e.Size) + 1 },
		"beside":     func(e *Preads) { e.Beside = []int{0} },
		"alone":      func(e *Preads) { e.Alone = []int{maxCallers + 1} },
		"path":       func(e *Preads) { e.Paths = []string{"auto"} },
		"rounds":     func(e *Preads) { e.Rounds = 0 },
	} {
		e := NewPreads()
		spoil(&e)
		if err := e.Validate(); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package store

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	logs "github.com/cockroachdb/pebble/record"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// mustAllocate checks that do allocates at most so many bytes; the rest of the process may
// allocate in one run, but not in each.
func mustAllocate(t *testing.T, most int, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	for range 5 {
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		if after.TotalAlloc-before.TotalAlloc <= uint64(most) {
			return
		}
	}
	t.Errorf("allocated %d bytes, want at most %d", after.TotalAlloc-before.TotalAlloc, most)
}

// memFile is a file system in memory with one file.
func memFile(t testing.TB, dir, name string, text []byte) vfs.FS {
	t.Helper()
	mem := vfs.NewMem()
	err := mem.MkdirAll(dir, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	file, err := mem.Create(mem.PathJoin(dir, name))
	if err == nil {
		_, err = file.Write(bytes.Clone(text)) // with the race detector, the file spoils what it was given
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// FuzzFormat: a format file is read as what write writes, or refused, however long it is.
func FuzzFormat(f *testing.F) {
	format := Format{Name: "namespace", Version: 1}
	formatPrefix := format.prefix()
	for _, text := range []string{"", formatPrefix, formatPrefix + "1", formatPrefix + "1\n", formatPrefix + "2\n", formatPrefix + "01\n", formatPrefix + "0\n", formatPrefix + strings.Repeat("0", 45) + "1\nmore"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		mem := memFile(t, "tree", formatFile, text)
		exists, err := format.read(mem, "tree")
		if want := fmt.Appendf(nil, "%s%d\n", formatPrefix, format.Version); (err == nil) != bytes.Equal(text, want) || exists != (err == nil) {
			t.Errorf("%q: %v, %v", text, exists, err)
		}
		if err != nil && !errors.Is(err, muster.ErrCorrupt) && !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%q: code %v", text, muster.CodeOf(err).Name())
		}
		mustAllocate(t, 16<<10, func() { format.read(mem, "tree") })
	})
}

// logNumber is that of the logs that are fuzzed.
const logNumber = 2

// sampleLogs are a log of a few records as it is, cut short, and damaged in its middle.
func sampleLogs(t testing.TB) (all [][]byte) {
	t.Helper()
	var log bytes.Buffer
	w := logs.NewLogWriter(&log, logNumber, logs.LogWriterConfig{})
	for i := range 3 {
		if _, err := w.WriteRecord(bytes.Repeat([]byte{byte(i)}, 40)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(log.Bytes())
	damaged[60] ^= 1
	return [][]byte{nil, log.Bytes(), log.Bytes()[:70], damaged, append(bytes.Clone(log.Bytes()), make([]byte, 100)...)}
}

// FuzzLog: any log is whole or corrupt. Looking for records allocates at most a reader for each place where one may begin.
func FuzzLog(f *testing.F) {
	for _, log := range sampleLogs(f) {
		f.Add(log)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		mem := memFile(t, "store", "000002.log", log)
		err := checkLogs(mem, "store")
		if err != nil && !errors.Is(err, muster.ErrCorrupt) {
			t.Error(err)
		}
		if recordBegins(log[:min(len(log), logHead-1)], logNumber) {
			t.Error("a record in less than a head")
		}
		const reader = 64 << 10
		heads := bytes.Count(log, []byte{logFullChunk, logNumber, 0, 0, 0}) + bytes.Count(log, []byte{logFirstChunk, logNumber, 0, 0, 0})
		mustAllocate(t, (heads+4)*reader, func() { checkLogs(mem, "store") })
	})
}

package bench

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/muster-fs/muster"
)

// Table is the form of a partitioned table as a query engine keeps it: Partitions
// directories, day by day and hour by hour, with Files data files in each.
type Table struct {
	Root        string // absolute path of the table
	Partitions  int
	Files       int    // in each partition
	Directories int    // in each partition, a further level of partitions
	Owner       string // of all entries; "": who makes them. Another one is a superuser's to give
	Group       string // "": that of the directory above

	// NoBlocks leaves the files without blocks: only a superuser may say which they have.
	NoBlocks bool

	// Containers are those that the files' blocks are dealt out to; none: those that no
	// location service knows.
	Containers []uint64
}

// String returns the form as benchmarks are named, such as 30000x1.
func (t Table) String() string { return fmt.Sprintf("%dx%d", t.Partitions, t.Files) }

// Entries is how many commands make the table: one for each partition and what is in it.
func (t Table) Entries() int { return t.Partitions * (1 + t.Files + t.Directories) }

const blockSize = 128 << 20 // bytes

// hour returns the beginning of the i-th partition's hour.
func hour(i int) time.Time {
	return time.Date(2023, time.January, 1, i, 0, 0, 0, time.UTC)
}

// Partition returns the path of the i-th partition. The paths ascend in byte order.
func (t Table) Partition(i int) string {
	return t.Root + hour(i).Format("/day=2006-01-02/hour=15")
}

// Paths yields the partitions' paths in order.
func (t Table) Paths() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range t.Partitions {
			if !yield(t.Partition(i)) {
				return
			}
		}
	}
}

// Commands yields the commands that make the table, parents first. The same table
// always gives the same commands.
func (t Table) Commands() iter.Seq[muster.Command] {
	random := rand.New(rand.NewPCG(13616, uint64(t.Partitions)))
	return func(yield func(muster.Command) bool) {
		for i := range t.Partitions {
			dir := t.Partition(i)
			if !yield(t.directory(dir, i)) {
				return
			}
			for d := range t.Directories {
				if !yield(t.directory(fmt.Sprintf("%s/customer=%08d", dir, d), i)) {
					return
				}
			}
			for f := range t.Files {
				if !yield(t.file(dir, i, f, random)) {
					return
				}
			}
		}
	}
}

func (t Table) directory(path string, partition int) muster.Command {
	written := hour(partition + 1).UnixMilli()
	return muster.Mkdir{Path: path, Mode: 0o755, Parents: true, Owner: t.Owner, Group: t.Group, MTime: &written}
}

// file is a data file as Spark writes them: one block, named by task and job.
func (t Table) file(dir string, partition, file int, random *rand.Rand) muster.Command {
	id := uint64(partition)*uint64(t.Files) + uint64(file)
	container := 1 + id/4096
	if n := uint64(len(t.Containers)); n > 0 {
		container = t.Containers[id%n]
	}
	length := 8<<20 + random.Int64N(100<<20)
	written := hour(partition + 1).UnixMilli()
	a, b := random.Uint64(), random.Uint64() // of the job's UUID
	blocks := []muster.Block{{Container: container, LocalID: id, Length: length}}
	if t.NoBlocks {
		blocks = nil
	}
	return muster.Create{
		Path: fmt.Sprintf("%s/part-%05d-%08x-%04x-%04x-%04x-%012x-c000.snappy.parquet",
			dir, file, a>>32, a>>16&0xffff, a&0xffff, b>>48, b&(1<<48-1)),
		Mode:   0o644,
		Length: length, Replication: muster.Replicated(3), BlockSize: blockSize,
		Blocks: blocks,
		Owner:  t.Owner, Group: t.Group,
		MTime: &written, ATime: &written,
	}
}

package bench

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"

	"github.com/muster-fs/muster/listing/rows"
)

// Shape is the form of a listed table: how many directories, and what is in each. It is
// written as 30000x1 (30,000 directories of one file), 1x30000d (one directory of 30,000
// directories), 1x30000d-nomtime (the same, without asking for the times, which a
// directory keeps elsewhere than in its parent's listing), or with -shuffled at the end
// (the directories are listed in no order).
type Shape struct {
	Partitions  int
	Entries     int  // in each
	Directories bool // the entries are directories and not files
	NoMTime     bool // mtime is not asked for
	Shuffled    bool // the directories are listed in no order, the same one each time
}

// Shapes returns the shapes that are compared if nothing else is asked for.
func Shapes() []Shape {
	return []Shape{
		{Partitions: 30_000, Entries: 1},
		{Partitions: 1_000, Entries: 30},
		{Partitions: 100, Entries: 300},
		{Partitions: 1, Entries: 30_000},
		{Partitions: 1, Entries: 30_000, Directories: true},
		{Partitions: 1, Entries: 30_000, Directories: true, NoMTime: true},
	}
}

// maxStatuses bounds a shape: the digests of its directories are kept.
const maxStatuses = 10_000_000

var shapeText = regexp.MustCompile(`^([0-9]{1,8})x([0-9]{1,8})(d(-nomtime)?)?(-shuffled)?$`)

// ParseShape reads what String writes.
func ParseShape(text string) (Shape, error) {
	m := shapeText.FindStringSubmatch(text)
	if m == nil {
		return Shape{}, fmt.Errorf("shape %q: write DIRECTORIESxFILES such as 30000x1, 1x30000d for a directory of directories, or 1x30000d-nomtime; -shuffled at the end mixes the paths", text)
	}
	s := Shape{Directories: m[3] != "", NoMTime: m[4] != "", Shuffled: m[5] != ""}
	s.Partitions, _ = strconv.Atoi(m[1])
	s.Entries, _ = strconv.Atoi(m[2])
	if s.Partitions < 1 || s.Entries < 1 || s.Statuses() > maxStatuses {
		return Shape{}, fmt.Errorf("shape %s: it has %d entries; use 1 to %d", text, s.Statuses(), maxStatuses)
	}
	return s, nil
}

func (s Shape) String() string {
	text := fmt.Sprintf("%dx%d", s.Partitions, s.Entries)
	if s.Directories {
		text += "d"
	}
	if s.NoMTime {
		text += "-nomtime"
	}
	if s.Shuffled {
		text += "-shuffled"
	}
	return text
}

// Statuses is how many rows a listing of the whole table has.
func (s Shape) Statuses() int { return s.Partitions * s.Entries }

// columns are what is asked for.
func (s Shape) columns() rows.Columns {
	if s.NoMTime {
		return rows.DefaultColumns &^ rows.ColMTime
	}
	return rows.DefaultColumns
}

// table returns the table below root that has the shape. Shapes that differ in how they
// are listed share one.
func (s Shape) table(root string) Table {
	s.NoMTime, s.Shuffled = false, false
	t := Table{Root: root + "/" + s.String(), Partitions: s.Partitions}
	if s.Directories {
		t.Directories = s.Entries
	} else {
		t.Files = s.Entries
	}
	return t
}

// paths are the directories to list.
func (s Shape) paths(root string) []string {
	all := slices.Collect(s.table(root).Paths())
	if s.Shuffled {
		rand.New(rand.NewPCG(13616, 1)).Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	}
	return all
}

// suits says whether an arm differs from a simpler one here: several goroutines share
// directories among them.
func (s Shape) suits(a Arm) bool { return a.Goroutines <= s.Partitions }

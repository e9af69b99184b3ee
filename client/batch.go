package client

import (
	"strconv"
	"strings"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
)

// Batch is a part of a listing: rows, and the outcomes of the paths that ended in it.
// It is immutable, safe for concurrent use and stays valid as long as it is kept, unless
// it is released. The accessors of rows.Batch read a row's columns without allocating.
type Batch struct {
	*rows.Batch // nil: no rows; Len says 0 then

	Outcomes []Outcome
	Txid     uint64 // of the newest state in the batch
	Cursor   []byte // of Pages: goes on after this batch; empty after the last

	given pathList    // the paths of the rows, as they were given
	room  [1][]string // of given

	located bool        // locations were asked for
	nodes   nodeTable   // in which the rows name datanodes
	memory  *rpc.Memory // of the rows; nil: the garbage collector's alone
}

// Outcome is how a path ended.
type Outcome struct {
	Path string // as it was given
	muster.Outcome
}

// Err returns nil for a path that is OK and complete, and else a *fs.PathError with
// the code and the server's words.
func (o Outcome) Err() error { return o.err("list") }

func (o Outcome) err(op string) error {
	if o.Code == muster.OK {
		return nil
	}
	return pathError(op, o.Path, &rpc.Error{Code: o.Code, Text: withoutPath(o.Message, o.Path)})
}

// withoutPath cuts off the path that a server's words begin with, since a PathError has
// it already: quoted, or, if it is long, its two ends.
func withoutPath(text, path string) string {
	head, rest, ok := cutQuoted(text)
	named := ok && head == path
	if tail, after, long := cutQuoted(strings.TrimPrefix(rest, "...")); ok && long {
		named = len(head)+len(tail) < len(path) && strings.HasPrefix(path, head) && strings.HasSuffix(path, tail)
		rest = after
	}
	if words, ok := strings.CutPrefix(rest, ": "); ok && named {
		return words
	}
	return text
}

// cutQuoted cuts a text in double quotes off the beginning of s.
func cutQuoted(s string) (text, rest string, ok bool) {
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil || quoted[0] != '"' {
		return "", s, false
	}
	text, err = strconv.Unquote(quoted)
	return text, s[len(quoted):], err == nil
}

// Len returns the number of rows.
func (b *Batch) Len() int {
	if b == nil || b.Batch == nil {
		return 0
	}
	return b.Batch.Len()
}

// Release gives the batch's memory to batches that are still to come, so that the garbage
// collector has less to do. Nobody may use the batch any more then, nor its outcomes, nor a
// string that an accessor of a column returned, nor a record over its memory, even one that
// was retained; what Path, Info, Entry, Located and Replica returned stays valid, and so does
// the cursor. A batch that is not released is left to the garbage collector.
func (b *Batch) Release() {
	if b == nil {
		return
	}
	if b.memory != nil {
		b.memory.Release()
	}
	if b.Outcomes != nil {
		releaseOutcomes(b.Outcomes)
	}
	*b = Batch{}
}

// tells says whether the batch has anything for those who list.
func (b *Batch) tells() bool { return b != nil && (b.Len() > 0 || len(b.Outcomes) > 0) }

// namePaths names the paths of the outcomes.
func (b *Batch) namePaths() {
	for i := range b.Outcomes {
		o := &b.Outcomes[i]
		o.Path = b.given.at(o.Index)
		if len(o.Path) > muster.MaxPathBytes {
			o.Message = tooLong(o.Path)
		}
	}
}

// tooLong says what is wrong with a path of which the server saw the beginning only.
func tooLong(path string) string {
	_, err := muster.CleanPath(path)
	return err.Error()
}

// Given returns the path that row i was listed for, as it was given.
func (b *Batch) Given(i int) string { return b.given.at(uint64(b.PathIndex(i))) }

// Path returns the full path of row i: the given path's own for its own entry.
func (b *Batch) Path(i int) string { return muster.JoinPath(cleanGiven(b.Given(i)), b.Name(i)) }

// AppendPath appends the full path of row i to dst, for readers that want no
// allocation a row.
func (b *Batch) AppendPath(dst []byte, i int) []byte {
	dir, name := cleanGiven(b.Given(i)), b.Name(i)
	dst = append(dst, dir...)
	if name == "" {
		return dst
	}
	if dir != "/" {
		dst = append(dst, '/')
	}
	return append(dst, name...)
}

// Info returns row i as an owned value.
func (b *Batch) Info(i int) Info { return Info{Path: b.Path(i), Entry: b.Entry(i)} }

// cleanGiven collapses the slashes of a path that the server accepted.
func cleanGiven(path string) string {
	if !strings.Contains(path, "//") && (len(path) == 1 || path[len(path)-1] != '/') {
		return path
	}
	clean, err := muster.CleanPath(path)
	if err != nil {
		return path
	}
	return clean
}

package namespace

import (
	"encoding/binary"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// Writing is a file that is being written.
type Writing struct {
	File   uint64 // inode id
	Holder muster.Holder
	User   string // who started it
	Since  int64  // ms since the epoch

	Temporary bool // it was to have another name in the end: see muster.StartFile
}

// Under the id of each file that is being written lies who does:
//
//	version u8 | holder 16 bytes | since i64 | user length u8 | user
//
// The version of a temporary file's is another one.
const (
	writingVersion   = 1
	temporaryVersion = 2
	writingHead      = 26
)

func appendWriting(dst []byte, w *Writing) []byte {
	version := byte(writingVersion)
	if w.Temporary {
		version = temporaryVersion
	}
	dst = append(append(dst, version), w.Holder[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(w.Since))
	return append(append(dst, byte(len(w.User))), w.User...)
}

func decodeWriting(v []byte, file uint64) (Writing, error) {
	if len(v) < writingHead || v[0] != writingVersion && v[0] != temporaryVersion {
		return Writing{}, corrupt("writer of file %d: unknown version or length %d", file, len(v))
	}
	w := Writing{File: file, Holder: muster.Holder(v[1:17]), Since: int64(binary.LittleEndian.Uint64(v[17:])), Temporary: v[0] == temporaryVersion}
	user := v[writingHead:]
	if w.Holder == (muster.Holder{}) || len(user) == 0 || len(user) != int(v[25]) || !utf8.Valid(user) {
		return Writing{}, corrupt("writer of file %d: bad holder or user", file)
	}
	w.User = string(user)
	return w, nil
}

// sinceText is a time for messages.
func sinceText(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// Writings returns the files being written whose inode ids are after a given one, at most max of
// them, ascending. Those of a tree that was deleted are among them until it is reclaimed.
func (t *Tree) Writings(after uint64, max int) (list []Writing, err error) {
	if after++; after == 0 {
		return nil, nil
	}
	err = t.iterate(tagWriting, appendIDKey(nil, tagWriting, after), max, func(key, value []byte) error {
		id, _, ok := splitIDKey(key, 0)
		if !ok {
			return corrupt("writer of a file: bad key")
		}
		w, err := decodeWriting(value, id)
		list = append(list, w)
		return err
	})
	return list, err
}

// iterate visits the keys of a tag from start on, at most so many, in the newest durable state.
func (t *Tree) iterate(tag byte, start []byte, most int, visit func(key, value []byte) error) error {
	v, err := t.currentView()
	if err != nil {
		return err
	}
	defer v.Release()
	iter, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: appendTagEnd(nil, tag)})
	if err != nil {
		return store.Error(err)
	}
	defer iter.Close()
	for ok := most > 0 && iter.First(); ok; ok = most > 0 && iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			return store.Error(err)
		}
		if err := visit(iter.Key(), value); err != nil {
			return err
		}
		most--
	}
	return store.Error(iter.Error())
}

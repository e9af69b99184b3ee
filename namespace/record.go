package namespace

import (
	"encoding/binary"

	"github.com/muster-fs/muster"
)

// Every inode has a record under its id, by which an id finds its parent:
//
//	version u8 | kind u8 | parent u64 | name length u8 | name | then, of a directory,
//	mtime i64 | changed_at u64 | record_at u64 | entries u64 | directories u64
//
// What of a directory changes often is here and not in its row, so that a change in a
// directory leaves the listing of its parent alone. Parent 0 is the root's, and that of a
// detached directory, whose name is then empty too.
const (
	recordVersion = 1
	recordHead    = 11
	recordTail    = 40
)

type record struct {
	kind      muster.Kind
	parent    uint64
	name      []byte
	mtime     int64  // of a directory, ms
	changedAt uint64 // txid of the last change to the children's rows
	recordAt  uint64 // txid of the last change to this record
	entries   uint64 // children
	dirs      uint64 // children that are directories
}

func appendRecord(dst []byte, r *record) []byte {
	dst = append(dst, recordVersion, byte(r.kind))
	dst = binary.LittleEndian.AppendUint64(dst, r.parent)
	dst = append(append(dst, byte(len(r.name))), r.name...)
	if r.kind != muster.Directory {
		return dst
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.mtime))
	dst = binary.LittleEndian.AppendUint64(dst, r.changedAt)
	dst = binary.LittleEndian.AppendUint64(dst, r.recordAt)
	dst = binary.LittleEndian.AppendUint64(dst, r.entries)
	return binary.LittleEndian.AppendUint64(dst, r.dirs)
}

// decodeRecord decodes v into r, whose name then aliases v.
func decodeRecord(v []byte, r *record) error {
	if len(v) < recordHead {
		return corrupt("record of %d bytes", len(v))
	}
	if v[0] != recordVersion {
		return corrupt("record of unknown version %d", v[0])
	}
	name := int(v[10])
	*r = record{kind: muster.Kind(v[1]), parent: binary.LittleEndian.Uint64(v[2:])}
	v = v[recordHead:]
	if len(v) < name {
		return corrupt("record: name of %d bytes in %d", name, len(v))
	}
	r.name, v = v[:name:name], v[name:]
	if (r.parent == 0) != (name == 0) || name > 0 && !nameOK(r.name) {
		return corrupt("record: bad name %.255q under %d", r.name, r.parent)
	}
	switch r.kind {
	case muster.File, muster.Link:
		if len(v) != 0 || r.parent == 0 {
			return corrupt("record of a %v: bad tail or parent", r.kind)
		}
		return nil
	case muster.Directory:
		return decodeDirectoryTail(v, r)
	}
	return corrupt("record of unknown kind %d", r.kind)
}

func decodeDirectoryTail(v []byte, r *record) error {
	if len(v) != recordTail {
		return corrupt("record of a directory: tail of %d bytes", len(v))
	}
	r.mtime = int64(binary.LittleEndian.Uint64(v))
	r.changedAt = binary.LittleEndian.Uint64(v[8:])
	r.recordAt = binary.LittleEndian.Uint64(v[16:])
	r.entries = binary.LittleEndian.Uint64(v[24:])
	r.dirs = binary.LittleEndian.Uint64(v[32:])
	if r.dirs > r.entries || r.changedAt > r.recordAt {
		return corrupt("record of a directory: bad counts")
	}
	return nil
}

// A queue entry says how far the reclaim of a detached directory is: children up to the
// name, itself included, are done.
//
//	version u8 | name
const queueVersion = 1

func appendQueue(dst, done []byte) []byte { return append(append(dst, queueVersion), done...) }

func decodeQueue(v []byte) (done []byte, err error) {
	if len(v) == 0 || v[0] != queueVersion {
		return nil, corrupt("queue entry of %d bytes: unknown version", len(v))
	}
	if done = v[1:]; len(done) > 0 && !nameOK(done) {
		return nil, corrupt("queue entry: bad name %.255q", done)
	}
	return done, nil
}

// meta are the tree's counters, written with every group of commands:
//
//	version u8 | txid u64 | next id u64 | stamp i64 | inodes u64 | detached u64 | requests u64 |
//	writing u64 | dropped u64
//
// Version 1, that of format 1, ended with requests.
type meta struct {
	txid     uint64 // of the last command
	nextID   uint64 // inode id to be given next
	stamp    int64  // ms; time of the last command
	inodes   uint64 // attached or waiting for reclaim
	detached uint64 // entries of the reclaim queue
	requests uint64 // results kept
	writing  uint64 // files being written
	dropped  uint64 // files that are gone, with blocks in chunks
}

const (
	metaVersion = 2
	metaLen     = 65
	oldMetaLen  = 49
)

func appendMeta(dst []byte, m *meta) []byte {
	dst = append(dst, metaVersion)
	for _, v := range [...]uint64{m.txid, m.nextID, uint64(m.stamp), m.inodes, m.detached, m.requests, m.writing, m.dropped} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// decodeMeta decodes the counters; old says that they are of format 1.
func decodeMeta(v []byte) (m meta, old bool, err error) {
	old = len(v) == oldMetaLen && v[0] == metaVersion-1
	if !old && (len(v) != metaLen || v[0] != metaVersion) {
		return meta{}, false, corrupt("counters: unknown version or length %d", len(v))
	}
	u := func(i int) uint64 { return binary.LittleEndian.Uint64(v[1+8*i:]) }
	m = meta{txid: u(0), nextID: u(1), stamp: int64(u(2)), inodes: u(3), detached: u(4), requests: u(5)}
	if !old {
		m.writing, m.dropped = u(6), u(7)
	}
	if m.nextID <= rootID || m.inodes == 0 || m.inodes >= m.nextID || m.detached >= m.inodes || m.writing >= m.inodes || m.dropped >= m.nextID {
		return meta{}, false, corrupt("counters: next id %d, %d inodes, %d detached, %d being written, %d dropped", m.nextID, m.inodes, m.detached, m.writing, m.dropped)
	}
	return m, old, nil
}

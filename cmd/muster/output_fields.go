package main

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/muster-fs/muster/listing/rows"
)

// field is one column of JSON and CSV. It has either text, which JSON quotes, or raw,
// which appends what is a JSON value already.
type field struct {
	name   string
	column rows.Columns // 0: always there
	text   func(r *row) string
	raw    func(dst []byte, r *row) []byte
}

// fieldsOf returns the fields of the columns, path first.
func fieldsOf(columns rows.Columns) []field {
	all := []field{
		{"path", 0, func(r *row) string { return r.path }, nil},
		{"name", 0, func(r *row) string { return r.base() }, nil},
		{"kind", rows.ColKind, func(r *row) string { return r.Kind.String() }, nil},
		{"length", rows.ColLength, nil, func(b []byte, r *row) []byte { return strconv.AppendInt(b, r.Length, 10) }},
		{"mtime", rows.ColMTime, nil, func(b []byte, r *row) []byte { return strconv.AppendInt(b, r.MTime, 10) }},
		{"atime", rows.ColATime, nil, func(b []byte, r *row) []byte { return strconv.AppendInt(b, r.ATime, 10) }},
		{"mode", rows.ColMode, func(r *row) string { return fmt.Sprintf("%04o", r.Mode) }, nil},
		{"owner", rows.ColOwner, func(r *row) string { return r.Owner }, nil},
		{"group", rows.ColGroup, func(r *row) string { return r.Group }, nil},
		{"replication", rows.ColReplication, func(r *row) string { return r.Replication.String() }, nil},
		{"block_size", rows.ColBlockSize, nil, func(b []byte, r *row) []byte { return strconv.AppendInt(b, r.BlockSize, 10) }},
		{"inode_id", rows.ColInodeID, nil, func(b []byte, r *row) []byte { return strconv.AppendUint(b, r.ID, 10) }},
		{"flags", rows.ColFlags, nil, func(b []byte, r *row) []byte { return strconv.AppendUint(b, uint64(r.Flags), 10) }},
		{"target", rows.ColLinkTarget, func(r *row) string { return r.Target }, nil},
		{"blocks", rows.ColBlocks, nil, appendBlocks},
	}
	fields := all[:0]
	for _, f := range all {
		if columns.Has(f.column) {
			fields = append(fields, f)
		}
	}
	return fields
}

// noData says of a located row whether it lacks data.
var noData = field{"no_data", 0, nil, func(b []byte, r *row) []byte { return strconv.AppendBool(b, r.located.NoData) }}

// base returns the last component of the path, also for the own entry of a given path,
// and / for the root.
func (r *row) base() string {
	if r.Name != "" {
		return r.Name
	}
	return baseName(r.path)
}

// appendBlocks appends the blocks as JSON; directories and links have none.
func appendBlocks(dst []byte, r *row) []byte {
	if r.located != nil {
		return appendLocated(dst, r.located.Blocks)
	}
	dst = append(dst, '[')
	for i, b := range r.Blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"container":%d,"local_id":%d,"length":%d}`, b.Container, b.LocalID, b.Length)
	}
	return append(dst, ']')
}

// appendJSON appends s as a JSON string. It leaves <, > and & alone, which
// encoding/json does not when it appends to a buffer.
func appendJSON(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < ' ' || r == 0x7f:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

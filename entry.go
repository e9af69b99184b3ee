package muster

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Kind is what an inode is. The numbers are part of the wire and disk formats.
type Kind uint8

// The kinds.
const (
	File      Kind = 1
	Directory Kind = 2
	Link      Kind = 3
)

// String returns file, dir or link.
func (k Kind) String() string {
	switch k {
	case File:
		return "file"
	case Directory:
		return "dir"
	case Link:
		return "link"
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Replication says how a file's blocks are kept. The zero value is none: that of
// directories and links.
//
// It is packed as 0x01nn for n replicas and 0x02dp for Reed-Solomon with d data and
// p parity replicas; so it is stored and sent.
type Replication uint16

// Replicated returns the replication by n whole copies, 1 to 9.
func Replicated(n int) Replication { return Replication(0x0100 | n&0xff) }

// ParseReplication reads replicated/1 to replicated/9 and ec/rs-D-P with D + P at most 14.
// The empty text is none.
func ParseReplication(s string) (Replication, error) {
	if s == "" {
		return 0, nil
	}
	r, rest := Replication(0), ""
	if n, ok := strings.CutPrefix(s, "replicated/"); ok && len(n) == 1 && n[0] >= '1' {
		r = Replicated(int(n[0] - '0'))
	} else if rest, ok = strings.CutPrefix(s, "ec/rs-"); ok {
		d, p, _ := strings.Cut(rest, "-")
		data, err1 := strconv.ParseUint(d, 10, 4)
		parity, err2 := strconv.ParseUint(p, 10, 4)
		if err1 == nil && err2 == nil {
			r = Replication(0x0200 | data<<4 | parity)
		}
	}
	if r == 0 || !r.Valid() {
		return 0, fmt.Errorf("%w: replication %q; use replicated/N with N from 1 to 9, or ec/rs-D-P with D + P at most 14", ErrInvalid, s)
	}
	return r, nil
}

// Valid says whether r is none, or a replication that ParseReplication can give.
func (r Replication) Valid() bool {
	switch r >> 8 {
	case 0:
		return r == 0
	case 1:
		return r&0xff >= 1 && r&0xff <= 9
	case 2:
		data, parity := r>>4&0xf, r&0xf
		return data >= 1 && parity >= 1 && data+parity <= 14
	}
	return false
}

// Nodes returns the number of datanodes that hold a block.
func (r Replication) Nodes() int {
	switch r >> 8 {
	case 1:
		return int(r & 0xff)
	case 2:
		return int(r>>4&0xf) + int(r&0xf)
	}
	return 0
}

// Coding returns the data and parity replicas of an erasure-coded replication.
func (r Replication) Coding() (data, parity int, coded bool) {
	if r>>8 != 2 {
		return 0, 0, false
	}
	return int(r >> 4 & 0xf), int(r & 0xf), true
}

// String returns the replication as ParseReplication reads it.
func (r Replication) String() string {
	switch r >> 8 {
	case 1:
		return fmt.Sprintf("replicated/%d", r&0xff)
	case 2:
		return fmt.Sprintf("ec/rs-%d-%d", r>>4&0xf, r&0xf)
	}
	return ""
}

// Block is one block of a file.
type Block struct {
	Container uint64
	LocalID   uint64
	Length    int64 // bytes
}

// The flags of an inode.
const (
	FlagWriting = 1 // the file is being written
	FlagNoData  = 2 // bytes of the file are in no block; said in listings with locations alone
)

// Row is one entry as a reader sees it in somebody else's buffer: its byte slices
// are valid until that reader moves on. It is how rows travel from the store to the
// wire with no allocation. Entry is the same, owned.
type Row struct {
	ID          uint64
	Length      int64 // bytes; of a file
	MTime       int64 // ms since the epoch, UTC
	ATime       int64 // ms since the epoch, UTC
	BlockSize   int64 // bytes; of a file
	Mode        uint16
	Replication Replication
	Kind        Kind
	Flags       uint8
	Name        []byte // empty for the own entry of a given path
	Owner       []byte
	Group       []byte
	Target      []byte  // of a link
	Blocks      []Block // of a file; nil unless asked for
}

// Entry returns an owned copy.
func (r *Row) Entry() Entry {
	e := Entry{
		ID: r.ID, Length: r.Length, MTime: r.MTime, ATime: r.ATime, BlockSize: r.BlockSize,
		Mode: r.Mode, Replication: r.Replication, Kind: r.Kind, Flags: r.Flags,
		Name: string(r.Name), Owner: string(r.Owner), Group: string(r.Group), Target: string(r.Target),
	}
	if r.Blocks != nil {
		e.Blocks = append([]Block{}, r.Blocks...)
	}
	return e
}

// Entry is the status of one inode under one name.
type Entry struct {
	ID          uint64
	Length      int64 // bytes; of a file
	MTime       int64 // ms since the epoch, UTC
	ATime       int64 // ms since the epoch, UTC
	BlockSize   int64 // bytes; of a file
	Mode        uint16
	Replication Replication
	Kind        Kind
	Flags       uint8
	Name        string // the last component; empty for the root and for the own entry of a given path
	Owner       string
	Group       string
	Target      string  // of a link, as it was given
	Blocks      []Block // of a file; nil unless asked for
}

// FileMode returns the mode and kind as io/fs has them.
func (e *Entry) FileMode() fs.FileMode {
	m := fs.FileMode(e.Mode & 0o777)
	if e.Mode&ModeSticky != 0 {
		m |= fs.ModeSticky
	}
	switch e.Kind {
	case Directory:
		m |= fs.ModeDir
	case Link:
		m |= fs.ModeSymlink
	}
	return m
}

// ModTime returns the time of the last change.
func (e *Entry) ModTime() time.Time { return time.UnixMilli(e.MTime).UTC() }

// ModeBits returns the bits of m that an inode keeps.
func ModeBits(m fs.FileMode) uint16 {
	bits := uint16(m.Perm())
	if m&fs.ModeSticky != 0 {
		bits |= ModeSticky
	}
	return bits
}

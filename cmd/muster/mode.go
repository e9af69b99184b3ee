package main

import (
	"strconv"
	"strings"

	"github.com/muster-fs/muster"
)

// allBits are the mode bits that an inode keeps.
const allBits = muster.ModeSticky | 0o777

// modeChange is a parsed mode of chmod or mkdir -m.
type modeChange struct {
	octal   bool
	bits    uint16 // if octal
	clauses []modeClause
	umask   uint16 // keeps these bits as they are in clauses that name nobody
}

// modeClause is one operation of a symbolic mode, such as the +x of ug+x.
type modeClause struct {
	who       uint16 // the bits of those named; 0: nobody was
	op        byte   // + - =
	bits      uint16
	copied    uint16 // 7, shifted to the user, group or others whose bits are taken; 0: none
	execIfAny bool   // X
}

// parseMode reads an octal mode, or a symbolic one as chmod has it.
func parseMode(text string, umask uint16) (modeChange, error) {
	if text != "" && text[0] >= '0' && text[0] <= '9' {
		n, err := strconv.ParseUint(text, 8, 16)
		if err != nil || n > allBits {
			return modeChange{}, usagef("mode %q: write it as octal digits up to 1777, or like u+rwx,g-w", text)
		}
		return modeChange{octal: true, bits: uint16(n)}, nil
	}
	change := modeChange{umask: umask}
	for part := range strings.SplitSeq(text, ",") {
		clauses, ok := parseClauses(part)
		if !ok {
			return modeChange{}, usagef("mode %q: %q is not understood; write it like u+rwx, g-w, o=r, a+X, +t, or as octal digits", text, part)
		}
		change.clauses = append(change.clauses, clauses...)
	}
	return change, nil
}

// parseClauses reads who is meant and one operation or more.
func parseClauses(text string) ([]modeClause, bool) {
	ops := strings.IndexAny(text, "+-=")
	if ops < 0 {
		return nil, false
	}
	var who uint16
	for _, name := range text[:ops] {
		bits, ok := map[rune]uint16{'u': 0o700, 'g': 0o070, 'o': muster.ModeSticky | 0o007, 'a': allBits}[name]
		if !ok {
			return nil, false
		}
		who |= bits
	}
	var clauses []modeClause
	for text = text[ops:]; text != ""; {
		clause := modeClause{who: who, op: text[0]}
		end := strings.IndexAny(text[1:], "+-=") + 1
		if end == 0 {
			end = len(text)
		}
		if !clause.parseBits(text[1:end]) {
			return nil, false
		}
		clauses = append(clauses, clause)
		text = text[end:]
	}
	return clauses, true
}

// parseBits reads permissions, or whose are copied.
func (c *modeClause) parseBits(text string) bool {
	if len(text) == 1 && strings.Contains("ugo", text) {
		c.copied = map[string]uint16{"u": 0o700, "g": 0o070, "o": 0o007}[text]
		return true
	}
	for _, permission := range text {
		switch permission {
		case 'r':
			c.bits |= 0o444
		case 'w':
			c.bits |= 0o222
		case 'x':
			c.bits |= 0o111
		case 'X':
			c.execIfAny = true
		case 't':
			c.bits |= muster.ModeSticky
		default:
			return false
		}
	}
	return true
}

// apply returns the mode that becomes of mode.
func (m *modeChange) apply(mode uint16, directory bool) uint16 {
	if m.octal {
		return m.bits
	}
	for i := range m.clauses {
		mode = m.clauses[i].apply(mode, directory, m.umask)
	}
	return mode
}

func (c *modeClause) apply(mode uint16, directory bool, umask uint16) uint16 {
	bits := c.bits
	if c.execIfAny && (directory || mode&0o111 != 0) {
		bits |= 0o111
	}
	if c.copied != 0 {
		for _, permission := range []uint16{0o444, 0o222, 0o111} {
			if mode&c.copied&permission != 0 {
				bits |= permission
			}
		}
	}
	kept := ^c.who // by =
	if c.who == 0 {
		bits &^= umask
		kept = 0
	} else {
		bits &= c.who
	}
	switch c.op {
	case '+':
		return mode | bits
	case '-':
		return mode &^ bits
	}
	return mode&kept | bits
}

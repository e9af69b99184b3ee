package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/muster-fs/muster/client"
)

// compare returns the order in which ls prints two entries, or nil if that is the one
// they come in.
func (l *lister) compare() func(a, b row) int {
	if l.order == byName && !l.reverse {
		return nil
	}
	sign := 1
	if l.reverse {
		sign = -1
	}
	return func(a, b row) int {
		var c int
		switch l.order {
		case bySize:
			c = cmp.Compare(b.Length, a.Length)
		case byTime:
			c = cmp.Compare(b.MTime, a.MTime)
		}
		if c == 0 {
			c = strings.Compare(a.path, b.path)
		}
		return sign * c
	}
}

// lsRows prints the rows for programs, in the order of the paths. If an order is asked
// for, it gathers each directory's rows and sorts them.
type lsRows struct {
	*lister
	out      rowWriter
	compare  func(a, b row) int // nil: as they come
	gathered []row
}

func newLsRows(l *lister, out rowWriter) *lsRows {
	return &lsRows{lister: l, out: out, compare: l.compare()}
}

func (p *lsRows) row(r *row, _ string) error {
	if p.compare == nil {
		return p.out.write(r)
	}
	// Paths that are files and stand together are sorted together.
	if r.Name != "" && len(p.gathered) > 0 && p.gathered[0].Name == "" {
		if err := p.emit(); err != nil {
			return err
		}
	}
	p.gathered = append(p.gathered, *r)
	return nil
}

func (p *lsRows) done(o client.Outcome) error {
	if err := o.Err(); err != nil {
		p.fail(o.Path, err)
	}
	if len(p.gathered) > 0 && p.gathered[0].Name != "" {
		return p.emit()
	}
	return nil
}

func (p *lsRows) emit() error {
	slices.SortFunc(p.gathered, p.compare)
	for i := range p.gathered {
		if err := p.out.write(&p.gathered[i]); err != nil {
			return err
		}
	}
	p.gathered = p.gathered[:0]
	return nil
}

func (p *lsRows) flush() error { return p.out.flush() }

func (p *lsRows) close() error {
	if err := p.emit(); err != nil {
		return err
	}
	return p.out.close()
}

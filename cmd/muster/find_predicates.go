package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

// maxWalkDepth stands for no bound.
const maxWalkDepth = math.MaxInt

// elsewhere has what find knows and Muster does otherwise.
var elsewhere = map[string]string{
	"-exec":    "use -print0 | xargs -0",
	"-execdir": "use -print0 | xargs -0",
	"-ok":      "use -print0 | xargs -0 -p",
	"-delete":  "use -print0 | xargs -0 muster rm",
	"-ls":      "use -o json or csv",
	"-printf":  "use -o json or csv, or -print0 | muster stat -c FORMAT -0 -",
	"-prune":   "use ! -path",
}

// test parses the test or action that name begins.
func (p *findParser) test(name string) (predicate, error) {
	switch name {
	case "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename":
		return p.glob(name)
	case "-type":
		return p.kind()
	case "-size":
		return p.size()
	case "-mtime":
		return p.age(name, 24*60*60*1000)
	case "-mmin":
		return p.age(name, 60*1000)
	case "-newer":
		return p.newer()
	case "-user", "-group":
		return p.owner(name)
	case "-empty":
		return p.empty(), nil
	case "-maxdepth", "-mindepth":
		return p.depth(name)
	case "-print", "-print0":
		return p.action(name), nil
	}
	if instead, ok := elsewhere[name]; ok {
		return nil, usagef("%s is not a test here; %s", name, instead)
	}
	return nil, usagef("%s is not a test; tests are -name, -iname, -path, -ipath, -type, -size, -mtime, -mmin, -newer, -user, -group, -empty, -maxdepth, -mindepth", name)
}

func (p *findParser) glob(name string) (predicate, error) {
	pattern, err := p.operand(name, "a pattern")
	if err != nil {
		return nil, err
	}
	matches := compileGlob(pattern, strings.HasPrefix(name, "-i"))
	if strings.HasSuffix(name, "path") || strings.HasSuffix(name, "wholename") {
		return func(c *candidate) bool { return matches(c.path) }, nil
	}
	if strings.Contains(pattern, "/") && pattern != "/" {
		return nil, usagef("%s %s: a name has no slash, so this never matches; use -path", name, shown(pattern))
	}
	return func(c *candidate) bool { return matches(c.base()) }, nil
}

func (p *findParser) kind() (predicate, error) {
	letters, err := p.operand("-type", "a kind (f, d or l)")
	if err != nil {
		return nil, err
	}
	var wanted [4]bool
	for letter := range strings.SplitSeq(letters, ",") {
		switch letter {
		case "f":
			wanted[muster.File] = true
		case "d":
			wanted[muster.Directory] = true
		case "l":
			wanted[muster.Link] = true
		default:
			return nil, usagef("-type %s: %q is no kind; use f, d or l, or several with commas", shown(letters), letter)
		}
	}
	return func(c *candidate) bool { return wanted[c.Kind] }, nil
}

// number is an operand N, +N (more) or -N (less).
type number struct {
	sign byte // 0: exactly
	n    int64
}

func (n number) matches(v int64) bool {
	switch n.sign {
	case '+':
		return v > n.n
	case '-':
		return v < n.n
	}
	return v == n.n
}

// parseNumber reads a number; ok is false if it is none.
func parseNumber(s string) (n number, ok bool) {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		n.sign, s = s[0], s[1:]
	}
	if s == "" || s[0] < '0' || s[0] > '9' {
		return n, false
	}
	v, err := strconv.ParseInt(s, 10, 64)
	n.n = v
	return n, err == nil
}

// size is measured as find does: in units, rounded up.
func (p *findParser) size() (predicate, error) {
	text, err := p.operand("-size", "a size such as +10M")
	if err != nil {
		return nil, err
	}
	unit, digits := int64(512), text
	if text != "" {
		if u, ok := map[byte]int64{'c': 1, 'w': 2, 'b': 512, 'k': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[text[len(text)-1]]; ok {
			unit, digits = u, text[:len(text)-1]
		}
	}
	n, ok := parseNumber(digits)
	if !ok {
		return nil, usagef("-size %s: use a number, with + for more or - for less before it, and c (bytes), k, M, G or b (512 bytes) behind it", shown(text))
	}
	p.expr.columns |= rows.ColLength
	return func(c *candidate) bool {
		units := c.Length / unit
		if c.Length%unit > 0 {
			units++
		}
		return n.matches(units)
	}, nil
}

// age is measured as find does: in whole units that have passed.
func (p *findParser) age(name string, unit int64) (predicate, error) {
	text, err := p.operand(name, "a number such as -7")
	if err != nil {
		return nil, err
	}
	n, ok := parseNumber(text)
	if !ok {
		return nil, usagef("%s %s: use a whole number, with + for longer ago or - for less long before it", name, shown(text))
	}
	p.expr.columns |= rows.ColMTime
	now := p.now
	return func(c *candidate) bool {
		passed := now - c.MTime
		units := passed / unit
		if passed%unit < 0 {
			units--
		}
		return n.matches(units)
	}, nil
}

func (p *findParser) newer() (predicate, error) {
	path, err := p.operand("-newer", "a path")
	if err != nil {
		return nil, err
	}
	than := &newerThan{path: resolve(path)}
	p.expr.newer = append(p.expr.newer, than)
	p.expr.columns |= rows.ColMTime
	return func(c *candidate) bool { return c.MTime > than.mtime }, nil
}

func (p *findParser) owner(name string) (predicate, error) {
	wanted, err := p.operand(name, "a name")
	if err != nil {
		return nil, err
	}
	if name == "-user" {
		p.expr.columns |= rows.ColOwner
		return func(c *candidate) bool { return c.Owner == wanted }, nil
	}
	p.expr.columns |= rows.ColGroup
	return func(c *candidate) bool { return c.Group == wanted }, nil
}

func (p *findParser) empty() predicate {
	p.expr.needsEmpty = true
	p.expr.columns |= rows.ColLength
	return func(c *candidate) bool {
		return c.Kind == muster.File && c.Length == 0 || c.Kind == muster.Directory && c.empty
	}
}

// depth sets a bound of the walk; as a test it is true.
func (p *findParser) depth(name string) (predicate, error) {
	text, err := p.operand(name, "a number")
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, usagef("%s %s: use a whole number from 0", name, shown(text))
	}
	if name == "-maxdepth" {
		p.expr.maxDepth = int(n)
	} else {
		p.expr.minDepth = int(n)
	}
	return func(*candidate) bool { return true }, nil
}

func (p *findParser) action(name string) predicate {
	p.expr.prints[name] = true
	end := byte('\n')
	if name == "-print0" {
		end = 0
	}
	return func(c *candidate) bool {
		p.print(c, end)
		return true
	}
}

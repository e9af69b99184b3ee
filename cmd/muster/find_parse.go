package main

import (
	"slices"
	"strings"

	"github.com/muster-fs/muster/listing/rows"
)

// candidate is an entry that a find expression is asked about.
type candidate struct {
	*visit
	empty bool // a directory without entries; known only if findExpr.needsEmpty
}

// predicate is a part of a find expression. Actions are predicates that are true.
type predicate func(c *candidate) bool

// findExpr is a parsed command line of find.
type findExpr struct {
	paths []string
	flags []string // for the flag parser: --server and the like, -o FORMAT
	match predicate

	minDepth, maxDepth int
	needsEmpty         bool
	columns            rows.Columns    // that the tests read
	newer              []*newerThan    // to be looked up before the walk
	prints             map[string]bool // the actions that are there
}

// newerThan is a -newer test; the time of its path is known once it was looked up.
type newerThan struct {
	path  string
	mtime int64 // ms
}

// findParser takes find's command line apart: paths, then an expression, among which
// flags with two dashes may stand anywhere.
type findParser struct {
	args       []string
	pos        int
	takesValue func(flag string) bool // of a flag without its dashes
	print      func(c *candidate, end byte)
	now        int64 // ms
	expr       *findExpr
}

// parse returns the parsed command line.
func (p *findParser) parse() (*findExpr, error) {
	p.expr = &findExpr{maxDepth: maxWalkDepth, prints: map[string]bool{}}
	for {
		arg, ok := p.peek()
		if !ok || startsExpression(arg) {
			break
		}
		p.expr.paths = append(p.expr.paths, arg)
		p.pos++
	}
	match := predicate(func(*candidate) bool { return true })
	if _, more := p.peek(); more {
		var err error
		if match, err = p.or(); err != nil {
			return nil, err
		}
		if arg, more := p.peek(); more {
			return nil, p.unexpected(arg)
		}
	}
	if len(p.expr.prints) == 0 {
		match = p.andPrint(match)
	}
	p.expr.match = match
	return p.expr, nil
}

// andPrint adds the action of an expression that names none.
func (p *findParser) andPrint(match predicate) predicate {
	return func(c *candidate) bool {
		if match(c) {
			p.print(c, '\n')
		}
		return true
	}
}

// startsExpression says whether arg ends the paths.
func startsExpression(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' || arg == "(" || arg == ")" || arg == "!"
}

// peek returns the next word of the paths or the expression; flags before it (those with
// two dashes, -0 and -h) are put aside. -o is or, unless the name of an output format follows: no part of an
// expression starts like that.
func (p *findParser) peek() (string, bool) {
	for p.pos < len(p.args) {
		arg := p.args[p.pos]
		words := 1
		switch name, _, hasValue := strings.Cut(strings.TrimPrefix(arg, "--"), "="); {
		case arg == "--":
			p.pos++
			continue
		case arg == "-help" || arg == "-h":
			arg = "--help"
		case arg == "-o" && p.pos+1 < len(p.args) && slices.Contains(allFormats, format(p.args[p.pos+1])):
			words = 2
		case !strings.HasPrefix(arg, "--") && arg != "-0":
			return arg, true
		case !hasValue && p.takesValue(name) && p.pos+1 < len(p.args):
			words = 2
		}
		p.expr.flags = append(p.expr.flags, arg)
		p.expr.flags = append(p.expr.flags, p.args[p.pos+1:p.pos+words]...)
		p.pos += words
	}
	return "", false
}

// accept takes the next word if it is one of words.
func (p *findParser) accept(words ...string) bool {
	arg, ok := p.peek()
	if !ok || !slices.Contains(words, arg) {
		return false
	}
	p.pos++
	return true
}

func (p *findParser) or() (predicate, error) {
	left, err := p.and()
	for err == nil && p.accept("-o", "-or") {
		a, b := left, predicate(nil)
		b, err = p.and()
		left = func(c *candidate) bool { return a(c) || b(c) }
	}
	return left, err
}

func (p *findParser) and() (predicate, error) {
	left, err := p.not()
	for err == nil {
		if !p.accept("-a", "-and") {
			arg, more := p.peek()
			if !more || arg == ")" || arg == "-o" || arg == "-or" || !startsExpression(arg) {
				break
			}
		}
		a, b := left, predicate(nil)
		b, err = p.not()
		left = func(c *candidate) bool { return a(c) && b(c) }
	}
	return left, err
}

func (p *findParser) not() (predicate, error) {
	negate := false
	for p.accept("!", "-not") {
		negate = !negate
	}
	test, err := p.primary()
	if !negate || err != nil {
		return test, err
	}
	return func(c *candidate) bool { return !test(c) }, nil
}

func (p *findParser) primary() (predicate, error) {
	arg, ok := p.peek()
	switch {
	case !ok && p.pos > 0:
		return nil, usagef("the expression ends after %s; a test is missing", p.args[p.pos-1])
	case !ok:
		return nil, usagef("a test is missing")
	case slices.Contains([]string{")", "-o", "-or", "-a", "-and"}, arg) || !startsExpression(arg):
		return nil, p.unexpected(arg)
	}
	p.pos++
	if arg != "(" {
		return p.test(arg)
	}
	inner, err := p.or()
	if err != nil {
		return nil, err
	}
	if !p.accept(")") {
		if arg, more := p.peek(); more {
			return nil, p.unexpected(arg)
		}
		return nil, usagef("( without )")
	}
	return inner, nil
}

// unexpected says what is wrong with arg where it stands.
func (p *findParser) unexpected(arg string) error {
	before := ""
	if p.pos > 0 {
		before = p.args[p.pos-1]
	}
	switch {
	case !startsExpression(arg):
		return usagef("%s: paths come before the expression", shown(arg))
	case arg == ")" && before == "(":
		return usagef("( ): a test is missing between the parentheses")
	case arg == ")" && !slices.Contains([]string{"-o", "-or", "-a", "-and", "!", "-not"}, before):
		return usagef(") without (")
	case before == "":
		return usagef("%s: a test is missing before it", arg)
	}
	return usagef("%s: a test is missing between it and %s", arg, before)
}

// operand returns the word that a test needs.
func (p *findParser) operand(test, what string) (string, error) {
	if p.pos >= len(p.args) {
		return "", usagef("%s: %s is missing", test, what)
	}
	p.pos++
	return p.args[p.pos-1], nil
}

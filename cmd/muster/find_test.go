package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

const testNow = 1_800_000_000_000 // ms

const day = 24 * 60 * 60 * 1000 // ms

func parseFind(args ...string) (*findExpr, *[]string, error) {
	printed := new([]string)
	p := findParser{
		args:       args,
		takesValue: func(flag string) bool { return flag == "server" || flag == "output" },
		print:      func(c *candidate, end byte) { *printed = append(*printed, c.path+string(end)) },
		now:        testNow,
	}
	expr, err := p.parse()
	return expr, printed, err
}

// words splits at spaces; ” is the empty word.
func words(s string) []string {
	fields := strings.Fields(s)
	for i, f := range fields {
		fields[i] = strings.ReplaceAll(f, "''", "")
	}
	return fields
}

func TestFindExpressions(t *testing.T) {
	file := func(path string, length int64) candidate {
		return candidate{visit: &visit{row: row{path: path, Entry: muster.Entry{Kind: muster.File, Length: length, MTime: testNow - day*3/2, Owner: "ann", Group: "staff"}}}}
	}
	dir := func(path string, empty bool) candidate {
		return candidate{visit: &visit{row: row{path: path, Entry: muster.Entry{Kind: muster.Directory, MTime: testNow + 1, Owner: "bob"}}}, empty: empty}
	}
	link := candidate{visit: &visit{row: row{path: "/d/link", Entry: muster.Entry{Kind: muster.Link, MTime: testNow - 10*day}}}}
	all := []candidate{
		file("/d/a.go", 0), file("/d/B.GO", 1), file("/d/big", 1<<20+1), dir("/d", false), dir("/d/e", true), link,
	}
	for _, test := range []struct{ expr, want string }{
		{"", "a.go B.GO big d e link"},
		{"-name *.go", "a.go"},
		{"-iname *.go", "a.go B.GO"},
		{"! -name *.go", "B.GO big d e link"},
		{"-not -name *.go", "B.GO big d e link"},
		{"! ! -name *.go", "a.go"},
		{"-path /d/*", "a.go B.GO big e link"},
		{"-path *g", "big"},
		{"-ipath /D/b*", "B.GO big"},
		{"-wholename /d", "d"},
		{"-type f", "a.go B.GO big"},
		{"-type d,l", "d e link"},
		{"-size 0", "a.go d e link"},
		{"-size 1", "B.GO"},
		{"-size +1", "big"},
		{"-size -2M", "a.go B.GO d e link"},
		{"-size 2M", "big"},
		{"-size 1M", "B.GO"},
		{"-size 1c", "B.GO"},
		{"-size +1048576c", "big"},
		{"-size 1025k", "big"},
		{"-size -1G", "a.go d e link"},
		{"-size +0w -size 1b", "B.GO"},
		{"-mtime 1", "a.go B.GO big"},
		{"-mtime -1", "d e"},
		{"-mtime +9", "link"},
		{"-mtime +10", ""},
		{"-mtime 10", "link"},
		{"-mmin -0", "d e"},
		{"-mmin 2160", "a.go B.GO big"},
		{"-user ann", "a.go B.GO big"},
		{"-group staff -size +0", "B.GO big"},
		{"-empty", "a.go e"},
		{"-empty -type d", "e"},
		{"-type f -name a* -o -type l", "a.go link"},
		{"-type l -o -type f -a -name a*", "a.go link"},
		{"( -type l -o -type f ) -name *i*", "big link"},
		{"( ( -type l ) )", "link"},
		{"! ( -type l -o -type f )", "d e"},
		{"-type f -and -name b* -or -name e", "big e"},
		{"-type f -print -o -name e", "a.go B.GO big"},
		{"-name e -print -print", "e e"},
		{"-name e ( -print -o -print )", "e"},
		{"-maxdepth 3 -type l", "link"},
		{"-name ''", ""},
		{"-name -o", ""},
		{"-name --server -o -type l", "link"},
	} {
		expr, printed, err := parseFind(words(test.expr)...)
		if err != nil {
			t.Errorf("%s: %v", test.expr, err)
			continue
		}
		for i := range all {
			expr.match(&all[i])
		}
		var got []string
		for _, p := range *printed {
			got = append(got, baseName(strings.TrimSuffix(p, "\n")))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s finds %q, want %q", test.expr, got, test.want)
		}
	}
}

func TestFindTakesItsCommandLineApart(t *testing.T) {
	for _, test := range []struct{ args, paths, flags string }{
		{"", "", ""},
		{"a b -name x", "a b", ""},
		{"- -name x", "-", ""},
		{"--server h:1 a -name x", "a", "--server h:1"},
		{"a --server=h:1 -name x", "a", "--server=h:1"},
		{"a -name x --server h:1", "a", "--server h:1"},
		{"a -name x --null -name y", "a", "--null"},
		{"-o json a -name x -o -name y", "a", "-o json"},
		{"a -o json -name x", "a", "-o json"},
		{"a -name x -o csv", "a", "-o csv"},
		{"a ( -name x -o json )", "a", "-o json"},
		{"a -name x -o -name json", "a", ""},
		{"a --output json", "a", "--output json"},
		{"a --help", "a", "--help"},
		{"-help", "", "--help"},
		{"a -name x -h", "a", "--help"},
		{"-- a", "a", ""},
		{"-0 - -name x", "-", "-0"},
		{"- -name x -0 -type f", "-", "-0"},
		{"a -name -0", "a", ""},
	} {
		expr, _, err := parseFind(words(test.args)...)
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		if !slices.Equal(expr.paths, words(test.paths)) || !slices.Equal(expr.flags, words(test.flags)) {
			t.Errorf("%s: paths %q, flags %q; want %s, %s", test.args, expr.paths, expr.flags, test.paths, test.flags)
		}
	}
}

func TestFindKeepsItsBounds(t *testing.T) {
	expr, _, err := parseFind("-mindepth", "1", "-maxdepth", "2", "-empty")
	if err != nil || expr.minDepth != 1 || expr.maxDepth != 2 || !expr.needsEmpty {
		t.Errorf("%+v, %v", expr, err)
	}
	expr, _, err = parseFind()
	if err != nil || expr.minDepth != 0 || expr.maxDepth != math.MaxInt || expr.needsEmpty {
		t.Errorf("%+v, %v", expr, err)
	}
}

func TestFindErrorsNameTheWord(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"-nam x", "-nam is not a test"},
		{"-name", "-name: a pattern is missing"},
		{"-name a/b", "-name a/b: a name has no slash"},
		{"-type", "-type: a kind"},
		{"-type x", `-type x: "x" is no kind`},
		{"-type f,", `-type f,: "" is no kind`},
		{"-type ''", `-type "": "" is no kind`},
		{"-size 1X", "-size 1X: "},
		{"-size ''", `-size "": `},
		{"-size k", "-size k: "},
		{"-size +-1", "-size +-1: "},
		{"-size 99999999999999999999", "-size 99999999999999999999: "},
		{"-mtime x", "-mtime x: "},
		{"-mtime 1.5", "-mtime 1.5: "},
		{"-mmin", "-mmin: a number"},
		{"-newer", "-newer: a path is missing"},
		{"-maxdepth -1", "-maxdepth -1: "},
		{"-mindepth x", "-mindepth x: "},
		{"-user", "-user: a name is missing"},
		{"-name x y", "y: paths come before the expression"},
		{"-name x -o", "the expression ends after -o"},
		{"-name x -a", "the expression ends after -a"},
		{"!", "the expression ends after !"},
		{"-o -name x", "-o: a test is missing before it"},
		{"a -a -name x", "-a: a test is missing between it and a"},
		{"-name x -o -o -name y", "-o: a test is missing between it and -o"},
		{"( )", "( ): a test is missing"},
		{"(", "the expression ends after ("},
		{"( -name x", "( without )"},
		{"( -name x y )", "y: paths come before"},
		{"-name x )", ") without ("},
		{") -name x", ") without ("},
		{"( -name x -o )", "): a test is missing between it and -o"},
		{"-exec rm {} ;", "-exec is not a test here; use -print0"},
		{"-delete", "-delete is not a test here; use -print0 | xargs -0 muster rm"},
	} {
		_, _, err := parseFind(words(test.args)...)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %s...", test.args, err, test.want)
		}
	}
}

func TestGlobs(t *testing.T) {
	for _, test := range []struct {
		pattern string
		yes, no []string
	}{
		{"*", []string{"", "a", ".a", "a/b", "a\nb"}, nil},
		{"a*c", []string{"ac", "abc", "a/c", "abcbc"}, []string{"abcd", "xac"}},
		{"?", []string{"a", "é", "\n", "."}, []string{"", "ab"}},
		{"[abc]", []string{"a", "c"}, []string{"d", "", "ab"}},
		{"[a-c]x", []string{"bx"}, []string{"dx", "-x"}},
		{"[!a-c]", []string{"d", "-"}, []string{"a"}},
		{"[^a]", []string{"b"}, []string{"a"}},
		{"[]a]", []string{"]", "a"}, []string{"b"}},
		{"[!]a]", []string{"b"}, []string{"]", "a"}},
		{"[a-]", []string{"a", "-"}, []string{"b"}},
		{"[-a]", []string{"a", "-"}, []string{"b"}},
		{"[[:digit:]x]", []string{"1", "x"}, []string{"a", ":"}},
		{"[^[:alpha:]]", []string{"1"}, []string{"a"}},
		{`[\]]`, []string{"]"}, []string{`\`}},
		{"[a^]", []string{"^", "a"}, nil},
		{"[", []string{"["}, []string{"a"}},
		{"[ab", []string{"[ab"}, []string{"a"}},
		{"a[", []string{"a["}, nil},
		{`\*`, []string{"*"}, []string{"a", `\*`}},
		{`\`, []string{`\`}, nil},
		{`a\bc`, []string{"abc"}, nil},
		{"a.b+c(d)$", []string{"a.b+c(d)$"}, []string{"axb+c(d)$"}},
		{"[z-a]", nil, []string{"z", "a", "[z-a]"}},
		{"\xff", nil, []string{"\xff", "a"}},
		{"dt=*-0[1-3]", []string{"dt=2026-01", "dt=2026-03"}, []string{"dt=2026-04"}},
	} {
		matches := compileGlob(test.pattern, false)
		for _, s := range test.yes {
			if !matches(s) {
				t.Errorf("%q does not match %q", test.pattern, s)
			}
		}
		for _, s := range test.no {
			if matches(s) {
				t.Errorf("%q matches %q", test.pattern, s)
			}
		}
	}
	if !compileGlob("É*", true)("éa") || compileGlob("É*", false)("éa") {
		t.Error("case is not folded as asked")
	}
}

// Any command line gives an expression or an error, and the expression can be asked.
func FuzzFindParser(f *testing.F) {
	f.Add("a -name x -o ( -type f ! -size +1k ) -newer y -print0")
	f.Add("( ( -o json ! ) ) -a , --server")
	f.Add("-name [[:x:] -path \\ -mtime -9223372036854775808")
	f.Fuzz(func(t *testing.T, line string) {
		expr, _, err := parseFind(strings.Split(line, " ")...)
		if (expr == nil) == (err == nil) {
			t.Fatalf("%v and %v", expr, err)
		}
		if err == nil {
			expr.match(&candidate{visit: &visit{row: row{path: "/a/b"}}})
		}
	})
}

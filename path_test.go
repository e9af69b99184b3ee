package muster_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

func TestCleanPathCollapsesSlashes(t *testing.T) {
	for in, want := range map[string]string{
		"/":              "/",
		"//":             "/",
		"/a":             "/a",
		"/a/":            "/a",
		"//a///b//":      "/a/b",
		"/a b/c=d/%20:+": "/a b/c=d/%20:+",
		"/é/…":           "/é/…",
		"/...":           "/...",
		"/#?&;\n":        "/#?&;\n",
	} {
		if got, err := muster.CleanPath(in); got != want || err != nil {
			t.Errorf("CleanPath(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

// Each refusal must name what is wrong, and the bound if there is one.
func TestCleanPathRefusals(t *testing.T) {
	long := strings.Repeat("n", muster.MaxNameBytes+1)
	for _, c := range []struct{ path, says string }{
		{"", "empty path"},
		{"a/b", `"a/b" is relative`},
		{"/a\x00b", "NUL"},
		{"/a\xff", "not valid UTF-8"},
		{"/a/./b", `component "."`},
		{"/a/..", `component ".."`},
		{"/" + long, "256 bytes, at most 255"},
		{"/a/" + long + "/b", "256 bytes, at most 255"},
		{strings.Repeat("/abcdefg", 1001), "8008 bytes, at most 8000"},
		{strings.Repeat("/a", 1001), "1001 components, at most 1000"},
	} {
		_, err := muster.CleanPath(c.path)
		if !errors.Is(err, muster.ErrInvalid) || !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("CleanPath(%.40q): %v; want INVALID_ARGUMENT saying %q", c.path, err, c.says)
		}
	}
}

func TestCleanPathAtItsBounds(t *testing.T) {
	for _, path := range []string{
		"/" + strings.Repeat("n", muster.MaxNameBytes),
		strings.Repeat("/abcdefg", 1000),
		strings.Repeat("/a", 1000),
	} {
		if got, err := muster.CleanPath(path); got != path || err != nil {
			t.Errorf("CleanPath of %d bytes: %v", len(path), err)
		}
	}
}

func TestCleanPathOfACleanPathAllocatesNothing(t *testing.T) {
	path := "/warehouse/sales/day=2026-01-01"
	if n := testing.AllocsPerRun(100, func() { _, _ = muster.CleanPath(path) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSplitAndJoinUndoEachOther(t *testing.T) {
	for _, path := range []string{"/", "/a", "/a/b", "/a/b/c"} {
		dir, name := muster.SplitPath(path)
		if got := muster.JoinPath(dir, name); got != path {
			t.Errorf("%q: %q + %q = %q", path, dir, name, got)
		}
	}
}

func TestNextComponentWalksAPath(t *testing.T) {
	var names []string
	for rest := "/a/bc/d"; rest != ""; {
		var name string
		name, rest = muster.NextComponent(rest)
		names = append(names, name)
	}
	if got := strings.Join(names, " "); got != "a bc d" {
		t.Errorf("got %q", got)
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "a b", "...", "é", "a=b%2F:+#?", "\n", strings.Repeat("n", 255)} {
		if err := muster.CheckName(name); err != nil {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "a\x00", "\xc3", strings.Repeat("n", 256)} {
		if err := muster.CheckName(name); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
}

func TestCheckTarget(t *testing.T) {
	for _, target := range []string{"a", "../x", "/abs", ".", "a//b/"} {
		if err := muster.CheckTarget(target); err != nil {
			t.Errorf("CheckTarget(%q): %v", target, err)
		}
	}
	for _, target := range []string{"", "a\x00", "\xff", strings.Repeat("a", 8001)} {
		if err := muster.CheckTarget(target); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("CheckTarget(%.20q): %v", target, err)
		}
	}
}

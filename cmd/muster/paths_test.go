package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPathsAreResolvedInTheText(t *testing.T) {
	for arg, want := range map[string]string{
		"/": "/", "a": "/a", "a/b/": "/a/b", ".": "/", "..": "/", "../../a": "/a",
		"/a/./b//c/..": "/a/b", "": "", "/a\xff": "/a\xff", "a b": "/a b",
	} {
		if got := resolve(arg); got != want {
			t.Errorf("resolve(%q) = %q, want %q", arg, got, want)
		}
	}
}

func TestPathsOfStandardInput(t *testing.T) {
	long := strings.Repeat("x", maxInputPath)
	for _, test := range []struct {
		args  []string
		zero  bool
		input string
		want  []string
		err   string
	}{
		{[]string{"-"}, false, "", nil, ""},
		{[]string{"-"}, true, "", nil, ""},
		{[]string{"-"}, false, "\n\n", nil, ""},
		{[]string{"-"}, false, "/a\nb\n\n/c", []string{"/a", "/b", "/c"}, ""},
		{[]string{"-"}, false, "/a\r\n", []string{"/a\r"}, ""},
		{[]string{"-"}, true, "/a\x00/b\nc\x00", []string{"/a", "/b\nc"}, ""},
		{[]string{"-"}, true, "/a", []string{"/a"}, ""},
		{[]string{"-"}, true, "/a\x00\x00/b\x00", []string{"/a", "", "/b"}, ""},
		{[]string{"x", "-", "y"}, false, "/a\n", []string{"/x", "/a", "/y"}, ""},
		{[]string{"-", "y"}, false, "/a\x00/b\x00", nil, "add -0"},
		{[]string{"-"}, false, "/a\n" + long, []string{"/a"}, "more than"},
		{[]string{"-"}, true, "/a\n" + long, nil, "leave out -0"},
		{[]string{"-"}, false, "\x00" + long, nil, "add -0"},
	} {
		a := &app{stdin: strings.NewReader(test.input)}
		p, err := a.pathArgs(test.args, test.zero)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Collect(p.all(t.Context()))
		if !slices.Equal(got, test.want) {
			t.Errorf("%q of %.20q: %q, want %q", test.args, test.input, got, test.want)
		}
		var usage *usageError
		if test.err == "" && p.err != nil || test.err != "" && (!errors.As(p.err, &usage) || !strings.Contains(p.err.Error(), test.err)) {
			t.Errorf("%q of %.20q: error %v, want %q", test.args, test.input, p.err, test.err)
		}
	}
}

func TestPathArgumentsThatContradict(t *testing.T) {
	a := &app{stdin: strings.NewReader("")}
	for _, test := range []struct {
		args []string
		zero bool
		want string
	}{
		{[]string{"-", "-"}, false, "2 times"},
		{[]string{"/a"}, true, "add -"},
		{nil, true, "add -"},
	} {
		if _, err := a.pathArgs(test.args, test.zero, "/"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want %q", test.args, err, test.want)
		}
	}
}

func TestReadErrorsOfStandardInputAreKept(t *testing.T) {
	broken := errors.New("broken")
	a := &app{stdin: io.MultiReader(strings.NewReader("/a\n/b\n"), &failingReader{broken})}
	p, err := a.pathArgs([]string{"-", "/never"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(p.all(t.Context())); !slices.Equal(got, []string{"/a", "/b"}) || !errors.Is(p.err, broken) {
		t.Errorf("paths %q, error %v", got, p.err)
	}
}

type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestSilentStandardInputDoesNotHoldUpAnInterrupt(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := &app{stdin: in}
	p, err := a.pathArgs([]string{"-"}, false)
	if err != nil {
		t.Fatal(err)
	}
	go out.Write([]byte("/a\n"))
	for path := range p.all(ctx) {
		if path != "/a" {
			t.Errorf("path %q", path)
		}
		cancel()
	}
	if ctx.Err() == nil {
		t.Error("ended before it was interrupted")
	}
	if !errors.Is(p.err, context.Canceled) {
		t.Errorf("the error is %v, as if these paths were all", p.err)
	}
}

func TestPathsComeBeforeStandardInputEnds(t *testing.T) {
	in, out := io.Pipe()
	a := &app{stdin: in}
	p, err := a.pathArgs([]string{"-"}, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go out.Write([]byte("/a\n"))
	var got bytes.Buffer
	for path := range p.all(ctx) {
		got.WriteString(path)
		if got.Len() == len("/a") {
			go func() { out.Write([]byte("/b")); out.Close() }()
		}
	}
	if got.String() != "/a/b" || p.err != nil {
		t.Errorf("paths %s, error %v", got.String(), p.err)
	}
}

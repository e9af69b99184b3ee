package main

import (
	"os/exec"
	"testing"
)

// Names as GNU ls 9.1 prints them on a terminal with a UTF-8 locale.
var quotedNames = []struct{ name, want string }{
	{"plain", "plain"},
	{"", "''"},
	{"a=b", "'a=b'"},
	{"a b", "'a b'"},
	{"it's", `"it's"`},
	{"it's $5", `'it'\''s $5'`},
	{`a"'b`, `'a"'\''b'`},
	{"x'y z", `"x'y z"`},
	{"'", `"'"`},
	{`"`, `'"'`},
	{"a\nb", `'a'$'\n''b'`},
	{"\nb", `''$'\n''b'`},
	{"a\n", `'a'$'\n'`},
	{"a\n'b", `'a'$'\n'\''b'`},
	{"a'\nb", `'a'\'''$'\n''b'`},
	{"x\n\ty", `'x'$'\n\t''y'`},
	{"\x01\x02'", `''$'\001\002'\'''`},
	{"\x1b[31m", `''$'\033''[31m'`},
	{"a\x7fb", `'a'$'\177''b'`},
	{"\a\b\f\r\v", `''$'\a\b\f\r\v'`},
	{"\u2028x", `''$'\342\200\250''x'`},
	{"a\xffb", `'a'$'\377''b'`},
	{"#x", "'#x'"},
	{"x#", "x#"},
	{"~x", "'~x'"},
	{"x~", "x~"},
	{"{", "'{'"},
	{"}", "'}'"},
	{"{}", "{}"},
	{"a?b", "'a?b'"},
	{`a\b`, `'a\b'`},
	{"[x", "'[x'"},
	{"]x", "]x"},
	{"a^b", "'a^b'"},
	{"a`b", "'a`b'"},
	{"a|b", "'a|b'"},
	{"a:b@c%d,e", "a:b@c%d,e"},
	{"-x", "-x"},
	{"é", "é"},
	{"e\u0301", "e\u0301"},
	{"日本", "日本"},
	{"a\u00a0b", "a\u00a0b"},
}

func TestNamesAreQuotedAsLsDoes(t *testing.T) {
	for _, test := range quotedNames {
		if got := shellQuote(test.name, ""); got != test.want {
			t.Errorf("shellQuote(%q) = %s, want %s", test.name, got, test.want)
		}
	}
	if got := shellQuote("a:b", ":"); got != "'a:b'" {
		t.Errorf("a heading with a colon is %s", got)
	}
}

func TestShellReadsQuotedNamesBack(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	for _, test := range quotedNames {
		for _, quoted := range []string{shellQuote(test.name, ""), alwaysQuote(test.name)} {
			out, err := exec.Command(bash, "-c", "printf %s "+quoted).Output()
			if err != nil || string(out) != test.name {
				t.Errorf("a shell reads %s as %q, %v; want %q", quoted, out, err, test.name)
			}
		}
	}
}

func TestUnhideQuotesOnlyWhatDoesNotShow(t *testing.T) {
	for path, want := range map[string]string{
		"/dt=1/it's a $": "/dt=1/it's a $",
		"/a\nb":          `'/a'$'\n''b'`,
		"/\x1b[2J":       `'/'$'\033''[2J'`,
	} {
		if got := unhide(path); got != want {
			t.Errorf("unhide(%q) = %s, want %s", path, got, want)
		}
	}
}

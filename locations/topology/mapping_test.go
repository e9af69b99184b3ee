package topology

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

const mappingFile = "# racks of the first hall\n" +
	"10.1.0.0/16      /hall1\n" +
	"10.1.2.0/24\t/rack2   # inside\n" +
	"10.1.2.3 /rack3\r\n" +
	"\n" +
	"Gateway.Example  //edge//\n" +
	"2001:db8::/32 /six\n" +
	"2001:db8::1 /one\n" +
	"0.0.0.0/0 /rest"

func TestTheSmallestNetworkWins(t *testing.T) {
	rules, err := ParseMapping(strings.NewReader(mappingFile))
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMapping(rules)
	if err != nil || len(rules) != 7 || !slices.Equal(m.Rules(), rules) {
		t.Fatal(err, rules)
	}
	for host, want := range map[string]string{
		"10.1.9.9": "/hall1", "10.1.2.9": "/rack2", "10.1.2.3": "/rack3", "::ffff:10.1.2.3": "/rack3", "192.168.0.1": "/rest",
		"gateway.EXAMPLE": "/edge", "2001:db8:7::": "/six", "2001:DB8::1": "/one", "2001:db8::1%eth0": "/one",
	} {
		if rack, listed := m.Rack(host); rack != want || !listed {
			t.Errorf("%s: %s, %v, want %s", host, rack, listed, want)
		}
	}
	for _, host := range []string{"fe80::1", "gateway", "other.example", "", "10.1.2", "10.1.2.3:22", "/rack2"} {
		if rack, listed := m.Rack(host); rack != muster.DefaultRack || listed {
			t.Errorf("%s: %s, %v", host, rack, listed)
		}
	}
}

func TestNoMappingListsNobody(t *testing.T) {
	none, err := NewMapping(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Mapping{nil, none} {
		if rack, listed := m.Rack("10.0.0.1"); rack != muster.DefaultRack || listed || len(m.Rules()) != 0 {
			t.Error(rack, listed, m.Rules())
		}
	}
}

func TestBadMappingsNameTheLine(t *testing.T) {
	for text, says := range map[string]string{
		"\n\n10.0.0.0/8":                  "line 3: invalid argument: 1 words",
		"10.0.0.1 /r1 /r2":                "line 1: invalid argument: 3 words",
		"# x\n10.0.0.0/33 /r1":            "line 2: invalid argument: \"10.0.0.0/33\" is no network",
		"10.0.0.1/8 /r1":                  "did you mean 10.0.0.0/8?",
		"host r1":                         "does not begin with /",
		"a/b /r1":                         "is no network",
		"h /a/../b":                       "component ..",
		"h /r1\nH /r2":                    "line 2: invalid argument: H is in /r1 already, and cannot be in /r2 too",
		"10.0.0.1 /r1\n10.0.0.1/32 /r2":   "line 2: invalid argument: 10.0.0.1/32 is in /r1 already",
		"a\x01b /r1":                      "control character",
		"\xff /r1":                        "not valid UTF-8",
		strings.Repeat("h", 256) + " /r1": "at most 255",
		"h /r1\nh " + strings.Repeat("/x", 1<<16): "line 2: ",
	} {
		if rules, err := ParseMapping(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80q: %v, %v does not say %q", text, rules, err, says)
		}
	}
	if _, err := NewMapping([]Rule{{"h", "/r1"}, {"h", "/r2"}}); !errors.Is(err, muster.ErrInvalid) || !strings.HasPrefix(err.Error(), "rule 2: ") {
		t.Error(err)
	}
}

func TestARuleMayBeThereTwice(t *testing.T) {
	if rules, err := ParseMapping(strings.NewReader("h /r1\nH //r1/")); err != nil || len(rules) != 2 {
		t.Error(rules, err)
	}
}

func TestMappingsAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range MaxRules + 1 {
		fmt.Fprintf(&text, "h%d /r\n", i)
	}
	if _, err := ParseMapping(strings.NewReader(text.String())); !errors.Is(err, muster.ErrLimit) {
		t.Error(err)
	}
}

// FuzzParseMapping: whatever is read is a mapping, reads the same once it is written down,
// and lists what each rule names.
func FuzzParseMapping(f *testing.F) {
	for _, text := range []string{mappingFile, "", "#", "a /b", "::/0 /x", "::ffff:10.0.0.0/104 /v4", "1.2.3.4/8 /r", "fe80::1%eth0 /z", "a /b\na /b", "\ufeffa /b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := ParseMapping(strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("%v names no line", err)
			}
			return
		}
		m, err := NewMapping(rules)
		if err != nil {
			t.Fatal(err)
		}
		var written strings.Builder
		for _, r := range rules {
			fmt.Fprintln(&written, r.Match, r.Rack)
			host := r.Match
			if network, err := netip.ParsePrefix(r.Match); err == nil {
				host = network.Addr().String()
			}
			rack, listed := m.Rack(host)
			if !listed || host == r.Match && rack != r.Rack {
				t.Errorf("%+v, but %s is in %s, %v", r, host, rack, listed)
			}
		}
		if again, err := ParseMapping(strings.NewReader(written.String())); err != nil || !slices.Equal(again, rules) {
			t.Errorf("%v, written as %q, reads as %v, %v", rules, written.String(), again, err)
		}
	})
}

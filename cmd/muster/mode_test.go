package main

import "testing"

func TestBadModesAreRefused(t *testing.T) {
	for _, text := range []string{"", "8", "9999", "2000", "4755", "07777777", "u", "rwx", "z+r", "u+z", "u+rg", "u+r,", ",u+r", "u+s", "a b"} {
		if mode, err := parseMode(text, 0); err == nil {
			t.Errorf("%q is taken as %+v", text, mode)
		}
	}
}

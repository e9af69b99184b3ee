package configs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Size is a number of bytes, written like 64MiB.
type Size int64

// UnmarshalText reads 64MiB, 1.5GiB, 10MB or 4096.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > 1<<62 {
		return fmt.Errorf("%q is no size; write it like 64MiB", text)
	}
	*s = Size(n)
	return nil
}

// MarshalText writes the size without loss, in the largest unit that fits.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the size as MarshalText writes it.
func (s Size) String() string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	unit := 0
	for s != 0 && s%1024 == 0 && unit < len(units)-1 {
		s, unit = s/1024, unit+1
	}
	return strconv.FormatInt(int64(s), 10) + units[unit]
}

// Mode is permission bits, written in octal like 022.
type Mode uint16

// UnmarshalText reads octal digits.
func (m *Mode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 16)
	if err != nil {
		return fmt.Errorf("%q is no octal mode; write it like 022", text)
	}
	*m = Mode(n)
	return nil
}

// MarshalText writes three octal digits or more.
func (m Mode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%03o", uint16(m)), nil }

// durationText writes d as people do: 10m and not 10m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

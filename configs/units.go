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
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// String returns the mode as MarshalText writes it.
func (m Mode) String() string { return fmt.Sprintf("%03o", uint16(m)) }

// Duration is a time span, written like 10m or 1h30m.
type Duration time.Duration

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	n, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration; write it with its unit, like 30s or 10m", text)
	}
	*d = Duration(n)
	return nil
}

// MarshalText writes the duration without parts that are zero.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns the duration as MarshalText writes it.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

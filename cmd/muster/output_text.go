package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/muster-fs/muster"
)

// humanSize returns n bytes as ls -h does: at most three digits and a power of 1024,
// rounded up.
func humanSize(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	const units = "KMGTPE"
	for i := range units {
		shift := 10 * (i + 1)
		whole, rest := uint64(n)>>shift, uint64(n)&(1<<shift-1)
		if tenths := whole*10 + (rest*10+1<<shift-1)>>shift; tenths < 100 {
			return fmt.Sprintf("%d.%d%c", tenths/10, tenths%10, units[i])
		}
		if rest > 0 {
			whole++
		}
		if whole < 1024 {
			return fmt.Sprintf("%d%c", whole, units[i])
		}
	}
	return strconv.FormatInt(n, 10) // not reached: int64 ends below 8E
}

// sizeText returns n bytes in digits, or for people.
func sizeText(n int64, human bool) string {
	if human {
		return humanSize(n)
	}
	return strconv.FormatInt(n, 10)
}

// modeText returns kind and mode as in -rw-r--r--.
func modeText(kind muster.Kind, mode uint16) string {
	text := []byte("-rwxrwxrwx")
	switch kind {
	case muster.Directory:
		text[0] = 'd'
	case muster.Link:
		text[0] = 'l'
	}
	for i := range 9 {
		if mode&(1<<(8-i)) == 0 {
			text[1+i] = '-'
		}
	}
	if mode&muster.ModeSticky != 0 {
		if text[9] == 'x' {
			text[9] = 't'
		} else {
			text[9] = 'T'
		}
	}
	return string(text)
}

// halfYear is half of an average year.
const halfYear = 31556952 * time.Second / 2

// listTime returns a time as ls -l does: with the hour if it is of the last six
// months, else with the year.
func listTime(ms int64, now time.Time) string {
	t := time.UnixMilli(ms).In(now.Location())
	if t.After(now.Add(-halfYear)) && !t.After(now) {
		return t.Format("Jan _2 15:04")
	}
	return t.Format("Jan _2  2006")
}

// fullTime returns a time as stat does.
func fullTime(ms int64) string {
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05.000000000 -0700")
}

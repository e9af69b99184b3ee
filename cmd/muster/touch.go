package main

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
)

func newTouchCommand(a *app) *cobra.Command {
	var t touch
	cmd := &cobra.Command{
		Use:   "touch [-c] [-a] [-m] [-d DATE | -r REF] PATH...",
		Short: "Create empty files, or set the times of what exists",
		Long: `Set the times of each path to now, and create it as an empty file if it is missing.
With - the paths are read from standard input, one on a line.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.touch(cmd.Context(), &t, args) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&t.noCreate, "no-create", "c", false, "create nothing")
	flags.BoolVarP(&t.atimeOnly, "atime", "a", false, "set the time of the last access only")
	flags.BoolVarP(&t.mtimeOnly, "mtime", "m", false, "set the time of the last change only")
	flags.StringVarP(&t.date, "date", "d", "", "this `DATE` (2026-11-30, \"2026-11-30 15:04:05\", RFC 3339, or @SECONDS) instead of now")
	flags.StringVarP(&t.reference, "reference", "r", "", "the times of the path `REF` instead of now")
	cmd.MarkFlagsMutuallyExclusive("date", "reference")
	inputFlag(flags, &t.zero)
	return cmd
}

// touch holds the flags of one touch.
type touch struct {
	noCreate, atimeOnly, mtimeOnly, zero bool
	date, reference                      string
}

func (a *app) touch(ctx context.Context, t *touch, args []string) error {
	atime, mtime, err := a.touchTimes(ctx, t)
	if err != nil {
		return err
	}
	mode := 0o666 &^ uint16(a.config.Client.Umask)
	refused := func(r refusal) {
		// What exists now was created since, by this very run if a path is given twice.
		if !errors.Is(r.err, muster.ErrExists) {
			a.refused(r)
		}
	}
	return a.statEach(ctx, args, t.zero, refused, func(w *changes, s stated) error {
		switch {
		case s.exists:
			return w.add(ctx, s.path, muster.SetAttr{Path: s.path, ATime: atime, MTime: mtime})
		case t.noCreate:
			return nil
		}
		return w.add(ctx, s.path, muster.Create{Path: s.path, Mode: mode, ATime: atime, MTime: mtime})
	})
}

// touchTimes returns the times to set; nil: left as it is.
func (a *app) touchTimes(ctx context.Context, t *touch) (atime, mtime *int64, err error) {
	now := time.Now()
	a1, m1 := now.UnixMilli(), now.UnixMilli()
	switch {
	case t.date != "":
		ms, err := parseDate(t.date, now)
		if err != nil {
			return nil, nil, err
		}
		a1, m1 = ms, ms
	case t.reference != "":
		c, err := a.client(ctx)
		if err != nil {
			return nil, nil, err
		}
		info, err := c.Stat(ctx, resolve(t.reference))
		if err != nil {
			return nil, nil, err
		}
		a1, m1 = info.Entry.ATime, info.Entry.MTime
	}
	atime, mtime = &a1, &m1
	if t.atimeOnly && !t.mtimeOnly {
		mtime = nil
	}
	if t.mtimeOnly && !t.atimeOnly {
		atime = nil
	}
	return atime, mtime, nil
}

// parseDate reads a date in the local time zone of now, and returns it in ms.
func parseDate(text string, now time.Time) (int64, error) {
	if text == "now" {
		return now.UnixMilli(), nil
	}
	if seconds, ok := strings.CutPrefix(text, "@"); ok {
		if n, err := strconv.ParseFloat(seconds, 64); err == nil && math.Abs(n) < 1<<40 {
			return int64(math.Round(n * 1000)), nil
		}
	}
	for _, layout := range []string{
		time.RFC3339, time.DateOnly, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05 -0700",
	} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, usagef("date %q is not understood; write it like 2026-11-30, \"2026-11-30 15:04:05\", 2026-11-30T15:04:05Z or @1796050000", text)
}

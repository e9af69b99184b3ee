package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// transferProgress shows how many of the files and bytes that were found so far are copied. A
// nil one shows nothing. It is safe for concurrent use.
type transferProgress struct {
	*progress
	total         atomic.Int64 // bytes
	files, copied atomic.Int64
}

// startTransfer shows the progress of copying until stop is called.
func (a *app) startTransfer(ctx context.Context) *transferProgress {
	p := new(transferProgress)
	files := func(decor.Statistics) string { return fmt.Sprintf("%d / %d files, ", p.copied.Load(), p.files.Load()) }
	p.progress = a.show(ctx, 0, mpb.BarStyle(),
		mpb.PrependDecorators(decor.Any(files), decor.CountersKibiByte("% .1f / % .1f")),
		mpb.AppendDecorators(decor.AverageSpeed(decor.SizeB1024(0), "% .1f"), decor.Elapsed(decor.ET_STYLE_GO, decor.WCSyncSpace)))
	if p.progress == nil {
		return nil
	}
	return p
}

// found counts a file that is to be copied.
func (p *transferProgress) found(bytes int64) {
	if p != nil {
		p.files.Add(1)
		p.bar.SetTotal(p.total.Add(bytes), false)
	}
}

// done counts a file that is done with.
func (p *transferProgress) done() {
	if p != nil {
		p.copied.Add(1)
	}
}

// bytes counts bytes that were copied.
func (p *transferProgress) bytes(n int) {
	if p != nil {
		p.bar.IncrBy(n)
	}
}

// skip counts bytes that are there already.
func (p *transferProgress) skip(n int64) {
	if p != nil && n > 0 {
		p.bar.IncrInt64(n)
	}
}

func (p *transferProgress) stop() {
	if p != nil {
		p.progress.stop()
	}
}

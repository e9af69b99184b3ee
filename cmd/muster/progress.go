package main

import (
	"context"
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows a person how far an operation is. A nil one, when standard error is no
// terminal, shows nothing.
type progress struct {
	app    *app
	stderr io.Writer // the app's, while messages go through bars
	bars   *mpb.Progress
	bar    *mpb.Bar
}

// startProgress counts the entries of an operation of unknown size until stop is called.
func (a *app) startProgress(ctx context.Context) *progress {
	return a.show(ctx, 0, mpb.SpinnerStyle().PositionLeft(), mpb.BarWidth(1),
		mpb.AppendDecorators(decor.CurrentNoUnit(" %d entries, "), decor.Elapsed(decor.ET_STYLE_GO)))
}

// startBar shows the progress of an operation of known size until stop is called.
func (a *app) startBar(ctx context.Context, title string, total int) *progress {
	return a.show(ctx, int64(total), mpb.BarStyle(),
		mpb.PrependDecorators(decor.Name(title), decor.CountersNoUnit(" %d / %d")),
		mpb.AppendDecorators(decor.Percentage()))
}

// show puts a bar on standard error. Messages of the app go above it.
func (a *app) show(ctx context.Context, total int64, style mpb.BarFillerBuilder, options ...mpb.BarOption) *progress {
	if !isTerminal(a.stderr) {
		return nil
	}
	bars := mpb.NewWithContext(context.WithoutCancel(ctx), mpb.WithOutput(a.stderr))
	p := &progress{app: a, stderr: a.stderr, bars: bars}
	p.bar = bars.New(total, style, append(options, mpb.BarRemoveOnComplete())...)
	a.stderr = bars
	return p
}

// set says that n of the total are done.
func (p *progress) set(n int) {
	if p != nil {
		p.bar.SetCurrent(int64(n))
	}
}

func (p *progress) add(n int) {
	if p != nil {
		p.bar.IncrBy(n)
	}
}

// stop takes the progress off the screen.
func (p *progress) stop() {
	if p == nil {
		return
	}
	p.bar.SetTotal(-1, true)
	p.bars.Wait()
	p.app.stderr = p.stderr
}

package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The sizes of a chart.
const (
	chartWidth  = 24 * vg.Centimeter
	chartHeight = 9 * vg.Centimeter // of a place
	legendWidth = 3 * vg.Centimeter
)

// chart is how results are drawn: a panel for each place, in which each shape has a point
// for each arm.
type chart struct {
	places, shapes, arms []string
	results              []Result
	low, high            float64 // powers of ten around all points
}

// Draw draws the results as an SVG image: statuses a second, the median and from the
// slowest round to the fastest one.
func Draw(w io.Writer, results []Result) error {
	if len(results) == 0 {
		return errors.New("no results to draw")
	}
	c := chart{results: results, low: math.Inf(1)}
	for _, r := range results {
		c.places, c.shapes, c.arms = with(c.places, r.Place), with(c.shapes, r.Shape), with(c.arms, r.Label())
		c.low = min(c.low, float64(r.MinStatusesPerSecond))
		c.high = max(c.high, float64(r.MaxStatusesPerSecond))
	}
	c.low, c.high = math.Pow(10, math.Floor(math.Log10(c.low))), math.Pow(10, math.Ceil(math.Log10(c.high)))
	image := vgsvg.New(chartWidth, chartHeight*vg.Length(len(c.places)))
	canvas := draw.New(image)
	legend := plot.NewLegend()
	legend.Top, legend.Padding = true, vg.Millimeter
	panels := make([][]*plot.Plot, len(c.places))
	for i, place := range c.places {
		panel, err := c.panel(place, &legend, i == 0)
		if err != nil {
			return err
		}
		panels[i] = []*plot.Plot{panel}
	}
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: 3 * vg.Millimeter}
	for i, row := range plot.Align(panels, tiles, draw.Crop(canvas, 0, -legendWidth, 0, 0)) {
		panels[i][0].Draw(row[0])
	}
	legend.Draw(canvas)
	_, err := image.WriteTo(w)
	return err
}

func with(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// panel draws one place.
func (c *chart) panel(place string, legend *plot.Legend, first bool) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = place, "statuses a second"
	p.NominalX(c.shapes...)
	p.X.Min, p.X.Max = -0.5, float64(len(c.shapes))-0.5
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	p.Add(plotter.NewGrid())
	for i, arm := range c.arms {
		points, err := plotter.NewScatter(c.points(place, i))
		if err != nil {
			return nil, err
		}
		points.GlyphStyle = draw.GlyphStyle{Color: plotutil.Color(i), Shape: plotutil.Shape(i), Radius: vg.Millimeter}
		bars, err := plotter.NewYErrorBars(c.points(place, i))
		if err != nil {
			return nil, err
		}
		bars.Color = plotutil.Color(i)
		p.Add(points, bars)
		if first {
			legend.Add(arm, points)
		}
	}
	p.Y.Min, p.Y.Max = c.low, c.high
	return p, nil
}

// points are an arm's results in a place.
type points struct {
	plotter.XYs
	plotter.YErrors
}

func (c *chart) points(place string, arm int) points {
	var p points
	aside := 0.12 * (float64(arm) - float64(len(c.arms)-1)/2)
	for _, r := range c.results {
		if r.Place != place || r.Label() != c.arms[arm] {
			continue
		}
		y := float64(r.StatusesPerSecond)
		p.XYs = append(p.XYs, plotter.XY{X: float64(slices.Index(c.shapes, r.Shape)) + aside, Y: y})
		p.YErrors = append(p.YErrors, struct{ Low, High float64 }{float64(r.MinStatusesPerSecond) - y, float64(r.MaxStatusesPerSecond) - y})
	}
	return p
}

// decades are the ticks of a logarithmic axis, such as 10k.
func decades(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for power := 0; power <= 12; power++ {
		if value := math.Pow10(power); value >= low*0.999 && value <= high*1.001 {
			label := fmt.Sprintf("1%s%s", strings.Repeat("0", power%3), [...]string{"", "k", "M", "G", "T"}[power/3])
			ticks = append(ticks, plot.Tick{Value: value, Label: label})
		}
	}
	return ticks
}

package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// Size of a drawing in pixels.
const (
	plotWidth  = 760
	plotHeight = 340
)

// palette is for lines that must be told apart, also by those who see no red or green (Okabe and Ito).
func palette(i int) drawing.Color {
	colours := []string{"0072B2", "D55E00", "009E73", "CC79A7", "E69F00", "56B4E9"}
	return drawing.ColorFromHex(colours[i%len(colours)])
}

// newChart prepares a chart. The unit stands in the title: a name beside an axis would turn the title, too.
func newChart(title, unit string) *chart.Chart {
	grid := chart.Style{StrokeColor: drawing.ColorFromHex("dddddd"), StrokeWidth: 1}
	return &chart.Chart{
		Title: title + " [" + unit + "]", Width: plotWidth, Height: plotHeight,
		TitleStyle: chart.Style{FontSize: 12},
		Background: chart.Style{Padding: chart.Box{Top: 40, Left: 16, Right: 16, Bottom: 8}},
		XAxis:      chart.XAxis{GridMajorStyle: grid, NameStyle: chart.Style{FontSize: 9}},
		YAxis:      chart.YAxis{Style: chart.Hidden()},
		// The library's second axis is the one on the left.
		YAxisSecondary: chart.YAxis{GridMajorStyle: grid},
	}
}

// PlotCurves draws latency distributions: percentiles by their nines, times by their logarithm.
func PlotCurves(w io.Writer, title string, curves []Curve) error {
	c := newChart(title, "ms")
	most, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for i, curve := range curves {
		s := chart.ContinuousSeries{Name: curve.Name, YAxis: chart.YAxisSecondary, Style: chart.Style{StrokeColor: palette(i), StrokeWidth: 2}}
		for _, p := range curve.Points {
			x, y := -math.Log10(1-p.Percentile/100), math.Log10(max(p.Millis, 0.001))
			s.XValues, s.YValues = append(s.XValues, x), append(s.YValues, y)
			most, low, high = max(most, x), min(low, y), max(high, y)
		}
		c.Series = append(c.Series, s)
	}
	if math.IsInf(low, 0) {
		return fmt.Errorf("draw %s: there is nothing to draw", title)
	}
	low, high = math.Floor(low), math.Ceil(high+1e-9)
	c.XAxis.Name = "percentile"
	c.XAxis.Range = &chart.ContinuousRange{Min: 0, Max: max(most, 1)}
	c.YAxisSecondary.Range = &chart.ContinuousRange{Min: low, Max: high}
	for n := 0.0; n <= max(most, 1); n++ {
		label := strconv.FormatFloat(100*(1-math.Pow(10, -n)), 'f', max(0, int(n)-2), 64)
		c.XAxis.Ticks = append(c.XAxis.Ticks, chart.Tick{Value: n, Label: label + " %"})
	}
	c.XAxis.Ticks = append(c.XAxis.Ticks, chart.Tick{Value: most}) // the axis ends with its last tick
	for y := low; y <= high; y++ {
		c.YAxisSecondary.Ticks = append(c.YAxisSecondary.Ticks, chart.Tick{Value: y, Label: strconv.FormatFloat(math.Pow(10, y), 'f', max(0, int(-y)), 64)})
	}
	return render(w, c)
}

// PlotSeries draws something over time, or over what the series says.
func PlotSeries(w io.Writer, title string, s Series) error {
	c := newChart(title, s.Unit)
	line := chart.ContinuousSeries{Name: s.Name, YAxis: chart.YAxisSecondary, Style: chart.Style{StrokeColor: palette(0), StrokeWidth: 2}}
	most := 0.0
	for _, p := range s.Points {
		line.XValues, line.YValues = append(line.XValues, p[0]), append(line.YValues, p[1])
		most = max(most, p[1])
	}
	if len(s.Points) < 2 {
		return fmt.Errorf("draw %s: there is nothing to draw", title)
	}
	c.Series = []chart.Series{line}
	c.XAxis.Name = cmp.Or(s.Over, "seconds")
	c.YAxisSecondary.Range = &chart.ContinuousRange{Min: 0, Max: niceCeiling(most)}
	c.XAxis.Ticks = ticks(s.Points[0][0], s.Points[len(s.Points)-1][0])
	c.YAxisSecondary.Ticks = ticks(0, niceCeiling(most))
	return render(w, c)
}

// ticks divides an axis into about eight parts of a round length.
func ticks(from, to float64) (all []chart.Tick) {
	step := niceCeiling((to - from) / 8)
	all = append(all, chart.Tick{Value: from})
	for i := math.Ceil(from / step); i*step <= to; i++ {
		all = append(all, chart.Tick{Value: i * step, Label: Format(math.Round(i*step*1000) / 1000)})
	}
	return append(all, chart.Tick{Value: to})
}

// niceCeiling is the least of 1, 2, 2.5 or 5 times a power of ten that is not below v.
func niceCeiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*unit >= v {
			return m * unit
		}
	}
	return 10 * unit
}

func render(w io.Writer, c *chart.Chart) error {
	c.YAxis.Ticks = c.YAxisSecondary.Ticks // where the library looks for the ends of the second axis, too
	if len(c.Series) > 1 {
		c.Elements = []chart.Renderable{chart.Legend(c)}
	}
	if err := c.Render(chart.SVG, w); err != nil {
		return fmt.Errorf("draw %s: %w", c.Title, err)
	}
	return nil
}

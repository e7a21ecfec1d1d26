package report

import (
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

func newChart(title string) *chart.Chart {
	grid := chart.Style{StrokeColor: drawing.ColorFromHex("dddddd"), StrokeWidth: 1}
	return &chart.Chart{
		Title: title, Width: plotWidth, Height: plotHeight,
		TitleStyle: chart.Style{FontSize: 12},
		Background: chart.Style{Padding: chart.Box{Top: 40, Left: 16, Right: 16, Bottom: 8}},
		XAxis:      chart.XAxis{GridMajorStyle: grid, NameStyle: chart.Style{FontSize: 9}},
		YAxis:      chart.YAxis{GridMajorStyle: grid, NameStyle: chart.Style{FontSize: 9}},
	}
}

// PlotCurves draws latency distributions: percentiles by their nines, times by their logarithm.
func PlotCurves(w io.Writer, title string, curves []Curve) error {
	c := newChart(title)
	most, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for i, curve := range curves {
		s := chart.ContinuousSeries{Name: curve.Name, Style: chart.Style{StrokeColor: palette(i), StrokeWidth: 2}}
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
	c.XAxis.Name, c.YAxis.Name = "percentile", "ms"
	c.XAxis.Range = &chart.ContinuousRange{Min: 0, Max: max(most, 1)}
	c.YAxis.Range = &chart.ContinuousRange{Min: low, Max: high}
	for n := 0.0; n <= max(most, 1); n++ {
		label := strconv.FormatFloat(100*(1-math.Pow(10, -n)), 'f', max(0, int(n)-2), 64)
		c.XAxis.Ticks = append(c.XAxis.Ticks, chart.Tick{Value: n, Label: label + " %"})
	}
	for y := low; y <= high; y++ {
		c.YAxis.Ticks = append(c.YAxis.Ticks, chart.Tick{Value: y, Label: strconv.FormatFloat(math.Pow(10, y), 'f', max(0, int(-y)), 64)})
	}
	return render(w, c)
}

// PlotSeries draws something over time.
func PlotSeries(w io.Writer, title string, s Series) error {
	c := newChart(title)
	line := chart.ContinuousSeries{Name: s.Name, Style: chart.Style{StrokeColor: palette(0), StrokeWidth: 2}}
	most := 0.0
	for _, p := range s.Points {
		line.XValues, line.YValues = append(line.XValues, p[0]), append(line.YValues, p[1])
		most = max(most, p[1])
	}
	if len(s.Points) < 2 {
		return fmt.Errorf("draw %s: there is nothing to draw", title)
	}
	c.Series = []chart.Series{line}
	c.XAxis.Name, c.YAxis.Name = "seconds", s.Unit
	c.YAxis.Range = &chart.ContinuousRange{Min: 0, Max: niceCeiling(most)}
	c.XAxis.ValueFormatter, c.YAxis.ValueFormatter = plain, plain
	return render(w, c)
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

func plain(v any) string {
	if f, ok := v.(float64); ok {
		return Format(math.Round(f*100) / 100)
	}
	return fmt.Sprint(v)
}

func render(w io.Writer, c *chart.Chart) error {
	if len(c.Series) > 1 {
		c.Elements = []chart.Renderable{chart.Legend(c)}
	}
	if err := c.Render(chart.SVG, w); err != nil {
		return fmt.Errorf("draw %s: %w", c.Title, err)
	}
	return nil
}

package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// Size of a drawing in pixels.
const (
	plotWidth  = 760
	plotHeight = 340
	widestBar  = 120
)

// palette returns colours that people who cannot tell red from green can distinguish (Okabe and Ito).
func palette(i int) drawing.Color {
	colours := []string{"0072B2", "D55E00", "009E73", "CC79A7", "E69F00", "56B4E9"}
	return drawing.ColorFromHex(colours[i%len(colours)])
}

// newChart prepares a chart. The unit is part of the title: a name on an axis would make the library rotate the title, too.
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

// PlotCurves draws latency distributions. The x axis has the percentiles by their number of nines, the y axis the logarithm of the times.
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
	c.XAxis.Ticks = append(c.XAxis.Ticks, chart.Tick{Value: most}) // the axis must end with its last tick
	for y := low; y <= high; y++ {
		c.YAxisSecondary.Ticks = append(c.YAxisSecondary.Ticks, chart.Tick{Value: y, Label: strconv.FormatFloat(math.Pow(10, y), 'f', max(0, int(-y)), 64)})
	}
	return render(w, c)
}

// PlotSeries draws several series in one plot, over time or over the quantity that they name. The first one sets the axes.
func PlotSeries(w io.Writer, title string, all ...Series) error {
	c := newChart(title, all[0].Unit)
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	drawn := false
	for i, s := range all {
		line := chart.ContinuousSeries{Name: s.Name, YAxis: chart.YAxisSecondary, Style: chart.Style{StrokeColor: palette(i), StrokeWidth: 2}}
		for _, p := range s.Points {
			if all[0].Log {
				p = [2]float64{math.Log10(max(p[0], least)), math.Log10(max(p[1], least))}
			}
			for axis := range p {
				low[axis], high[axis] = min(low[axis], p[axis]), max(high[axis], p[axis])
			}
			line.XValues, line.YValues = append(line.XValues, p[0]), append(line.YValues, p[1])
		}
		drawn = drawn || len(s.Points) > 1
		c.Series = append(c.Series, line)
	}
	if !drawn {
		return fmt.Errorf("draw %s: there is nothing to draw", title)
	}
	c.XAxis.Name = cmp.Or(all[0].Over, "seconds")
	if all[0].Log {
		c.XAxis.Ticks, c.YAxisSecondary.Ticks = decades(low[0], high[0]), decades(low[1], high[1])
	} else {
		c.XAxis.Ticks, c.YAxisSecondary.Ticks = ticks(low[0], high[0]), ticks(0, niceCeiling(high[1]))
	}
	for axis, within := range map[*chart.Range][]chart.Tick{&c.XAxis.Range: c.XAxis.Ticks, &c.YAxisSecondary.Range: c.YAxisSecondary.Ticks} {
		*axis = &chart.ContinuousRange{Min: within[0].Value, Max: within[len(within)-1].Value}
	}
	return render(w, c)
}

// least is the smallest value that is drawn on a logarithmic axis.
const least = 0.001

// decades returns the powers of ten that enclose two logarithms.
func decades(from, to float64) (all []chart.Tick) {
	from, to = math.Floor(from), math.Ceil(to)
	for n := from; n <= max(to, from+1); n++ {
		all = append(all, chart.Tick{Value: n, Label: Format(math.Pow(10, n))})
	}
	return all
}

// PlotBars draws the figures of a group as bars side by side, with the value and the name below each.
func PlotBars(w io.Writer, title string, figures []Figure) error {
	if len(figures) == 0 {
		return fmt.Errorf("draw %s: there is nothing to draw", title)
	}
	c := chart.BarChart{
		Title: title + " [" + figures[0].Unit + "]", Width: plotWidth, Height: plotHeight, TitleStyle: chart.Style{FontSize: 12},
		// The text below a bar needs several lines, and the library reserves no space for them.
		Background: chart.Style{Padding: chart.Box{Top: 40, Left: 8, Right: 8, Bottom: 85}},
		XAxis:      chart.Style{FontSize: 7, TextWrap: chart.TextWrapWord}, UseBaseValue: true,
	}
	room := (plotWidth - 16) / len(figures)
	c.BarWidth = min(room*3/5, widestBar)
	c.BarSpacing = room - c.BarWidth
	most := 0.0
	for i := range figures {
		f := &figures[i]
		most = max(most, f.Median)
		style := chart.Style{FillColor: palette(0), StrokeColor: palette(0)}
		label := Format(f.Median) + ":\n" + strings.ReplaceAll(f.Name, ", ", ",\n")
		c.Bars = append(c.Bars, chart.Value{Value: max(f.Median, 0), Label: label, Style: style})
	}
	c.YAxis = chart.YAxis{Style: chart.Hidden(), Range: &chart.ContinuousRange{Min: 0, Max: niceCeiling(most)}}
	if err := c.Render(chart.SVG, w); err != nil {
		return fmt.Errorf("draw %s: %w", c.Title, err)
	}
	return nil
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

// niceCeiling returns the least number that is not below v and is 1, 2, 2.5 or 5 times a power of ten.
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
	c.YAxis.Ticks = c.YAxisSecondary.Ticks // the library looks for the ends of the second axis here, too
	if len(c.Series) > 1 {
		c.Elements = []chart.Renderable{chart.Legend(c)}
	}
	if err := c.Render(chart.SVG, w); err != nil {
		return fmt.Errorf("draw %s: %w", c.Title, err)
	}
	return nil
}

package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"godwit.dev/godwit/bench/latency"
)

func example() *Result {
	r := &Result{Scenario: "unicast", Title: "unicast: a title", Command: "godwit bench unicast --rate 5 --x '<b>'", Version: "0"}
	for _, v := range []float64{3, 1, 2} {
		r.Add("", "p99", "ms", v)
		r.Add("", "rate", "/s", 1000*v)
	}
	r.Curves = []Curve{
		{Name: "run 1", Points: []latency.Point{{Percentile: 0, Millis: 0.2}, {Percentile: 90, Millis: 1}, {Percentile: 99.9, Millis: 30}}},
		{Name: "run 2", Points: []latency.Point{{Percentile: 0, Millis: 0.1}, {Percentile: 99, Millis: 2}}},
	}
	r.Series = []Series{{Name: "server memory", Unit: "MB", Points: [][2]float64{{0, 40}, {1, 41.5}, {2, 40.2}}}}
	return r
}

func TestFiguresKeepMedianAndSpread(t *testing.T) {
	f := example().Figure("", "p99")
	if f.Median != 2 || f.Least != 1 || f.Most != 3 || len(f.Values) != 3 {
		t.Errorf("figure is %+v", f)
	}
	if m := Median([]float64{4, 1}); m != 2.5 {
		t.Errorf("the median of two is %v, want 2.5", m)
	}
}

func TestGroupsStayTogether(t *testing.T) {
	r := &Result{Compared: true}
	for range 2 {
		for _, who := range []string{"a", "b"} {
			r.Add("first", who, "s", 1)
			r.Add("second", who, "s", 2)
		}
	}
	var order []string
	for _, f := range r.Figures {
		order = append(order, f.Group+" "+f.Name)
	}
	if got := strings.Join(order, ", "); got != "first a, first b, second a, second b" {
		t.Errorf("order is %s", got)
	}
}

func TestRatiosAreToTheFirstOfAGroup(t *testing.T) {
	r := &Result{Compared: true}
	r.Add("g", "ours", "s", 2)
	r.Add("g", "theirs", "s", 5)
	if _, ok := r.Ratio(r.Figure("g", "ours")); ok {
		t.Error("the first is compared with itself")
	}
	if v, ok := r.Ratio(r.Figure("g", "theirs")); !ok || v != 2.5 {
		t.Errorf("ratio is %v %v, want 2.5", v, ok)
	}
	r.Compared = false
	if _, ok := r.Ratio(r.Figure("g", "theirs")); ok {
		t.Error("figures of different things are compared")
	}
}

func TestTableShowsMedianAndSpread(t *testing.T) {
	var b strings.Builder
	if err := WriteTable(&b, example()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"unicast: a title", "p99", "2 ms", "1 … 3", "2,000 /s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}

func TestNumbersHaveTheDigitsThatMeanSomething(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", 1234567: "1,234,567", 1234.5: "1,234", -1500: "-1,500", 123.45: "123.5", 1.234: "1.23", 0.1234: "0.123",
	} {
		if got := Format(v); got != want && got != "1,235" {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestPageNeedsNothingElseAndEscapesWhatItShows(t *testing.T) {
	var b strings.Builder
	if err := WriteHTML(&b, example(), example()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if n := strings.Count(page, "<svg"); n != 4 {
		t.Errorf("the page has %d plots, want 4", n)
	}
	for _, bad := range []string{"<b>", "<script", "src=", "href=", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

func TestPlotsAreDrawnToFiles(t *testing.T) {
	files, err := WriteSVG(t.TempDir(), "x", example())
	if err != nil || len(files) != 2 || !strings.HasSuffix(files[1], "x-server-memory.svg") {
		t.Fatalf("%v, %v", files, err)
	}
	for _, c := range []func(io.Writer) error{
		func(w io.Writer) error { return PlotCurves(w, "latency", example().Curves) },
		func(w io.Writer) error { return PlotSeries(w, "memory", example().Series[0]) },
	} {
		var b strings.Builder
		if err := c(&b); err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("the drawing is not XML: %v", err)
			}
		}
	}
	if err := PlotCurves(io.Discard, "nothing", nil); err == nil {
		t.Error("nothing is drawn without an error")
	}
}

// Compared figures are drawn together: those of a group as bars, series of a chart as lines of one plot.
func TestComparedFiguresAreDrawnTogether(t *testing.T) {
	r := &Result{Scenario: "x", Compared: true}
	r.Add("rate", "ours, durable before the answer", "/s", 5000)
	r.Add("rate", "theirs, in memory", "/s", 32000)
	r.Draw("rate")
	r.Draw("rate")
	for _, who := range []string{"ours", "theirs"} {
		r.Series = append(r.Series, Series{Name: who, Unit: "ms", Over: "messages", Chart: "time", Log: true, Points: [][2]float64{{1, 0.5}, {1000, 400}}})
	}
	names, svg, err := drawings(r)
	if err != nil || strings.Join(names, " ") != "rate time" {
		t.Fatalf("drawn are %v, %v", names, err)
	}
	// Names below bars are broken into lines.
	for name, wants := range map[string][]string{"rate": {">5,000:<", ">ours,<", ">durable before the answer<", ">in memory<", "[/s]"}, "time": {">ours<", ">theirs<", ">1,000<", ">0.100<", "messages"}} {
		for _, want := range wants {
			if !strings.Contains(svg[name], want) {
				t.Errorf("the plot of the %s lacks %q", name, want)
			}
		}
	}
}

func TestResultSurvivesJSON(t *testing.T) {
	b, err := json.Marshal(example())
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(&back)
	if err != nil || string(again) != string(b) {
		t.Errorf("read back as\n%s, want\n%s (%v)", again, b, err)
	}
}

// Package report holds the results of a measurement and presents them as a table, as JSON, as an HTML page and as drawings.
package report

import (
	"slices"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/meter"
)

// Result is the result of a scenario.
type Result struct {
	Scenario string        `json:"scenario"`
	Title    string        `json:"title"`
	Command  string        `json:"command"`
	Version  string        `json:"version"`
	Machine  meter.Machine `json:"machine"`
	Settings []Setting     `json:"settings"`
	Compared bool          `json:"compared,omitempty"` // each group compares the same figure of several programs
	Figures  []Figure      `json:"figures"`
	Curves   []Curve       `json:"curves,omitempty"`
	Series   []Series      `json:"series,omitempty"`
	Bars     []string      `json:"bars,omitempty"` // groups whose values are drawn side by side
	Notes    []string      `json:"notes,omitempty"`
	Machines []Machine     `json:"machines,omitempty"` // others, which held clients
	Shares   []Share       `json:"shares,omitempty"`   // what each of them measured
}

// Machine is a machine that took part beside the one that measured.
type Machine struct {
	Name string        `json:"name"`
	Host meter.Machine `json:"host"`
}

// Share is what the clients of one machine measured. Times are in milliseconds.
type Share struct {
	Machine  string  `json:"machine"`
	Group    string  `json:"group,omitempty"` // the part of a scenario with several measurements
	Run      int     `json:"run"`
	Clients  int     `json:"clients"`
	Received int64   `json:"received"`
	Mean     float64 `json:"mean_ms"`
	Sigma    float64 `json:"deviation_ms"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	CPU      float64 `json:"cpu_cores"` // of the load generator
	Memory   float64 `json:"memory_mb"`
	Clock    float64 `json:"clock_within_ms"` // how far the comparison of the machine's clock may be wrong
}

// Setting is a parameter of the measurement.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Figure is one figure, measured in one or more runs.
type Figure struct {
	Group  string    `json:"group,omitempty"` // the part of a scenario with several measurements
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"` // one a run
	Median float64   `json:"median"`
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
}

// Curve is a latency distribution.
type Curve struct {
	Name   string          `json:"name"`
	Points []latency.Point `json:"points"`
}

// Series is a list of points over time, or over another quantity.
type Series struct {
	Name   string       `json:"name"`
	Unit   string       `json:"unit"`
	Over   string       `json:"over,omitempty"`  // the quantity of the x axis; empty: seconds
	Chart  string       `json:"chart,omitempty"` // name of the plot that the series shares with others of this name; empty: it has its own
	Log    bool         `json:"log,omitempty"`   // both axes by their logarithm
	Points [][2]float64 `json:"points"`
}

// Add adds the value of one run to the figure of this name, and creates the figure if it is missing.
func (r *Result) Add(group, name, unit string, value float64) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Group == group && f.Name == name })
	if i < 0 {
		for i = len(r.Figures); i > 0 && r.Figures[i-1].Group != group && r.hasGroup(group); { // keep groups together
			i--
		}
		r.Figures = slices.Insert(r.Figures, i, Figure{Group: group, Name: name, Unit: unit})
	}
	f := &r.Figures[i]
	f.Values = append(f.Values, value)
	f.Median, f.Least, f.Most = Median(f.Values), slices.Min(f.Values), slices.Max(f.Values)
}

func (r *Result) hasGroup(group string) bool {
	return slices.ContainsFunc(r.Figures, func(f Figure) bool { return f.Group == group })
}

// Draw marks a group: its figures are drawn side by side.
func (r *Result) Draw(group string) {
	if !slices.Contains(r.Bars, group) {
		r.Bars = append(r.Bars, group)
	}
}

// Ratio returns a figure's median divided by that of the first figure in its group; ok is false unless the group compares the same figure
// of several programs.
func (r *Result) Ratio(f *Figure) (ratio float64, ok bool) {
	if !r.Compared {
		return 0, false
	}
	for i := range r.Figures {
		if first := &r.Figures[i]; first.Group == f.Group {
			return f.Median / first.Median, first != f && first.Median != 0
		}
	}
	return 0, false
}

// group returns the figures of a group.
func (r *Result) group(name string) (all []Figure) {
	for _, f := range r.Figures {
		if f.Group == name {
			all = append(all, f)
		}
	}
	return all
}

// Figure returns a figure; nil: there is none.
func (r *Result) Figure(group, name string) *Figure {
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Group == group && f.Name == name {
			return f
		}
	}
	return nil
}

// Note adds a sentence once.
func (r *Result) Note(text string) {
	if !slices.Contains(r.Notes, text) {
		r.Notes = append(r.Notes, text)
	}
}

// Median returns the middle value, or the mean of the two in the middle.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

// drawings returns the plots of a result, keyed by names that are valid file names.
func drawings(r *Result) (names []string, svg map[string]string, err error) {
	svg = map[string]string{}
	add := func(name string, draw func(io.Writer) error) {
		if err != nil {
			return
		}
		var b strings.Builder
		if err = draw(&b); err == nil {
			names = append(names, name)
			svg[name] = b.String()
		}
	}
	if len(r.Curves) > 0 {
		add("latency", func(w io.Writer) error { return PlotCurves(w, r.Scenario+": latency by percentile", r.Curves) })
	}
	bars := r.Bars
	if r.Compared && len(bars)+len(r.Curves)+len(r.Series) == 0 { // measured before bars were drawn
		for _, f := range r.Figures {
			if !slices.Contains(bars, f.Group) {
				bars = append(bars, f.Group)
			}
		}
	}
	for _, group := range bars {
		if figures := r.group(group); len(figures) > 0 {
			add(fileName(group), func(w io.Writer) error { return PlotBars(w, r.Scenario+": "+group, figures) })
		}
	}
	for i, s := range r.Series {
		name, all := s.Name, []Series{s}
		if s.Chart != "" {
			name, all = s.Chart, chartOf(r.Series, s.Chart)
		}
		first := s.Chart == "" || !slices.ContainsFunc(r.Series[:i], func(b Series) bool { return b.Chart == s.Chart })
		if first && slices.ContainsFunc(all, func(s Series) bool { return len(s.Points) > 1 }) {
			add(fileName(name), func(w io.Writer) error { return PlotSeries(w, r.Scenario+": "+name, all...) })
		}
	}
	return names, svg, err
}

// chartOf returns the series that belong to one plot.
func chartOf(all []Series, chart string) (some []Series) {
	for _, s := range all {
		if s.Chart == chart {
			some = append(some, s)
		}
	}
	return some
}

func fileName(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	}), "-")
}

// WriteSVG writes a result's plots into a folder as PREFIX-NAME.svg and returns the files' names.
func WriteSVG(dir, prefix string, r *Result) ([]string, error) {
	names, svg, err := drawings(r)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var files []string
	for _, name := range names {
		file := filepath.Join(dir, prefix+"-"+name+".svg")
		if err := os.WriteFile(file, []byte(svg[name]), 0o644); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// WriteHTML writes results as one page without references to other files.
func WriteHTML(w io.Writer, results ...*Result) error {
	var sections []section
	for _, r := range results {
		names, svg, err := drawings(r)
		if err != nil {
			return err
		}
		s := section{Result: r, At: r.Machine.At.Format("2006-01-02 15:04 MST")}
		for _, n := range names {
			s.Plots = append(s.Plots, template.HTML(svg[n])) // drawn here, from numbers
		}
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		s.Raw = string(raw)
		s.group()
		for i := range r.Shares {
			if i == 0 {
				s.Shares = append(s.Shares, shareTitles())
			}
			s.Shares = append(s.Shares, shareCells(&r.Shares[i]))
		}
		sections = append(sections, s)
	}
	page, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return page.Execute(w, sections)
}

// section is the part of the page for one result.
type section struct {
	*Result
	At     string
	Groups []tableGroup
	Shares [][]string // table by machine, with its titles first; nil: no other machine took part
	Plots  []template.HTML
	Raw    string
}

type tableGroup struct {
	Name string
	Rows []tableRow
}

type tableRow struct {
	Name, Median, Spread, Ratio string
	Bar                         int // length of the bar in percent of the longest in its group, in comparisons
}

func (s *section) group() {
	for i := range s.Figures {
		f := &s.Figures[i]
		if n := len(s.Groups); n == 0 || s.Groups[n-1].Name != f.Group {
			s.Groups = append(s.Groups, tableGroup{Name: f.Group})
		}
		g := &s.Groups[len(s.Groups)-1]
		row := tableRow{Name: f.Name, Median: strings.TrimSpace(Format(f.Median) + " " + f.Unit)}
		if len(f.Values) > 1 {
			row.Spread = Format(f.Least) + " … " + Format(f.Most)
		}
		if v, ok := s.Result.Ratio(f); ok {
			row.Ratio = Format(v) + " ×"
		}
		if s.Compared {
			row.Bar = int(100 * f.Median / s.longest(f.Group))
		}
		g.Rows = append(g.Rows, row)
	}
}

func (s *section) longest(group string) (most float64) {
	for i := range s.Figures {
		if f := &s.Figures[i]; f.Group == group {
			most = max(most, f.Median)
		}
	}
	return max(most, 1e-9)
}

const pageTemplate = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Godwit bench</title>
<style>
:root { color-scheme: light }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2.5rem }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .15rem .9rem .15rem 0; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums } td.s { color: #666; font-size: .85em }
tr.g th { padding-top: .9rem } .bar { background: #0072B2; height: .7rem; display: inline-block }
code, pre { font: 13px/1.4 ui-monospace, monospace; background: #f4f4f4; padding: .1rem .3rem; white-space: pre-wrap }
.facts { color: #555 } svg { max-width: 100%; height: auto; display: block; margin: 1rem 0 }
</style></head><body>
<h1>Godwit bench</h1>
{{range .}}
<h2>{{.Title}}</h2>
<p><code>{{.Command}}</code></p>
<p class="facts">{{range .Settings}}{{.Name}}: {{.Value}} · {{end}}Godwit {{.Version}}<br>
{{.Machine}} · {{.At}}</p>
<table>
{{$compared := .Compared}}{{range .Groups}}{{if .Name}}<tr class="g"><th colspan="5">{{.Name}}</th></tr>{{end}}
{{range .Rows}}<tr><td>{{.Name}}</td><td class="n">{{.Median}}</td><td class="s">{{.Spread}}</td><td class="n">{{.Ratio}}</td>
{{if $compared}}<td style="width:14rem"><span class="bar" style="width:{{.Bar}}%"></span></td>{{end}}</tr>
{{end}}{{end}}</table>
{{range $i, $row := .Shares}}{{if not $i}}<h3>By machine</h3><table>{{end}}<tr>{{range $row}}{{if $i}}<td>{{.}}</td>{{else}}<th>{{.}}</th>{{end}}{{end}}</tr>
{{end}}{{if .Shares}}</table>
{{range .Machines}}<p class="facts">{{.Name}}: {{.Host}}</p>{{end}}{{end}}
{{range .Notes}}<p>Note: {{.}}</p>{{end}}
{{range .Plots}}{{.}}{{end}}
<details><summary>All figures as JSON</summary><pre>{{.Raw}}</pre></details>
{{end}}
</body></html>
`

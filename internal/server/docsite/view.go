package docsite

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"net/http"
	"strconv"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

//go:embed layout.html docs.css
var assets embed.FS

// sheet is the pages' style sheet, by its path on the site.
const sheet = "docs.css"

var layout = template.Must(template.ParseFS(assets, "layout.html"))

// view is what the layout shows.
type view struct {
	Here, Title string
	Body        template.HTML
	Entry       bool   // of a reference: Title is code
	Kind        string // of an entry, with the address of its list
	KindAt      string
	Mentions    []ref
	Contents    []ref // of the page
	Before      *ref
	After       *ref
	Words       string // of a search
	Searched    bool
	Results     []result
	Missing     bool

	Groups  []group
	Home    string
	Sheet   string
	Search  string // where searches go; empty: there is none
	Version string
}

// group is a group of the navigation.
type group struct {
	Name  string
	Pages []ref
	Open  bool
}

// ref is a link.
type ref struct {
	Address, Label string
	Current        bool
}

// result is what a search found.
type result struct {
	Address, Title, Heading string
	Excerpt                 []words
}

// words are words of an excerpt.
type words struct {
	Text  string
	Match bool
}

// view returns the view of a page or an entry; nil: there is none.
func (v *shown) view(path string) *view {
	if p := v.site.pages[path]; p != nil {
		return v.page(p)
	}
	if e := v.site.find(path); e != nil {
		return v.entry(e)
	}
	return nil
}

// minContents is how many headings a page has for a list of its contents.
const minContents = 3

func (v *shown) page(p *page) *view {
	out := &view{Here: p.path, Title: p.title, Body: p.body}
	for i := range p.sections {
		if s := &p.sections[i]; s.anchor != "" {
			out.Contents = append(out.Contents, ref{Address: "#" + s.anchor, Label: s.heading})
		}
	}
	if len(out.Contents) < minContents {
		out.Contents = nil
	}
	before, after := v.site.around(p)
	out.Before, out.After = v.beside(p, before), v.beside(p, after)
	return out
}

func (v *shown) beside(from, to *page) *ref {
	if to == nil {
		return nil
	}
	return &ref{Address: v.site.link(from.path, to.path), Label: to.label}
}

func (v *shown) entry(e *entry) *view {
	out := &view{Here: e.path(), Title: e.title, Entry: true, Body: e.body, Kind: e.kind, KindAt: v.site.link(e.path(), listOf(e.kind))}
	for _, m := range v.site.mentions(e) {
		to := ref{Address: v.site.link(e.path(), m.page.path), Label: m.page.title}
		if m.section.anchor != "" {
			to.Address += "#" + m.section.anchor
			to.Label += ": " + m.section.heading
		}
		out.Mentions = append(out.Mentions, to)
	}
	return out
}

func (v *shown) search(ctx context.Context, asked string) (*view, error) {
	index, err := v.index()
	if err != nil {
		return nil, err
	}
	matches, err := index.Search(ctx, asked, maxResults)
	if err != nil {
		return nil, err
	}
	out := &view{Here: "search", Title: "Search", Words: asked, Searched: asked != ""}
	for _, m := range matches {
		f := &v.found[m.Text]
		r := result{Address: v.site.link("search", f.path), Title: f.title, Heading: f.heading}
		if f.anchor != "" {
			r.Address += "#" + f.anchor
		}
		for i, part := range m.Excerpt {
			r.Excerpt = append(r.Excerpt, words{part, i%2 == 1})
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

// complete adds to a view what all pages show.
func (v *shown) complete(out *view, version string) {
	out.Home, out.Sheet, out.Version = v.site.link(out.Here, ""), v.site.link(out.Here, sheet), version
	for _, p := range v.site.listed {
		if len(out.Groups) == 0 || out.Groups[len(out.Groups)-1].Name != p.group {
			out.Groups = append(out.Groups, group{Name: p.group})
		}
		g := &out.Groups[len(out.Groups)-1]
		current := p.path == out.Here
		g.Pages = append(g.Pages, ref{v.site.link(out.Here, p.path), p.label, current})
		g.Open = g.Open || current
	}
}

// write answers with a page.
func (s *server) write(w http.ResponseWriter, r *http.Request, v *shown, status int, out *view) error {
	v.complete(out, s.version)
	out.Search = served("", "search")
	var text bytes.Buffer
	if err := layout.Execute(&text, out); err != nil {
		return fmt.Errorf("fill the layout: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(text.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text.Bytes()) // an error is the client's that has gone
	}
	return nil
}

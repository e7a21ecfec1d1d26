package docsite

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

// Entry is one thing of a reference that has a page of its own, such as a command.
type Entry struct {
	Name    string // unique in its list, and the last part of its address
	Title   string // empty: Name
	Summary string // one sentence
	Text    string // paragraphs, separated by empty lines
	Parts   []Part
}

// Part is preformatted text below a heading.
type Part struct{ Heading, Text string }

// list is a list of entries, which the site shows beside the pages.
type list struct {
	kind, title string
	entries     []Entry
}

// entry is an entry on the site.
type entry struct {
	kind, name, title string
	summary           string
	body              template.HTML
	text              string   // as plain text, for the search
	forms             []string // how pages write it in code
}

// mention is a section of a page whose code names an entry.
type mention struct {
	page    *page
	section *section
}

// maxMentions bounds the sections that a page of an entry lists.
const maxMentions = 12

// rows are the tables of reference pages whose rows become entries.
var rows = []struct {
	file, kind, title string
	tables            int // how many of the page's tables; 0: all
}{
	{"reference/config.md", "settings", "Settings", 0},
	{"reference/metrics.md", "metrics", "Metrics", 1},
	{"reference/events.md", "events", "Events", 1},
}

// lists adds the entries: of the pages' tables, and besides.
func (s *site) lists(documents map[string]*document, besides []list) error {
	for _, r := range rows {
		d := documents[r.file]
		if d == nil {
			return fmt.Errorf("the documentation lacks %s", r.file)
		}
		tables := d.tables()
		if r.tables > 0 {
			tables = tables[:min(r.tables, len(tables))]
		}
		s.kinds = append(s.kinds, r.kind)
		for i := range tables {
			if err := s.rows(d, &tables[i], r.kind); err != nil {
				return fmt.Errorf("%s: %w", r.file, err)
			}
		}
	}
	for _, l := range besides {
		s.kinds = append(s.kinds, l.kind)
		s.list(l)
	}
	return nil
}

// rows makes an entry of each row of a table. Its first cell names it, in code.
func (s *site) rows(d *document, t *table, kind string) error {
	for _, cells := range t.rows {
		var facts strings.Builder
		var text []string
		forms := []string{}
		for i, c := range cells {
			inside, err := d.renderInside(c)
			if err != nil {
				return err
			}
			if i > 0 && inside != "" {
				fmt.Fprintf(&facts, "<dt>%s</dt><dd>%s</dd>", template.HTMLEscapeString(cmp.Or(t.headings[i], "what it is")), inside)
			}
			text = append(text, d.plain(c))
			forms = append(forms, d.codes(c)...)
		}
		for _, name := range d.codes(cells[0]) {
			named := []string{name}
			if kind == "settings" {
				named = forms[:min(3, len(forms))] // its key, flag and variable
			}
			s.entries = append(s.entries, &entry{
				kind: kind, name: name, title: name, summary: text[len(text)-1], text: strings.Join(text, " "), forms: named,
				body: template.HTML("<dl>" + facts.String() + "</dl>"), //nolint:gosec // the pages are the program's own
			})
		}
	}
	return nil
}

// list makes the entries of a list, and its page.
func (s *site) list(l list) {
	for i := range l.entries {
		e := &l.entries[i]
		var body strings.Builder
		for p := range strings.SplitSeq(e.Text, "\n\n") {
			fmt.Fprintf(&body, "<p>%s</p>", template.HTMLEscapeString(p))
		}
		all := e.Text
		for _, p := range e.Parts {
			fmt.Fprintf(&body, "<h2>%s</h2><pre tabindex=\"0\"><code>%s</code></pre>", template.HTMLEscapeString(p.Heading), template.HTMLEscapeString(p.Text))
			all += "\n" + p.Text
		}
		s.entries = append(s.entries, &entry{
			kind: l.kind, name: e.Name, title: cmp.Or(e.Title, e.Name), summary: e.Summary, text: all, forms: []string{cmp.Or(e.Title, e.Name)},
			body: template.HTML(body.String()), //nolint:gosec // escaped above
		})
	}
	p := &page{path: "reference/" + l.kind, title: l.title, label: l.title, group: "Reference"}
	var body strings.Builder
	fmt.Fprintf(&body, "<h1>%s</h1><dl>", template.HTMLEscapeString(l.title))
	for _, e := range s.entries {
		if e.kind == l.kind {
			fmt.Fprintf(&body, `<dt><a href="%s"><code>%s</code></a></dt><dd>%s</dd>`, template.HTMLEscapeString(s.link(p.path, e.path())), template.HTMLEscapeString(e.title), template.HTMLEscapeString(e.summary))
		}
	}
	body.WriteString("</dl>")
	p.body = template.HTML(body.String()) //nolint:gosec // escaped above
	s.pages[p.path] = p
	s.insert(p)
}

// insert puts a page at the end of its group in the navigation.
func (s *site) insert(p *page) {
	at := len(s.listed)
	for i, other := range s.listed {
		if other.group == p.group {
			at = i + 1
		}
	}
	s.listed = slices.Insert(s.listed, at, p)
	for i, listed := range s.listed {
		listed.rank = i + 1
	}
}

// path is the path of the entry's page below the site's root.
func (e *entry) path() string { return e.kind + "/" + e.name }

// find returns an entry by its path; nil: there is none.
func (s *site) find(path string) *entry {
	for _, e := range s.entries {
		if e.path() == path {
			return e
		}
	}
	return nil
}

// mentions returns the sections whose code has one of the entry's forms as a whole word. A short form, such as the setting data, is no name of
// its own and does not count.
func (s *site) mentions(e *entry) (found []mention) {
	var forms []string
	for _, f := range e.forms {
		if strings.ContainsAny(f, "-_ ") || e.kind == "events" {
			forms = append(forms, regexp.QuoteMeta(f))
		}
	}
	if len(forms) == 0 {
		return nil
	}
	named := regexp.MustCompile(`(?:^|[^\w-])(?:` + strings.Join(forms, "|") + `)(?:$|[^\w-])`)
	for _, p := range s.listed {
		for i := range p.sections {
			sec := &p.sections[i]
			if p.path != "reference/config" && p.path != "reference/metrics" && slices.ContainsFunc(sec.codes, named.MatchString) {
				if found = append(found, mention{p, sec}); len(found) == maxMentions {
					return found
				}
			}
		}
	}
	return found
}

package docsite

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

// list is a list of entries that are on no page of the documentation. It gets a page.
type list struct {
	kind, title string
	entries     []*entry
}

// entry is one thing of a reference, such as a command, with a page of its own.
type entry struct {
	kind, name, title string
	summary           string
	body              template.HTML
	text              string   // as plain text, for the search
	forms             []string // how pages write it in code
}

// part is preformatted text below a heading.
type part struct{ heading, text string }

// add adds an entry with paragraphs, separated by empty lines, and parts.
func (l *list) add(name, title, summary, text string, parts ...part) {
	var body strings.Builder
	for p := range strings.SplitSeq(text, "\n\n") {
		fmt.Fprintf(&body, "<p>%s</p>", template.HTMLEscapeString(p))
	}
	for _, p := range parts {
		fmt.Fprintf(&body, "<h2>%s</h2><pre tabindex=\"0\"><code>%s</code></pre>", template.HTMLEscapeString(p.heading), template.HTMLEscapeString(p.text))
		text += "\n" + p.text
	}
	l.entries = append(l.entries, &entry{
		kind: l.kind, name: name, title: title, summary: summary, text: text, forms: []string{title},
		body: template.HTML(body.String()), // escaped above
	})
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
	file, kind string
	tables     int // how many of the page's tables; 0: all
}{
	{"reference/config.md", "settings", 0},
	{"reference/metrics.md", "metrics", 1},
	{"reference/events.md", "events", 1},
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
		for i := range tables {
			if err := s.rows(d, &tables[i], r.kind); err != nil {
				return fmt.Errorf("%s: %w", r.file, err)
			}
		}
	}
	for _, l := range besides {
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
				body: template.HTML("<dl>" + facts.String() + "</dl>"), // the pages are the program's own
			})
		}
	}
	return nil
}

// list adds the entries of a list, and its page.
func (s *site) list(l list) {
	s.entries = append(s.entries, l.entries...)
	p := &page{path: listOf(l.kind), title: l.title, label: l.title, group: "Reference"}
	var body strings.Builder
	fmt.Fprintf(&body, "<h1>%s</h1><dl>", template.HTMLEscapeString(l.title))
	for _, e := range l.entries {
		fmt.Fprintf(&body, `<dt><a href="%s"><code>%s</code></a></dt><dd>%s</dd>`, template.HTMLEscapeString(s.link(p.path, e.path())), template.HTMLEscapeString(e.title), template.HTMLEscapeString(e.summary))
	}
	body.WriteString("</dl>")
	p.body = template.HTML(body.String()) // escaped above
	s.pages[p.path] = p
	s.insert(p)
}

// listOf returns the path of the page that lists a kind of entries.
func listOf(kind string) string {
	for _, r := range rows {
		if r.kind == kind {
			return place(r.file)
		}
	}
	return "reference/" + kind
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

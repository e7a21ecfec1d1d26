package docsite

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// markdown reads pages as they are written: with tables, and with HTML for pictures.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough), goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))

// document is a page that has been parsed.
type document struct {
	source   []byte
	root     ast.Node
	title    string
	sections []section
}

// section is the part of a page below one heading.
type section struct {
	anchor, heading string
	text            string   // as plain text, for the search
	codes           []string // code in the text, for mentions
}

func parse(source []byte) *document {
	d := &document{source: source}
	d.root = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	d.sections = []section{{}}
	for n := d.root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			heading := d.plain(h)
			if h.Level == 1 {
				d.title = heading
				continue
			}
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			d.sections = append(d.sections, section{anchor: string(anchor), heading: heading})
			continue
		}
		s := &d.sections[len(d.sections)-1]
		s.text += d.plain(n) + "\n"
		s.codes = append(s.codes, d.codes(n)...)
	}
	return d
}

// render returns a node's HTML.
func (d *document) render(n ast.Node) (template.HTML, error) {
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, d.source, n); err != nil {
		return "", fmt.Errorf("render Markdown: %w", err)
	}
	return template.HTML(usable.Replace(headless.ReplaceAllString(out.String(), ""))), nil // the pages are the program's own
}

// headless is the head of a table without headings.
var headless = regexp.MustCompile(`<thead>\s*<tr>\s*(<th></th>\s*)+</tr>\s*</thead>\s*`)

// usable makes wide parts of a page reachable by keyboard, so that people without a pointer can scroll them, and no heading of cells that
// have none, which a screen reader would announce as such.
var usable = strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<table>", `<table tabindex="0">`, "<th></th>", "<td></td>")

// renderInside returns the HTML of a node's children.
func (d *document) renderInside(n ast.Node) (template.HTML, error) {
	var all template.HTML
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		part, err := d.render(c)
		if err != nil {
			return "", err
		}
		all += part
	}
	return all, nil
}

// plain returns a node's text without markup.
func (d *document) plain(n ast.Node) string {
	var out strings.Builder
	d.walk(n, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Text:
			out.Write(n.Segment.Value(d.source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			out.WriteString(d.lines(n))
		case *east.TableCell, *ast.ListItem:
			out.WriteByte(' ')
		}
	})
	return strings.TrimSpace(out.String())
}

// codes returns the code in a node: spans and blocks.
func (d *document) codes(n ast.Node) (found []string) {
	d.walk(n, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.CodeSpan:
			found = append(found, d.plain(n))
		case *ast.FencedCodeBlock:
			found = append(found, d.lines(n))
		}
	})
	return found
}

func (d *document) lines(n ast.Node) string {
	var out strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		out.Write(line.Value(d.source))
	}
	return out.String()
}

// walk calls do for a node and all below it.
func (*document) walk(n ast.Node, do func(ast.Node)) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // fails only if do could
		if entering {
			do(n)
		}
		return ast.WalkContinue, nil
	})
}

// anchors makes the ids of headings as GitHub does, since links in the pages follow it.
type anchors map[string]int

// Generate implements parser.IDs.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	again := a[slug]
	a[slug]++
	if again > 0 {
		slug += "-" + strconv.Itoa(again)
	}
	return []byte(slug)
}

// Put implements parser.IDs.
func (a anchors) Put(value []byte) { a[string(value)]++ }

// table is a table of a page: the text of its headings and the cells of its rows.
type table struct {
	headings []string
	rows     [][]ast.Node
}

// link is a link of a list.
type link struct{ dest, label string }

// items returns the links of a list's items.
func (d *document) items(n ast.Node) (found []link) {
	if _, ok := n.(*ast.List); !ok {
		return nil
	}
	d.walk(n, func(n ast.Node) {
		if l, ok := n.(*ast.Link); ok {
			found = append(found, link{string(l.Destination), d.plain(l)})
		}
	})
	return found
}

// headingOf returns the text of a heading below the page's title.
func headingOf(d *document, n ast.Node) (string, bool) {
	h, ok := n.(*ast.Heading)
	if !ok || h.Level == 1 {
		return "", false
	}
	return d.plain(h), true
}

// tables returns the tables of a page.
func (d *document) tables() (found []table) {
	d.walk(d.root, func(n ast.Node) {
		rows, ok := n.(*east.Table)
		if !ok {
			return
		}
		var t table
		for r := rows.FirstChild(); r != nil; r = r.NextSibling() {
			cells := slices.Collect(children(r))
			if _, head := r.(*east.TableHeader); !head {
				t.rows = append(t.rows, cells)
				continue
			}
			for _, c := range cells {
				t.headings = append(t.headings, d.plain(c))
			}
		}
		found = append(found, t)
	})
	return found
}

func children(n ast.Node) func(yield func(ast.Node) bool) {
	return func(yield func(ast.Node) bool) {
		for c := n.FirstChild(); c != nil && yield(c); c = c.NextSibling() {
		}
	}
}

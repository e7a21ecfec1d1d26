package docsite

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

// page is a page of the site.
type page struct {
	path     string // below the site's root, without an extension; empty: the first page
	title    string
	group    string // its heading in the navigation
	label    string // its name there; empty: it is not listed
	body     template.HTML
	sections []section
	rank     int // its place in the navigation, from 1; 0: none
}

// site is all pages.
type site struct {
	files   fs.FS
	pages   map[string]*page
	listed  []*page // in the order of the navigation
	entries []*entry
	link    linker
	broken  []string // links to pages or headings that do not exist
}

// linker returns the address of a file of the site on a page, both by their path from the site's root.
type linker func(from, to string) string

// served are the addresses within the server.
func served(_, to string) string {
	if to == openAPI {
		return "/" + to
	}
	return strings.TrimSuffix(root+"/"+to, "/")
}

// root is the path below which the server shows the site.
const root = "/docs"

// first is the page with the lists that the navigation is made of.
const first = "README.md"

// openAPI is the API's description, which the server has beside the site.
const openAPI = "openapi.yaml"

// build makes the site of the pages in a folder, and of what a reference lists besides.
func build(files fs.FS, link linker, besides ...list) (*site, error) {
	s := &site{files: files, pages: make(map[string]*page), link: link}
	documents := make(map[string]*document)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		source, err := fs.ReadFile(files, name)
		if err == nil {
			documents[name] = parse(source)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the documentation: %w", err)
	}
	names := make([]string, 0, len(documents))
	for name, d := range documents {
		names = append(names, name)
		s.pages[place(name)] = &page{path: place(name), title: d.title, sections: d.sections}
	}
	slices.Sort(names)
	s.navigate(documents[first])
	for _, name := range names {
		if err := s.finish(name, documents); err != nil {
			return nil, err
		}
	}
	if err := s.lists(documents, besides); err != nil {
		return nil, err
	}
	return s, nil
}

// place is the path of a file's page.
func place(file string) string {
	if path.Base(file) == first {
		return strings.Trim(path.Dir(file), ".")
	}
	return strings.TrimSuffix(file, ".md")
}

// finish renders a file's page.
func (s *site) finish(name string, documents map[string]*document) (err error) {
	d, p := documents[name], s.pages[place(name)]
	err = d.relink(func(dest string) (string, error) {
		file, anchor, outside := target(name, dest)
		if outside {
			return dest, nil
		}
		return s.resolve(name, file, anchor, documents)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if p.body, err = d.render(d.root); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// resolve returns the address of a file for a page. It is empty if the site does not have the file.
func (s *site) resolve(from, file, anchor string, documents map[string]*document) (string, error) {
	if file == "../api/"+openAPI {
		return s.link(place(from), openAPI), nil
	}
	d, ok := documents[file]
	switch {
	case ok && anchor != "" && !slices.ContainsFunc(d.sections, func(s section) bool { return s.anchor == anchor }):
		s.broken = append(s.broken, from+" leads to "+file+"#"+anchor)
	case ok && anchor != "":
		return s.link(place(from), place(file)) + "#" + anchor, nil
	case ok:
		return s.link(place(from), place(file)), nil
	case !fs.ValidPath(file):
		return "", nil // in the source, beside the documentation
	}
	info, err := fs.Stat(s.files, file)
	if err != nil || info.IsDir() {
		return "", nil // a picture that was left out is described instead
	}
	return s.link(place(from), file), nil
}

// navigate makes the navigation of the lists on the first page: its headings are groups, and the first link of an item is a page.
func (s *site) navigate(d *document) {
	group := ""
	for n := range children(d.root) {
		if heading, ok := headingOf(d, n); ok {
			group = heading
		}
		for _, l := range d.items(n) {
			p := s.pages[place(l.dest)]
			if p == nil || p.label != "" || strings.Contains(l.dest, "..") {
				continue
			}
			s.listed = append(s.listed, p)
			p.group, p.label, p.rank = group, l.label, len(s.listed)
		}
	}
}

// around returns the pages before and after one in the navigation; nil: there is none.
func (s *site) around(p *page) (before, after *page) {
	if p.rank > 1 {
		before = s.listed[p.rank-2]
	}
	if p.rank > 0 && p.rank < len(s.listed) {
		after = s.listed[p.rank]
	}
	return before, after
}

package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/server/admin/words"
)

const (
	templatesPath = "/ui/templates"
	// templatesShown is the number of templates on a page of the list: it keeps the page below 100 KB even with long names and texts.
	templatesShown = 60
)

// templateList is the page that lists an app's templates.
type templateList struct {
	Items []templateLine
	After string // the page begins after this name; empty: it is the first
	Next  string // path of the next page; empty: this is the last
	Gone  *gone  // nil: none was deleted just now
}

// templateLine is a template in the list.
type templateLine struct {
	Name, Path, Title, Text string
	Languages, Variables    []string
	Revision                int64
	UpdatedAt               time.Time
}

func templatePath(name string) string { return templatesPath + "/" + url.PathEscape(name) }

func (a *admin) listTemplates(v *visit) error { return a.templateList(v, &templateList{}) }

func (a *admin) templateList(v *visit, p *templateList) error {
	if after := text(v.r.URL.Query(), "after"); template.CheckName("after", after) == nil {
		p.After = after
	}
	list, err := a.Templates.List(v.r.Context(), v.person.App, p.After, templatesShown+1)
	if err != nil {
		return err
	}
	if len(list) > templatesShown {
		list = list[:templatesShown]
		p.Next = templatesPath + "?" + url.Values{"after": {list[templatesShown-1].Name}}.Encode()
	}
	for i := range list {
		p.Items = append(p.Items, newTemplateLine(v.lang, &list[i]))
	}
	return a.show(v, "templates", v.t("Templates"), "templates", p)
}

func newTemplateLine(lang *words.Language, t *template.Template) templateLine {
	c := &t.Content
	l := templateLine{
		Name: t.Name, Path: templatePath(t.Name), Title: clip(c.Title, 80), Text: clip(c.Body, 120), Revision: t.Revision, UpdatedAt: t.UpdatedAt,
		Languages: slices.Sorted(maps.Keys(c.Locales)),
	}
	if c.Language != "" {
		l.Languages = append([]string{c.Language}, l.Languages...)
	}
	for _, said := range c.Variables() {
		l.Variables = append(l.Variables, said.Name)
	}
	l.Languages, l.Variables = few(lang, l.Languages), few(lang, l.Variables)
	return l
}

// mostWords limits the words that a cell of a list shows.
const mostWords = 6

// few returns the first words of a list, and the number of the others.
func few(l *words.Language, list []string) []string {
	if len(list) <= mostWords {
		return list
	}
	return append(slices.Clone(list[:mostWords]), l.T("%s more", len(list)-mostWords))
}

// templateOf reads a template for a page.
func (a *admin) templateOf(v *visit, name string) (*template.Template, error) {
	t, err := a.Templates.Get(v.r.Context(), v.person.App, name)
	if errors.Is(err, template.ErrUnknown) {
		return nil, mistaken(http.StatusNotFound, "There is no such template.")
	}
	return t, err
}

// deleteTemplate deletes the revision that the person saw, and offers to bring it back.
func (a *admin) deleteTemplate(v *visit) error {
	ctx, app, name := v.r.Context(), v.person.App, v.r.PathValue("name")
	m, err := matchOf(v.r)
	if err != nil {
		return err
	}
	t, err := a.templateOf(v, name)
	if err != nil {
		return err
	}
	m.There = true
	err = a.Templates.Delete(ctx, app, name, m)
	switch {
	case errors.Is(err, template.ErrRevision):
		return mistaken(http.StatusConflict, "Somebody else has changed this template since you opened its page. Open it again, and delete what it says now.")
	case errors.Is(err, template.ErrUnknown):
		return mistaken(http.StatusNotFound, "Somebody else has deleted this template already.")
	case err != nil:
		return err
	}
	g, err := newGone(v.t("%s is deleted. Messages that were made from it stay as they are.", name), templatePath(name), t.Content)
	if err != nil {
		return err
	}
	a.Log.InfoContext(ctx, "template deleted on the web page", "app", app, "template", name, "by", v.person.Name())
	return a.templateList(v, &templateList{Gone: g})
}

// restoreTemplate stores a deleted template again, unless its name is taken.
func (a *admin) restoreTemplate(v *visit) error {
	var c template.Content
	if err := bringBack(v, &c); err != nil {
		return err
	}
	name := v.r.PathValue("name")
	t, _, err := a.Templates.Set(v.r.Context(), v.person.App, name, c, template.Match{New: true})
	if errors.Is(err, template.ErrRevision) {
		if now, err := a.Templates.Get(v.r.Context(), v.person.App, name); err == nil && sameContent(&now.Content, &c) {
			a.leadTo(v, templatePath(name), http.StatusOK) // the button was pressed twice
			return nil
		}
		return mistaken(http.StatusConflict, "Somebody has made a template of this name meanwhile. It stays.")
	}
	if err != nil {
		return explain(err)
	}
	a.templateSaved(v, &t)
	return nil
}

func sameContent(a, b *template.Content) bool {
	one, err := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(one, other)
}

// findTemplates searches the names and titles of templates.
func (a *admin) findTemplates(v *visit, f *finds) error {
	list, err := a.Templates.List(v.r.Context(), v.person.App, "", template.MaxTemplates)
	if err != nil {
		return err
	}
	for i := range list {
		if t := &list[i]; len(f.Templates) < mostFound && (contains(t.Name, f.Query) || contains(t.Content.Title, f.Query)) {
			f.Templates = append(f.Templates, lead{Path: templatePath(t.Name), Label: t.Name})
		}
	}
	return nil
}

package admin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/server/admin/words"
)

// Templates reads and changes stored templates.
type Templates interface {
	Set(ctx context.Context, app, name string, c template.Content, m template.Match) (set template.Template, created bool, err error)
	Delete(ctx context.Context, app, name string, m template.Match) error
	// Versions lists the kept revisions of a template, the newest first.
	Versions(ctx context.Context, app, name string) ([]template.Template, error)
	Get(ctx context.Context, app, name string) (*template.Template, error)
	List(ctx context.Context, app, after string, limit int) ([]template.Template, error)
}

// templateValues sets the form's values for a campaign's template, for the revision that the form shows, and for each variable.
func templateValues(v url.Values, s *campaign.Spec) {
	v.Set("template", s.Template)
	v.Set("used", s.Template)
	v.Set("used_revision", "")
	for name, value := range s.Variables {
		v.Set(variableField(name), value)
	}
	if s.Template == "" {
		return
	}
	v.Set("used_revision", strconv.FormatInt(s.TemplateRevision, 10))
	addVariables(v, &s.Content)
}

// addVariables adds a field for each variable of a message, up to the limit of variables: required ones first.
func addVariables(v url.Values, c *template.Content) {
	have := len(variableNames(v))
	for _, needed := range []bool{true, false} {
		for _, said := range c.Variables() {
			if name := variableField(said.Name); said.Required == needed && !v.Has(name) && have < template.MaxVariables {
				v.Set(name, "")
				have++
			}
		}
	}
}

const variablePrefix = "variable-"

func variableField(name string) string { return variablePrefix + name }

// variableOf returns the variable that a field sets.
func variableOf(field string) (name string, ok bool) {
	name, ok = strings.CutPrefix(field, variablePrefix)
	return name, ok && (template.Variables{name: ""}).Check("") == nil
}

func variableNames(v url.Values) (names []string) {
	for field := range v {
		if name, ok := variableOf(field); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// variableLines returns the fields of variables. A value may have several lines.
func variableLines(f *form) (all []line, err error) {
	for _, name := range variableNames(f.Values) {
		l, err := newLine(f, variableField(name), "rows", "1")
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// templateChoice returns the field that selects a template; nil if the app has none.
func (a *admin) templateChoice(ctx context.Context, app string, f *form) (*line, error) {
	list, err := a.Templates.List(ctx, app, "", template.MaxTemplates)
	if err != nil || len(list) == 0 && f.Values.Get("template") == "" {
		return nil, err
	}
	l10n := f.speaks()
	options := []string{"", l10n.T("none")}
	for i := range list {
		options = append(options, list[i].Name, list[i].Name)
	}
	l, err := newChoice(f, "template", options...)
	l.Hint = l10n.T("Its message takes the place of what is written below. Once that is changed, the campaign is no longer of the template.")
	if f.Left != "" {
		l.Hint = l10n.T("The message was changed: it is no longer of template %s.", f.Left)
	}
	return &l, err
}

// takeTemplate finds the message that filled the form: the campaign's own, which f already contains, or a template's. It reads a template
// again, to include the parts that the form does not show, and to check that it has not changed since.
func (a *admin) takeTemplate(v *visit, f *reading) error {
	name, revision := f.text("used"), f.text("used_revision")
	s := &f.spec
	if name == "" || name == s.Template && revision == strconv.FormatInt(s.TemplateRevision, 10) {
		return nil
	}
	s.Template, s.TemplateRevision, s.Variables = "", 0, nil
	t, err := a.Templates.Get(v.r.Context(), v.person.App, name)
	switch {
	case errors.Is(err, template.ErrUnknown):
		if f.text("template") == name {
			f.blame("template", "the app has no template %s any more. Choose none to keep the message as it stands here", clip(name, 80))
		}
		return nil
	case err != nil:
		return err
	}
	s.Content = t.Content
	if revision == strconv.FormatInt(t.Revision, 10) {
		s.Template, s.TemplateRevision = t.Name, t.Revision
	} else if f.text("template") == name {
		f.blame("template", "template %s was changed meanwhile and is at revision %s. Use it again, or choose none to keep the message as it stands here", t.Name, strconv.FormatInt(t.Revision, 10))
	}
	addVariables(f.Values, &t.Content)
	return nil
}

// ofTemplate decides whether the message is still its template's.
func (f *reading) ofTemplate(same bool) {
	s := &f.spec
	chosen := s.Template
	if f.Values.Has("template") {
		chosen = f.text("template")
	}
	if chosen != s.Template && chosen != "" {
		f.blame("template", "template %s is chosen and not used yet. Press “Use it” to take its message, or choose none to keep what is written here", clip(chosen, 80))
	}
	if s.Template != "" && chosen == s.Template && !same {
		f.Left = s.Template
	}
	if chosen != s.Template || !same {
		s.Template, s.TemplateRevision = "", 0
	}
}

// variables reads the given variables. Recipients' attributes supply an empty one, unless it was empty before.
func (f *reading) variables() {
	given := maps.Clone(f.spec.Variables)
	for _, name := range variableNames(f.Values) {
		typed := f.text(variableField(name))
		before, had := given[name]
		switch {
		case had && strings.TrimSpace(strings.ReplaceAll(before, "\r\n", "\n")) == typed:
		case typed == "":
			delete(given, name)
		case given == nil:
			given = template.Variables{name: typed}
		default:
			given[name] = typed
		}
	}
	f.spec.Variables = given
}

// missing returns the required variables with a field that neither the person nor any recipient's attributes supply.
func (a *admin) missing(v *visit, f *reading) (names []string, err error) {
	for _, said := range f.spec.Content.Variables() {
		if _, given := f.spec.Variables[said.Name]; said.Required && !given && f.Values.Has(variableField(said.Name)) {
			names = append(names, said.Name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	_, attributes, err := a.Audience.Names(v.r.Context(), v.person.App, audience.MaxTagNames)
	return slices.DeleteFunc(names, func(name string) bool {
		return name == "recipient" || name == "locale" || slices.Contains(attributes, name)
	}), err
}

// withGaps returns the given variables, with the missing ones set to their names in braces.
func withGaps(given template.Variables, missing []string) template.Variables {
	all := maps.Clone(given)
	if all == nil {
		all = make(template.Variables)
	}
	for _, name := range missing {
		all[name] = "{{" + name + "}}"
	}
	return all
}

// useTemplate fills the form with the message of the chosen template. The other fields stay as typed.
func (a *admin) useTemplate(v *visit, f *reading, was *campaign.View) error {
	f.Problems, f.Left = make(map[string]string), ""
	name := f.text("template")
	if name == "" { // the message becomes the campaign's own
		f.Focus = "template"
		return a.form(v, http.StatusOK, newCompose(f, was))
	}
	t, err := a.Templates.Get(v.r.Context(), v.person.App, name)
	switch {
	case errors.Is(err, template.ErrUnknown):
		f.blame("template", "the app has no template %s", clip(name, 80))
		return a.form(v, http.StatusUnprocessableEntity, newCompose(f, was))
	case err != nil:
		return err
	}
	f.fill(t)
	return a.form(v, http.StatusOK, newCompose(f, was))
}

// fill writes a template's message into the form. It keeps the values of variables that this message also uses.
func (f *form) fill(t *template.Template) {
	spec := campaign.Spec{Template: t.Name, TemplateRevision: t.Revision, Content: t.Content}
	filled := messageValues(&spec)
	for name, values := range f.Values {
		_, _, _, line := listed(name)
		if _, variable := variableOf(name); variable && filled.Has(name) {
			filled[name] = values
		} else if line || variable || slices.Contains(messageTicks, name) {
			delete(f.Values, name)
		}
	}
	maps.Copy(f.Values, filled)
	f.Kept, f.Focus = kept(f.speaks(), &spec), "title"
	if names := variableNames(f.Values); len(names) > 0 {
		f.Focus = variableField(names[0])
	}
}

// templateName returns the name of a campaign's template, with the revision.
func templateName(l *words.Language, s *campaign.Spec) string {
	if s.Template == "" {
		return ""
	}
	return l.T("%[1]s, revision %[2]s", s.Template, strconv.FormatInt(s.TemplateRevision, 10))
}

func variableTexts(given template.Variables) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		all = append(all, name+" = "+given[name])
	}
	return strings.Join(all, ", ")
}

package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// templatePage is the form of a template, with its message as devices show it. People who may not change templates see the message alone.
type templatePage struct {
	Name      string // empty: a new one
	Path      string
	Write     *compose
	Revision  string // that the form is meant to change; empty: there must be none
	UpdatedAt time.Time
	Problem   string // with the whole
	Saved     bool
	Versions  []templateVersion // the newest first; nil: there is one alone
	Shown     int64             // the former revision that the form shows; 0: the present one
	Look      templateLook
}

// templateVersion is a kept revision of a template.
type templateVersion struct {
	Revision    int64
	Title, Text string
	Path        string // of the page with the form that shows it
	Shown       bool
	UpdatedAt   time.Time
}

// templateLook is a template's message in one language.
type templateLook struct {
	Troubles  []trouble
	Languages []option // nil: it has one
	Devices   []device
	Needs     string // variables without a default in the text
	Call      string // the request that stores it over the API
	Fresh     bool   // the call is swapped in, too
}

// device is a message as one kind of device shows it.
type device struct {
	Kind, Label string
	Says        bubble
}

// devices are the kinds of devices, each with a channel that reaches it.
var devices = []struct {
	kind, label string
	channel     push.Channel
}{{"phone", "Phone", push.FCM}, {"browser", "Browser", push.WebPush}, {"telegram", "Telegram", push.Telegram}}

func (a *admin) newTemplate(v *visit) error {
	f := newReading(v.lang, url.Values{})
	return a.templateForm(v, http.StatusOK, &templatePage{}, f)
}

func (a *admin) showTemplate(v *visit) error {
	t, err := a.templateOf(v, v.r.PathValue("name"))
	if err != nil {
		return err
	}
	q := v.r.URL.Query()
	p := newTemplatePage(t)
	p.Saved = p.Revision == q.Get("saved")
	c, err := a.templateVersions(v, p, t, q.Get("revision"))
	if err != nil {
		return err
	}
	f := newReading(v.lang, messageValues(&campaign.Spec{Content: *c}))
	f.spec.Content = *c
	f.Values.Set("in", q.Get("in"))
	f.Values.Set("revision", p.Revision)
	f.Kept = kept(v.lang, &f.spec)
	return a.templateForm(v, http.StatusOK, p, f)
}

// templateVersions lists the kept revisions, and returns what the wanted one says: the present one, unless a former one is wanted and kept.
func (a *admin) templateVersions(v *visit, p *templatePage, t *template.Template, wanted string) (*template.Content, error) {
	list, err := a.Templates.Versions(v.r.Context(), v.person.App, t.Name)
	if err != nil {
		return nil, err
	}
	says := &t.Content
	for i := range list {
		old := &list[i]
		if old.Revision > t.Revision { // made between the two reads
			continue
		}
		number := strconv.FormatInt(old.Revision, 10)
		line := templateVersion{Revision: old.Revision, Title: clip(old.Content.Title, 80), Text: clip(old.Content.Body, 120), Path: p.Path, UpdatedAt: old.UpdatedAt, Shown: old.Revision == t.Revision && p.Shown == 0}
		if old.Revision < t.Revision {
			line.Path += "?revision=" + number
		}
		if number == wanted && old.Revision < t.Revision {
			says, p.Shown = &old.Content, old.Revision
			for k := range p.Versions {
				p.Versions[k].Shown = false
			}
			line.Shown = true
		}
		p.Versions = append(p.Versions, line)
	}
	if len(p.Versions) < 2 {
		p.Versions = nil
	}
	if wanted != "" && wanted != strconv.FormatInt(t.Revision, 10) && p.Shown == 0 {
		return nil, mistaken(http.StatusNotFound, "This revision is not kept: each template has its latest %s.", template.MaxVersions)
	}
	return says, nil
}

func newTemplatePage(t *template.Template) *templatePage {
	return &templatePage{Name: t.Name, Path: templatePath(t.Name), Revision: strconv.FormatInt(t.Revision, 10), UpdatedAt: t.UpdatedAt}
}

// templateForm shows the form, as a whole page or as the part that htmx replaces.
func (a *admin) templateForm(v *visit, status int, p *templatePage, f *reading) error {
	v.again = v.r.Method == http.MethodPost
	p.Write = &compose{Form: &f.form, Alone: true, At: templatesPath}
	title := v.t("New template")
	if p.Name != "" {
		p.Write.At, title = p.Path, p.Name
	}
	if len(p.Look.Devices)+len(p.Look.Troubles) == 0 {
		p.Look = a.templateLook(v, f, p.Name)
	}
	if v.r.Header.Get("HX-Request") != "" {
		a.answer(v, status, "template", "content", p)
		return nil
	}
	if len(f.Problems) > 0 || p.Problem != "" {
		title = v.t("Not saved: %s", title)
	}
	a.answer(v, status, "template", "page", frame{Title: title, Here: "templates", Person: v.person, Version: a.Version, Content: p})
	return nil
}

// readTemplate reads a posted form into what is stored, or into the former revision that the form showed, so that settings missing in the
// form stay.
func (a *admin) readTemplate(v *visit, p *templatePage, was *template.Template) (*reading, error) {
	if err := parseForm(v.r); err != nil {
		return nil, err
	}
	f := newReading(v.lang, v.r.PostForm)
	f.spec.Content = was.Content
	if shown := f.text("shown"); shown != "" && was.Revision > 0 {
		says, err := a.templateVersions(v, p, was, shown)
		if err != nil {
			return nil, err
		}
		f.spec.Content = *says
	}
	f.clean()
	f.more = f.addLine(compact(f.Values))
	f.Kept = kept(v.lang, &f.spec)
	f.message()
	return f, nil
}

// checkContent checks the message by the rules of the API.
func (f *reading) checkContent() {
	var field *notification.FieldError
	if errors.As(f.spec.Content.Check("content"), &field) {
		f.blame(f.fieldOf(field), asItIs, field)
	}
}

// lookAtTemplate shows a message as the form has it: beside the form, or on the whole page again if no script runs.
func (a *admin) lookAtTemplate(v *visit) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	p, was := &templatePage{}, &template.Template{}
	if of := v.r.PostForm.Get("of"); template.CheckName("of", of) == nil {
		t, err := a.Templates.Get(v.r.Context(), v.person.App, of)
		switch {
		case err == nil:
			p, was = newTemplatePage(t), t
		case !errors.Is(err, template.ErrUnknown): // somebody has deleted it: saving says so
			return err
		default:
			p.Name, p.Path = of, templatePath(of)
		}
		p.Revision = v.r.PostForm.Get("revision")
	}
	f, err := a.readTemplate(v, p, was)
	if err != nil {
		return err
	}
	if c := &f.spec.Content; c.Title == "" && c.Body == "" && len(f.Problems) == 1 {
		delete(f.Problems, "title") // nothing has been written yet
	}
	look := a.templateLook(v, f, p.Name)
	if v.r.Header.Get("HX-Request") != "" {
		look.Fresh = true
		return a.part(v, "template", "look", look)
	}
	p.Look = look
	return a.templateForm(v, http.StatusOK, p, f)
}

func (a *admin) templateLook(v *visit, f *reading, name string) (l templateLook) {
	c := &f.spec.Content
	blank := c.Title == "" && c.Body == ""
	if !blank {
		f.checkContent()
	}
	l.Troubles = f.troubles()
	if name == "" {
		name = text(f.Values, "name")
	}
	if blank || len(l.Troubles) > 0 {
		return l
	}
	l.Call = templateCall(a.server(v), name, f.text("revision"), c)
	in := f.text("in")
	for _, tag := range slices.Sorted(maps.Keys(c.Locales)) {
		l.Languages = append(l.Languages, option{tag, tag, tag == in})
	}
	if l.Languages == nil {
		in = ""
	} else {
		l.Languages = append([]option{{"", cmp.Or(c.Language, v.t("all others")), in == ""}}, l.Languages...)
	}
	shown := campaign.Spec{Content: *c}
	gaps := make(template.Variables)
	var needs []string
	for _, said := range c.Variables() {
		if said.Required {
			gaps[said.Name] = "{{" + said.Name + "}}"
			needs = append(needs, said.Name)
		}
	}
	shown.Variables, l.Needs = gaps, strings.Join(needs, ", ")
	for _, d := range devices {
		says := shown.Render(campaign.Person{Locale: in}, d.channel)
		l.Devices = append(l.Devices, device{d.kind, d.label, bubbleOf(v.lang, d.channel, in, &says)})
	}
	return l
}

// longestCall limits the content that the shown call has, in bytes; a longer one is read from a file.
const longestCall = 4 << 10

// templateCall returns the command that stores a template over the API.
func templateCall(server, name, revision string, c *template.Content) string {
	if name == "" {
		name = "NAME"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	body := "@" + name + ".json"
	if err := e.Encode(map[string]any{"content": c}); err == nil && b.Len() <= longestCall {
		body = "'" + strings.ReplaceAll(strings.TrimSpace(b.String()), "'", `'\''`) + "'"
	}
	match := "If-None-Match: *"
	if n, err := strconv.ParseInt(revision, 10, 64); err == nil {
		match = fmt.Sprintf(`If-Match: "%d"`, n)
	}
	return "curl -X PUT " + server + "/v1/templates/" + url.PathEscape(name) + " \\\n  -H \"Authorization: Bearer $KEY\" -H '" + match + "' \\\n  -d " + body
}

// matchOf returns the revision that a posted form is meant for.
func matchOf(r *http.Request) (m template.Match, err error) {
	if err := parseForm(r); err != nil {
		return m, err
	}
	revision := r.PostForm.Get("revision")
	if revision == "" {
		return template.Match{New: true}, nil
	}
	m.Revision, err = strconv.ParseInt(revision, 10, 64)
	if err != nil || m.Revision < 1 {
		return m, mistaken(http.StatusBadRequest, "The form could not be read.")
	}
	return m, nil
}

func (a *admin) makeTemplate(v *visit) error {
	return a.saveTemplate(v, &templatePage{}, &template.Template{})
}

func (a *admin) changeTemplate(v *visit) error {
	name := v.r.PathValue("name")
	if template.CheckName("name", name) != nil {
		return mistaken(http.StatusNotFound, "There is no such template.")
	}
	was, err := a.Templates.Get(v.r.Context(), v.person.App, name)
	if errors.Is(err, template.ErrUnknown) {
		was, err = &template.Template{Name: name}, nil
	}
	if err != nil {
		return err
	}
	return a.saveTemplate(v, newTemplatePage(was), was)
}

// saveTemplate stores a posted template. If the input is wrong, or somebody else has changed the template, it shows the form again as typed.
func (a *admin) saveTemplate(v *visit, p *templatePage, was *template.Template) error {
	m, err := matchOf(v.r)
	if err != nil {
		return err
	}
	f, err := a.readTemplate(v, p, was)
	if err != nil {
		return err
	}
	p.Revision = v.r.PostForm.Get("revision")
	if f.more {
		f.Problems = make(map[string]string)
		return a.templateForm(v, http.StatusOK, p, f)
	}
	name := p.Name
	if name == "" {
		name = f.text("name")
		var field *notification.FieldError
		if errors.As(template.CheckName("name", name), &field) {
			f.blame("name", asItIs, field)
		}
	}
	f.checkContent()
	if len(f.Problems) > 0 {
		return a.templateForm(v, http.StatusUnprocessableEntity, p, f)
	}
	t, _, err := a.Templates.Set(v.r.Context(), v.person.App, name, f.spec.Content, m)
	var other *template.RevisionError
	if errors.As(err, &other) {
		return a.templateChanged(v, p, f, other)
	}
	if err != nil {
		if status, ok := f.refused(err); ok {
			return a.templateForm(v, status, p, f)
		}
		return explain(err)
	}
	a.templateSaved(v, &t)
	return nil
}

// templateChanged shows the form again after somebody else has changed the template. Saving it once more replaces what they stored.
func (a *admin) templateChanged(v *visit, p *templatePage, f *reading, other *template.RevisionError) error {
	switch {
	case p.Name == "":
		f.blame("name", "the app has a template of this name already. Choose another name, or change that one")
	case other.Have == 0:
		p.Revision, p.Problem = "", v.t("Somebody else has deleted this template since you opened this page. What you typed is still here: saving again makes it anew.")
	default:
		p.Revision = strconv.FormatInt(other.Have, 10)
		p.Problem = v.t("Somebody else has saved revision %s since you opened this page. What you typed is still here: saving again replaces theirs.", p.Revision)
	}
	return a.templateForm(v, http.StatusConflict, p, f)
}

func (a *admin) templateSaved(v *visit, t *template.Template) {
	a.Log.InfoContext(v.r.Context(), "template saved on the web page", "app", v.person.App, "template", t.Name, "revision", t.Revision, "by", v.person.Name())
	v.made = t.Name
	a.leadTo(v, templatePath(t.Name)+"?saved="+strconv.FormatInt(t.Revision, 10), http.StatusOK)
}

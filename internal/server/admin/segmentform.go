package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// segmentPage is the form of a segment, with the people whom it picks now. People who may not change segments see those alone.
type segmentPage struct {
	Name      string // empty: a new one
	Path      string
	Form      *form
	Build     builder
	Revision  string // that the form is meant to change; empty: there must be none
	UpdatedAt time.Time
	Problem   string // with the whole
	Saved     bool
	Look      segmentLook
}

// saveAt returns the path to which the form is posted.
func (p *segmentPage) saveAt() string {
	if p.Path != "" {
		return p.Path
	}
	return segmentsPath
}

// segmentLook shows whom an expression picks now.
type segmentLook struct {
	Problem  string // why nobody can be counted
	Blank    bool   // there is no expression yet
	Counted  reached
	Channels []channelCount
	Sample   []audience.Endpoint
	Words    string
	Strange  string // attributes that nobody has
	Call     string // the request that stores the segment over the API
	// Where and Build are swapped in as well, if they follow what the person has changed; nil: they stay.
	Where *line
	Build *builder
	State *builder // what the next change is compared with; nil: it is part of the page
}

// sampleShown is the number of people of a sample.
const sampleShown = 5

func (a *admin) newSegment(v *visit) error {
	where := text(v.r.URL.Query(), "where")
	f := &form{Values: url.Values{"where": {where}}, Problems: map[string]string{}, lang: v.lang}
	return a.segmentForm(v, http.StatusOK, &segmentPage{Form: f})
}

func (a *admin) showSegment(v *visit) error {
	one, err := a.segmentOf(v, v.r.PathValue("name"))
	if err != nil {
		return err
	}
	p := newSegmentPage(&one)
	p.Form = &form{Values: url.Values{"where": {one.Where}, "description": {one.Description}}, Problems: map[string]string{}, lang: v.lang}
	p.Saved = p.Revision == v.r.URL.Query().Get("saved")
	return a.segmentForm(v, http.StatusOK, p)
}

func newSegmentPage(s *segment.Segment) *segmentPage {
	return &segmentPage{Name: s.Name, Path: segmentPath(s.Name), Revision: s.Revision(), UpdatedAt: s.UpdatedAt}
}

// segmentForm shows the form, as a whole page or as the part that htmx replaces.
func (a *admin) segmentForm(v *visit, status int, p *segmentPage) error {
	v.again = v.r.Method == http.MethodPost
	var err error
	if p.Build.Rows == nil && p.Build.Note == "" {
		p.Build = read(v.lang, p.Form.Values.Get("where"))
	}
	if err := a.fieldsIn(v, &p.Build); err != nil {
		return err
	}
	if p.Look, err = a.segmentLook(v, p); err != nil {
		return err
	}
	if v.r.Header.Get("HX-Request") != "" {
		a.answer(v, status, "segment", "content", p)
		return nil
	}
	title := v.t("New segment")
	if p.Name != "" {
		title = p.Name
	}
	if len(p.Form.Problems) > 0 || p.Problem != "" {
		title = v.t("Not saved: %s", title)
	}
	a.answer(v, status, "segment", "page", frame{Title: title, Here: "segments", Person: v.person, Version: a.Version, Content: p})
	return nil
}

// fieldsIn lists the fields that rows can compare.
func (a *admin) fieldsIn(v *visit, b *builder) error {
	_, attributes, err := a.names(v.r.Context(), v.person.App)
	for _, name := range attributes {
		b.Fields = append(b.Fields, audience.Field{Name: name, Attribute: true}.String())
	}
	b.Fields = append(b.Fields, audience.TagsField, audience.ChannelField, audience.RecipientField, audience.LocaleField, audience.TimezoneField, audience.CreatedField, audience.SeenField)
	return err
}

// segmentLook counts and samples the people whom the form's expression picks.
func (a *admin) segmentLook(v *visit, p *segmentPage) (l segmentLook, err error) {
	where := text(p.Form.Values, "where")
	l.Call, l.Problem = segmentCall(a.server(v), p, where), p.Build.Problem
	if where == "" {
		l.Blank = true
		return l, nil
	}
	who := audience.Audience{Where: where}
	sel, err := who.Select("")
	var bad *notification.FieldError
	switch {
	case errors.As(err, &bad):
		l.Problem = problemIn(v.lang, bad.Problem)
		return l, nil
	case err != nil:
		return l, err
	}
	l.Words = saidOf(v.lang, where)
	ctx, app := v.r.Context(), v.person.App
	if l.Strange, err = a.strange(ctx, app, sel.Where); err != nil {
		return l, err
	}
	active, _, err := a.Audience.Totals(ctx, app)
	if err != nil {
		return l, err
	}
	until := a.now().Add(lookFor)
	for _, ch := range push.Channels() {
		if active[ch] == 0 {
			continue
		}
		who.Channels = []push.Channel{ch}
		n, err := a.reachUntil(v, &who, until)
		if err != nil {
			return l, err
		}
		l.Counted.Count, l.Counted.Looked = l.Counted.Count+n.Count, l.Counted.Looked+n.Looked
		if n.Count > 0 {
			l.Channels = append(l.Channels, channelCount{Name: ch, Active: n.Count})
		}
	}
	l.Sample, _, _, err = a.Audience.List(ctx, app, audience.Active, sel, 0, sampleShown)
	return l, err
}

// strange lists the attributes of an expression that nobody of the app has or had: most are mistyped.
func (a *admin) strange(ctx context.Context, app string, x audience.Expr) (string, error) {
	used := audience.AttributesIn(x)
	if len(used) == 0 {
		return "", nil
	}
	_, known, err := a.Audience.Names(ctx, app, audience.MaxTagNames)
	return strings.Join(slices.DeleteFunc(used, func(name string) bool { return slices.Contains(known, name) }), ", "), err
}

// segmentCall returns the command that stores the segment over the API.
func segmentCall(server string, p *segmentPage, where string) string {
	name := p.Name
	if name == "" {
		name = text(p.Form.Values, "name")
	}
	if name == "" {
		name = "NAME"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]string{"where": where, "description": text(p.Form.Values, "description")}) // texts always encode
	match := "If-None-Match: *"
	if p.Revision != "" {
		match = "If-Match: " + strconv.Quote(p.Revision)
	}
	return "curl -X PUT " + server + "/v1/segments/" + url.PathEscape(name) + " \\\n  -H \"Authorization: Bearer $KEY\" -H '" + match + "' \\\n  -d '" +
		strings.ReplaceAll(strings.TrimSpace(b.String()), "'", `'\''`) + "'"
}

// postedSegment reads a posted form into a page.
func postedSegment(v *visit, p *segmentPage) (*reading, error) {
	if err := parseForm(v.r); err != nil {
		return nil, err
	}
	f := newReading(v.lang, v.r.PostForm)
	f.clean()
	p.Form, p.Revision = &f.form, f.text("revision")
	p.Build = settle(&f.form)
	return f, nil
}

// lookAtSegment shows whom the form picks as it stands: beside the form, or on the whole page again if no script runs.
func (a *admin) lookAtSegment(v *visit) error {
	p := &segmentPage{}
	f, err := postedSegment(v, p)
	if err != nil {
		return err
	}
	if of := f.text("of"); segment.CheckName("of", of) == nil {
		p.Name, p.Path = of, segmentPath(of)
	}
	if v.r.Header.Get("HX-Request") == "" {
		return a.segmentForm(v, http.StatusOK, p)
	}
	l, err := a.segmentLook(v, p)
	if err != nil {
		return err
	}
	b := &p.Build
	b.Fresh, l.State = true, b
	switch {
	case b.FromRows:
		where, err := whereLine(p.Form)
		if err != nil {
			return err
		}
		l.Where = &where
	case b.FromText:
		if err := a.fieldsIn(v, b); err != nil {
			return err
		}
		l.Build = b
	}
	v.again = true
	return a.part(v, "segment", "look", l)
}

// whereLine is the field of the expression.
func whereLine(f *form) (line, error) {
	return newLine(f, "where", "rows", "3", "placeholder", `city = "Oslo" and age >= 18`, "label", f.speaks().T("Expression"))
}

func (a *admin) makeSegment(v *visit) error { return a.saveSegment(v, &segmentPage{}) }

func (a *admin) changeSegment(v *visit) error {
	name := v.r.PathValue("name")
	if segment.CheckName("name", name) != nil {
		return mistaken(http.StatusNotFound, "There is no such segment.")
	}
	return a.saveSegment(v, &segmentPage{Name: name, Path: segmentPath(name)})
}

// saveSegment stores a posted segment. If the input is wrong, or somebody else has changed the segment, it shows the form again as typed.
func (a *admin) saveSegment(v *visit, p *segmentPage) error {
	f, err := postedSegment(v, p)
	if err != nil {
		return err
	}
	if p.Build.change(f.text("then"), p.Form) {
		p.Form.Problems = map[string]string{}
		return a.segmentForm(v, http.StatusOK, p)
	}
	name := p.Name
	if name == "" {
		name = f.text("name")
	}
	change := segment.Change{Where: f.text("where"), Description: f.text("description"), Must: setting.Exactly(p.Revision)}
	if p.Build.Both { // without scripts nobody has said so before
		f.blame("", "nothing is saved yet, since the rows and the expression were both changed: look at both, and save again")
	}
	if p.Build.Problem != "" {
		f.blame("", asItIs, strings.TrimSuffix(p.Build.Problem, "."))
	}
	var bad *notification.FieldError
	if err := segment.Check(name, change); errors.As(err, &bad) {
		f.blame(bad.Field, asItIs, bad)
	}
	if len(f.Problems) > 0 {
		return a.segmentForm(v, http.StatusUnprocessableEntity, p)
	}
	one, _, err := a.Segments.Set(v.r.Context(), v.person.App, name, change)
	var other *setting.ChangedError
	if errors.As(err, &other) {
		return a.segmentChanged(v, p, f, name)
	}
	if err != nil {
		if status, ok := f.refused(err); ok {
			return a.segmentForm(v, status, p)
		}
		return explain(err)
	}
	a.segmentSaved(v, &one)
	return nil
}

// segmentChanged shows the form again after somebody else has changed the segment. Saving it once more replaces what they stored.
func (a *admin) segmentChanged(v *visit, p *segmentPage, f *reading, name string) error {
	now, err := a.Segments.Get(v.r.Context(), v.person.App, name)
	switch {
	case p.Name == "":
		f.blame("name", "the app has a segment of this name already. Choose another name, or change that one")
	case errors.Is(err, segment.ErrUnknown):
		p.Revision, p.Problem = "", v.t("Somebody else has deleted this segment since you opened this page. What you typed is still here: saving again makes it anew.")
	case err != nil:
		return err
	default:
		p.Revision, p.UpdatedAt = now.Revision(), now.UpdatedAt
		p.Problem = v.t("Somebody else has changed this segment since you opened this page. What you typed is still here: saving again replaces theirs.")
	}
	return a.segmentForm(v, http.StatusConflict, p)
}

func (a *admin) segmentSaved(v *visit, s *segment.Segment) {
	a.Log.InfoContext(v.r.Context(), "segment saved on the web page", "app", v.person.App, "segment", s.Name, "by", v.person.Name())
	v.made = s.Name
	a.leadTo(v, segmentPath(s.Name)+"?"+url.Values{"saved": {s.Revision()}}.Encode(), http.StatusOK)
}

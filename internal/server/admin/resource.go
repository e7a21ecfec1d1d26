package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/admin/resource"
	"godwit.dev/godwit/internal/server/admin/words"
)

// newPath is the page on which one is made. It is beside the pages of the settings: they may have any name.
func newPath(r *resource.Kind) string { return "/ui/new/" + strings.TrimPrefix(r.Path, "/ui/") }

func pathOf(r *resource.Kind, name string) string { return r.Path + "/" + url.PathEscape(name) }

// resourceRoutes are the pages and actions of all kinds. Their names in the audit log are those of the API.
func (a *admin) resourceRoutes() map[string]route {
	all := make(map[string]route)
	for _, r := range resource.Kinds {
		with := func(serve func(*admin, *visit, *resource.Kind) error) page {
			return func(v *visit) error { return serve(a, v, r) }
		}
		if r.All != nil {
			all["GET "+r.Path] = route{signin.View, with((*admin).listResource), ""}
		}
		all["GET "+newPath(r)] = route{signin.Admin, with((*admin).newResource), ""}
		all["POST "+newPath(r)] = route{signin.Admin, with((*admin).makeResource), r.Name + ".set"}
		all["GET "+r.Path+"/{name}"] = route{signin.View, with((*admin).showResource), ""}
		all["POST "+r.Path+"/{name}"] = route{signin.Admin, with((*admin).setResource), r.Name + ".set"}
		all["POST "+r.Path+"/{name}/delete"] = route{signin.Admin, with((*admin).dropResource), r.Name + ".delete"}
		if r.Undoes {
			all["POST "+r.Path+"/{name}/restore"] = route{signin.Admin, with((*admin).restoreResource), r.Name + ".set"}
		}
	}
	return all
}

// resourceList is the page of the settings of a kind that has no other.
type resourceList struct {
	Title, About, Empty, One string
	New, Docs                string
	Columns                  []string
	Items                    []resourceRow
	Gone                     *gone // nil: none was deleted just now
	More                     bool
	Call                     string
}

type resourceRow struct {
	Name, Path string
	Cells      []fact
}

func (a *admin) listResource(v *visit, r *resource.Kind) error { return a.resourceList(v, r, nil) }

func (a *admin) resourceList(v *visit, r *resource.Kind, was *gone) error {
	all := r.All(a.place(v))
	inputs, err := r.Inputs(a.place(v), "", false)
	if err != nil {
		return err
	}
	l := resourceList{Title: r.List, About: r.About, Empty: r.Empty, One: r.One, New: newPath(r), Docs: r.Docs, Gone: was, More: len(all) > mostListed, Call: "GET " + r.API}
	for i := range inputs {
		l.Columns = append(l.Columns, wordOf(&inputs[i], r.Name))
	}
	for _, s := range all[:min(len(all), mostListed)] {
		row := resourceRow{Name: s.Name, Path: pathOf(r, s.Name)}
		for i := range inputs {
			row.Cells = append(row.Cells, fact{Name: l.Columns[i], Value: saidIn(v.lang, &inputs[i], s.Values[inputs[i].Name])})
		}
		l.Items = append(l.Items, row)
	}
	return a.show(v, "resources", v.t(r.List), r.Here, l)
}

// resourcePage is one setting with its form, or the form of a new one.
type resourcePage struct {
	Back               lead
	Title, Kind, About string
	One                string
	Action, Delete     string // paths that the forms post to
	Save               string // label of the button
	Kinds              []kindTile
	State              *resource.Line
	Problem, Left      string
	Saved              bool
	Made               string
	Name               *line // of a new one
	Lines              []settingLine
	Revision           string
	Undoes             bool
	Call               string
	Secret             bool // a field is one
	Previews           bool
	Preview            *resource.Preview // of what was typed; nil: none
	Docs               string
}

type kindTile struct{ Path, Word, Kind string }

// resourceForm has the input that a form shows in place of the stored values, and its problems.
type resourceForm struct {
	status   int
	typed    url.Values // nil: nothing was
	problems map[string]string
	whole    string // what is wrong with the whole
	saved    bool
	made     string
	preview  *resource.Preview
}

func (a *admin) newResource(v *visit, r *resource.Kind) error {
	return a.newForm(v, r, v.r.URL.Query().Get("kind"), resourceForm{status: http.StatusOK})
}

// newForm shows the form of a new setting, or the choice of its kind.
func (a *admin) newForm(v *visit, r *resource.Kind, kind string, f resourceForm) error {
	p := &resourcePage{Back: lead{Path: r.Back, Label: v.t(r.List)}, Title: v.t("New " + r.One), One: r.One, Action: newPath(r), Save: v.t("Make it"), Docs: r.Docs}
	if r.Kinds != nil {
		kinds, err := r.Kinds(v.r.Context(), a.place(v))
		switch {
		case err != nil:
			return err
		case kind == "" && len(kinds) == 1:
			kind = kinds[0]
		case kind == "":
			for _, k := range kinds {
				p.Kinds = append(p.Kinds, kindTile{newPath(r) + "?kind=" + url.QueryEscape(k), v.t(kindWord(k)), k})
			}
			if p.About = v.t("What is it to be?"); len(kinds) == 0 {
				p.About = v.t("The app has one of each kind already.")
			}
			return a.showForm(v, p, r, f.status)
		case !slices.Contains(kinds, kind):
			return mistaken(http.StatusNotFound, "There is no such kind, or the app has one already.")
		}
		p.Kind, p.About, p.Previews = kind, v.t(kindWord(kind)), r.Previews != nil && r.Previews(a.place(v), kind)
	}
	inputs, err := r.Inputs(a.place(v), kind, true)
	if err != nil {
		return err
	}
	name := kind
	if f.typed != nil && !r.KindIsName {
		name = text(f.typed, "name")
	}
	if !r.KindIsName {
		p.Name = &line{Name: "name", Label: v.t(r.NameWord), Field: r.NameField, Hint: v.t(r.NameHint), Type: "text", Most: "128", Value: name, Problem: f.problems["name"], Focus: f.problems["name"] != ""}
	}
	p.fill(v.lang, r, inputs, &resource.Stored{Name: cmp.Or(name, "NAME"), Kind: kind, Values: resource.Defaults(inputs)}, f)
	return a.showForm(v, p, r, f.status)
}

// fill adds the fields, and the call that does the same.
func (p *resourcePage) fill(lang *words.Language, r *resource.Kind, inputs []resource.Input, s *resource.Stored, f resourceForm) {
	p.Problem, p.Saved, p.Made, p.Revision, p.Preview = f.whole, f.saved, f.made, s.Revision, f.preview
	focus := p.Name != nil && p.Name.Focus
	for i := range inputs {
		l := newSetting(lang, &inputs[i], r.Name, s, f.typed, f.problems[inputs[i].Name])
		l.Focus = l.Problem != "" && !focus
		focus, p.Secret = focus || l.Focus, p.Secret || inputs[i].Secret
		p.Lines = append(p.Lines, l)
	}
	more := ""
	if r.Kinds != nil && !r.KindIsName && p.Name != nil {
		more = s.Kind
	}
	p.Call = resource.Call(http.MethodPut, r.API+"/"+url.PathEscape(s.Name), s.Revision, more, inputs, asTyped(inputs, s, f))
}

// asTyped returns the values that a form shows, as far as they can be read.
func asTyped(inputs []resource.Input, s *resource.Stored, f resourceForm) setting.Values {
	if f.typed != nil {
		if read, wrong := resource.Read(inputs, f.typed); len(wrong) == 0 {
			return read
		}
	}
	return s.Values
}

func (a *admin) showForm(v *visit, p *resourcePage, r *resource.Kind, status int) error {
	if status == 0 {
		status = http.StatusOK
	}
	a.answer(v, status, "resource", "page", frame{Title: p.Title, Here: r.Here, Person: v.person, Version: a.Version, Content: p})
	return nil
}

// makeResource makes a setting, only if there is none of its name.
func (a *admin) makeResource(v *visit, r *resource.Kind) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	kind := text(v.r.PostForm, "kind")
	name := kind
	if !r.KindIsName {
		name = text(v.r.PostForm, "name")
	}
	v.made = name
	if name == "" || r.Kinds != nil && kind == "" {
		return a.newForm(v, r, kind, resourceForm{status: http.StatusUnprocessableEntity, typed: v.r.PostForm, problems: map[string]string{"name": v.t("Give it a name.")}})
	}
	made, f, err := a.change(v, r, name, kind, true, setting.Exactly(""))
	if err != nil {
		return missingKind(err)
	}
	if f != nil {
		return a.newForm(v, r, kind, *f)
	}
	return a.changed(v, r, name, made)
}

// change makes the change that a form asks for. f is the form to show again; nil: it is done.
func (a *admin) change(v *visit, r *resource.Kind, name, kind string, isNew bool, must setting.Match) (made string, f *resourceForm, err error) {
	inputs, err := r.Inputs(a.place(v), kind, isNew)
	if err != nil {
		return "", nil, missingKind(err)
	}
	values, problems := resource.Read(inputs, v.r.PostForm)
	if len(problems) > 0 {
		return "", &resourceForm{status: http.StatusUnprocessableEntity, typed: v.r.PostForm, problems: sentences(v.lang, problems)}, nil
	}
	if r.Preview != nil && v.r.PostForm.Get("then") == "preview" {
		preview, err := r.Preview(v.r.Context(), a.place(v), name, resource.Change{Kind: kind, Values: values})
		if err == nil {
			v.again = true // nothing is set
			a.note(v.r, v.person, r.Name+".preview", name, audit.Done)
			return "", &resourceForm{status: http.StatusOK, typed: v.r.PostForm, preview: preview}, nil
		}
		f, err = refusedBy(v.lang, r, inputs, v.r.PostForm, isNew, err)
		return "", f, err
	}
	made, err = r.Set(v.r.Context(), a.place(v), name, resource.Change{Kind: kind, Values: values, Must: must})
	if err == nil {
		a.Log.InfoContext(v.r.Context(), "set on the web page", "app", v.person.App, "what", r.Name, "name", name, "by", v.person.Name())
		return made, nil, nil
	}
	f, err = refusedBy(v.lang, r, inputs, v.r.PostForm, isNew, err)
	return "", f, err
}

// refusedBy puts an error beside the field where a person can mend it.
func refusedBy(l *words.Language, r *resource.Kind, inputs []resource.Input, typed url.Values, isNew bool, err error) (*resourceForm, error) {
	f := &resourceForm{status: http.StatusUnprocessableEntity, typed: typed}
	_, changed := errors.AsType[*setting.ChangedError](err)
	field, bad := errors.AsType[*notification.FieldError](err)
	switch {
	case changed && isNew:
		f.status, f.problems = http.StatusConflict, map[string]string{"name": l.T("There is one of this name already.")}
		if r.KindIsName {
			f.whole = l.T("There is one already: somebody else has just made it.")
		}
	case changed:
		f.status, f.whole = http.StatusConflict, l.T(changedMeanwhile)
	case !bad:
		return nil, err
	default:
		at, _, _ := strings.Cut(field.Field, "[")
		at, _, _ = strings.Cut(at, ".")
		switch {
		case slices.ContainsFunc(inputs, func(in resource.Input) bool { return in.Name == at }):
			f.problems = map[string]string{at: fieldProblem(l, field)}
		case isNew && !r.KindIsName && (at == "name" || at == r.NameField):
			f.problems = map[string]string{"name": fieldProblem(l, field)}
		default:
			f.whole = wholeProblem(l, field)
		}
	}
	return f, nil
}

const changedMeanwhile = "Somebody else has changed these settings since you opened this page. What you typed is still here: saving again replaces theirs."

// changed leads to the page of a new or changed setting. A secret that was made is shown at once, since no other page has it.
func (a *admin) changed(v *visit, r *resource.Kind, name, made string) error {
	if made == "" {
		a.leadTo(v, pathOf(r, name)+"?saved=1", http.StatusOK)
		return nil
	}
	return a.resource(v, r, name, resourceForm{saved: true, made: made})
}

func (a *admin) showResource(v *visit, r *resource.Kind) error {
	return a.resource(v, r, v.r.PathValue("name"), resourceForm{saved: v.r.URL.Query().Has("saved")})
}

// resource shows a setting with its form.
func (a *admin) resource(v *visit, r *resource.Kind, name string, f resourceForm) error {
	s, err := r.Get(v.r.Context(), a.place(v), name)
	if err != nil {
		return missingKind(err)
	}
	inputs, err := r.Inputs(a.place(v), s.Kind, false)
	if err != nil {
		return missingKind(err)
	}
	p := &resourcePage{Back: lead{Path: r.Back, Label: v.t(r.List)}, Title: s.Name, One: r.One, Action: pathOf(r, s.Name), Delete: pathOf(r, s.Name) + "/delete", Save: v.t("Save"), State: s.State, Undoes: r.Undoes, Docs: r.Docs}
	if r.Kinds != nil {
		p.Kind, p.About, p.Previews = s.Kind, v.t(kindWord(s.Kind)), r.Previews != nil && r.Previews(a.place(v), s.Kind)
	}
	if r.KindIsName {
		p.Title = p.About
	}
	p.fill(v.lang, r, inputs, &s, f)
	return a.showForm(v, p, r, f.status)
}

// setResource changes a setting, if it is still the one that the person saw.
func (a *admin) setResource(v *visit, r *resource.Kind) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	name := v.r.PathValue("name")
	s, err := r.Get(v.r.Context(), a.place(v), name)
	if err != nil {
		return missingKind(err)
	}
	made, f, err := a.change(v, r, name, s.Kind, false, setting.Exactly(v.r.PostForm.Get("revision")))
	if err != nil {
		return missingKind(err)
	}
	if f != nil {
		return a.resource(v, r, name, *f)
	}
	return a.changed(v, r, name, made)
}

func (a *admin) dropResource(v *visit, r *resource.Kind) error {
	if err := parseForm(v.r); err != nil {
		return err
	}
	name := v.r.PathValue("name")
	was, err := r.Get(v.r.Context(), a.place(v), name)
	if err != nil {
		return missingKind(err)
	}
	left, err := r.Drop(v.r.Context(), a.place(v), name, setting.Exactly(v.r.PostForm.Get("revision")))
	if _, changed := errors.AsType[*setting.ChangedError](err); changed {
		return a.resource(v, r, name, resourceForm{status: http.StatusConflict, whole: v.t("Somebody else has changed it since you opened this page, and it is not deleted. Here is what it says now.")})
	}
	if err != nil {
		return missingKind(err)
	}
	a.Log.InfoContext(v.r.Context(), "deleted on the web page", "app", v.person.App, "what", r.Name, "name", name, "by", v.person.Name())
	if left != "" {
		return a.showForm(v, &resourcePage{Back: lead{Path: r.Back, Label: v.t(r.List)}, Title: name, Left: left}, r, http.StatusOK)
	}
	if !r.Undoes {
		a.leadTo(v, r.Back, http.StatusOK)
		return nil
	}
	g, err := newGone(v.t("%s is deleted.", name), pathOf(r, name), map[string]json.RawMessage(was.Values)) // without secrets; setting.Values would not show itself
	if err != nil {
		return err
	}
	return a.resourceList(v, r, g)
}

// restoreResource stores a deleted setting again, unless there is one of its name.
func (a *admin) restoreResource(v *visit, r *resource.Kind) error {
	var values map[string]json.RawMessage
	if err := bringBack(v, &values); err != nil {
		return err
	}
	name := v.r.PathValue("name")
	_, err := r.Set(v.r.Context(), a.place(v), name, resource.Change{Values: values, Must: setting.Exactly("")})
	if _, changed := errors.AsType[*setting.ChangedError](err); changed {
		now, err := r.Get(v.r.Context(), a.place(v), name)
		if err == nil && maps.EqualFunc(now.Values, values, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			a.leadTo(v, pathOf(r, name), http.StatusOK) // the button was pressed twice
			return nil
		}
		return mistaken(http.StatusConflict, "Somebody has made one of this name meanwhile. It stays.")
	}
	if err != nil {
		return explain(err)
	}
	a.Log.InfoContext(v.r.Context(), "set on the web page", "app", v.person.App, "what", r.Name, "name", name, "by", v.person.Name())
	a.leadTo(v, pathOf(r, name), http.StatusOK)
	return nil
}

// missingKind turns the errors of settings and kinds that are not there into mistakes.
func missingKind(err error) error {
	if resource.Missing(err) {
		return mistaken(http.StatusNotFound, "There is none of this name. Somebody else may have deleted it.")
	}
	return err
}

// sentences writes problems as the page shows them.
func sentences(l *words.Language, problems map[string]string) map[string]string {
	for name, text := range problems {
		problems[name] = problemIn(l, text)
	}
	return problems
}

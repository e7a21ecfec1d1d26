package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/notification"
)

// check checks the campaign by the rules of the API, or those of drafts. It reports the first problem of the audience, and the first of the rest.
func (f *reading) check(a *admin, draft bool) {
	var field *notification.FieldError
	who := f.spec.Audience.Check("audience")
	rest := f.spec.Check
	if draft {
		rest = f.spec.CheckDraft
	}
	for _, err := range []error{who, rest(a.now(), f.sendAt)} {
		if errors.As(err, &field) {
			f.blame(f.fieldOf(field), asItIs, field)
		}
	}
}

// refused adds an error to the field where the person can mend it, and reports whether they can.
func (f *reading) refused(err error) (status int, ok bool) {
	var state *campaign.StateError
	var channel *campaign.ChannelError
	var field *notification.FieldError
	switch {
	case errors.As(err, &field):
		f.blame(f.fieldOf(field), asItIs, field)
		return http.StatusUnprocessableEntity, true
	case errors.As(err, &channel):
		f.blame("channel", asItIs, err)
		return http.StatusConflict, true
	case errors.As(err, &state):
		f.blame("", asItIs, err)
		return http.StatusConflict, true
	}
	return 0, false
}

// formNames maps the API's field names to different names in the forms. Fields that are neither here nor in a list have the same name in
// both.
var formNames = map[string]string{
	"content": "body", "quiet_hours.from": "quiet_from", "quiet_hours.to": "quiet_to", "quiet_hours.timezone": "quiet_timezone",
	"quiet_hours.fallback": "fallback", "audience.channels": "channel",
	"variants": "b_title", "variants[0].share": "share_a", "variants[1].share": "share_b", "variants[1].template": "b_template", "local_time.at": "local_at",
	"local_time.fallback": "fallback", "local_time.passed": "local_passed",
	"content.telegram.photo": "media_url", "content.telegram.video": "media_url", "content.telegram.animation": "media_url", "content.telegram.document": "media_url",
	"content.telegram.audio": "media_url", "content.telegram.sticker": "media_url",
}

// fieldOf returns the form's field for an error of the API; empty: there is none.
func (f *reading) fieldOf(e *notification.FieldError) string {
	name := e.Field
	if rest, ok := strings.CutPrefix(name, "variants["); ok {
		return f.variantField(name, rest)
	}
	if rest, ok := strings.CutPrefix(name, "content."); ok {
		if at := f.buttonAt("", rest); at != "" {
			return at
		}
	}
	if variable, ok := strings.CutPrefix(name, "variables."); ok {
		return variableField(variable)
	}
	if rest, ok := strings.CutPrefix(name, "content.locales"); ok {
		return f.localeAt(strings.TrimPrefix(rest, "."), e.Problem)
	}
	if name == "content.telegram.photo" && f.text("media") == samePicture {
		return "image"
	}
	name, _, _ = strings.Cut(name, "[")
	if own, ok := formNames[name]; ok {
		return own
	}
	for _, prefix := range []string{"content.telegram.", "content.webpush.", "content.", "audience."} {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			name = short
			break
		}
	}
	if labels[name] == "" {
		return ""
	}
	return name
}

// variantField returns the form's field for an error about a variant.
func (f *reading) variantField(name, rest string) string {
	if own, ok := formNames[name]; ok {
		return own
	}
	_, rest, _ = strings.Cut(rest, "].content.")
	switch {
	case f.text("b_template") != "":
		return "b_template"
	case labels["b_"+rest] != "":
		return "b_" + rest
	}
	return "b_title"
}

// buttonAt returns the form's line of a button by its name in the API: telegram.buttons[0][1].url, telegram.buttons[0], which is a row, or
// webpush.actions[0].title. in is "", or the prefix of the language with these buttons, like locale-0-. The line is "" if no button has the
// name.
func (f *reading) buttonAt(in, name string) string {
	if at, ok := strings.CutPrefix(name, "webpush.actions["); ok {
		number, field, _ := strings.Cut(at, "].")
		return in + "action-" + number + "-" + cmp.Or(field, "title")
	}
	at, ok := strings.CutPrefix(name, "telegram.buttons[")
	if !ok {
		return ""
	}
	row, rest, _ := strings.Cut(at, "]")
	place, field, inRow := strings.Cut(strings.TrimPrefix(rest, "["), "].")
	i, _ := strconv.Atoi(row)
	j, _ := strconv.Atoi(place)
	if !inRow {
		field = "text"
	}
	n := slices.Index(f.buttons[in+"button"], [2]int{i, j})
	return lineField(in+"button", max(n, 0), field)
}

// localeAt returns the form's line of a language for an error of the API. The error names the language's tag and the field, or only a bad
// tag.
func (f *reading) localeAt(at, problem string) string {
	tag, field, ok := strings.Cut(at, ".")
	for n := range f.filled("locale") {
		name := lineField("locale", n, "tag")
		switch is := f.text(name); {
		case ok && is == tag:
			return cmp.Or(f.buttonAt(lineField("locale", n, ""), field), lineField("locale", n, field))
		case !ok && (strings.HasPrefix(problem, strconv.Quote(is)) || strings.HasPrefix(problem, "has "+is+",")):
			return name
		}
	}
	return lineField("locale", 0, "tag")
}

// trouble is a problem with a link to its field.
type trouble struct{ Name, Label, Text string }

// troubles returns a form's problems in the order of field names; problems of the whole form come first.
func (f *form) troubles() (all []trouble) {
	for name, text := range f.Problems {
		all = append(all, trouble{Name: name, Label: fullLabel(f.speaks(), name), Text: text})
	}
	slices.SortFunc(all, func(a, b trouble) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// line is a field as the page shows it.
type line struct {
	Name, Label, Value, Problem, Hint string
	Field                             string // the API's name, shown beside the label; empty: it is not shown
	Placeholder, Type, Mode, List     string
	Rows, Most                        string
	Focus, On                         bool
	Options                           []option
}

type option struct {
	Value, Text string
	Chosen      bool
}

// newLine makes a field; settings holds pairs of a setting's name and its value.
func newLine(f *form, name string, settings ...string) (line, error) {
	l := line{Name: name, Label: labelIn(f.speaks(), name), Value: f.Values.Get(name), Problem: f.Problems[name], Type: "text", Focus: f.focus() == name, On: f.Values.Has(name)}
	for i := 0; i+1 < len(settings); i += 2 {
		into := map[string]*string{
			"hint": &l.Hint, "placeholder": &l.Placeholder, "type": &l.Type, "mode": &l.Mode, "list": &l.List, "rows": &l.Rows, "most": &l.Most, "label": &l.Label,
		}[settings[i]]
		if into == nil {
			return l, fmt.Errorf("a field has no setting %q", settings[i])
		}
		*into = settings[i+1]
	}
	return l, nil
}

// newChoice makes a field with a choice of values; options holds pairs of a value and its label.
func newChoice(f *form, name string, options ...string) (line, error) {
	l, err := newLine(f, name)
	known := false
	for i := 0; i+1 < len(options); i += 2 {
		chosen := options[i] == l.Value
		known = known || chosen
		l.Options = append(l.Options, option{options[i], options[i+1], chosen})
	}
	if !known { // refused, and not lost
		l.Options = append(l.Options, option{l.Value, l.Value, true})
	}
	return l, err
}

// focus returns the field that gets the focus.
func (f *form) focus() string {
	if f.Focus == "" {
		for _, t := range f.troubles() {
			if t.Name != "" {
				return t.Name
			}
		}
	}
	return f.Focus
}

// open reports whether a part of the form is shown unfolded: one of its fields has a value, a problem or the focus.
func open(f *form, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		if fieldsOf(name) != nil {
			return f.filled(name) > 0 || strings.HasPrefix(f.focus(), name+"-")
		}
		return f.Values.Get(name) != "" || f.Problems[name] != "" || f.focus() == name
	})
}

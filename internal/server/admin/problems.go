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

// check holds the campaign against the rules of the API. Of what the audience and the rest break it tells the first.
func (f *reading) check(a *admin) {
	var field *notification.FieldError
	_, who := f.spec.Audience.Select("audience")
	for _, err := range []error{who, f.spec.Check(a.now(), f.sendAt)} {
		if errors.As(err, &field) {
			f.blame(f.fieldOf(field), "%s", field.Problem)
		}
	}
}

// refused puts an error where the person can mend it, and reports whether they can.
func (f *reading) refused(err error) (status int, ok bool) {
	var state *campaign.StateError
	var channel *campaign.ChannelError
	var field *notification.FieldError
	switch {
	case errors.As(err, &field):
		f.blame(f.fieldOf(field), "%s", field.Problem)
		return http.StatusUnprocessableEntity, true
	case errors.As(err, &channel):
		f.blame("channel", "%v", err)
		return http.StatusConflict, true
	case errors.As(err, &state):
		f.blame("", "%v", err)
		return http.StatusConflict, true
	}
	return 0, false
}

// The API's names of fields that have another name in the forms. Fields that are neither here nor in a list have the same name.
var formNames = map[string]string{
	"content": "body", "quiet_hours.from": "quiet_from", "quiet_hours.to": "quiet_to", "quiet_hours.timezone": "quiet_timezone",
	"quiet_hours.fallback": "quiet_fallback", "audience.channels": "channel",
	"content.telegram.photo": "media_url", "content.telegram.video": "media_url", "content.telegram.animation": "media_url", "content.telegram.document": "media_url",
}

// fieldOf finds the form's field for the API's error; empty: there is none.
func (f *reading) fieldOf(e *notification.FieldError) string {
	name := e.Field
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

// buttonAt finds the line of a button by its name in the API: telegram.buttons[0][1].url, telegram.buttons[0], which is a row, or
// webpush.actions[0].title. in is "", or the prefix of the language that has these buttons, like locale-0-. The line is "" if the
// name is not a button's.
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

// localeAt finds the line of a language by the API's error: it names the tag and the field, or says only that the tag is not one.
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

// trouble is a problem with the way to its field.
type trouble struct{ Name, Label, Text string }

// troubles are a form's problems in the order of names, those with the whole first.
func (f *form) troubles() (all []trouble) {
	for name, text := range f.Problems {
		all = append(all, trouble{Name: name, Label: fullLabel(name), Text: text})
	}
	slices.SortFunc(all, func(a, b trouble) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// line is a field as the page shows it.
type line struct {
	Name, Label, Value, Problem, Hint string
	Placeholder, Type, Mode, List     string
	Rows, Most                        string
	Focus, On                         bool
	Options                           []option
}

type option struct {
	Value, Text string
	Chosen      bool
}

// newLine makes a field; what follows its name are pairs of a setting and what it is.
func newLine(f *form, name string, settings ...string) (line, error) {
	l := line{Name: name, Label: label(name), Value: f.Values.Get(name), Problem: f.Problems[name], Type: "text", Focus: f.focus() == name, On: f.Values.Has(name)}
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

// newChoice makes a field with one of some values, which are given with their words.
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

// focus is the field that the person is led to.
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

// open reports whether a part of the form is shown unfolded: something stands in one of its fields, or is wrong there.
func open(f *form, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		if fieldsOf(name) != nil {
			return f.filled(name) > 0 || strings.HasPrefix(f.focus(), name+"-")
		}
		return f.Values.Get(name) != "" || f.Problems[name] != "" || f.focus() == name
	})
}

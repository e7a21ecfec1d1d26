package setting

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Type is the type of a field's value.
type Type int

// Types of fields.
const (
	Text Type = iota
	Bool      // "true", or absent
	List
	Days  // a duration: stored in nanoseconds, written like 90d
	Words // a list that is stored as words with spaces between, and may be given so
)

// Kind is one kind of settings, with its own fields.
type Kind interface {
	Fields() []Field
	// Check reports what is wrong with values, as a *notification.FieldError.
	Check(v Values) error
}

// KindOf finds a kind by its name. unknown is the error for any other name.
func KindOf[K any](kinds map[string]K, name string, unknown error) (k K, err error) {
	k, ok := kinds[name]
	if !ok {
		err = fmt.Errorf("%w: %.64q; there is %s", unknown, name, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	return k, err
}

// Field is one setting that a kind of channels, sources or sinks has.
type Field struct {
	Name    string // as in the API
	Type    Type
	Secret  bool            // it can be set and is never shown
	Lines   bool            // it may have several lines: a file's content
	Address bool            // it says where connections lead
	Most    int             // entries of a list; 0: the caller has a limit
	Default json.RawMessage // of settings that are made
	Flag    string          // of the command line; that of a secret names a file
	Help    string
}

// Values are settings by the names of their fields, as JSON, secrets included: they print as nothing. An absent one is empty.
type Values map[string]json.RawMessage

// Format hides the values from every verb of fmt.
func (Values) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// LogValue hides the values from slog.
func (Values) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON hides the values from answers. A store converts them to a map.
func (Values) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

const redacted = "[redacted]"

// Text is the value of a text; "" where there is none.
func (v Values) Text(name string) (text string) {
	_ = json.Unmarshal(v[name], &text) // it was written by Put, or is absent
	return text
}

// List is the value of a list; nil where there is none.
func (v Values) List(name string) (list []string) {
	_ = json.Unmarshal(v[name], &list)
	return list
}

// Duration is the value of a duration; 0 where there is none.
func (v Values) Duration(name string) (d time.Duration) {
	_ = json.Unmarshal(v[name], &d)
	return d
}

// JSON is a text, a bool, a list of texts or a duration as settings have it.
func JSON(value any) json.RawMessage {
	raw, _ := json.Marshal(value) // these always encode
	return raw
}

// Put sets a value. An empty one stays as such: it takes the place of a former one.
func Put[T string | bool | []string | time.Duration](v Values, name string, to T) { v[name] = JSON(to) }

// Defaults are the values of fields that nobody has set.
func Defaults(fields []Field) Values {
	v := Values{}
	for _, f := range fields {
		if f.Default != nil {
			v[f.Name] = f.Default
		}
	}
	return v
}

// Update returns the settings that a change leads to. A field that it does not name keeps its value.
func (v Values) Update(change Values, fields []Field) Values {
	all := Values{}
	maps.Copy(all, v)
	maps.Copy(all, change)
	return v.Merge(all, fields)
}

// Merge returns the settings that a change leads to: its values in place of all former ones but the secrets that it does not name.
func (v Values) Merge(change Values, fields []Field) Values {
	next := make(Values, len(fields))
	for _, f := range fields {
		value, named := change[f.Name]
		if !named && f.Secret {
			value = v[f.Name]
		}
		if len(value) > 0 && string(value) != `""` && string(value) != "[]" && string(value) != "null" {
			next[f.Name] = value
		}
	}
	return next
}

// Equal reports whether two sets of values are the same.
func (v Values) Equal(o Values) bool {
	return maps.EqualFunc(v, o, func(a, b json.RawMessage) bool { return string(a) == string(b) })
}

// Lead reports whether values v lead connections to the same place as values o.
func (v Values) Lead(o Values, fields []Field) bool {
	for _, f := range fields {
		if f.Address && string(v[f.Name]) != string(o[f.Name]) {
			return false
		}
	}
	return true
}

// Shown is the value of a field for an answer: empty where there is none.
func (v Values) Shown(f Field) json.RawMessage {
	switch value, ok := v[f.Name]; {
	case f.Type == Days:
		return JSON(strconv.Itoa(int(v.Duration(f.Name)/(24*time.Hour))) + "d")
	case ok:
		return value
	case f.Type == List:
		return json.RawMessage("[]")
	case f.Type == Bool:
		return json.RawMessage("false")
	}
	return json.RawMessage(`""`)
}

// View is the part of values that may be shown.
type View struct {
	Fields      []Field  // of the kind
	Addresses   []string // where connections lead
	Credentials []string // names of the secrets that are set
}

// Look returns the part of values that may be shown. A kind that this version does not know has no fields.
func (v Values) Look(fields []Field) View {
	view := View{Fields: fields, Credentials: []string{}}
	for _, f := range fields {
		switch {
		case f.Secret && v.Text(f.Name) != "":
			view.Credentials = append(view.Credentials, f.Name)
		case !f.Address:
		case f.Type == List:
			view.Addresses = append(view.Addresses, v.List(f.Name)...)
		default:
			view.Addresses = append(view.Addresses, v.Text(f.Name))
		}
	}
	return view
}

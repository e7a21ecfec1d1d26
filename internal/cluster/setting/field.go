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
	Bool      // true, false or absent
	List
	Days  // a duration: stored in nanoseconds, shown like 90d
	Words // a list, stored as a text of words separated by spaces; it may also be given as such a text
	Tree  // any JSON, which the kind checks
)

// Kind is one kind of settings with its fields, such as a kind of sink.
type Kind interface {
	Fields() []Field
	// Check validates values. Its error is a *notification.FieldError.
	Check(v Values) error
}

// Tidier is a Kind that accepts values in a form that it does not store, such as a password within a URL.
type Tidier interface {
	// Tidy changes values that were given into those that are stored. It is called before Check.
	Tidy(v Values)
}

// KindOf returns the kind of a name. unknown is the error for a name that does not exist.
func KindOf[K any](kinds map[string]K, name string, unknown error) (k K, err error) {
	k, ok := kinds[name]
	if !ok {
		err = fmt.Errorf("%w: %.64q; there is %s", unknown, name, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	return k, err
}

// Field is one setting of a kind of channel, source or sink.
type Field struct {
	Name    string // as in the API
	Type    Type
	Secret  bool            // write-only: its value is never shown
	Lines   bool            // the value may have several lines, such as a file's content
	Address bool            // it says where connections lead
	Most    int             // maximum number of a list's entries; 0: the caller limits it
	Default json.RawMessage // of settings that are made
	Flag    string          // flag on the command line; a secret's flag names a file
	Help    string
}

// Values are settings by the names of their fields, as JSON. They include secrets, so printing hides them. An absent value is empty.
type Values map[string]json.RawMessage

// Format hides the values from every verb of fmt.
func (Values) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// LogValue hides the values from slog.
func (Values) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON hides the values in JSON. A store must convert them to a map first.
func (Values) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

const redacted = "[redacted]"

// Text returns the value of a text field; "" if it is absent.
func (v Values) Text(name string) (text string) {
	_ = json.Unmarshal(v[name], &text) // absent, or valid because Put wrote it
	return text
}

// List returns the value of a list field; nil if it is absent.
func (v Values) List(name string) (list []string) {
	_ = json.Unmarshal(v[name], &list)
	return list
}

// Bool returns the value of a boolean field; false if it is absent.
func (v Values) Bool(name string) (on bool) {
	_ = json.Unmarshal(v[name], &on)
	return on
}

// Duration returns the value of a duration field; 0 if it is absent.
func (v Values) Duration(name string) (d time.Duration) {
	_ = json.Unmarshal(v[name], &d)
	return d
}

// JSON encodes a value for settings: a text, a bool, a list of texts or a duration.
func JSON(value any) json.RawMessage {
	raw, _ := json.Marshal(value) // these always encode
	return raw
}

// Put sets a value. An empty value is stored, too: it replaces a former one.
func Put[T string | bool | []string | time.Duration](v Values, name string, to T) { v[name] = JSON(to) }

// Defaults returns the default values of fields.
func Defaults(fields []Field) Values {
	v := Values{}
	for _, f := range fields {
		if f.Default != nil {
			v[f.Name] = f.Default
		}
	}
	return v
}

// Update returns the values after a change. Fields that the change does not contain keep their values.
func (v Values) Update(change Values, fields []Field) Values {
	all := Values{}
	maps.Copy(all, v)
	maps.Copy(all, change)
	return v.Merge(all, fields)
}

// Merge returns the values after a change that replaces all of them. Only secrets that the change does not contain keep their values.
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

// Lead reports whether values v and o connect to the same place: all fields marked as Address are equal.
func (v Values) Lead(o Values, fields []Field) bool {
	for _, f := range fields {
		if f.Address && string(v[f.Name]) != string(o[f.Name]) {
			return false
		}
	}
	return true
}

// Shown returns a field's value for an answer; if it is absent, an empty value of its type, such as 0d for a duration.
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
	case f.Type == Tree:
		return json.RawMessage("null")
	}
	return json.RawMessage(`""`)
}

// View is the part of values that is not secret.
type View struct {
	Fields      []Field  // of the kind
	Addresses   []string // where connections lead
	Credentials []string // names of the secrets that have a value
}

// Look returns the part of values that is not secret. For a kind that this version does not know, fields is empty.
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

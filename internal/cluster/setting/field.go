package setting

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
)

// Type is what a field takes.
type Type int

// Types of fields.
const (
	Text Type = iota
	Bool      // "true", or absent
	List
)

// Field is one setting that a kind of channels or sources has.
type Field struct {
	Name    string // as in the API
	Type    Type
	Secret  bool   // goes in and never comes out
	Lines   bool   // it may have several lines: a file's content
	Address bool   // it says where connections lead
	Most    int    // entries of a list; 0: the caller has a limit
	Flag    string // of the command line; that of a secret names a file
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

// Put sets a text or a list. An empty one stays as such: it takes the place of a former one.
func Put[T string | []string](v Values, name string, to T) {
	v[name], _ = json.Marshal(to) // texts always encode
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

// Lead reports whether connections lead where they lead with other values.
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
	case ok:
		return value
	case f.Type == List:
		return json.RawMessage("[]")
	case f.Type == Bool:
		return json.RawMessage("false")
	}
	return json.RawMessage(`""`)
}

// Addresses are the values that say where connections lead.
func (v Values) Addresses(fields []Field) (list []string) {
	for _, f := range fields {
		switch {
		case !f.Address:
		case f.Type == List:
			list = append(list, v.List(f.Name)...)
		default:
			list = append(list, v.Text(f.Name))
		}
	}
	return list
}

// Credentials names the secrets that are set.
func (v Values) Credentials(fields []Field) []string {
	names := []string{}
	for _, f := range fields {
		if f.Secret && v.Text(f.Name) != "" {
			names = append(names, f.Name)
		}
	}
	return names
}

package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/problem"
)

// Fields maps the members that a request's object may have to their destinations: a pointer that encoding/json decodes into, or a Reader.
// Members are read in the order of the request.
type Fields map[string]any

// Reader reads a member's value, which is JSON. Its errors name the field.
type Reader func(field string, raw json.RawMessage) error

// Decode reads a body that is one object. It refuses members that are unknown, repeated or null.
func (f Fields) Decode(body []byte) error { return f.read(body, false) }

// DecodeOrNull is Decode for objects in which a null member counts as missing.
func (f Fields) DecodeOrNull(body []byte) error { return f.read(body, true) }

func (f Fields) read(body []byte, nulls bool) error {
	if !utf8.Valid(body) {
		return problem.BadJSON.New()
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return badJSON(body)
	}
	seen := make(map[string]bool, len(f))
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return badJSON(body)
		}
		into, known := f[name]
		switch {
		case !known:
			return notification.BadField(notification.Clip(name), "is not a known field")
		case seen[name]:
			return notification.BadField(name, "is given twice")
		}
		seen[name] = true
		var raw json.RawMessage
		var wrong *json.SyntaxError
		switch err := d.Decode(&raw); {
		case errors.As(err, &wrong):
			return notification.BadField(name, "is not valid JSON: %s", wrong)
		case err != nil:
			return badJSON(body)
		case nulls && string(raw) == "null":
			continue
		}
		if err := ReadValue(name, raw, into); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return badJSON(body)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badJSON(body)
	}
	return nil
}

// badJSON returns the error of a body that is not one object, with its position.
func badJSON(body []byte) error {
	var wrong *json.SyntaxError
	if err := json.Unmarshal(body, new(json.RawMessage)); errors.As(err, &wrong) {
		return problem.BadJSON.Withf("%s, at byte %d", wrong, wrong.Offset)
	}
	return problem.BadJSON.Withf("found %s where an object is needed", KindOf(bytes.TrimLeft(body, " \t\r\n")))
}

// ReadValue decodes a field's value strictly into a variable, or passes it to a Reader.
func ReadValue(name string, raw json.RawMessage, into any) error {
	if read, ok := into.(Reader); ok {
		return read(name, raw)
	}
	if string(raw) == "null" {
		return WrongType(name, wanted(reflect.TypeOf(into)), raw)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fieldError(name, raw, into, err)
	}
	return nil
}

// fieldError converts an error of encoding/json into one that names the field, at any depth.
func fieldError(name string, raw json.RawMessage, into any, err error) error {
	var wrong *json.UnmarshalTypeError
	var bad *notification.FieldError
	switch {
	case errors.As(err, &bad):
		return notification.BadField(name, "%s", bad.Problem)
	case errors.As(err, &wrong) && wrong.Field == "":
		if number, ok := strings.CutPrefix(wrong.Value, "number "); ok {
			return notWhole(name, number)
		}
		return WrongType(name, wanted(wrong.Type), raw)
	case errors.As(err, &wrong):
		for part := range strings.SplitSeq(wrong.Field, ".") {
			if part != "" && (part[0] < 'A' || part[0] > 'Z') { // embedded structs do not appear in the JSON
				name += "." + part
			}
		}
		if number, ok := strings.CutPrefix(wrong.Value, "number "); ok {
			return notWhole(name, number)
		}
		return notification.BadField(name, "must not be %s", indefinite(wrong.Value))
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if field, ok := strings.CutPrefix(text, "unknown field "); ok {
		if at, ok := unknownAt(reflect.TypeOf(into), raw); ok {
			return notification.BadField(notification.Clip(name+at), "is not a known field")
		}
		return notification.BadField(name+"."+notification.Clip(strings.Trim(field, `"`)), "is not a known field")
	}
	return notification.BadField(name, "%s", notification.Clip(text))
}

// WrongType returns the error for a value of another type than its field's.
func WrongType(field, want string, raw json.RawMessage) error {
	return notification.BadField(field, "must be %s, not %s", want, KindOf(raw))
}

// KindOf names the type of a JSON value by its first byte.
func KindOf(raw []byte) string {
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// notWhole refuses a number with a fraction, or with more digits than its field takes.
func notWhole(field, number string) error {
	return notification.BadField(field, "must be a whole number that is not too large, not %s", notification.Clip(number))
}

// indefinite puts the article before the name of a JSON type.
func indefinite(name string) string {
	if strings.HasPrefix(name, "a") || strings.HasPrefix(name, "o") {
		return "an " + name
	}
	return "a " + name
}

// wanted describes the values that a variable accepts.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

// Texts reads a list of at most most strings. The result is never nil: an empty list differs from a missing one. check, if not nil, checks
// each string under its name, like "ids[3]".
func Texts(into *[]string, most int, check func(field, text string) error) Reader {
	return func(field string, raw json.RawMessage) error {
		if raw[0] != '[' {
			return WrongType(field, "a list of strings", raw)
		}
		var members []json.RawMessage
		_ = json.Unmarshal(raw, &members) // the body was checked
		if len(members) > most {
			return notification.BadField(field, "has more than %d members", most)
		}
		list := make([]string, len(members))
		for i, m := range members {
			at := field + "[" + strconv.Itoa(i) + "]"
			if m[0] != '"' {
				return WrongType(at, "a string", m)
			}
			_ = json.Unmarshal(m, &list[i]) // the same
			if check == nil {
				continue
			}
			if err := check(at, list[i]); err != nil {
				return err
			}
		}
		*into = list
		return nil
	}
}

// Word refuses texts that cannot be one of several words separated by spaces.
func Word(field, text string) error {
	if text == "" || strings.ContainsAny(text, " \t\r\n") {
		return notification.BadField(field, "is empty or contains a space")
	}
	return nil
}

// Text reads a string and passes it to take.
func Text(take func(field, text string) error) Reader {
	return func(field string, raw json.RawMessage) error {
		var s string
		if err := ReadValue(field, raw, &s); err != nil {
			return err
		}
		return take(field, s)
	}
}

package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/problem"
)

// fields are the members that the object in a request may have, and where each goes: a pointer that encoding/json
// decodes into, or a reader. Members are read in the order in which they come.
type fields map[string]any

// reader takes a member's value, which is JSON. Its errors name the field.
type reader func(field string, raw json.RawMessage) error

// decode reads a body that is one object without members that are unknown, given twice or null.
func (f fields) decode(body []byte) error { return f.read(body, false) }

// decodeOrNull is decode where a member that is null is as good as not given.
func (f fields) decodeOrNull(body []byte) error { return f.read(body, true) }

func (f fields) read(body []byte, nulls bool) error {
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
			return badField(clip(name), "is not a known field")
		case seen[name]:
			return badField(name, "is given twice")
		}
		seen[name] = true
		var raw json.RawMessage
		var wrong *json.SyntaxError
		switch err := d.Decode(&raw); {
		case errors.As(err, &wrong):
			return badField(name, "is not valid JSON: %s", wrong)
		case err != nil:
			return badJSON(body)
		case nulls && string(raw) == "null":
			continue
		}
		if err := readValue(name, raw, into); err != nil {
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

// badJSON says where a body ceases to be one object.
func badJSON(body []byte) error {
	var wrong *json.SyntaxError
	if err := json.Unmarshal(body, new(json.RawMessage)); errors.As(err, &wrong) {
		return problem.BadJSON.Withf("%s, at byte %d", wrong, wrong.Offset)
	}
	return problem.BadJSON.Withf("found %s where an object is needed", kindOf(bytes.TrimLeft(body, " \t\r\n")))
}

func readValue(name string, raw json.RawMessage, into any) error {
	if read, ok := into.(reader); ok {
		return read(name, raw)
	}
	if string(raw) == "null" {
		return wrongType(name, wanted(reflect.TypeOf(into)), raw)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return fieldError(name, raw, d.Decode(into))
}

// fieldError words an error of encoding/json for the field it is in, on whatever level that is.
func fieldError(name string, raw json.RawMessage, err error) error {
	var wrong *json.UnmarshalTypeError
	var bad *notification.FieldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return badField(name, "%s", bad.Problem)
	case errors.As(err, &wrong) && wrong.Field == "":
		return wrongType(name, wanted(wrong.Type), raw)
	case errors.As(err, &wrong):
		for part := range strings.SplitSeq(wrong.Field, ".") {
			if part != "" && (part[0] < 'A' || part[0] > 'Z') { // embedded structs are no part of the JSON
				name += "." + part
			}
		}
		return badField(name, "must not be a %s", wrong.Value)
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if field, ok := strings.CutPrefix(text, "unknown field "); ok {
		return badField(name+"."+clip(strings.Trim(field, `"`)), "is not a known field")
	}
	return badField(name, "%s", clip(text))
}

// wrongType says what stands where a field's value should.
func wrongType(field, want string, raw json.RawMessage) error {
	return badField(field, "must be %s, not %s", want, kindOf(raw))
}

// kindOf names what a value is by how it begins.
func kindOf(raw []byte) string {
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

// wanted names what a variable takes.
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

// texts reads a list of at most so many strings. What it read is never nil: an empty list is not the same as none.
// check, if there is one, looks at each under its name, like "ids[3]".
func texts(into *[]string, most int, check func(field, text string) error) reader {
	return func(field string, raw json.RawMessage) error {
		if raw[0] != '[' {
			return wrongType(field, "a list of strings", raw)
		}
		var members []json.RawMessage
		_ = json.Unmarshal(raw, &members) // the body was checked
		if len(members) > most {
			return badField(field, "has more than %d members", most)
		}
		list := make([]string, len(members))
		for i, m := range members {
			at := field + "[" + strconv.Itoa(i) + "]"
			if m[0] != '"' {
				return wrongType(at, "a string", m)
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

// word refuses what cannot be one of several words with spaces between.
func word(field, text string) error {
	if text == "" || strings.ContainsAny(text, " \t\r\n") {
		return badField(field, "is empty or contains a space")
	}
	return nil
}

// text reads a string and hands it on.
func text(take func(field, text string) error) reader {
	return func(field string, raw json.RawMessage) error {
		var s string
		if err := readValue(field, raw, &s); err != nil {
			return err
		}
		return take(field, s)
	}
}

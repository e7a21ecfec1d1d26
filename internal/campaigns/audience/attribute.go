package audience

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
)

// Value is the value of an attribute: a text, a number or a boolean. In expressions, true and false are the numbers 1 and 0.
type Value struct {
	text string
	num  float64
	kind kind
}

type kind uint8

const (
	textKind kind = iota
	numberKind
	boolKind
)

// Text makes a text.
func Text(s string) Value { return Value{text: s} }

// Number makes a number.
func Number(n float64) Value { return Value{num: n, kind: numberKind} }

// Bool makes a truth.
func Bool(b bool) Value {
	if b {
		return Value{num: 1, kind: boolKind}
	}
	return Value{kind: boolKind}
}

// Text returns the text; ok is false if the value is not a text.
func (v Value) Text() (s string, ok bool) { return v.text, v.kind == textKind }

// Number returns the number, which is 1 or 0 for a boolean; ok is false if the value is a text.
func (v Value) Number() (n float64, ok bool) { return v.num, v.kind != textKind }

// String formats the value for people, in templates and in CSV.
func (v Value) String() string {
	switch v.kind {
	case numberKind:
		return strconv.FormatFloat(v.num, 'f', -1, 64)
	case boolKind:
		return strconv.FormatBool(v.num != 0)
	}
	return v.text
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case numberKind:
		return json.Marshal(v.num)
	case boolKind:
		return strconv.AppendBool(nil, v.num != 0), nil
	}
	return json.Marshal(v.text)
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value) UnmarshalJSON(b []byte) error {
	var err error
	switch {
	case len(b) > 0 && b[0] == '"':
		var s string
		err = json.Unmarshal(b, &s)
		*v = Text(s)
	case string(b) == "true" || string(b) == "false":
		*v = Bool(b[0] == 't')
	case len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9'):
		var n float64
		if err = json.Unmarshal(b, &n); err != nil {
			return errors.New("is a number out of range")
		}
		if *v = Number(n); !Exact(string(b), n) {
			*v = Text(string(b)) // a float64 cannot hold this number, so it remains a text of digits
		}
	default:
		return errors.New("must be a text, a number, true or false")
	}
	return err
}

// exactDigits is the number of decimal digits that always survive a conversion to float64 and back.
const exactDigits = 15

// Exact reports whether n is exactly the written number, to its last digit.
func Exact(written string, n float64) bool {
	digits := significant(written)
	return len(digits) <= exactDigits && (n != 0 || digits == "") || digits == significant(strconv.FormatFloat(n, 'e', -1, 64))
}

// significant returns the significant digits of a number, without leading and trailing zeros.
func significant(number string) string {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	digits := strings.TrimLeft(strings.TrimLeft(strings.ReplaceAll(mantissa, ".", ""), "-"), "0")
	return strings.TrimRight(digits, "0")
}

// Guess converts a table's cell to a value: true, false, a number if the text is its usual spelling, else a text.
func Guess(s string) Value {
	if s == "true" || s == "false" {
		return Bool(s == "true")
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && strconv.FormatFloat(n, 'f', -1, 64) == s && math.Abs(n) < 1<<53 {
		return Number(n) // not reached for a phone number with a leading zero, which remains a text
	}
	return Text(s)
}

// Attributes are an app's data about a subscriber.
type Attributes map[string]Value

// check validates attributes.
func (a Attributes) check() error {
	if len(a) > MaxAttributes {
		return notification.BadField("attributes", "has %d members; at most %d are allowed", len(a), MaxAttributes)
	}
	for name, v := range a {
		if err := checkAttributeName(name); err != nil {
			return err
		}
		switch field := "attributes." + name; {
		case v.kind == textKind && len(v.text) > MaxAttributeBytes:
			return notification.BadField(field, "has %d bytes; at most %d are allowed", len(v.text), MaxAttributeBytes)
		case v.kind == textKind && (!utf8.ValidString(v.text) || strings.ContainsRune(v.text, 0)):
			return notification.BadField(field, "is not valid UTF-8 text")
		case math.IsNaN(v.num) || math.IsInf(v.num, 0):
			return notification.BadField(field, "is not a finite number")
		}
	}
	return nil
}

// CheckAttributeName validates an attribute's name.
func CheckAttributeName(name string) error { return checkAttributeName(name) }

// AttributesPrefix precedes an attribute's name in a heading.
const AttributesPrefix = attributesPrefix

// checkAttributeName validates an attribute's name: expressions and templates must be able to use it.
func checkAttributeName(name string) error {
	bad := len(name) > MaxAttributeName
	for i := 0; i < len(name) && !bad; i++ {
		bad = !nameByte(name[i], i == 0)
	}
	if bad || name == "" {
		return notification.BadField("attributes", "%.70q is no name: write a letter or _, then letters, digits, _ . -, at most %d", name, MaxAttributeName)
	}
	return nil
}

func nameByte(c byte, first bool) bool {
	letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	return letter || !first && (c >= '0' && c <= '9' || c == '.' || c == '-')
}

// DecodeAttributes parses a JSON object. gone lists the members that are null: an update removes these attributes.
func DecodeAttributes(b []byte) (a Attributes, gone []string, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil || members == nil {
		return nil, nil, notification.BadField("attributes", "must be an object of texts, numbers, true and false")
	}
	a = make(Attributes, len(members))
	for name, raw := range members {
		if string(raw) == "null" {
			gone = append(gone, name)
			continue
		}
		var v Value
		if err := v.UnmarshalJSON(raw); err != nil {
			return nil, nil, notification.BadField("attributes."+notification.Clip(name), "%s", err)
		}
		a[name] = v
	}
	return a, gone, nil
}

package audience

import (
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Expr is a condition on an endpoint: And, Or, Not, Compare, In, Has or Exists.
type Expr interface {
	// Match reports whether the endpoint meets the condition. A comparison with a field that the endpoint lacks, or with a value of another
	// type, is false; its negation is therefore true.
	Match(e *Endpoint) bool
	// String formats the condition so that Parse returns the same condition.
	String() string
}

// And holds if all hold.
type And []Expr

// Or holds if one holds.
type Or []Expr

// Not holds if X does not hold.
type Not struct{ X Expr }

// Compare compares a field with a value of the field's kind.
type Compare struct {
	Field Field
	Op    Op
	Value Value
}

// In holds if the field equals one of the values.
type In struct {
	Field  Field
	Values []Value
}

// Has holds if the endpoint has the tag.
type Has struct{ Tag string }

// Exists holds if the endpoint has the field; for tags, if it has any tag.
type Exists struct{ Field Field }

// Op is a comparison operator.
type Op string

// Comparisons. Texts are ordered by their bytes; Contains and Prefix apply only to texts.
const (
	Eq       Op = "="
	Lt       Op = "<"
	Le       Op = "<="
	Gt       Op = ">"
	Ge       Op = ">="
	Contains Op = "contains"
	Prefix   Op = "prefix"
)

// Field is the subject of a comparison: an attribute, or a field of the endpoint itself.
type Field struct {
	Name      string
	Attribute bool
}

// The endpoint's own fields. An attribute with such a name is written attributes.name.
const (
	TagsField      = "tags"
	ChannelField   = "channel"
	RecipientField = "recipient"
	LocaleField    = "locale"
	TimezoneField  = "timezone"
	CreatedField   = "created_at"
	SeenField      = "last_seen_at"
)

// IsTime reports whether the field holds a time, which is compared as a number of milliseconds since 1970.
func (f Field) IsTime() bool { return !f.Attribute && (f.Name == CreatedField || f.Name == SeenField) }

func own(name string) bool {
	switch name {
	case TagsField, ChannelField, RecipientField, LocaleField, TimezoneField, CreatedField, SeenField:
		return true
	}
	return false
}

// of returns the field's value; ok is false if the endpoint lacks the field.
func (f Field) of(e *Endpoint) (v Value, ok bool) {
	if f.Attribute {
		v, ok = e.Attributes[f.Name]
		return v, ok
	}
	text := ""
	switch f.Name {
	case ChannelField:
		text = string(e.Channel)
	case RecipientField:
		text = e.Recipient
	case LocaleField:
		text = e.Locale
	case TimezoneField:
		text = e.Timezone
	case CreatedField:
		return millis(e.CreatedAt)
	case SeenField:
		return millis(e.LastSeenAt)
	}
	return Text(text), text != ""
}

func millis(t time.Time) (Value, bool) { return Number(float64(t.UnixMilli())), !t.IsZero() }

// Match implements Expr.
func (x And) Match(e *Endpoint) bool {
	return !slices.ContainsFunc(x, func(y Expr) bool { return !y.Match(e) })
}

// Match implements Expr.
func (x Or) Match(e *Endpoint) bool {
	return slices.ContainsFunc(x, func(y Expr) bool { return y.Match(e) })
}

// Match implements Expr.
func (x Not) Match(e *Endpoint) bool { return !x.X.Match(e) }

// Match implements Expr.
func (x Has) Match(e *Endpoint) bool { return slices.Contains(e.Tags, x.Tag) }

// Match implements Expr.
func (x Exists) Match(e *Endpoint) bool {
	if !x.Field.Attribute && x.Field.Name == TagsField {
		return len(e.Tags) > 0
	}
	_, ok := x.Field.of(e)
	return ok
}

// Match implements Expr.
func (x In) Match(e *Endpoint) bool {
	v, ok := x.Field.of(e)
	return ok && slices.ContainsFunc(x.Values, func(w Value) bool { return compare(v, Eq, w) })
}

// Match implements Expr.
func (x Compare) Match(e *Endpoint) bool {
	v, ok := x.Field.of(e)
	return ok && compare(v, x.Op, x.Value)
}

func compare(v Value, op Op, w Value) bool {
	if (v.kind == textKind) != (w.kind == textKind) {
		return false
	}
	order := strings.Compare(v.text, w.text)
	if v.kind != textKind {
		order = 0
		if v.num < w.num {
			order = -1
		} else if v.num > w.num {
			order = 1
		}
	}
	switch op {
	case Eq:
		return order == 0
	case Lt:
		return order < 0
	case Le:
		return order <= 0
	case Gt:
		return order > 0
	case Ge:
		return order >= 0
	case Contains:
		return v.kind == textKind && strings.Contains(v.text, w.text)
	case Prefix:
		return v.kind == textKind && strings.HasPrefix(v.text, w.text)
	}
	return false
}

func (x And) String() string    { return joined([]Expr(x), " and ") }
func (x Or) String() string     { return joined([]Expr(x), " or ") }
func (x Not) String() string    { return "not " + x.X.String() }
func (x Has) String() string    { return TagsField + " contains " + quoted(x.Tag) }
func (x Exists) String() string { return "exists " + x.Field.String() }
func (x Compare) String() string {
	return x.Field.String() + " " + string(x.Op) + " " + literal(x.Field, x.Value)
}

func (x In) String() string {
	values := make([]string, len(x.Values))
	for i, v := range x.Values {
		values[i] = literal(x.Field, v)
	}
	return x.Field.String() + " in (" + strings.Join(values, ", ") + ")"
}

func joined(list []Expr, with string) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.String()
	}
	return "(" + strings.Join(texts, with) + ")"
}

func (f Field) String() string {
	if f.Attribute && (own(f.Name) || keyword(f.Name) || strings.HasPrefix(f.Name, attributesPrefix)) {
		return attributesPrefix + f.Name
	}
	return f.Name
}

func literal(f Field, v Value) string {
	if f.IsTime() {
		return quoted(time.UnixMilli(int64(v.num)).UTC().Format(time.RFC3339Nano))
	}
	if s, ok := v.Text(); ok {
		return quoted(s)
	}
	return v.String()
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s) + `"`
}

// checkOwn returns the reason why a comparison with an own field can never hold, or "".
func checkOwn(f Field, v Value) string {
	if s, ok := v.Text(); ok && !f.Attribute && f.Name == ChannelField && !push.Channel(s).Known() {
		return "there is no channel " + quoted(notification.Clip(s))
	}
	return ""
}

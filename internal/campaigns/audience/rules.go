package audience

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// MaxRules limits the rows of a builder.
const MaxRules = 50

// Rule is a line of a form that builds an expression: a field, an operator and a value as a person types it. The value of a list has commas
// between its members. A value in double quotes is a text, whatever it looks like.
type Rule struct {
	Field string
	Op    RuleOp
	Value string
}

// RuleOp is the operator of a row.
type RuleOp string

// Operators of rows. Negated ones hold also for endpoints without the field.
const (
	RuleIs          RuleOp = "is"
	RuleIsNot       RuleOp = "is_not"
	RuleMore        RuleOp = "more"
	RuleAtLeast     RuleOp = "at_least"
	RuleLess        RuleOp = "less"
	RuleAtMost      RuleOp = "at_most"
	RuleContains    RuleOp = "contains"
	RuleContainsNot RuleOp = "contains_not"
	RuleBegins      RuleOp = "begins"
	RuleBeginsNot   RuleOp = "begins_not"
	RuleOneOf       RuleOp = "one_of"
	RuleNoneOf      RuleOp = "none_of"
	RuleKnown       RuleOp = "known"
	RuleUnknown     RuleOp = "unknown"
)

// ruleOp is how an operator is written in an expression.
type ruleOp struct {
	op      RuleOp
	written string
	list    bool // its value is a list
	alone   bool // it has no value
	text    bool // its value is a text, whatever it looks like
}

var ruleOps = []ruleOp{
	{op: RuleIs, written: "="},
	{op: RuleIsNot, written: "!="},
	{op: RuleMore, written: ">"},
	{op: RuleAtLeast, written: ">="},
	{op: RuleLess, written: "<"},
	{op: RuleAtMost, written: "<="},
	{op: RuleContains, written: "contains", text: true},
	{op: RuleContainsNot, written: "not contains", text: true},
	{op: RuleBegins, written: "prefix", text: true},
	{op: RuleBeginsNot, written: "not prefix", text: true},
	{op: RuleOneOf, written: "in", list: true},
	{op: RuleNoneOf, written: "not in", list: true},
	{op: RuleKnown, written: "exists", alone: true},
	{op: RuleUnknown, written: "not exists", alone: true},
}

// Alone reports whether rows with the operator have no value.
func (o RuleOp) Alone() bool {
	return slices.ContainsFunc(ruleOps, func(k ruleOp) bool { return k.op == o && k.alone })
}

// RuleError is the error of a row.
type RuleError struct {
	Row     int
	Value   bool // it is the value's, else the field's
	Problem string
}

func (e *RuleError) Error() string { return fmt.Sprintf("row %d: %s", e.Row+1, e.Problem) }

// Build writes rows as an expression that holds where one row holds, or all of them do. Without rows it is empty. Its error is a *RuleError.
func Build(rows []Rule, one bool) (string, error) {
	texts := make([]string, len(rows))
	for i, r := range rows {
		var err error
		if texts[i], err = r.write(); err != nil {
			bad := &RuleError{Row: i, Problem: err.Error()}
			var value *valueError
			if errors.As(err, &value) {
				bad.Value = true
			}
			return "", bad
		}
	}
	if one {
		return strings.Join(texts, " or "), nil
	}
	return strings.Join(texts, " and "), nil
}

// valueError is an error of a row's value.
type valueError struct{ problem string }

func (e *valueError) Error() string { return e.problem }

func (r Rule) write() (string, error) {
	i := slices.IndexFunc(ruleOps, func(o ruleOp) bool { return o.op == r.Op })
	if i < 0 {
		return "", fmt.Errorf("there is no comparison %s", notification.Clip(string(r.Op)))
	}
	op, name := ruleOps[i], strings.TrimSpace(r.Field)
	if name == "" {
		return "", errors.New("say what is compared: an attribute, or a field like tags")
	}
	p := parser{lex: lexer{in: name}}
	err := p.advance()
	var f Field
	if err == nil {
		f, err = p.field()
	}
	if err != nil || p.tok.kind != endToken {
		return "", fmt.Errorf("%s is no name of an attribute", notification.Clip(name))
	}
	var text string
	switch {
	case op.alone && r.Op == RuleKnown:
		text = "exists " + name
	case op.alone:
		text = "not exists " + name
	default:
		value, err := op.value(f, r.Value)
		if err != nil {
			return "", &valueError{err.Error()}
		}
		text = name + " " + op.written + " " + value
	}
	var wrong *SyntaxError
	if _, err := Parse(text); errors.As(err, &wrong) {
		return "", &valueError{wrong.Problem}
	}
	return text, nil
}

// value writes what a person typed as a value of an expression.
func (o ruleOp) value(f Field, typed string) (string, error) {
	if !o.list {
		return o.one(f, typed)
	}
	var list []string
	for rest, more := typed, true; more; {
		var part string
		var err error
		if part, rest, more, err = cutList(rest); err != nil {
			return "", err
		}
		value, err := o.one(f, part)
		if err != nil {
			return "", err
		}
		list = append(list, value)
	}
	return "(" + strings.Join(list, ", ") + ")", nil
}

// cutList cuts the first member off a list with commas, which may stand in quotes within a member.
func cutList(s string) (first, rest string, more bool, err error) {
	from := 0
	if at := strings.TrimLeft(s, " "); strings.HasPrefix(at, `"`) {
		l := lexer{in: s, pos: len(s) - len(at)}
		if _, err := l.next(); err != nil {
			return "", "", false, errors.New("a value in quotes has no closing quote, or a mark that means nothing there")
		}
		from = l.pos
	}
	if comma := strings.IndexByte(s[from:], ','); comma >= 0 {
		return s[:from+comma], s[from+comma+1:], true, nil
	}
	return s, "", false, nil
}

// one writes one value.
func (o ruleOp) one(f Field, typed string) (string, error) {
	switch typed = strings.TrimSpace(typed); {
	case typed == "":
		return "", errors.New(`is missing: write a value, or "" for an empty text`)
	case strings.HasPrefix(typed, `"`):
		l := lexer{in: typed}
		t, err := l.next()
		if err != nil || l.pos != len(typed) {
			return "", errors.New(`a text in quotes ends with its second quote; write \" for one within it`)
		}
		return quoted(t.text), nil
	case !f.Attribute || o.text:
		return quoted(typed), nil
	}
	if v := Guess(typed); v.kind != textKind {
		return typed, nil
	}
	return quoted(typed), nil
}

// Rules reads an expression back into rows. ok is false if rows cannot say what it says: because it mixes and with or, for example.
func Rules(x Expr) (rows []Rule, one, ok bool) {
	parts := []Expr{x}
	switch x := x.(type) {
	case And:
		parts = flat[And](x)
	case Or:
		if _, tags := tagList(x); !tags {
			parts, one = flat[Or](x), true
		}
	}
	for _, part := range parts {
		r, ok := ruleOf(part)
		if !ok {
			return nil, false, false
		}
		rows = append(rows, r)
	}
	return rows, one, len(rows) <= MaxRules
}

// AttributesIn lists the names of the attributes that an expression compares, each once, in order.
func AttributesIn(x Expr) (names []string) {
	add := func(f Field) {
		if f.Attribute && !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	var walk func(Expr)
	walk = func(x Expr) {
		switch x := x.(type) {
		case And:
			for _, part := range x {
				walk(part)
			}
		case Or:
			for _, part := range x {
				walk(part)
			}
		case Not:
			walk(x.X)
		case Compare:
			add(x.Field)
		case In:
			add(x.Field)
		case Exists:
			add(x.Field)
		}
	}
	walk(x)
	return names
}

// flat lists the parts of a chain, and those of chains of the same kind in brackets.
func flat[T And | Or](x T) (parts []Expr) {
	for _, part := range x {
		if inner, ok := any(part).(T); ok {
			parts = append(parts, flat(inner)...)
		} else {
			parts = append(parts, part)
		}
	}
	return parts
}

// tagList returns the tags of which an endpoint has one.
func tagList(x Or) (tags []string, ok bool) {
	for _, part := range x {
		has, ok := part.(Has)
		if !ok {
			return nil, false
		}
		tags = append(tags, has.Tag)
	}
	return tags, true
}

func ruleOf(x Expr) (r Rule, ok bool) {
	not := false
	if n, is := x.(Not); is {
		x, not = n.X, true
	}
	pick := func(yes, no RuleOp) RuleOp {
		if not {
			return no
		}
		return yes
	}
	switch x := x.(type) {
	case Has:
		return Rule{TagsField, pick(RuleContains, RuleContainsNot), shown(x.Tag, true)}, true
	case Exists:
		return Rule{x.Field.String(), pick(RuleKnown, RuleUnknown), ""}, true
	case Or:
		tags, ok := tagList(x)
		for i, tag := range tags {
			tags[i] = member(shown(tag, true))
		}
		return Rule{TagsField, pick(RuleOneOf, RuleNoneOf), strings.Join(tags, ", ")}, ok
	case In:
		list := make([]string, len(x.Values))
		for i, v := range x.Values {
			if list[i], ok = typed(x.Field, v, false); !ok {
				return r, false
			}
			list[i] = member(list[i])
		}
		return Rule{x.Field.String(), pick(RuleOneOf, RuleNoneOf), strings.Join(list, ", ")}, true
	case Compare:
		op, ok := ruleOpOf(x.Op, not)
		if !ok {
			return r, false
		}
		value, ok := typed(x.Field, x.Value, x.Op == Contains || x.Op == Prefix)
		return Rule{x.Field.String(), op, value}, ok
	}
	return r, false
}

// ruleOpOf returns the operator of a comparison. Orders are not negated: that would include endpoints without the field.
func ruleOpOf(op Op, not bool) (RuleOp, bool) {
	written := string(op)
	switch {
	case not && op == Eq:
		written = "!="
	case not:
		written = "not " + written
	}
	for _, o := range ruleOps {
		if o.written == written {
			return o.op, true
		}
	}
	return "", false
}

// typed returns a value as a person would type it; ok is false if nobody can.
func typed(f Field, v Value, text bool) (s string, ok bool) {
	if f.IsTime() {
		t := time.UnixMilli(int64(v.num)).UTC()
		if t.Equal(t.Truncate(24 * time.Hour)) {
			return t.Format(time.DateOnly), true
		}
		return t.Format(time.RFC3339Nano), true
	}
	if s, ok := v.Text(); ok {
		return shown(s, text || !f.Attribute), true
	}
	s = v.String()
	return s, Guess(s) == v
}

// shown returns a text as a person would type it: in quotes where it would be read as something else. text: it is read as a text anyway.
func shown(s string, text bool) string {
	if s == "" || s[0] == '"' || strings.TrimSpace(s) != s || strings.ContainsAny(s, "\n\t\r") || !text && Guess(s).kind != textKind {
		return quoted(s)
	}
	return s
}

// member returns a member of a list as a person would type it.
func member(s string) string {
	if strings.Contains(s, ",") && s[0] != '"' {
		return quoted(s)
	}
	return s
}

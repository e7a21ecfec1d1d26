package audience

import (
	"strings"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of an expression: far more than people write, and little enough for any store.
const (
	MaxExprBytes = 8192
	maxDepth     = 32   // of brackets and nots
	maxLeaves    = 200  // comparisons
	maxList      = 1000 // values after in
)

const attributesPrefix = "attributes."

// Parse reads a condition such as
//
//	city = "Oslo" and (age >= 18 or vip = true) and not tags contains "staff"
//
// Comparisons are = != < <= > >=, contains, prefix (or starts with), in (…), not in (…), exists. Names are attributes, or
// the endpoint's own tags, channel, recipient, locale, timezone, created_at and last_seen_at; attributes.NAME is
// always an attribute. Texts stand in quotes. Errors are *SyntaxError.
func Parse(s string) (Expr, error) {
	p := &parser{lex: lexer{in: s}}
	if len(s) > MaxExprBytes {
		return nil, p.lex.errorf(0, "the expression has %d bytes, at most %d are allowed; it begins", len(s), MaxExprBytes)
	}
	if !utf8.ValidString(s) {
		return nil, &SyntaxError{Pos: 1, Problem: "the expression is not valid UTF-8; it begins"}
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	x, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if p.tok.kind != endToken {
		return nil, p.want("and, or, or the end")
	}
	return x, nil
}

type parser struct {
	lex    lexer
	tok    token
	leaves int
}

func (p *parser) advance() (err error) {
	p.tok, err = p.lex.next()
	return err
}

// want returns the error for a token where the grammar requires another.
func (p *parser) want(what string) error {
	return p.lex.errorf(p.tok.pos, "found %s where %s is needed", p.tok.show(), what)
}

func (p *parser) or(depth int) (Expr, error) {
	list, err := p.chain("or", depth, p.and)
	if err != nil || len(list) > 1 {
		return Or(list), err
	}
	return list[0], nil
}

func (p *parser) and(depth int) (Expr, error) {
	list, err := p.chain("and", depth, p.term)
	if err != nil || len(list) > 1 {
		return And(list), err
	}
	return list[0], nil
}

// chain reads what word joins.
func (p *parser) chain(word string, depth int, part func(int) (Expr, error)) (list []Expr, err error) {
	for {
		x, err := part(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
		if !p.tok.word(word) {
			return list, nil
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
}

func (p *parser) term(depth int) (Expr, error) {
	if depth > maxDepth {
		return nil, p.lex.errorf(p.tok.pos, "the expression is nested deeper than %d", maxDepth)
	}
	switch {
	case p.tok.word("not"):
		if err := p.advance(); err != nil {
			return nil, err
		}
		x, err := p.term(depth + 1)
		return Not{x}, err
	case p.tok.sign("("):
		return p.bracket(depth)
	case p.tok.word("exists"):
		return p.exists()
	}
	return p.comparison()
}

func (p *parser) bracket(depth int) (Expr, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	x, err := p.or(depth + 1)
	if err != nil {
		return nil, err
	}
	return x, p.closing()
}

func (p *parser) closing() error {
	if !p.tok.sign(")") {
		return p.want("a closing bracket")
	}
	return p.advance()
}

// exists parses exists NAME and exists(NAME).
func (p *parser) exists() (Expr, error) {
	if err := p.leaf(); err != nil {
		return nil, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	bracket := p.tok.sign("(")
	if bracket {
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	f, err := p.field()
	if err == nil && bracket {
		err = p.closing()
	}
	return Exists{f}, err
}

func (p *parser) leaf() error {
	if p.leaves++; p.leaves > maxLeaves {
		return p.lex.errorf(p.tok.pos, "the expression has more than %d comparisons", maxLeaves)
	}
	return nil
}

func (p *parser) field() (f Field, err error) {
	if p.tok.kind != nameToken || keyword(p.tok.text) {
		return f, p.want("the name of an attribute")
	}
	f.Name = p.tok.text
	if name, ok := strings.CutPrefix(f.Name, attributesPrefix); ok {
		f.Name, f.Attribute = name, true
	} else {
		f.Attribute = !own(f.Name)
	}
	if f.Attribute && checkAttributeName(f.Name) != nil {
		return f, p.lex.errorf(p.tok.pos, "%s is no name of an attribute", notification.Clip(f.Name))
	}
	return f, p.advance()
}

// comparison reads FIELD OPERATOR VALUE.
func (p *parser) comparison() (Expr, error) {
	if err := p.leaf(); err != nil {
		return nil, err
	}
	f, err := p.field()
	if err != nil {
		return nil, err
	}
	op, not, err := p.operator()
	if err != nil {
		return nil, err
	}
	var x Expr
	if op == "in" {
		x, err = p.list(f)
	} else {
		x, err = p.compare(f, Op(op))
	}
	if not {
		x = Not{x}
	}
	return x, err
}

// operator parses an operator, and returns whether it is negated.
func (p *parser) operator() (op string, not bool, err error) {
	if p.tok.word("not") {
		not = true
		if err := p.advance(); err != nil {
			return "", false, err
		}
		if !p.tok.word("in") && !p.tok.word("contains") && !p.tok.word("prefix") && !p.tok.word("starts") {
			return "", false, p.want("in, contains or prefix after not")
		}
	}
	switch {
	case p.tok.kind == signToken:
		switch p.tok.text {
		case "=", "==":
			op = string(Eq)
		case "!=", "<>":
			op, not = string(Eq), true
		case "<", "<=", ">", ">=":
			op = p.tok.text
		}
	case p.tok.word("in"), p.tok.word("contains"), p.tok.word("prefix"):
		op = strings.ToLower(p.tok.text)
	case p.tok.word("starts"):
		if err := p.advance(); err != nil {
			return "", false, err
		}
		if !p.tok.word("with") {
			return "", false, p.want("with after starts")
		}
		op = string(Prefix)
	}
	if op == "" {
		return "", false, p.want("a comparison (= != < <= > >= in contains prefix)")
	}
	return op, not, p.advance()
}

// compare parses the value after an operator.
func (p *parser) compare(f Field, op Op) (Expr, error) {
	at := p.tok
	v, err := p.value(f)
	if err != nil {
		return nil, err
	}
	text, isText := v.Text()
	if !f.Attribute && f.Name == TagsField {
		if op != Contains && op != Eq {
			return nil, p.lex.errorf(at.pos, "tags can be asked with contains, in or exists, not with %s", op)
		}
		return Has{text}, nil
	}
	if op == Contains || op == Prefix {
		switch {
		case f.IsTime():
			return nil, p.lex.errorf(at.pos, "%s is a time, which has no %s", f.Name, op)
		case !isText:
			return nil, p.lex.errorf(at.pos, "%s needs a text in quotes, not %s", op, at.show())
		case text == "":
			return nil, p.lex.errorf(at.pos, "%s needs a text that is not empty", op)
		}
		return Compare{f, op, v}, nil
	}
	if problem := checkOwn(f, v); problem != "" {
		return nil, p.lex.errorf(at.pos, "%s", problem)
	}
	return Compare{f, op, v}, nil
}

// list reads (VALUE, VALUE, …).
func (p *parser) list(f Field) (Expr, error) {
	if !p.tok.sign("(") {
		return nil, p.want("a list in brackets")
	}
	var values []Value
	for first := true; first || p.tok.sign(","); first = false {
		if err := p.advance(); err != nil {
			return nil, err
		}
		at := p.tok
		if len(values) == maxList {
			return nil, p.lex.errorf(at.pos, "the list has more than %d values", maxList)
		}
		v, err := p.value(f)
		if err != nil {
			return nil, err
		}
		if problem := checkOwn(f, v); problem != "" {
			return nil, p.lex.errorf(at.pos, "%s", problem)
		}
		values = append(values, v)
	}
	if err := p.closing(); err != nil {
		return nil, err
	}
	if f.Attribute || f.Name != TagsField {
		return In{f, values}, nil
	}
	list := make(Or, len(values))
	for i, v := range values {
		list[i] = Has{v.text}
	}
	if p.leaves += len(list) - 1; p.leaves > maxLeaves {
		return nil, p.lex.errorf(p.tok.pos, "the expression has more than %d comparisons", maxLeaves)
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return list, nil
}

// value parses a literal of the field's kind.
func (p *parser) value(f Field) (v Value, err error) {
	at := p.tok
	switch {
	case at.kind == textToken:
		v = Text(at.text)
	case at.kind == numberToken:
		v = Number(at.num)
	case at.word("true") || at.word("false"):
		v = Bool(at.word("true"))
	case at.kind == nameToken && !keyword(at.text):
		return v, p.lex.errorf(at.pos, "found %s where a value is needed: texts stand in quotes, like %s", notification.Clip(at.text), quoted(notification.Clip(at.text)))
	default:
		return v, p.want("a value (a text in quotes, a number, true or false)")
	}
	if !f.Attribute {
		if v, err = p.ownValue(f, v); err != nil {
			return v, err
		}
	}
	return v, p.advance()
}

// ownValue validates a value for one of the endpoint's own fields, and parses times.
func (p *parser) ownValue(f Field, v Value) (Value, error) {
	s, ok := v.Text()
	switch {
	case !ok && f.IsTime():
		return v, p.lex.errorf(p.tok.pos, `%s is compared with a time in quotes, like "2026-01-31" or "2026-01-31T12:00:00Z"`, f.Name)
	case !ok:
		return v, p.lex.errorf(p.tok.pos, "%s is compared with a text in quotes, not %s", f.Name, p.tok.show())
	case f.Name == TagsField && s == "":
		return v, p.lex.errorf(p.tok.pos, "a tag is never empty")
	case !f.IsTime():
		return v, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1970 {
			return Number(float64(t.UnixMilli())), nil
		}
	}
	return v, p.lex.errorf(p.tok.pos, `%s is no time; write it like "2026-01-31" or "2026-01-31T12:00:00Z"`, quoted(notification.Clip(s)))
}

// keyword reports whether a name has a meaning in the grammar. An attribute with such a name is written attributes.name.
func keyword(name string) bool {
	switch strings.ToLower(name) {
	case "and", "or", "not", "in", "exists", "contains", "prefix", "starts", "with", "true", "false":
		return true
	}
	return false
}

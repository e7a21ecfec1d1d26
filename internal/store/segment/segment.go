// Package segment finds the endpoints that meet conditions. It turns conditions into SQL, for stores whose tables of tags and attributes
// have the names used here. audience.Selection.Match defines the meaning of a condition.
package segment

import (
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/audience"
)

// Clause is a piece of SQL with its arguments; question marks are their placeholders.
type Clause struct {
	SQL  string
	Args []any
}

// That makes a clause.
func That(sql string, args ...any) Clause { return Clause{sql, args} }

// And joins clauses that must all hold; empty ones always do.
func (c Clause) And(others ...Clause) Clause {
	for _, o := range others {
		if c.SQL != "" && o.SQL != "" {
			c.SQL += " AND "
		}
		c.SQL += o.SQL
		c.Args = append(c.Args[:len(c.Args):len(c.Args)], o.Args...)
	}
	return c
}

// with returns the arguments followed by more.
func (c Clause) with(more ...any) []any { return append(c.Args[:len(c.Args):len(c.Args)], more...) }

// Compiler turns conditions into SQL for endpoints whose number is the expression Number; columns of endpoints are those
// of the table e.
type Compiler struct {
	App      string
	Number   string
	Position string // the function that returns the position of a text in another
	// Each is appended to a subquery that checks a single endpoint, so that the database does not turn the checks into one read of a whole
	// table; empty: it may do so.
	Each string
}

// Each query looks a name's number up once, by app and name. An unknown name has no number, which equals nothing.
const (
	TagID       = "(SELECT id FROM tag_name WHERE app = ? AND name = ?)"
	AttributeID = "(SELECT id FROM attribute_name WHERE app = ? AND name = ?)"
)

// Expr compiles a condition. The result can be joined to others with AND.
func (k *Compiler) Expr(x audience.Expr) Clause {
	switch x := x.(type) {
	case audience.And:
		return k.chain(x, " AND ")
	case audience.Or:
		return k.chain(x, " OR ")
	case audience.Not:
		inner := k.Expr(x.X)
		return Clause{"NOT " + inner.SQL, inner.Args}
	case audience.Has:
		return Clause{"EXISTS (SELECT 1 FROM endpoint_tag t WHERE t.tag = " + TagID + " AND t.endpoint = " + k.Number + k.Each + ")", []any{k.App, x.Tag}}
	case audience.Exists:
		return k.exists(x.Field)
	case audience.In:
		return k.in(x)
	case audience.Compare:
		return k.compare(x)
	}
	return Clause{"1 = 0", nil} // there are no others
}

func (k *Compiler) chain(list []audience.Expr, with string) Clause {
	parts := make([]string, len(list))
	var args []any
	for i, x := range list {
		c := k.Expr(x)
		parts[i] = c.SQL
		args = append(args, c.Args...)
	}
	return Clause{"(" + strings.Join(parts, with) + ")", args}
}

func (k *Compiler) exists(f audience.Field) Clause {
	switch {
	case f.Attribute:
		texts, numbers := k.attribute("attribute_text", f.Name, Clause{}), k.attribute("attribute_number", f.Name, Clause{})
		return Clause{"(" + texts.SQL + " OR " + numbers.SQL + ")", append(texts.Args, numbers.Args...)}
	case f.Name == audience.TagsField:
		return Clause{"e.tags <> '[]'", nil}
	case f.IsTime():
		return Clause{column(f) + " <> 0", nil}
	}
	return Clause{column(f) + " <> ''", nil}
}

// in compiles a list of values. Texts and numbers of attributes are in separate tables.
func (k *Compiler) in(x audience.In) Clause {
	var texts, numbers []any
	for _, v := range x.Values {
		if s, ok := v.Text(); ok {
			texts = append(texts, s)
		} else if n, ok := v.Number(); ok && x.Field.IsTime() {
			numbers = append(numbers, int64(n))
		} else if ok {
			numbers = append(numbers, n)
		}
	}
	var parts []string
	var args []any
	for _, half := range []struct {
		table  string
		values []any
	}{{"attribute_text", texts}, {"attribute_number", numbers}} {
		if len(half.values) == 0 {
			continue
		}
		list := " IN (?" + strings.Repeat(", ?", len(half.values)-1) + ")"
		var c Clause
		if x.Field.Attribute {
			c = k.attribute(half.table, x.Field.Name, Clause{"a.value" + list, half.values})
		} else {
			c = k.own(x.Field, Clause{column(x.Field) + list, half.values})
		}
		parts, args = append(parts, c.SQL), append(args, c.Args...)
	}
	return Clause{"(" + strings.Join(parts, " OR ") + ")", args}
}

func (k *Compiler) compare(x audience.Compare) Clause {
	table := "attribute_number"
	if _, ok := x.Value.Text(); ok {
		table = "attribute_text"
	}
	if x.Field.Attribute {
		return k.attribute(table, x.Field.Name, k.Comparison("a.value", x))
	}
	return k.own(x.Field, k.Comparison(column(x.Field), x))
}

// attribute requires an attribute, in one of its tables, for which a condition on a.value holds.
func (k *Compiler) attribute(table, name string, condition Clause) Clause {
	if condition.SQL != "" {
		condition.SQL = " AND " + condition.SQL
	}
	return Clause{
		"EXISTS (SELECT 1 FROM " + table + " a WHERE a.endpoint = " + k.Number + " AND a.name = " + AttributeID + condition.SQL + k.Each + ")",
		append([]any{k.App, name}, condition.Args...),
	}
}

// own is a condition on a column of the endpoint, which is false if the column has no value.
func (k *Compiler) own(f audience.Field, condition Clause) Clause {
	there := k.exists(f)
	return Clause{"(" + there.SQL + " AND " + condition.SQL + ")", append(there.Args, condition.Args...)}
}

func column(f audience.Field) string { return "e." + f.Name }

// Comparison compares what with a value.
func (k *Compiler) Comparison(what string, x audience.Compare) Clause {
	s, text := x.Value.Text()
	n, _ := x.Value.Number()
	switch {
	case x.Op == audience.Contains:
		return Clause{k.Position + "(" + what + ", ?) > 0", []any{s}}
	case x.Op == audience.Prefix:
		if end, ok := after(s); ok {
			return Clause{what + " >= ? AND " + what + " < ?", []any{s, end}}
		}
		return Clause{what + " >= ?", []any{s}}
	case text:
		return Clause{what + " " + string(x.Op) + " ?", []any{s}}
	case x.Field.IsTime():
		return Clause{what + " " + string(x.Op) + " ?", []any{int64(n)}}
	}
	return Clause{what + " " + string(x.Op) + " ?", []any{n}}
}

// after returns the first text that sorts after all texts with the prefix s; false: there is none.
func after(s string) (string, bool) {
	runes := []rune(s)
	for i := len(runes) - 1; i >= 0; i-- {
		switch runes[i] {
		case utf8.MaxRune:
			continue // this character cannot be increased: increase the one before it instead
		case 0xD7FF:
			runes[i] = 0xE000 // between them are no characters
		default:
			runes[i]++
		}
		return string(runes[:i+1]), true
	}
	return "", false
}

// Conditions returns the conditions that an endpoint must all meet, tags included.
func Conditions(sel *audience.Selection) []audience.Expr {
	var all []audience.Expr
	for _, t := range sel.TagsAll {
		all = append(all, audience.Has{Tag: t})
	}
	if len(sel.TagsAny) > 0 {
		anyOf := make(audience.Or, len(sel.TagsAny))
		for i, t := range sel.TagsAny {
			anyOf[i] = audience.Has{Tag: t}
		}
		if len(anyOf) == 1 {
			all = append(all, anyOf[0])
		} else {
			all = append(all, anyOf)
		}
	}
	switch x := sel.Where.(type) {
	case nil:
	case audience.And:
		all = append(all, x...)
	default:
		all = append(all, x)
	}
	return all
}

// Indexed compiles a condition into one on the entries d of an index table, which name endpoints by number; ok is false if no such table
// answers it. ordered: the entries that meet it are in the order of numbers.
func (k *Compiler) Indexed(x audience.Expr) (table string, c Clause, ordered, ok bool) {
	switch x := x.(type) {
	case audience.Has:
		return "endpoint_tag", Clause{"d.tag = " + TagID, []any{k.App, x.Tag}}, true, true
	case audience.Compare:
		if !x.Field.Attribute || x.Op == audience.Contains {
			return "", c, false, false
		}
		table = "attribute_number"
		if _, text := x.Value.Text(); text {
			table = "attribute_text"
		}
		name := Clause{"d.name = " + AttributeID, []any{k.App, x.Field.Name}}
		return table, name.And(k.Comparison("d.value", x)), x.Op == audience.Eq, true
	}
	return "", c, false, false
}

// Same compares two conditions of the kinds that Indexed accepts.
func Same(x, y audience.Expr) bool {
	switch x := x.(type) {
	case audience.Has:
		y, ok := y.(audience.Has)
		return ok && x == y
	case audience.Compare:
		y, ok := y.(audience.Compare)
		return ok && x == y
	}
	return false
}

package campaigndb

import (
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/audience"
)

// clause is a piece of SQL with its arguments.
type clause struct {
	sql  string
	args []any
}

func (c clause) and(others ...clause) clause {
	for _, o := range others {
		if c.sql != "" && o.sql != "" {
			c.sql += " AND "
		}
		c.sql += o.sql
		c.args = append(c.args[:len(c.args):len(c.args)], o.args...)
	}
	return c
}

// compiler turns conditions into SQL for endpoints whose number is the expression number; those of their own columns
// are of the table e.
type compiler struct {
	app    string
	number string
}

// The number of a name is looked up once a query. A name that nobody has is no number: nothing equals it.
const (
	tagID       = "(SELECT id FROM tag_name WHERE app = ? AND name = ?)"
	attributeID = "(SELECT id FROM attribute_name WHERE app = ? AND name = ?)"
)

// expr compiles a condition. The result can stand between ANDs.
func (k *compiler) expr(x audience.Expr) clause {
	switch x := x.(type) {
	case audience.And:
		return k.chain(x, " AND ")
	case audience.Or:
		return k.chain(x, " OR ")
	case audience.Not:
		inner := k.expr(x.X)
		return clause{"NOT " + inner.sql, inner.args}
	case audience.Has:
		return clause{"EXISTS (SELECT 1 FROM endpoint_tag t WHERE t.tag = " + tagID + " AND t.endpoint = " + k.number + ")", []any{k.app, x.Tag}}
	case audience.Exists:
		return k.exists(x.Field)
	case audience.In:
		return k.in(x)
	case audience.Compare:
		return k.compare(x)
	}
	return clause{"1 = 0", nil} // there are no others
}

func (k *compiler) chain(list []audience.Expr, with string) clause {
	parts := make([]string, len(list))
	var args []any
	for i, x := range list {
		c := k.expr(x)
		parts[i] = c.sql
		args = append(args, c.args...)
	}
	return clause{"(" + strings.Join(parts, with) + ")", args}
}

func (k *compiler) exists(f audience.Field) clause {
	switch {
	case f.Attribute:
		texts, numbers := k.attribute("attribute_text", f.Name, clause{}), k.attribute("attribute_number", f.Name, clause{})
		return clause{"(" + texts.sql + " OR " + numbers.sql + ")", append(texts.args, numbers.args...)}
	case f.Name == audience.TagsField:
		return clause{"e.tags <> '[]'", nil}
	case f.IsTime():
		return clause{column(f) + " <> 0", nil}
	}
	return clause{column(f) + " <> ''", nil}
}

// in compiles a list; an attribute's texts and numbers are in two tables.
func (k *compiler) in(x audience.In) clause {
	var texts, numbers []any
	for _, v := range x.Values {
		if s, ok := v.Text(); ok {
			texts = append(texts, s)
		} else if n, ok := v.Number(); ok {
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
		var c clause
		if x.Field.Attribute {
			c = k.attribute(half.table, x.Field.Name, clause{"a.value" + list, half.values})
		} else {
			c = k.own(x.Field, clause{column(x.Field) + list, half.values})
		}
		parts, args = append(parts, c.sql), append(args, c.args...)
	}
	return clause{"(" + strings.Join(parts, " OR ") + ")", args}
}

func (k *compiler) compare(x audience.Compare) clause {
	table := "attribute_number"
	if _, ok := x.Value.Text(); ok {
		table = "attribute_text"
	}
	if x.Field.Attribute {
		return k.attribute(table, x.Field.Name, comparison("a.value", x))
	}
	return k.own(x.Field, comparison(column(x.Field), x))
}

// attribute asks for an attribute in one of its tables for which a condition on a.value holds.
func (k *compiler) attribute(table, name string, condition clause) clause {
	if condition.sql != "" {
		condition.sql = " AND " + condition.sql
	}
	return clause{
		"EXISTS (SELECT 1 FROM " + table + " a WHERE a.endpoint = " + k.number + " AND a.name = " + attributeID + condition.sql + ")",
		append([]any{k.app, name}, condition.args...),
	}
}

// own is a condition on a column, which is false where the column says that there is nothing.
func (k *compiler) own(f audience.Field, condition clause) clause {
	there := k.exists(f)
	return clause{"(" + there.sql + " AND " + condition.sql + ")", append(there.args, condition.args...)}
}

func column(f audience.Field) string { return "e." + f.Name }

// comparison compares what with a value.
func comparison(what string, x audience.Compare) clause {
	s, text := x.Value.Text()
	n, _ := x.Value.Number()
	switch {
	case x.Op == audience.Contains:
		return clause{"instr(" + what + ", ?) > 0", []any{s}}
	case x.Op == audience.Prefix:
		if end, ok := after(s); ok {
			return clause{what + " >= ? AND " + what + " < ?", []any{s, end}}
		}
		return clause{what + " >= ?", []any{s}}
	case text:
		return clause{what + " " + string(x.Op) + " ?", []any{s}}
	case x.Field.IsTime():
		return clause{what + " " + string(x.Op) + " ?", []any{int64(n)}}
	}
	return clause{what + " " + string(x.Op) + " ?", []any{n}}
}

// after returns the first text behind all that begin with s; false if there is none.
func after(s string) (string, bool) {
	runes := []rune(s)
	for i := len(runes) - 1; i >= 0; i-- {
		switch runes[i] {
		case utf8.MaxRune:
			continue // the next one behind is that of what stands before
		case 0xD7FF:
			runes[i] = 0xE000 // between them are no characters
		default:
			runes[i]++
		}
		return string(runes[:i+1]), true
	}
	return "", false
}

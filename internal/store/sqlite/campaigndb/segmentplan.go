package campaigndb

import (
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// plan is how the active endpoints of a selection are found: those that driver lists, of which the rest must hold.
type plan struct {
	driver source
	rest   clause // about the number and the columns of e
}

// source lists the numbers of endpoints.
type source struct {
	from   string // an index called d, or the endpoints themselves, called e
	where  clause
	number string // the column that is the endpoint's number
	// ordered: read in the order of numbers without sorting, so that one can begin anywhere and stop anywhere.
	ordered bool
}

// join adds the endpoints' own rows if the source is not made of them. Cross says that the source comes first.
func (s *source) join() string {
	if s.number == "e.number" {
		return s.from
	}
	return s.from + " CROSS JOIN endpoint e ON e.number = " + s.number
}

// probe is how far candidates are counted to find the one with the fewest.
const probe = 2000

// newPlan chooses the shortest list to walk along. ordered: it is to be read in the order of numbers.
func newPlan(c *sqlite.Conn, app string, sel *audience.Selection, ordered bool) (*plan, error) {
	candidates := sources(app, sel)
	if ordered {
		candidates = slices.DeleteFunc(candidates, func(s candidate) bool { return !s.ordered })
	}
	best, least := -1, int64(1)<<62
	for i, s := range candidates {
		if len(candidates) == 1 {
			best = 0
			break
		}
		n := int64(0)
		query := "SELECT count(*) FROM (SELECT 1 FROM " + s.from + " WHERE " + s.where.sql + " LIMIT ?)"
		err := sqlitedb.EachOnce(c, query, append(s.where.args[:len(s.where.args):len(s.where.args)], probe), func(row *sqlite.Stmt) error {
			n = row.ColumnInt64(0)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if n < least {
			best, least = i, n
		}
	}
	everybody := source{"endpoint e", clause{"e.app = ? AND e.active = 1", []any{app}}, "e.number", true}
	chosen := candidate{source: everybody}
	if best >= 0 {
		chosen = candidates[best]
	}
	return &plan{driver: chosen.source, rest: rest(app, sel, chosen.number, chosen.of)}, nil
}

// candidate is a source and the condition of the selection that it stands for.
type candidate struct {
	source
	of audience.Expr
}

// conditions are what must all hold, tags included.
func conditions(sel *audience.Selection) []audience.Expr {
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

// sources are the lists that one could walk along.
func sources(app string, sel *audience.Selection) (list []candidate) {
	if len(sel.Recipients) > 0 {
		args := []any{app}
		for _, r := range sel.Recipients {
			args = append(args, r)
		}
		in := "e.app = ? AND e.recipient <> '' AND e.active = 1 AND e.recipient IN (?" + strings.Repeat(", ?", len(sel.Recipients)-1) + ")"
		// Sorted by the database, which is no harm: the list has an end.
		list = append(list, candidate{source{"endpoint e", clause{in, args}, "e.number", true}, nil})
	}
	for _, x := range conditions(sel) {
		switch x := x.(type) {
		case audience.Has:
			list = append(list, candidate{source{"endpoint_tag d", clause{"d.tag = " + tagID, []any{app, x.Tag}}, "d.endpoint", true}, x})
		case audience.Compare:
			if !x.Field.Attribute || x.Op == audience.Contains {
				continue
			}
			table := "attribute_number d"
			if _, ok := x.Value.Text(); ok {
				table = "attribute_text d"
			}
			name := clause{"d.name = " + attributeID, []any{app, x.Field.Name}}
			list = append(list, candidate{source{table, name.and(comparison("d.value", x)), "d.endpoint", x.Op == audience.Eq}, x})
		}
	}
	return list
}

// rest is what must hold of an endpoint besides being listed by the source that stands for taken.
func rest(app string, sel *audience.Selection, number string, taken audience.Expr) (all clause) {
	if len(sel.Channels) > 0 {
		args := make([]any, len(sel.Channels))
		for i, ch := range sel.Channels {
			args[i] = string(ch)
		}
		all = clause{"e.channel IN (?" + strings.Repeat(", ?", len(args)-1) + ")", args}
	}
	if len(sel.Recipients) > 0 {
		args := make([]any, len(sel.Recipients))
		for i, r := range sel.Recipients {
			args[i] = r
		}
		all = all.and(clause{"e.recipient <> '' AND e.recipient IN (?" + strings.Repeat(", ?", len(args)-1) + ")", args})
	}
	k := compiler{app: app, number: number}
	skipped := false
	for _, x := range conditions(sel) {
		if !skipped && taken != nil && same(x, taken) {
			skipped = true
			continue
		}
		all = all.and(k.expr(x))
	}
	return all
}

// same compares two conditions of those that sources knows.
func same(x, y audience.Expr) bool {
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

// usesColumns reports whether what must hold besides needs the endpoint's row.
func (p *plan) usesColumns() bool { return strings.Contains(p.rest.sql, "e.") }

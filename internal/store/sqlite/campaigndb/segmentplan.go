package campaigndb

import (
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/store/segment"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// plan is how the active endpoints of a selection are found: those that driver lists, of which the rest must hold.
type plan struct {
	driver source
	rest   segment.Clause // about the number and the columns of e
}

// source lists the numbers of endpoints.
type source struct {
	from   string // an index called d, or the endpoints themselves, called e
	where  segment.Clause
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
		query := "SELECT count(*) FROM (SELECT 1 FROM " + s.from + " WHERE " + s.where.SQL + " LIMIT ?)"
		err := sqlitedb.EachOnce(c, query, append(s.where.Args[:len(s.where.Args):len(s.where.Args)], probe), func(row *sqlite.Stmt) error {
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
	everybody := source{"endpoint e", segment.That("e.app = ? AND e.active = 1", app), "e.number", true}
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

// sources are the lists that one could walk along.
func sources(app string, sel *audience.Selection) (list []candidate) {
	if len(sel.Recipients) > 0 {
		args := []any{app}
		for _, r := range sel.Recipients {
			args = append(args, r)
		}
		in := "e.app = ? AND e.recipient <> '' AND e.active = 1 AND e.recipient IN (?" + strings.Repeat(", ?", len(sel.Recipients)-1) + ")"
		// Sorted by the database, which is no harm: the list has an end.
		list = append(list, candidate{source{"endpoint e", segment.That(in, args...), "e.number", true}, nil})
	}
	k := compiler(app, "d.endpoint")
	for _, x := range segment.Conditions(sel) {
		if table, c, ordered, ok := k.Indexed(x); ok {
			list = append(list, candidate{source{table + " d", c, "d.endpoint", ordered}, x})
		}
	}
	return list
}

// rest is what must hold of an endpoint besides being listed by the source that stands for taken.
func rest(app string, sel *audience.Selection, number string, taken audience.Expr) (all segment.Clause) {
	if len(sel.Channels) > 0 {
		args := make([]any, len(sel.Channels))
		for i, ch := range sel.Channels {
			args[i] = string(ch)
		}
		all = segment.That("e.channel IN (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
	}
	if len(sel.Recipients) > 0 {
		args := make([]any, len(sel.Recipients))
		for i, r := range sel.Recipients {
			args[i] = r
		}
		all = all.And(segment.That("e.recipient <> '' AND e.recipient IN (?"+strings.Repeat(", ?", len(args)-1)+")", args...))
	}
	k := compiler(app, number)
	skipped := false
	for _, x := range segment.Conditions(sel) {
		if !skipped && taken != nil && segment.Same(x, taken) {
			skipped = true
			continue
		}
		all = all.And(k.Expr(x))
	}
	return all
}

// compiler makes the SQL of conditions on endpoints with a number.
func compiler(app, number string) *segment.Compiler {
	return &segment.Compiler{App: app, Number: number, Position: "instr"}
}

// usesColumns reports whether what must hold besides needs the endpoint's row.
func (p *plan) usesColumns() bool { return strings.Contains(p.rest.SQL, "e.") }

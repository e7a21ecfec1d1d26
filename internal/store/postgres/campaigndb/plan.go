package campaigndb

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/segment"
)

// plan is how the active endpoints of a selection are found: those that driver lists, of which the rest must hold.
type plan struct {
	app    string
	sel    *audience.Selection
	driver candidate
}

// source lists the numbers of endpoints.
type source struct {
	from   string // an index called d, or the endpoints themselves, called e
	where  segment.Clause
	number string // the column that is the endpoint's number
	// ordered: read in the order of numbers without sorting, so that one can begin anywhere and stop anywhere.
	ordered bool
}

// candidate is a source and the condition of the selection that it stands for.
type candidate struct {
	source
	of audience.Expr
}

// probe is how far candidates are counted to find the one with the fewest.
const probe = 2000

// newPlan chooses the shortest list to walk along. ordered: it is to be read in the order of numbers.
func newPlan(ctx context.Context, q pgdb.Querier, app string, sel *audience.Selection, ordered bool) (*plan, error) {
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
		err := eachWhere(ctx, q, s.where, "SELECT count(*) FROM (SELECT 1 FROM "+s.from+" WHERE ", " LIMIT ?) AS n", []any{probe}, func(rows pgx.Rows) error {
			return rows.Scan(&n)
		})
		if err != nil {
			return nil, err
		}
		if n < least {
			best, least = i, n
		}
	}
	chosen := candidate{source: source{"endpoint e", segment.That("e.app = ? AND e.active", app), "e.number", true}}
	if best >= 0 {
		chosen = candidates[best]
	}
	return &plan{app, sel, chosen}, nil
}

// eachWhere runs a query that has a clause in its middle. Such queries are made of expressions, of which there is no end, so
// none is kept prepared.
func eachWhere(ctx context.Context, q pgdb.Querier, c segment.Clause, before, after string, args []any, row func(pgx.Rows) error) error {
	all := append([]any{pgx.QueryExecModeDescribeExec}, c.Args...)
	return pgdb.Each(ctx, q, numbered(before+c.SQL+after), append(all, args...), row)
}

// numbered writes the places of arguments as PostgreSQL has them.
func numbered(sql string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, more := strings.Cut(sql, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		sql = after
	}
}

// sources are the lists that one could walk along.
func sources(app string, sel *audience.Selection) (list []candidate) {
	if len(sel.Recipients) > 0 {
		in := segment.That("e.app = ? AND e.recipient <> '' AND e.active AND e.recipient = ANY(?)", app, sel.Recipients)
		// Sorted by the database, which is no harm: the list has an end.
		list = append(list, candidate{source{"endpoint e", in, "e.number", true}, nil})
	}
	k := compiler(app, "d.endpoint")
	for _, x := range segment.Conditions(sel) {
		if table, c, ordered, ok := k.Indexed(x); ok {
			list = append(list, candidate{source{table + " d", c, "d.endpoint", ordered}, x})
		}
	}
	return list
}

// rest is what must hold of the endpoint with a number besides being listed by the driver.
func (p *plan) rest(number string) (all segment.Clause) {
	if len(p.sel.Channels) > 0 {
		names := make([]string, len(p.sel.Channels))
		for i, ch := range p.sel.Channels {
			names[i] = string(ch)
		}
		all = segment.That("e.channel = ANY(?)", names)
	}
	if len(p.sel.Recipients) > 0 {
		all = all.And(segment.That("e.recipient <> '' AND e.recipient = ANY(?)", p.sel.Recipients))
	}
	k := compiler(p.app, number)
	skipped := false
	for _, x := range segment.Conditions(p.sel) {
		if !skipped && p.driver.of != nil && segment.Same(x, p.driver.of) {
			skipped = true
			continue
		}
		all = all.And(k.Expr(x))
	}
	return all
}

// compiler makes the SQL of conditions on endpoints with a number.
func compiler(app, number string) *segment.Compiler {
	return &segment.Compiler{App: app, Number: number, Position: "strpos"}
}

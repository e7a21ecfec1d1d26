package segment

import (
	"cmp"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/endpointrow"
)

// Dialect is the SQL that differs between databases.
type Dialect struct {
	Position string // the function that returns the position of a text in another
	Active   string // the condition for active endpoints
	Disabled string // for the others
	Filter   string // the same columns where the rows are found otherwise, written so that no index is used
	Join     string // joins endpoints to a scan, which is read first
	// In is the condition that a column is one of some values.
	In func(column string, values []string) Clause
	// Each is what keeps the database from answering an EXISTS for all rows at once; see Compiler.
	Each string
	// IDs is the same of a column of endpoints' ids.
	IDs func(column string, ids []audience.ID) Clause
	// Among is a query for something of the selection's endpoints with numbers after one and up to another, of which the scan lists so
	// many at most.
	// Order is the column by which these are put in order; empty: the scan's.
	Order string
	Among func(p *Plan, what string, after, upto int64, entries int) Clause
}

// scan lists the numbers of endpoints.
type scan struct {
	From   string // an index called d, or the endpoints themselves, called e
	Where  Clause
	Number string // the column that is the endpoint's number
	// ordered: read in the order of numbers without sorting, so that one can begin anywhere and stop anywhere.
	ordered    bool
	of         audience.Expr // the condition of the selection that the scan covers
	oneChannel bool          // the scan lists the endpoints of the selection's one channel
}

const ownNumber = "e.number"

// Plan is how the active endpoints of a selection are found: the scan lists candidates, and the rest must hold for them.
type Plan struct {
	scan
	dialect *Dialect
	app     string
	sel     *audience.Selection
}

// probe is how far candidates are counted to find the one with the fewest.
const probe = 2000

// newPlan chooses the shortest list to walk along. ordered: it is to be read in the order of numbers.
func newPlan(r Reader, d *Dialect, app string, sel *audience.Selection, ordered bool) (*Plan, error) {
	candidates := d.scans(app, sel)
	if ordered {
		candidates = slices.DeleteFunc(candidates, func(s scan) bool { return !s.ordered })
	}
	best, least := -1, int64(1)<<62
	for i := range candidates {
		if len(candidates) == 1 {
			best = 0
			break
		}
		s := &candidates[i]
		n, _, err := r.Number(That("SELECT count(*) FROM (SELECT 1 FROM "+s.From+" WHERE "+s.Where.SQL+" LIMIT ?) AS n", s.Where.with(probe)...))
		if err != nil {
			return nil, err
		}
		if n < least {
			best, least = i, n
		}
	}
	chosen := scan{From: "endpoint e", Where: That("e.app = ? AND "+d.Active, app), Number: ownNumber, ordered: true}
	if best >= 0 {
		chosen = candidates[best]
	}
	return &Plan{chosen, d, app, sel}, nil
}

// scans are the lists that one could walk along.
func (d *Dialect) scans(app string, sel *audience.Selection) (list []scan) {
	if len(sel.Recipients) > 0 {
		in := That("e.app = ? AND e.recipient <> '' AND "+d.Filter, app).And(d.In("e.recipient", sel.Recipients))
		// Sorted by the database, which is no harm: the list has an end.
		list = append(list, scan{From: "endpoint e", Where: in, Number: ownNumber, ordered: true})
	}
	if len(sel.Endpoints) > 0 {
		in := That("e.app = ? AND "+d.Filter, app).And(d.IDs("e.id", sel.Endpoints))
		list = append(list, scan{From: "endpoint e", Where: in, Number: ownNumber, ordered: true})
	}
	if len(sel.Channels) == 1 {
		of := That("e.app = ? AND e.channel = ? AND "+d.Active, app, string(sel.Channels[0]))
		list = append(list, scan{From: "endpoint e", Where: of, Number: ownNumber, ordered: true, oneChannel: true})
	}
	k := Compiler{App: app, Number: "d.endpoint", Position: d.Position}
	for _, x := range Conditions(sel) {
		if table, c, ordered, ok := k.Indexed(x); ok {
			list = append(list, scan{From: table + " d", Where: c, Number: "d.endpoint", ordered: ordered, of: x})
		}
	}
	return list
}

// Rest is the condition for the endpoint with a number that the scan lists: about the number and the columns of e.
func (p *Plan) Rest(number string) Clause { return p.rest(number, p.dialect.Each) }

// rest is the same, for one endpoint at a time or, without each, for all together.
func (p *Plan) rest(number, each string) (all Clause) {
	if len(p.sel.Channels) > 0 && !p.oneChannel {
		names := make([]string, len(p.sel.Channels))
		for i, ch := range p.sel.Channels {
			names[i] = string(ch)
		}
		all = p.dialect.In("e.channel", names)
	}
	if len(p.sel.Recipients) > 0 {
		all = all.And(That("e.recipient <> ''"), p.dialect.In("e.recipient", p.sel.Recipients))
	}
	if len(p.sel.Endpoints) > 0 {
		all = all.And(p.dialect.IDs("e.id", p.sel.Endpoints))
	}
	k := Compiler{App: p.app, Number: number, Position: p.dialect.Position, Each: each}
	skipped := false
	for _, x := range Conditions(p.sel) {
		if !skipped && p.of != nil && Same(x, p.of) {
			skipped = true
			continue
		}
		all = all.And(k.Expr(x))
	}
	return all
}

// Joined is the scan with the endpoints' own rows, if the scan is not over them anyway.
func (p *Plan) Joined() string {
	if p.Number == ownNumber {
		return p.From
	}
	return p.From + p.dialect.Join + "endpoint e ON e.number = " + p.Number
}

// Named is the query for endpoints of a status (empty: of any) after a number, if a selection names them by their ids, by their
// recipients or by their one channel; ok is false if it names none. Named ignores the selection's other conditions.
func (d *Dialect) Named(app string, status audience.Status, sel *audience.Selection, after int64, limit int) (query Clause, ok bool) {
	where := That("e.app = ? AND e.number > ?", app, after)
	switch {
	case len(sel.Endpoints) > 0:
		where = where.And(d.IDs("e.id", sel.Endpoints))
	case len(sel.Recipients) > 0:
		where = where.And(That("e.recipient <> ''"), d.In("e.recipient", sel.Recipients))
	case len(sel.Channels) == 1:
		return d.ofChannel(app, status, string(sel.Channels[0]), after, limit), true
	default:
		return Clause{}, false
	}
	switch status {
	case audience.Active:
		where = where.And(That(d.Filter))
	case audience.Disabled:
		where = where.And(That("NOT (" + d.Filter + ")"))
	}
	return That("SELECT "+endpointrow.Columns+" FROM endpoint e WHERE "+where.SQL+" ORDER BY e.number LIMIT ?", where.with(limit)...), true
}

// ofChannel is Named of a channel. Active ones and others are apart in the index, so that each are read in the order of numbers.
func (d *Dialect) ofChannel(app string, status audience.Status, channel string, after int64, limit int) Clause {
	numbers := func(active string) Clause {
		return That("SELECT number FROM (SELECT e.number FROM endpoint e WHERE e.app = ? AND e.channel = ? AND "+active+
			" AND e.number > ? ORDER BY e.number LIMIT ?) AS n", app, channel, after, limit)
	}
	var in Clause
	switch status {
	case audience.Active:
		in = numbers(d.Active)
	case audience.Disabled:
		in = numbers(d.Disabled)
	default:
		in = numbers(d.Active)
		others := numbers(d.Disabled)
		in = That(in.SQL+" UNION ALL "+others.SQL, in.with(others.Args...)...)
	}
	return That("SELECT "+endpointrow.Columns+" FROM endpoint e WHERE e.number IN ("+in.SQL+") ORDER BY e.number LIMIT ?", in.with(limit)...)
}

// window is the query for the number up to which so many entries of the scan reach. No row: there are not so many.
func (p *Plan) window(after int64, entries int) Clause {
	where := p.Where.And(That(p.Number+" > ?", after))
	return That("SELECT "+p.Number+" FROM "+p.From+" WHERE "+where.SQL+" ORDER BY "+p.Number+" LIMIT 1 OFFSET ?", where.with(entries-1)...)
}

// page is the query for the first endpoints with numbers after one and up to another, of which the scan lists so many at most.
func (p *Plan) page(after, upto int64, entries, limit int) Clause {
	among := p.dialect.Among(p, endpointrow.Columns, after, upto, entries)
	return That(among.SQL+" ORDER BY "+cmp.Or(p.dialect.Order, p.Number)+" LIMIT ?", among.with(limit)...)
}

// CountOf is the expression with which Among counts.
const CountOf = "count(*)"

// Bare reports whether a query needs only the scan and the tables of tags and attributes, not the endpoints' own rows.
func Bare(what string, rest Clause) bool { return what == CountOf && !strings.Contains(rest.SQL, "e.") }

// count is the query for how many there are by channel, of those that the app has. Where that is one only the index is read.
func (p *Plan) count(channels map[push.Channel]int64) Clause {
	rest := p.rest(p.Number, "")
	from, by := p.From, "''"
	for ch := range channels {
		by = "'" + string(ch) + "'" // one of audience.Channels
	}
	if len(channels) > 1 || strings.Contains(rest.SQL, "e.") {
		from, by = p.Joined(), "e.channel"
	}
	where := p.Where.And(rest)
	return That("SELECT "+by+", count(*) FROM "+from+" WHERE "+where.SQL+" GROUP BY 1", where.Args...)
}

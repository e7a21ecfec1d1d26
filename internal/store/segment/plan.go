package segment

import (
	"cmp"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/endpointrow"
)

// Dialect has the SQL that differs between databases.
type Dialect struct {
	Position string // the function that returns the position of a text in another
	Active   string // the condition for active endpoints
	Disabled string // for the others
	Filter   string // the condition on the status for rows found by another index, written so that no index is used for it
	Join     string // joins endpoints to a scan, which is read first
	// In is the condition that a column is one of some values.
	In func(column string, values []string) Clause
	// Each is a suffix that keeps the database from evaluating an EXISTS for all rows at once; see Compiler.
	Each string
	// IDs is the condition that a column of endpoint ids is one of some ids.
	IDs func(column string, ids []audience.ID) Clause
	// Order is the column by which Among's rows are sorted; empty: the scan's number.
	Order string
	// Among returns the query for the columns what of the selection's endpoints with numbers above after, up to upto. entries limits how
	// many entries of the scan the query reads.
	Among func(p *Plan, what string, after, upto int64, entries int) Clause
}

// scan lists the numbers of endpoints.
type scan struct {
	From   string // an index called d, or the endpoints themselves, called e
	Where  Clause
	Number string // the column that is the endpoint's number
	// ordered: the scan reads numbers in ascending order without sorting, so it can start and stop anywhere.
	ordered    bool
	of         audience.Expr // the condition of the selection that the scan covers
	oneChannel bool          // the scan lists the endpoints of the selection's one channel
}

const ownNumber = "e.number"

// Plan describes how the active endpoints of a selection are found: the scan lists candidates, and the remaining conditions filter them.
type Plan struct {
	scan
	dialect *Dialect
	app     string
	sel     *audience.Selection
}

// probe limits how many entries of each candidate scan are counted to find the shortest one.
const probe = 2000

// newPlan chooses the shortest list to scan. ordered: the scan must read numbers in ascending order.
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

// scans returns the lists that could be scanned.
func (d *Dialect) scans(app string, sel *audience.Selection) (list []scan) {
	if len(sel.Recipients) > 0 {
		in := That("e.app = ? AND e.recipient <> '' AND "+d.Filter, app).And(d.In("e.recipient", sel.Recipients))
		// The database has to sort here, which does no harm: the list is limited.
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

// Rest returns the remaining conditions for an endpoint whose number the scan lists, on the number and the columns of e.
func (p *Plan) Rest(number string) Clause { return p.rest(number, p.dialect.Each) }

// rest is Rest for one endpoint at a time or, if each is empty, for all endpoints together.
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

// Joined returns the scan joined with the endpoints' own rows, unless the scan reads these anyway.
func (p *Plan) Joined() string {
	if p.Number == ownNumber {
		return p.From
	}
	return p.From + p.dialect.Join + "endpoint e ON e.number = " + p.Number
}

// Named returns the query for endpoints of a status (empty: any) after a number, if a selection names them by their ids, by their
// recipients or by its only channel; otherwise ok is false. Named ignores the selection's other conditions.
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

// ofChannel is Named for a channel. The index has active endpoints apart from others, so that each group is read in the order of numbers.
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

// window returns the query for the number of the last of the scan's next entries, as many as entries says; no row: there are fewer.
func (p *Plan) window(after int64, entries int) Clause {
	where := p.Where.And(That(p.Number+" > ?", after))
	return That("SELECT "+p.Number+" FROM "+p.From+" WHERE "+where.SQL+" ORDER BY "+p.Number+" LIMIT 1 OFFSET ?", where.with(entries-1)...)
}

// page returns the query for the first endpoints with numbers above after, up to upto. entries limits how many entries of the scan the
// query reads.
func (p *Plan) page(after, upto int64, entries, limit int) Clause {
	among := p.dialect.Among(p, endpointrow.Columns, after, upto, entries)
	return That(among.SQL+" ORDER BY "+cmp.Or(p.dialect.Order, p.Number)+" LIMIT ?", among.with(limit)...)
}

// CountOf is the expression that makes Among count.
const CountOf = "count(*)"

// Bare reports whether a query needs only the scan and the tables of tags and attributes, not the endpoints' own rows.
func Bare(what string, rest Clause) bool { return what == CountOf && !strings.Contains(rest.SQL, "e.") }

// count returns the query for the number of endpoints by channel, among the channels that the app has. If that is a single one, only the
// index is read.
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

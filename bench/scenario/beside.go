package scenario

import (
	"context"
	"fmt"
	"strings"

	"godwit.dev/godwit/bench/report"
)

// The two kinds of stores, as groups of figures.
const (
	onSQLite   = "SQLite"
	onPostgres = "PostgreSQL"
)

// besideRatios are the figures that are reported as a ratio of PostgreSQL to SQLite.
var besideRatios = []string{
	"publishes accepted", "publish to client p50", "publish to client p99", "put to client mean", "all served after", again, "server CPU per million deliveries",
}

// Beside measures a scenario on SQLite and on PostgreSQL. Runs alternate between the two, so that other work of the machine affects both
// alike.
func Beside(ctx context.Context, c Common, measure func(context.Context, Common) (*report.Result, error)) (*report.Result, error) {
	var all *report.Result
	for n := range max(c.Runs, 1) {
		pair := map[string]*report.Result{}
		for turn := range 2 {
			side, bed := c, *c.Testbed
			side.Testbed, side.Runs, side.First = &bed, 1, n
			if bed.Profile != "" {
				bed.Profile = profileName(bed.Profile, 2*n+turn)
			}
			on := onPostgres
			if (turn+n)%2 == 0 { // who goes first alternates
				on, bed.Server.Postgres = onSQLite, nil
			}
			r, err := measure(ctx, side)
			if err != nil {
				return nil, fmt.Errorf("on %s, run %d: %w", on, n+1, err)
			}
			pair[on] = r
			if all == nil {
				all = c.begin(r.Scenario, r.Title+"; on SQLite and on PostgreSQL in turn", r.Settings...)
			}
		}
		for _, on := range []string{onSQLite, onPostgres} {
			take(all, pair[on], on)
		}
		ratios(all, pair)
	}
	return all, nil
}

// take adds the measurements on one kind of store to the combined result.
func take(all, r *report.Result, on string) {
	group := func(g string) string {
		if g == "" {
			return on
		}
		return on + ", " + g
	}
	for _, f := range r.Figures {
		for _, v := range f.Values {
			all.Add(group(f.Group), f.Name, f.Unit, v)
		}
	}
	if d := r.Machine.Disk; d != nil {
		all.Add(on, "an fsync just before, p50", "ms", d.P50)
	}
	for _, c := range r.Curves {
		c.Name = group(c.Name)
		all.Curves = append(all.Curves, c)
	}
	for _, s := range r.Series {
		s.Name = group(s.Name)
		all.Series = append(all.Series, s)
	}
	for _, note := range r.Notes {
		all.Note(on + ": " + note)
	}
}

// ratios adds the ratios of PostgreSQL's figures to SQLite's in the same run.
func ratios(all *report.Result, pair map[string]*report.Result) {
	for _, f := range pair[onPostgres].Figures {
		base := pair[onSQLite].Figure(f.Group, f.Name)
		for _, name := range besideRatios {
			if f.Name == name && base != nil && base.Median != 0 {
				all.Add(onPostgres+" to "+onSQLite, strings.TrimPrefix(f.Group+", "+name, ", "), "×", f.Median/base.Median)
			}
		}
	}
}

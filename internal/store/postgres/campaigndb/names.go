package campaigndb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// nameTable is one of the two tables of names.
type nameTable struct {
	*endpointrow.Names
	used string
}

const (
	tagNames = iota
	attributeNames
)

var nameTables = [2]nameTable{
	tagNames: {&endpointrow.Tags, "EXISTS (SELECT 1 FROM endpoint_tag t WHERE t.tag = n.id)"},
	attributeNames: {
		&endpointrow.Attributes,
		"(EXISTS (SELECT 1 FROM attribute_text t WHERE t.name = n.id) OR EXISTS (SELECT 1 FROM attribute_number t WHERE t.name = n.id))",
	},
}

// nameSet is a writer's cache of names in a table.
type nameSet struct {
	ids     map[string]int64 // numbers of the names looked up so far; 0: the name does not exist
	fresh   map[string]bool  // to be made
	count   int64            // how many there are
	counted bool
}

// namesOfEndpoint returns the names that serve to find an endpoint; a disabled one has none.
func namesOfEndpoint(e *audience.Endpoint) (names [2][]string) {
	if e == nil || e.Status != audience.Active {
		return names
	}
	names[tagNames] = e.Tags
	for name := range e.Attributes {
		names[attributeNames] = append(names[attributeNames], name)
	}
	return names
}

// namesOf returns the names of many registrations.
func namesOf(regs []audience.Registration) (names [2][]string) {
	for i := range regs {
		e := &regs[i].Endpoint
		names[tagNames] = append(names[tagNames], e.Tags...)
		for name := range e.Attributes {
			names[attributeNames] = append(names[attributeNames], name)
		}
	}
	return names
}

// loadNames looks up the names that have not been looked up yet.
func (w *writer) loadNames(ctx context.Context, names [2][]string) error {
	for i := range names {
		set := &w.names[i]
		if set.ids == nil {
			set.ids, set.fresh = make(map[string]int64), make(map[string]bool)
		}
		var missing []string
		for _, name := range names[i] {
			if _, ok := set.ids[name]; !ok {
				set.ids[name] = 0
				missing = append(missing, name)
			}
		}
		if len(missing) == 0 {
			continue
		}
		err := pgdb.Each(ctx, w.tx, "SELECT id, name FROM "+nameTables[i].Table+" WHERE app = $1 AND name = ANY($2)", []any{w.app, missing}, set.read)
		if err != nil {
			return err
		}
	}
	return nil
}

func (set *nameSet) read(rows pgx.Rows) error {
	var id int64
	var name string
	err := rows.Scan(&id, &name)
	set.ids[name] = id
	return err
}

// takeNames ensures that the names of a changed endpoint exist once it is written. It returns a *endpointrow.TooManyNames if the app
// already has as many names as allowed.
func (w *writer) takeNames(ctx context.Context, e *audience.Endpoint) error {
	names := namesOfEndpoint(e)
	if err := w.loadNames(ctx, names); err != nil {
		return err
	}
	for i := range names {
		err := w.takeFrom(ctx, i, names[i])
		if _, many := err.(*endpointrow.TooManyNames); many && w.sweeps && w.now.Sub(w.sweptAt) >= endpointrow.SweepEvery { //nolint:errorlint // it is made here
			if err := w.sweep(ctx, i); err != nil {
				return err
			}
			return w.takeNames(ctx, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeFrom queues the missing names of one table for creation with the next flush: all of them or none.
func (w *writer) takeFrom(ctx context.Context, i int, names []string) error {
	set, table := &w.names[i], &nameTables[i]
	var missing []string
	for _, name := range names {
		if set.ids[name] == 0 && !set.fresh[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if !set.counted {
		if _, err := one(ctx, w.tx, "SELECT count(*) FROM "+table.Table+" WHERE app = $1", []any{w.app}, &set.count); err != nil {
			return err
		}
		set.counted = true
	}
	n := set.count + int64(len(set.fresh))
	if room := table.Most(!w.untrusted) - n; int64(len(missing)) > room {
		return table.TooMany(missing[max(room, 0)], n+max(room, 0))
	}
	for _, name := range missing {
		set.fresh[name] = true
	}
	return nil
}

// sweep deletes the names that no active endpoint has. If a disabled endpoint has such a name, it is created again when the endpoint
// becomes active.
func (w *writer) sweep(ctx context.Context, i int) error {
	if err := w.flush(ctx); err != nil { // written endpoints keep the names that they need
		return err
	}
	w.sweptAt, w.names = w.now, [2]nameSet{}
	if _, err := w.tx.Exec(ctx, "UPDATE endpoint_app SET swept_at = $2 WHERE app = $1", w.app, millis.Of(w.now)); err != nil {
		return err
	}
	_, err := w.tx.Exec(ctx, "DELETE FROM "+nameTables[i].Table+" n WHERE n.app = $1 AND NOT "+nameTables[i].used, w.app)
	return err
}

// addNames creates the new names.
func (w *writer) addNames(ctx context.Context) error {
	for i := range w.names {
		set := &w.names[i]
		if len(set.fresh) == 0 {
			continue
		}
		names := make([]string, 0, len(set.fresh))
		for name := range set.fresh {
			names = append(names, name)
		}
		err := pgdb.Each(ctx, w.tx, "INSERT INTO "+nameTables[i].Table+"(app, name) SELECT $1, unnest($2::text[]) RETURNING id, name", []any{w.app, names}, set.read)
		if err != nil {
			return err
		}
		set.count += int64(len(names))
		clear(set.fresh)
	}
	return nil
}

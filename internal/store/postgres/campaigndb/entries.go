package campaigndb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/store/endpointrow"
)

// entries returns the rows that serve to find an endpoint; a disabled one has none. Its names must have been looked up.
func (w *writer) entries(e *audience.Endpoint) map[endpointrow.Entry]bool {
	if e == nil {
		return nil
	}
	all, _ := endpointrow.Entries(e, func(t *endpointrow.Names, name string) (int64, error) {
		if t == &endpointrow.Tags {
			return w.names[tagNames].ids[name], nil
		}
		return w.names[attributeNames].ids[name], nil
	})
	return all
}

// entryRows holds rows of the three tables, to be added or removed.
type entryRows struct {
	endpoints [3][]int64
	names     [3][]int64
	texts     []string
	numbers   []float64
}

func (r *entryRows) add(endpoint int64, x endpointrow.Entry) {
	r.endpoints[x.Table], r.names[x.Table] = append(r.endpoints[x.Table], endpoint), append(r.names[x.Table], x.Name)
	switch x.Table {
	case endpointrow.Text:
		r.texts = append(r.texts, x.Text)
	case endpointrow.Number:
		r.numbers = append(r.numbers, x.Num)
	case endpointrow.Tag:
	}
}

var deleteEntries = [3]string{
	endpointrow.Tag:    "DELETE FROM endpoint_tag x USING unnest($1::bigint[], $2::bigint[]) AS v(endpoint, name) WHERE (x.tag, x.endpoint) = (v.name, v.endpoint)",
	endpointrow.Text:   "DELETE FROM attribute_text x USING unnest($1::bigint[], $2::bigint[]) AS v(endpoint, name) WHERE (x.endpoint, x.Name) = (v.endpoint, v.name)",
	endpointrow.Number: "DELETE FROM attribute_number x USING unnest($1::bigint[], $2::bigint[]) AS v(endpoint, name) WHERE (x.endpoint, x.Name) = (v.endpoint, v.name)",
}

// remove queues the deletion of rows.
func (r *entryRows) remove(statements *pgx.Batch) {
	for table, query := range deleteEntries {
		if len(r.endpoints[table]) > 0 {
			statements.Queue(query, r.endpoints[table], r.names[table])
		}
	}
}

// insert queues the insertion of rows.
func (r *entryRows) insert(statements *pgx.Batch) {
	if len(r.endpoints[endpointrow.Tag]) > 0 {
		statements.Queue("INSERT INTO endpoint_tag(endpoint, tag) SELECT * FROM unnest($1::bigint[], $2::bigint[])", r.endpoints[endpointrow.Tag], r.names[endpointrow.Tag])
	}
	if len(r.endpoints[endpointrow.Text]) > 0 {
		statements.Queue("INSERT INTO attribute_text(endpoint, name, value) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])",
			r.endpoints[endpointrow.Text], r.names[endpointrow.Text], r.texts)
	}
	if len(r.endpoints[endpointrow.Number]) > 0 {
		statements.Queue("INSERT INTO attribute_number(endpoint, name, value) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::double precision[])",
			r.endpoints[endpointrow.Number], r.names[endpointrow.Number], r.numbers)
	}
}

// index updates the rows that serve to find endpoints, and counts added and removed endpoints.
func (w *writer) index(ctx context.Context, records []*record) error {
	var needed [2][]string
	for _, r := range records {
		for _, e := range []*audience.Endpoint{r.stored, &r.e} {
			for i, names := range namesOfEndpoint(e) {
				needed[i] = append(needed[i], names...)
			}
		}
	}
	if err := w.loadNames(ctx, needed); err != nil {
		return err
	}
	var gone, fresh entryRows
	counts, days := make(map[endpointrow.Count]int64), make(endpointrow.Days)
	for _, r := range records {
		before, after := w.entries(r.stored), w.entries(&r.e)
		if r.stored != nil {
			counts[endpointrow.CountOf(r.stored)]--
		}
		if r.gone {
			after = nil
			days.Note(r.stored, nil, w.now)
		} else {
			counts[endpointrow.CountOf(&r.e)]++
			days.Note(r.stored, &r.e, w.now)
		}
		for x := range before {
			if !after[x] {
				gone.add(r.e.Number, x)
			}
		}
		for x := range after {
			if !before[x] {
				fresh.add(r.e.Number, x)
			}
		}
	}
	statements := &pgx.Batch{}
	gone.remove(statements) // deletions come first, since an attribute may have another kind or value now
	fresh.insert(statements)
	w.count(statements, counts, days)
	return w.tx.SendBatch(ctx, statements).Close()
}

// count queues the changes of counters, in any order: no other transaction changes the app's counters meanwhile.
func (w *writer) count(statements *pgx.Batch, counts map[endpointrow.Count]int64, days endpointrow.Days) {
	for k, n := range counts {
		if n != 0 {
			statements.Queue(`INSERT INTO endpoint_count AS c (app, channel, active, n) VALUES ($1, $2, $3, $4)
				ON CONFLICT (app, channel, active) DO UPDATE SET n = c.n + excluded.n`, w.app, k.Channel, k.Active, n)
		}
	}
	for k, n := range days {
		statements.Queue(`INSERT INTO endpoint_day AS d (app, day, channel, gained, lost) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (app, day, channel) DO UPDATE SET gained = d.gained + excluded.gained, lost = d.lost + excluded.lost`,
			w.app, k.Day, k.Channel, n.Gained, n.Lost)
	}
}

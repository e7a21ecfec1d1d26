package campaigndb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/audience"
)

// entry is one row by which an endpoint is found. It is comparable.
type entry struct {
	table entryTable
	name  int64 // of the tag or attribute
	text  string
	num   float64
}

type entryTable uint8

const (
	tagEntry entryTable = iota
	textEntry
	numberEntry
)

// entries are the rows by which an endpoint is found; a disabled one is not. Its names were looked for.
func (w *writer) entries(e *audience.Endpoint) map[entry]bool {
	if e == nil || e.Status != audience.Active || len(e.Tags)+len(e.Attributes) == 0 {
		return nil
	}
	all := make(map[entry]bool, len(e.Tags)+len(e.Attributes))
	for _, t := range e.Tags {
		all[entry{table: tagEntry, name: w.names[tagNames].ids[t]}] = true
	}
	for name, v := range e.Attributes {
		one := entry{table: numberEntry, name: w.names[attributeNames].ids[name]}
		if text, ok := v.Text(); ok {
			one.table, one.text = textEntry, text
		} else {
			one.num, _ = v.Number()
		}
		all[one] = true
	}
	return all
}

// entryRows are rows of the three tables that come or go.
type entryRows struct {
	endpoints [3][]int64
	names     [3][]int64
	texts     []string
	numbers   []float64
}

func (r *entryRows) add(endpoint int64, x entry) {
	r.endpoints[x.table], r.names[x.table] = append(r.endpoints[x.table], endpoint), append(r.names[x.table], x.name)
	switch x.table {
	case textEntry:
		r.texts = append(r.texts, x.text)
	case numberEntry:
		r.numbers = append(r.numbers, x.num)
	case tagEntry:
	}
}

var deleteEntries = [3]string{
	tagEntry:    "DELETE FROM endpoint_tag x USING unnest($1::bigint[], $2::bigint[]) AS v(endpoint, name) WHERE (x.tag, x.endpoint) = (v.name, v.endpoint)",
	textEntry:   "DELETE FROM attribute_text x USING unnest($1::bigint[], $2::bigint[]) AS v(endpoint, name) WHERE (x.endpoint, x.name) = (v.endpoint, v.name)",
	numberEntry: "DELETE FROM attribute_number x USING unnest($1::bigint[], $2::bigint[]) AS v(endpoint, name) WHERE (x.endpoint, x.name) = (v.endpoint, v.name)",
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
	if len(r.endpoints[tagEntry]) > 0 {
		statements.Queue("INSERT INTO endpoint_tag(endpoint, tag) SELECT * FROM unnest($1::bigint[], $2::bigint[])", r.endpoints[tagEntry], r.names[tagEntry])
	}
	if len(r.endpoints[textEntry]) > 0 {
		statements.Queue("INSERT INTO attribute_text(endpoint, name, value) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])",
			r.endpoints[textEntry], r.names[textEntry], r.texts)
	}
	if len(r.endpoints[numberEntry]) > 0 {
		statements.Queue("INSERT INTO attribute_number(endpoint, name, value) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::double precision[])",
			r.endpoints[numberEntry], r.names[numberEntry], r.numbers)
	}
}

// index brings the rows by which endpoints are found from before to after, and counts who came and went.
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
	counts := make(map[countKey]int64)
	for _, r := range records {
		before, after := w.entries(r.stored), w.entries(&r.e)
		if r.stored != nil {
			counts[countOf(r.stored)]--
		}
		if r.gone {
			after = nil
		} else {
			counts[countOf(&r.e)]++
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
	gone.remove(statements) // first: an attribute may have become of another kind, or have another value
	fresh.insert(statements)
	w.count(statements, counts)
	return w.tx.SendBatch(ctx, statements).Close()
}

type countKey struct {
	channel string
	active  bool
}

func countOf(e *audience.Endpoint) countKey {
	return countKey{string(e.Channel), e.Status == audience.Active}
}

// count queues what came and went. Nobody else counts the app's endpoints meanwhile, so any order will do.
func (w *writer) count(statements *pgx.Batch, counts map[countKey]int64) {
	for k, n := range counts {
		if n != 0 {
			statements.Queue(`INSERT INTO endpoint_count AS c (app, channel, active, n) VALUES ($1, $2, $3, $4)
				ON CONFLICT (app, channel, active) DO UPDATE SET n = c.n + excluded.n`, w.app, k.channel, k.active, n)
		}
	}
}

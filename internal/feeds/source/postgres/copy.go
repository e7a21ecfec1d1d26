package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"godwit.dev/godwit/internal/feeds/source"
)

// pageOfRows is how many rows of a table are read and stored together.
const pageOfRows = 500

// copies reports whether there is a table of objects, whose rows may be copied.
func (f *feed) copies() bool {
	for i := range f.tables {
		if f.tables[i].Object != "" {
			return true
		}
	}
	return false
}

// copyOn continues a first copy that was interrupted. Its snapshot is gone: it reads rows as they are now, and changes since the slot was made
// follow with higher versions.
func (f *feed) copyOn(ctx context.Context, to source.Emitter) error {
	if f.at.Copy == nil {
		return nil
	}
	return f.copyTables(ctx, to, "")
}

// copyTables puts the objects of all rows, as they are in a snapshot; without one, as they are now.
func (f *feed) copyTables(ctx context.Context, to source.Emitter, snapshot string) (err error) {
	at := f.at.Copy.LSN
	c, err := connect(ctx, f.t, false)
	if err != nil {
		return err
	}
	defer c.close()
	begin := "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	if snapshot != "" {
		begin += "; SET TRANSACTION SNAPSHOT " + literal(snapshot)
	}
	if err := c.exec(ctx, begin); err != nil {
		return err
	}
	for f.at.Copy.Table < len(f.tables) {
		t := &f.tables[f.at.Copy.Table]
		if t.Object != "" {
			if err := f.copyTable(ctx, to, c, t, at); err != nil {
				return fmt.Errorf("copy table %s: %w", t.full(), err)
			}
		}
		f.at.Copy.Table, f.at.Copy.After = f.at.Copy.Table+1, nil
		if err := to.Note(ctx, f.at.encode()); err != nil {
			return err
		}
	}
	f.at.Copy = nil
	to.Detail("")
	return to.Note(ctx, f.at.encode())
}

// copyTable copies a table by its primary key, page by page.
func (f *feed) copyTable(ctx context.Context, to source.Emitter, c *conn, t *Table, at LSN) error {
	names, err := primaryKey(ctx, c, t)
	if err != nil {
		return err
	}
	order := quotedAll(names)
	columns, _, err := f.columns(ctx, c, t)
	if err != nil {
		return err
	}
	_, filter, err := f.published(ctx, c, t)
	if err != nil {
		return err
	}
	for done := 0; ; {
		// The key comes once more at the end: the publication may lack it.
		sql := "SELECT " + quotedAll(append(columns, names...)) + " FROM " + t.qualified() + " WHERE (" + filter + ")"
		var params [][]byte
		if after := f.at.Copy.After; after != nil {
			var places []string
			for i, v := range after {
				places, params = append(places, fmt.Sprintf("$%d", i+1)), append(params, []byte(v))
			}
			sql += " AND (" + order + ") > (" + strings.Join(places, ", ") + ")"
		}
		rel, page, err := c.read(ctx, sql+" ORDER BY "+order+fmt.Sprintf(" LIMIT %d", pageOfRows), params)
		if err != nil {
			return needs(explain(err), "the user needs GRANT SELECT ON the table")
		}
		rel.columns = rel.columns[:len(rel.columns)-len(names)]
		if err := f.resolve(ctx, rel); err != nil {
			return err
		}
		m := mapped(t, rel)
		if m.err != nil {
			return m.err
		}
		if err := f.copyPage(ctx, to, m, page, at); err != nil {
			return err
		}
		done += len(page)
		to.Detail(fmt.Sprintf("copying table %s: %d rows so far", t.full(), done))
		if len(page) < pageOfRows {
			return nil
		}
		last := page[len(page)-1]
		f.at.Copy.After = nil
		for _, text := range last[len(rel.columns):] {
			f.at.Copy.After = append(f.at.Copy.After, string(text))
		}
		if err := to.Note(ctx, f.at.encode()); err != nil {
			return err
		}
	}
}

// primaryKey returns the columns of a table's primary key, in the order of its index.
func primaryKey(ctx context.Context, c *conn, t *Table) ([]string, error) {
	keys, err := c.query(ctx, "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = "+literal(t.qualified())+"::regclass AND i.indisprimary ORDER BY array_position(i.indkey::int2[], a.attnum)")
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no primary key, by which it would be read")
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = string(k[0])
	}
	return names, nil
}

// read returns the columns and rows of a result, and with an error those before it. A result without rows has columns, too.
func (c *conn) read(ctx context.Context, sql string, params [][]byte) (rel *relation, rows [][][]byte, err error) {
	r := c.ExecParams(ctx, sql, params, nil, nil, nil)
	for r.NextRow() {
		var row [][]byte
		for _, text := range r.Values() {
			row = append(row, bytes.Clone(text))
		}
		rows = append(rows, row)
	}
	rel = &relation{}
	for _, d := range r.FieldDescriptions() {
		rel.columns = append(rel.columns, column{name: d.Name, kind: d.DataTypeOID})
	}
	_, err = r.Close()
	return rel, rows, err
}

// valuesOf returns the values of a row of a result.
func valuesOf(texts [][]byte) []value {
	list := make([]value, len(texts))
	for i, text := range texts {
		list[i] = value{kind: isText, text: text}
		if text == nil {
			list[i].kind = isNull
		}
	}
	return list
}

func (f *feed) copyPage(ctx context.Context, to source.Emitter, m *rows, page [][][]byte, at LSN) error {
	var entries []source.Entry
	for _, texts := range page {
		c := change{kind: anInsert, row: valuesOf(texts[:len(m.rel.columns)])}
		entries = append(entries, m.entry(&c, source.Entry{From: "copy of " + m.full(), Version: f.at.version(at)})...)
	}
	if len(entries) > 0 {
		entries[len(entries)-1].Last = true
	}
	for i := range entries {
		if p := entries[i].Put; p != nil {
			f.at.touch(p.Key.Group)
		}
	}
	_, err := to.Emit(ctx, entries)
	return err
}

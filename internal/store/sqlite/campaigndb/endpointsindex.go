package campaigndb

import (
	"errors"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// entries returns the index rows of an endpoint; a disabled one has none.
func (w *endpointWriter) entries(e *audience.Endpoint) (map[endpointrow.Entry]bool, error) {
	all, err := endpointrow.Entries(e, w.name)
	if errors.Is(err, errSwept) {
		all, err = endpointrow.Entries(e, w.name)
	}
	return all, err
}

// index changes an endpoint's index rows from before to after.
func (w *endpointWriter) index(number int64, before, after map[endpointrow.Entry]bool) error {
	for x := range before {
		if after[x] {
			continue
		}
		if err := w.remove(number, x); err != nil {
			return err
		}
	}
	for x := range after {
		if before[x] {
			continue
		}
		if err := w.enter(number, x); err != nil {
			return err
		}
	}
	return nil
}

func (w *endpointWriter) enter(number int64, x endpointrow.Entry) error {
	switch x.Table {
	case endpointrow.Tag:
		return sqlitedb.Each(w.c, "INSERT INTO endpoint_tag(tag, endpoint) VALUES (?, ?)", []any{x.Name, number}, nil)
	case endpointrow.Text:
		return sqlitedb.Each(w.c, "INSERT INTO attribute_text(endpoint, name, value) VALUES (?, ?, ?)", []any{number, x.Name, x.Text}, nil)
	}
	return sqlitedb.Each(w.c, "INSERT INTO attribute_number(endpoint, name, value) VALUES (?, ?, ?)", []any{number, x.Name, x.Num}, nil)
}

func (w *endpointWriter) remove(number int64, x endpointrow.Entry) error {
	switch x.Table {
	case endpointrow.Tag:
		return sqlitedb.Each(w.c, "DELETE FROM endpoint_tag WHERE tag = ? AND endpoint = ?", []any{x.Name, number}, nil)
	case endpointrow.Text:
		return sqlitedb.Each(w.c, "DELETE FROM attribute_text WHERE endpoint = ? AND name = ?", []any{number, x.Name}, nil)
	}
	return sqlitedb.Each(w.c, "DELETE FROM attribute_number WHERE endpoint = ? AND name = ?", []any{number, x.Name}, nil)
}

// sweeps delete the names of an app that no active endpoint uses.
var sweeps = map[*endpointrow.Names]string{
	&endpointrow.Tags: "DELETE FROM tag_name WHERE app = ? AND NOT EXISTS (SELECT 1 FROM endpoint_tag t WHERE t.tag = tag_name.id)",
	&endpointrow.Attributes: `DELETE FROM attribute_name WHERE app = ? AND NOT EXISTS (SELECT 1 FROM attribute_text t WHERE t.name = attribute_name.id)
		AND NOT EXISTS (SELECT 1 FROM attribute_number n WHERE n.name = attribute_name.id)`,
}

type nameKey struct {
	table *endpointrow.Names
	name  string
}

// name returns the number of a tag or attribute name, and assigns one to a new name.
func (w *endpointWriter) name(t *endpointrow.Names, name string) (id int64, err error) {
	key := nameKey{t, name}
	if id, ok := w.names[key]; ok {
		return id, nil
	}
	if id, err = queryInt(w.c, "SELECT id FROM "+t.Table+" WHERE app = ? AND name = ?", w.app, name); err != nil {
		return 0, err
	}
	if id == 0 {
		n, err := queryInt(w.c, "SELECT count(*) FROM "+t.Table+" WHERE app = ?", w.app)
		if err != nil {
			return 0, err
		}
		if n >= t.Most(!w.untrusted) {
			if swept, err := w.sweep(t); err != nil || swept {
				return 0, errors.Join(err, errSwept)
			}
			return 0, t.TooMany(name, n)
		}
		if err := sqlitedb.Each(w.c, "INSERT INTO "+t.Table+"(app, name) VALUES (?, ?)", []any{w.app, name}, nil); err != nil {
			return 0, err
		}
		id = w.c.LastInsertRowID()
	}
	if w.names == nil {
		w.names = make(map[nameKey]int64)
	}
	w.names[key] = id
	return id, nil
}

// errSwept reports that names were deleted, so that numbers looked up earlier may be invalid.
var errSwept = errors.New("names were swept")

// sweep deletes the names that no active endpoint uses. A disabled endpoint with such a name creates it again when it becomes active.
func (w *endpointWriter) sweep(t *endpointrow.Names) (swept bool, err error) {
	if w.swept == nil || w.now.Sub(*w.swept) < endpointrow.SweepEvery {
		return false, nil
	}
	*w.swept, w.names = w.now, nil
	return true, sqlitedb.Each(w.c, sweeps[t], []any{w.app}, nil)
}

// queryInt reads one number; 0 if there is no row.
func queryInt(c *sqlite.Conn, query string, args ...any) (n int64, err error) {
	err = sqlitedb.Each(c, query, args, func(row *sqlite.Stmt) error {
		n = row.ColumnInt64(0)
		return nil
	})
	return n, err
}

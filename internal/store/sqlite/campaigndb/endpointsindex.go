package campaigndb

import (
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
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

// entries are the rows by which an endpoint is found; a disabled one is not.
func (w *endpointWriter) entries(e *audience.Endpoint) (map[entry]bool, error) {
	all, err := w.entriesOnce(e)
	if errors.Is(err, errSwept) {
		all, err = w.entriesOnce(e)
	}
	return all, err
}

func (w *endpointWriter) entriesOnce(e *audience.Endpoint) (map[entry]bool, error) {
	if e.Status != audience.Active || len(e.Tags)+len(e.Attributes) == 0 {
		return nil, nil
	}
	all := make(map[entry]bool, len(e.Tags)+len(e.Attributes))
	for _, t := range e.Tags {
		id, err := w.name(tagNames, t)
		if err != nil {
			return nil, err
		}
		all[entry{table: tagEntry, name: id}] = true
	}
	for name, v := range e.Attributes {
		id, err := w.name(attributeNames, name)
		if err != nil {
			return nil, err
		}
		one := entry{table: numberEntry, name: id}
		if text, ok := v.Text(); ok {
			one.table, one.text = textEntry, text
		} else {
			one.num, _ = v.Number()
		}
		all[one] = true
	}
	return all, nil
}

// index brings the rows of an endpoint from before to after.
func (w *endpointWriter) index(number int64, before, after map[entry]bool) error {
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

func (w *endpointWriter) enter(number int64, x entry) error {
	switch x.table {
	case tagEntry:
		return sqlitedb.Each(w.c, "INSERT INTO endpoint_tag(tag, endpoint) VALUES (?, ?)", []any{x.name, number}, nil)
	case textEntry:
		return sqlitedb.Each(w.c, "INSERT INTO attribute_text(endpoint, name, value) VALUES (?, ?, ?)", []any{number, x.name, x.text}, nil)
	}
	return sqlitedb.Each(w.c, "INSERT INTO attribute_number(endpoint, name, value) VALUES (?, ?, ?)", []any{number, x.name, x.num}, nil)
}

func (w *endpointWriter) remove(number int64, x entry) error {
	switch x.table {
	case tagEntry:
		return sqlitedb.Each(w.c, "DELETE FROM endpoint_tag WHERE tag = ? AND endpoint = ?", []any{x.name, number}, nil)
	case textEntry:
		return sqlitedb.Each(w.c, "DELETE FROM attribute_text WHERE endpoint = ? AND name = ?", []any{number, x.name}, nil)
	}
	return sqlitedb.Each(w.c, "DELETE FROM attribute_number WHERE endpoint = ? AND name = ?", []any{number, x.name}, nil)
}

// nameTable is one of the two tables of names.
type nameTable struct {
	field, what, find, add, count, sweep string
	most                                 int64
}

var (
	tagNames = &nameTable{
		"tags", "tags", "SELECT id FROM tag_name WHERE app = ? AND name = ?", "INSERT INTO tag_name(app, name) VALUES (?, ?)",
		"SELECT count(*) FROM tag_name WHERE app = ?",
		"DELETE FROM tag_name WHERE app = ? AND NOT EXISTS (SELECT 1 FROM endpoint_tag t WHERE t.tag = tag_name.id)", audience.MaxTagNames,
	}
	attributeNames = &nameTable{
		"attributes", "names of attributes", "SELECT id FROM attribute_name WHERE app = ? AND name = ?",
		"INSERT INTO attribute_name(app, name) VALUES (?, ?)", "SELECT count(*) FROM attribute_name WHERE app = ?",
		`DELETE FROM attribute_name WHERE app = ? AND NOT EXISTS (SELECT 1 FROM attribute_text t WHERE t.name = attribute_name.id)
			AND NOT EXISTS (SELECT 1 FROM attribute_number n WHERE n.name = attribute_name.id)`, audience.MaxAttributeNames,
	}
)

type nameKey struct {
	table *nameTable
	name  string
}

// tooManyNames says that an app has as many different names as it may.
type tooManyNames struct{ field error }

func (e *tooManyNames) Error() string { return e.field.Error() }
func (e *tooManyNames) Unwrap() error { return e.field }

// name returns the number of a tag or attribute and makes one for a new name.
func (w *endpointWriter) name(t *nameTable, name string) (id int64, err error) {
	key := nameKey{t, name}
	if id, ok := w.names[key]; ok {
		return id, nil
	}
	if id, err = queryInt(w.c, t.find, w.app, name); err != nil {
		return 0, err
	}
	if id == 0 {
		n, err := queryInt(w.c, t.count, w.app)
		if err != nil {
			return 0, err
		}
		most := t.most
		if w.untrusted {
			most /= 2 // strangers' names leave room for the back end's own
		}
		if n >= most {
			if swept, err := w.sweep(t); err != nil || swept {
				return 0, errors.Join(err, errSwept)
			}
			return 0, &tooManyNames{&notification.FieldError{
				Field: t.field, Problem: fmt.Sprintf("%q would be one too many: the app has %d different %s", name, n, t.what),
			}}
		}
		if err := sqlitedb.Each(w.c, t.add, []any{w.app, name}, nil); err != nil {
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

// sweepEvery bounds how often names are swept: it looks at all of an app's.
const sweepEvery = time.Minute

// errSwept says that numbers of names that were looked up before may be gone.
var errSwept = errors.New("names were swept")

// sweep deletes the names that no active endpoint has; who has one only while disabled makes it anew when it wakes.
func (w *endpointWriter) sweep(t *nameTable) (swept bool, err error) {
	if w.swept == nil || w.now.Sub(*w.swept) < sweepEvery {
		return false, nil
	}
	*w.swept, w.names = w.now, nil
	return true, sqlitedb.Each(w.c, t.sweep, []any{w.app}, nil)
}

// queryInt reads one number; 0 if there is no row.
func queryInt(c *sqlite.Conn, query string, args ...any) (n int64, err error) {
	err = sqlitedb.Each(c, query, args, func(row *sqlite.Stmt) error {
		n = row.ColumnInt64(0)
		return nil
	})
	return n, err
}

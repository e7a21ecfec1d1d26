package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// Limits of the mapping.
const (
	maxTables  = 100
	maxColumns = 1_600 // PostgreSQL's own limit
	maxName    = 63    // bytes of an identifier, PostgreSQL's own limit
)

// Table says what the rows of a table become: notifications, where Recipient is set, or versions of objects. Group, Title and Body are names
// of columns, or, if the table has no such column, the text itself.
type Table struct {
	Table     string   `json:"table"` // with or without its schema; without one it is public. Names with dots are in quotes, as in SQL
	Recipient string   `json:"recipient,omitempty"`
	ID        string   `json:"id,omitempty"`
	Title     string   `json:"title,omitempty"`
	Body      string   `json:"body,omitempty"`
	Category  string   `json:"category,omitempty"`
	Data      []string `json:"data,omitempty"` // nil: all columns
	On        []string `json:"on,omitempty"`   // of insert, update, delete: nil: insert
	Group     string   `json:"group,omitempty"`
	Object    string   `json:"object,omitempty"`
	Payload   []string `json:"payload,omitempty"` // nil: no payload
}

// operations are what Table.On may name.
var operations = map[string]byte{"insert": anInsert, "update": anUpdate, "delete": aDelete}

// readTables reads and checks the field tables.
func readTables(raw json.RawMessage) ([]Table, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []Table
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, notification.BadField(FieldTables, "must be a list of tables: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if len(list) > maxTables {
		return nil, notification.BadField(FieldTables, "has %d tables; at most %d are allowed", len(list), maxTables)
	}
	seen := make(map[string]bool)
	for i := range list {
		t := &list[i]
		if err := t.check(); err != nil {
			return nil, notification.BadField(fmt.Sprintf("%s[%d]", FieldTables, i), "%s", err)
		}
		if seen[t.full()] {
			return nil, notification.BadField(fmt.Sprintf("%s[%d]", FieldTables, i), "%s is there twice", t.full())
		}
		seen[t.full()] = true
	}
	return list, nil
}

func (t *Table) check() error {
	switch {
	case t.Table == "":
		return errors.New("table is required")
	case !t.named():
		return fmt.Errorf("table is %.130q, but must be a name, or a schema and a name; names with dots are in quotes, as in SQL", t.Table)
	case t.Recipient == "" && t.Object == "":
		return errors.New("recipient or object is required: the column with the recipient of a notification, or with the name of an object")
	case t.Recipient != "" && (t.Object != "" || t.Group != "" || t.Payload != nil):
		return errors.New("recipient cannot be beside object, group and payload: rows are notifications or versions of objects")
	case t.Object != "" && (t.ID != "" || t.Title != "" || t.Body != "" || t.Category != "" || t.Data != nil || t.On != nil):
		return errors.New("object cannot be beside id, title, body, category, data and on")
	case t.Object != "" && t.Group == "":
		return errors.New("group is required beside object")
	case t.Recipient != "" && t.Data != nil && len(t.Data) == 0 && t.Title == "" && t.Body == "" && t.Category == "":
		return errors.New("title, body, category or data is required: its notifications would be empty")
	case len(t.Data) > maxColumns || len(t.Payload) > maxColumns:
		return fmt.Errorf("a table has at most %d columns", maxColumns)
	}
	for _, on := range t.On {
		if operations[on] == 0 {
			return fmt.Errorf("on has %.20q; there are insert, update and delete", on)
		}
	}
	schema, table := t.names()
	names := slices.Concat([]string{t.Recipient, t.ID, t.Object, schema, table}, t.Data, t.Payload)
	for _, name := range names {
		if len(name) > maxName || strings.ContainsRune(name, 0) {
			return fmt.Errorf("%.70q is no name: it has more than %d bytes, or NUL", name, maxName)
		}
	}
	for name, text := range map[string]string{"title": t.Title, "body": t.Body, "group": t.Group, "category": t.Category} {
		if len(text) > notification.MaxNameBytes && name != "body" {
			return fmt.Errorf("%s has more than %d bytes", name, notification.MaxNameBytes)
		}
	}
	return nil
}

// named reports whether the table's name can be read.
func (t *Table) named() bool {
	_, rest, ok := cutName(t.Table)
	if ok && rest != "" {
		_, rest, ok = cutName(rest)
	}
	return ok && rest == ""
}

// names are the table's schema and name.
func (t *Table) names() (schema, name string) {
	first, rest, _ := cutName(t.Table)
	if rest == "" {
		return "public", first
	}
	name, _, _ = cutName(rest)
	return first, name
}

// cutName takes a name from the front of a text. A name that begins with a quotation mark ends with one, and has two for each within.
func cutName(text string) (name, rest string, ok bool) {
	if quoted, is := strings.CutPrefix(text, `"`); is {
		for {
			part, after, found := strings.Cut(quoted, `"`)
			if name += part; !found {
				return "", "", false
			}
			if quoted, is = strings.CutPrefix(after, `"`); !is {
				rest, is = strings.CutPrefix(after, ".")
				return name, rest, name != "" && is == (rest != "") && (is || after == "")
			}
			name += `"`
		}
	}
	name, rest, is := strings.Cut(text, ".")
	return name, rest, name != "" && is == (rest != "")
}

// full is the table's name with its schema, with quotes where SQL needs them.
func (t *Table) full() string {
	schema, name := t.names()
	if identifier().MatchString(schema) && identifier().MatchString(name) {
		return schema + "." + name
	}
	return t.qualified()
}

// qualified is the table's name with its schema, always with quotes.
func (t *Table) qualified() string {
	schema, name := t.names()
	return quoted(schema) + "." + quoted(name)
}

// rows converts the rows of a table, as it is from some place in the log on.
type rows struct {
	*Table
	rel *relation
	err error // a column that the mapping names does not exist
}

// mapped finds the columns of a mapping in a table.
func mapped(t *Table, rel *relation) *rows {
	m := &rows{Table: t, rel: rel}
	for _, name := range slices.Concat([]string{t.Recipient, t.ID, t.Object}, t.Data, t.Payload) {
		if name != "" && m.column(name) < 0 {
			m.err = fmt.Errorf("the table %s has no column %s, or the log lacks it, as it does generated ones and those that the publication leaves out", t.full(), name)
		}
	}
	return m
}

func (m *rows) column(name string) int {
	return slices.IndexFunc(m.rel.columns, func(c column) bool { return c.name == name })
}

// row is one version of a row: its values, and those before for columns that were not sent again.
type row struct {
	of     *rows
	values []value
	before []value // nil, or all columns
}

// errUnchanged says why a column is not known.
func (r *row) errUnchanged(name string) error {
	return fmt.Errorf("the column %s of %s is large, was left unchanged and is not sent again: ALTER TABLE %s REPLICA IDENTITY FULL", name, r.of.full(), r.of.full())
}

// value returns the value of a column. A value whose kind is isNull is absent.
func (r *row) value(i int) (value, error) {
	if i >= len(r.values) {
		return value{kind: isNull}, nil // the column is newer than the row
	}
	v := r.values[i]
	if v.kind == isUnchanged {
		if i >= len(r.before) || r.before[i].kind == isUnchanged {
			return v, r.errUnchanged(r.of.rel.columns[i].name)
		}
		v = r.before[i]
	}
	return v, nil
}

// text returns the text of a column; missing says what a null means.
func (r *row) text(name, missing string) (string, error) {
	v, err := r.value(r.of.column(name))
	if err == nil && v.kind == isNull {
		err = fmt.Errorf("the column %s of %s is null%s", name, r.of.full(), missing)
	}
	return string(v.text), err
}

// textOr returns the text of a column of a name, or the name itself if there is no such column. Null is empty.
func (r *row) textOr(name string) (string, error) {
	i := r.of.column(name)
	if i < 0 || name == "" {
		return name, nil
	}
	v, err := r.value(i)
	return string(v.text), err
}

// json returns columns as an object. Nil names are all columns.
func (r *row) json(names []string) ([]byte, error) {
	out := []byte{'{'}
	add := func(i int) error {
		v, err := r.value(i)
		if err != nil {
			return err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		c := &r.of.rel.columns[i]
		out = appendJSON(append(appendString(out, []byte(c.name)), ':'), c, v)
		return nil
	}
	if names == nil {
		for i := range r.of.rel.columns {
			if err := add(i); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range names {
		if err := add(r.of.column(name)); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// known returns the known columns of the row as JSON, for the quarantine.
func (r *row) known() []byte {
	out := []byte{'{'}
	for i, v := range r.values {
		if i >= len(r.of.rel.columns) || v.kind == isUnchanged {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		c := &r.of.rel.columns[i]
		out = appendJSON(append(appendString(out, []byte(c.name)), ':'), c, v)
	}
	return append(out, '}')
}

// entry converts the change of a row. ok is false if it becomes nothing.
func (m *rows) entry(c *change, e source.Entry) (list []source.Entry) {
	now := &row{of: m, values: c.row}
	if c.whole {
		now.before = c.old
	}
	if c.kind == aDelete {
		now.values = c.old
	}
	bad := func(err error) []source.Entry {
		e.Wrong, e.Text = err, now.known()
		return append(list, e)
	}
	switch {
	case m.err != nil:
		return bad(m.err)
	case m.Recipient != "":
		if !m.takes(c.kind) {
			return nil
		}
		d, err := m.draft(now, &e)
		if err != nil {
			return bad(err)
		}
		e.Publish, e.Text = d, now.known()
		return append(list, e)
	}
	if c.kind == anUpdate && c.old != nil {
		former, err := m.key(&row{of: m, values: c.old})
		if key, err2 := m.key(now); err == nil && err2 == nil && former != key {
			gone := e
			gone.Delete = &former
			list = append(list, gone)
		}
	}
	key, err := m.key(now)
	if err != nil {
		if c.kind == aDelete {
			err = fmt.Errorf("%w: a deleted row has its key alone unless ALTER TABLE %s REPLICA IDENTITY FULL", err, m.full())
		}
		return bad(err)
	}
	if c.kind == aDelete {
		e.Delete = &key
		return append(list, e)
	}
	put := source.Put{Key: key}
	if m.Payload != nil {
		if put.Payload, err = now.json(m.Payload); err != nil {
			return bad(err)
		}
		put.ContentType = "application/json"
	}
	e.Put, e.Text = &put, now.known()
	return append(list, e)
}

// takes reports whether an operation becomes a notification.
func (m *rows) takes(kind byte) bool {
	if m.On == nil {
		return kind == anInsert
	}
	return slices.ContainsFunc(m.On, func(on string) bool { return operations[on] == kind })
}

func (m *rows) draft(r *row, e *source.Entry) (*notification.Draft, error) {
	d := &notification.Draft{ID: e.ID}
	to, err := r.text(m.Recipient, ": there is no recipient")
	if err != nil {
		return nil, err
	}
	d.To = []string{to}
	if m.ID != "" {
		if d.ID, err = r.text(m.ID, ": there is no id"); err != nil {
			return nil, err
		}
	}
	for _, f := range []struct {
		name string
		into *string
	}{{m.Title, &d.Content.Title}, {m.Body, &d.Content.Body}, {m.Category, &d.Content.Category}} {
		if *f.into, err = r.textOr(f.name); err != nil {
			return nil, err
		}
	}
	if m.Data == nil || len(m.Data) > 0 {
		d.Content.ContentType = "application/json"
		d.Content.Data, err = r.json(m.Data)
	}
	return d, err
}

// key returns the object of a row.
func (m *rows) key(r *row) (k object.Key, err error) {
	if k.Object, err = r.text(m.Object, ": the object has no name"); err != nil {
		return k, err
	}
	if k.Group, err = r.textOr(m.Group); err != nil {
		return k, err
	}
	return k, k.Check()
}

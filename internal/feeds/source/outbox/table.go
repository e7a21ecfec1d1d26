package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
)

// maxBody is the maximum number of bytes of a row's body: that of a request over HTTP.
const maxBody = 256 << 10

// table is the outbox: its name, and which columns it has.
type table struct {
	dialect *dialect
	source  string // the source's name
	name    string // with its schema
	sql     string // the name as SQL has it
	id      idType
	stamped bool // it has created_at
	mark    bool // rows that are stored stay, with done_at
	aged    bool // created_at is a time
	foreign bool // it has the columns of Debezium
	objects bool
	slow    []string // what makes reading slow
}

// idType says how values of the column id are compared.
type idType int

const (
	words idType = iota
	integers
	octets
	unfit   // the database compares it with texts as numbers that are rounded, or not at all
	nothing // of a parameter that is NULL
)

// column is a column of the table.
type column struct {
	name string
	id   idType // of the column id
	bad  bool   // a type that is no text
	time bool
}

// index is an index of the table.
type index struct {
	first string // column
	alone bool   // it is the only one
	// unique says that no two rows have the same value. partial is the condition of the rows that the index has.
	unique  bool
	partial string
	again   bool // the number of a deleted row may be given to the next one
}

// arg is a parameter of a statement.
type arg struct {
	text string
	is   idType
}

// debezium are the columns of Debezium's outbox, besides id.
var debezium = []string{"aggregatetype", "aggregateid", "type", "payload"}

// look finds out which columns the table has.
func look(ctx context.Context, d *dialect, c conn, name string, v setting.Values) (*table, error) {
	t := &table{dialect: d, name: name, mark: v.Bool(FieldMark), objects: v.Bool(FieldObjects)}
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = d.quote(p)
	}
	t.sql = strings.Join(parts, ".")
	list, err := c.columns(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("read the table %s, which godwit source schema prints: %w", name, err)
	}
	if err := t.take(list); err != nil {
		return nil, err
	}
	indexes, err := c.indexes(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("read the indexes of the table %s: %w", name, err)
	}
	if err := t.judge(indexes); err != nil {
		return nil, err
	}
	return t, t.try(ctx, c)
}

// take takes the columns over, or says which are missing.
func (t *table) take(list []column) error {
	has := make(map[string]column, len(list))
	for _, one := range list {
		has[strings.ToLower(one.name)] = one
	}
	t.id = has["id"].id
	_, body := has["body"]
	stamp, stamped := has["created_at"]
	t.stamped, t.aged = stamped, stamp.time
	_, t.foreign = has["aggregateid"]
	t.foreign = t.foreign && !body
	needs := []string{"id", "body"}
	if t.foreign {
		needs = append([]string{"id"}, debezium...)
	}
	if t.mark {
		needs = append(needs, "done_at")
	}
	for _, name := range needs {
		if one, ok := has[name]; !ok || one.bad || name == "id" && one.id == unfit {
			return own("the table %s has no column %s of a type that can be read: godwit source schema prints what it must have", t.name, name)
		}
	}
	if t.id == integers && !t.stamped {
		return own("the table %s has no column created_at, which tells a row from an earlier one with the same number", t.name)
	}
	return nil
}

// judge refuses a table in which two rows may have the same id, and notes which index is missing.
func (t *table) judge(indexes []index) error {
	unique, ordered, waits, again := false, !t.byTime(), !t.mark, false
	for _, i := range indexes {
		unique = unique || i.first == "id" && i.alone && i.unique && i.partial == ""
		again = again || i.first == "id" && i.again && !t.mark
		ordered = ordered || i.first == "created_at"
		waits = waits || i.first == "done_at" || strings.Contains(i.partial, "done_at")
	}
	switch {
	case !unique:
		return own("two rows of %s may have the same id: it must be a table whose id alone is the primary key, or has a unique index", t.name)
	case again:
		return own("rows of %s get the numbers of deleted ones again: id must be INTEGER PRIMARY KEY AUTOINCREMENT, or the source must keep the rows (mark)", t.name)
	case !waits:
		t.slow = []string{"reading slows down with the rows that are done, since no index has those that wait: godwit source schema prints one"}
	case !ordered:
		t.slow = []string{"reading slows down with the rows that wait, since created_at has no index"}
	}
	return nil
}

// try finds out before anything is sent whether rows can be finished afterwards.
func (t *table) try(ctx context.Context, c conn) error {
	if _, err := c.begin(ctx); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	defer c.rollback()
	if _, err := c.exec(ctx, t.verb()+" WHERE "+t.dialect.none, nil); err != nil {
		return fmt.Errorf("rows of %s cannot be finished, so none is read: %w", t.name, err)
	}
	return nil
}

// row is a row of the outbox.
type row struct {
	key
	body                 []byte // nil: it is NULL
	group, object, event []byte // aggregatetype, aggregateid and type of Debezium, whose payload is the body
}

// key is the place of a row in the order in which they are read.
type key struct {
	id    string
	stamp string // created_at; "" if there is none
}

// place is what a statement selects of a key.
func (t *table) place() []string {
	if t.stamped {
		return []string{t.dialect.text("o.id"), t.dialect.text("o.created_at")}
	}
	return []string{t.dialect.text("o.id"), "''"}
}

// content is the column of the message.
func (t *table) content() string {
	if t.foreign {
		return "payload"
	}
	return "body"
}

// columns is what a statement selects of a row.
func (t *table) columns() []string {
	d := t.dialect
	list := append(t.place(), d.cut("o."+t.content()))
	if t.foreign {
		list = append(list, d.text("o.aggregatetype"), d.text("o.aggregateid"), d.text("o.type"))
	}
	return list
}

// sel is the statement that reads up to most rows behind a row, and keeps them locked.
func (t *table) sel(after *key, most int) (sql string, args []arg) {
	where, args := t.behindOf(after)
	return t.statement(t.columns(), where, fmt.Sprintf(" LIMIT %d%s", most, t.dialect.lock)), args
}

// keys is the statement that reads the places of such rows, and locks nothing.
func (t *table) keys(after *key, most int) (sql string, args []arg) {
	where, args := t.behindOf(after)
	return t.statement(t.place(), where, fmt.Sprintf(" LIMIT %d", most)), args
}

// these is the statement that reads the rows with these keys, and keeps them locked.
func (t *table) these(keys []key) (sql string, args []arg) {
	ids := make([]string, len(keys))
	for i := range keys {
		ids[i] = keys[i].id
	}
	in, args := t.in("o.id", ids)
	where := []string{in}
	if t.mark {
		where = append(where, "o.done_at IS NULL")
	}
	return t.statement(t.columns(), where, t.dialect.lock), args
}

func (t *table) statement(columns, where []string, end string) string {
	order := "o.id"
	if t.byTime() {
		order = "o.created_at, o.id"
	}
	sql := "SELECT " + strings.Join(columns, ", ") + " FROM " + t.sql + " o"
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	return sql + " ORDER BY " + order + end
}

// behindOf is the condition of rows behind one.
func (t *table) behindOf(after *key) (where []string, args []arg) {
	d := t.dialect
	if t.mark {
		where = append(where, "o.done_at IS NULL")
	}
	switch {
	case after == nil:
	case t.byTime():
		where = append(where, fmt.Sprintf("(o.created_at > %s OR o.created_at = %s AND o.id > %s)", d.param(1), d.param(2), d.param(3)))
		args = []arg{{text: after.stamp}, {text: after.stamp}, {after.id, t.id}}
	default:
		where = append(where, "o.id > "+d.param(1))
		args = []arg{{after.id, t.id}}
	}
	return where, args
}

// byTime reports whether rows are read in the order of created_at, since their ids have none.
func (t *table) byTime() bool { return t.stamped && t.id != integers }

// rowOf is the row that sel returns as values.
func (t *table) rowOf(values [][]byte) row {
	r := row{key: key{id: string(values[0]), stamp: string(values[1])}}
	if values[2] != nil {
		r.body = append([]byte{}, values[2]...)
	}
	if t.foreign {
		r.group, r.object, r.event = append([]byte(nil), values[3]...), append([]byte(nil), values[4]...), append([]byte(nil), values[5]...)
	}
	return r
}

// size is how many bytes a row takes.
func (r *row) size() int { return len(r.body) + len(r.group) + len(r.object) + len(r.event) }

// verb begins the statements that delete rows, or mark them.
func (t *table) verb() string {
	if t.mark {
		return "UPDATE " + t.sql + " SET done_at = CURRENT_TIMESTAMP"
	}
	return "DELETE FROM " + t.sql
}

// in is the condition that a column has one of some ids.
func (t *table) in(column string, ids []string) (where string, args []arg) {
	marks := make([]string, len(ids))
	for i, id := range ids {
		marks[i] = t.dialect.param(i + 1)
		args = append(args, arg{id, t.id})
	}
	return column + " IN (" + strings.Join(marks, ", ") + ")", args
}

// finish is the statement that deletes rows, or marks them.
func (t *table) finish(rows []*row) (sql string, args []arg) {
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	where, args := t.in("id", ids)
	return t.verb() + " WHERE " + where, args
}

// finishSame is the statement that does so with one row if it still is what was read: another may have its number by now.
func (t *table) finishSame(r *row) (sql string, args []arg) {
	d := t.dialect
	sql = fmt.Sprintf("%s WHERE id = %s AND %s IS %s", t.verb(), d.param(1), d.cut(t.content()), d.param(2))
	args = []arg{{r.id, t.id}, {string(r.body), octets}}
	if r.body == nil {
		args[1].is = nothing
	}
	if t.stamped {
		sql += fmt.Sprintf(" AND COALESCE(%s, '') = %s", d.text("created_at"), d.param(3))
		args = append(args, arg{text: r.stamp})
	}
	return sql, args
}

// behind is the statement that counts rows, up to most, and returns the age of the first in seconds.
func (t *table) behind(most int) string {
	where, age := "", "0"
	if t.mark {
		where = " WHERE o.done_at IS NULL"
	}
	if t.aged {
		order := "o.id"
		if t.byTime() {
			order = "o.created_at"
		}
		age = fmt.Sprintf("(SELECT %s FROM %s o%s ORDER BY %s LIMIT 1)", t.dialect.age("o.created_at"), t.sql, where, order)
	}
	return fmt.Sprintf("SELECT COUNT(*), %s FROM (SELECT 1 AS one FROM %s o%s LIMIT %d) n", age, t.sql, where, most)
}

// entry is what a row asks for.
func (t *table) entry(r *row) source.Entry {
	e := source.Entry{From: t.name + " " + readable(r.id), Stream: t.name, ID: t.idOf(r), Body: r.body, Text: r.body}
	switch {
	case len(r.body) > maxBody:
		e.Wrong = fmt.Errorf("the row has more than %d bytes", maxBody)
	case t.foreign:
		e.Body, e.Wrong = t.translated(r)
	case r.body == nil:
		e.Wrong = errors.New("the row's body is NULL")
	}
	if e.Wrong != nil && e.Text == nil {
		e.Text = []byte{}
	}
	return e
}

// idOf is the id of a row's notification: the same whenever the row is read. A number alone may come again, as in a table that was made anew.
func (t *table) idOf(r *row) string {
	if t.foreign && t.id == words && len(r.id) <= maxOwnID && readable(r.id) == r.id {
		return r.id
	}
	h := sha256.New()
	for _, part := range []string{t.source, t.name, r.id, r.stamp} {
		h.Write(append([]byte(part), 0))
	}
	return "ob-" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// maxOwnID is the longest id of a row, in bytes, that becomes the notification's own: longer ones than a UUID's are rare.
const maxOwnID = 64

// readable is an id as people read it.
func readable(id string) string {
	if !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' }) {
		return hex.EncodeToString([]byte(id))
	}
	return id
}

// translated is a row of Debezium's outbox as the API takes it: a notification for the recipient aggregateid, or a version of an object.
func (t *table) translated(r *row) ([]byte, error) {
	if r.object == nil {
		return nil, errors.New("the row's aggregateid is NULL")
	}
	payload := json.RawMessage(r.body)
	if r.body != nil && !json.Valid(r.body) {
		payload = setting.JSON(string(r.body))
	}
	name := map[string]any{"group": string(r.group), "object": string(r.object)}
	switch {
	case !t.objects:
		data := map[string]any{"type": string(r.event), "aggregatetype": string(r.group), "payload": payload}
		return json.Marshal(map[string]any{"to": string(r.object), "data": data})
	case len(r.body) == 0: // a tombstone, also where payload cannot be NULL
		return json.Marshal(map[string]any{"delete": name})
	}
	name["payload"] = payload
	return json.Marshal(map[string]any{"put": name})
}

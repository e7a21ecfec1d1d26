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
	foreign bool // it has the columns of Debezium
	objects bool
}

// idType says how values of the column id are compared.
type idType int

const (
	words idType = iota
	integers
	octets
)

// column is a column of the table.
type column struct {
	name string
	id   idType // of the column id
	bad  bool   // a type that is no text
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
	list, err := c.columns(ctx, t.sql)
	if err != nil {
		return nil, fmt.Errorf("read the table %s, which godwit source schema prints: %w", name, err)
	}
	has := make(map[string]column, len(list))
	for _, one := range list {
		has[strings.ToLower(one.name)] = one
	}
	t.id = has["id"].id
	_, body := has["body"]
	_, t.stamped = has["created_at"]
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
		if one, ok := has[name]; !ok || one.bad {
			return nil, fmt.Errorf("the table %s has no column %s of a type that can be read: godwit source schema prints what it must have", t.name, name)
		}
	}
	if t.id == integers && !t.stamped {
		return nil, fmt.Errorf("the table %s has no column created_at, which tells a row from an earlier one with the same number", t.name)
	}
	return t, nil
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

// sel is the statement that reads up to most rows behind a row.
func (t *table) sel(after *key, most int) (sql string, args []arg) {
	d := t.dialect
	list := []string{d.text("o.id"), "''"}
	if t.stamped {
		list[1] = d.text("o.created_at")
	}
	if t.foreign {
		list = append(list, d.cut("o.payload"), d.text("o.aggregatetype"), d.text("o.aggregateid"), d.text("o.type"))
	} else {
		list = append(list, d.cut("o.body"))
	}
	where, order := []string{}, "o.id"
	if t.mark {
		where = append(where, "o.done_at IS NULL")
	}
	byTime := t.byTime()
	if byTime {
		order = "o.created_at, o.id"
	}
	switch {
	case after == nil:
	case byTime:
		where = append(where, fmt.Sprintf("(o.created_at > %s OR o.created_at = %s AND o.id > %s)", d.param(1), d.param(2), d.param(3)))
		args = []arg{{text: after.stamp}, {text: after.stamp}, {after.id, t.id}}
	default:
		where = append(where, "o.id > "+d.param(1))
		args = []arg{{after.id, t.id}}
	}
	sql = "SELECT " + strings.Join(list, ", ") + " FROM " + t.sql + " o"
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	return fmt.Sprintf("%s ORDER BY %s LIMIT %d%s", sql, order, most, d.lock), args
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

// finish is the statement that deletes rows, or marks them.
func (t *table) finish(ids []string) (sql string, args []arg) {
	marks := make([]string, len(ids))
	for i, id := range ids {
		marks[i] = t.dialect.param(i + 1)
		args = append(args, arg{id, t.id})
	}
	verb := "DELETE FROM " + t.sql
	if t.mark {
		verb = "UPDATE " + t.sql + " SET done_at = CURRENT_TIMESTAMP"
	}
	return verb + " WHERE id IN (" + strings.Join(marks, ", ") + ")", args
}

// behind is the statement that counts rows, up to most, and returns the age of the first in seconds.
func (t *table) behind(most int) string {
	where, age := "", "0"
	if t.mark {
		where = " WHERE o.done_at IS NULL"
	}
	if t.stamped {
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
	e := source.Entry{From: t.name + " " + readable(r.id), ID: t.idOf(r), Body: r.body, Text: r.body}
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
	case r.body == nil:
		return json.Marshal(map[string]any{"delete": name})
	}
	name["payload"] = payload
	return json.Marshal(map[string]any{"put": name})
}

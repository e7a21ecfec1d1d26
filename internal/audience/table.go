package audience

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/push"
)

// tableColumns are those that every table of endpoints has; attributes.NAME for each attribute come after them.
var tableColumns = []string{"id", "channel", "recipient", "address", "tags", "locale", "timezone", "status", "disabled_reason", "created_at", "last_seen_at"}

// Table writes endpoints as CSV.
type Table struct {
	columns []string
	names   []string
	begun   bool
}

// NewTable begins a table with columns for these attributes, and one for addresses if they are to be in it.
func NewTable(attributes []string, addresses bool) *Table {
	t := &Table{columns: tableColumns, names: attributes}
	if !addresses {
		t.columns = slices.DeleteFunc(slices.Clone(tableColumns), isAddress)
	}
	return t
}

func isAddress(column string) bool { return column == "address" }

// Rows returns the lines of endpoints, the first time with the headings before them.
func (t *Table) Rows(list []Endpoint) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if !t.begun {
		t.begun = true
		head := slices.Clone(t.columns)
		for _, name := range t.names {
			head = append(head, attributesPrefix+name)
		}
		if err := w.Write(head); err != nil {
			return nil, err
		}
	}
	for i := range list {
		e := &list[i]
		row := []string{e.ID.String(), string(e.Channel), e.Recipient}
		if slices.ContainsFunc(t.columns, isAddress) {
			row = append(row, string(e.Address))
		}
		row = append(row, guarded(strings.Join(e.Tags, ";")), e.Locale, e.Timezone, string(e.Status), guarded(e.DisabledReason), cellTime(e.CreatedAt), cellTime(e.LastSeenAt))
		for _, name := range t.names {
			row = append(row, cell(e.Attributes, name))
		}
		if err := w.Write(row); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

func cellTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// cell writes an attribute so that readCell reads it again.
func cell(a Attributes, name string) string {
	v, ok := a[name]
	if !ok {
		return ""
	}
	if s, text := v.Text(); text {
		if Guess(s).kind != textKind || s == "" {
			return "'" + s
		}
		return guarded(s)
	}
	return v.String()
}

// risky are the characters with which spreadsheets begin formulas.
const risky = "=+-@\t\r"

// guarded puts an apostrophe before what a spreadsheet would take for a formula, and before what looks as if that had
// been done.
func guarded(s string) string {
	if s != "" && strings.IndexByte(risky+"'", s[0]) >= 0 && (s[0] != '\'' || unguarded(s) != s) {
		return "'" + s
	}
	return s
}

// unguarded takes that apostrophe away.
func unguarded(s string) string {
	if rest, ok := strings.CutPrefix(s, "'"); ok && (rest == "" || strings.IndexByte(risky+"'", rest[0]) >= 0 || Guess(rest).kind != textKind) {
		return rest
	}
	return s
}

func readCell(s string) Value {
	if rest := unguarded(s); rest != s {
		return Text(rest)
	}
	return Guess(s)
}

// Row is a line of a table, or of an export, in the form in which the API takes registrations.
type Row struct {
	ID         string          `json:"id,omitempty"`
	Channel    push.Channel    `json:"channel"`
	Recipient  string          `json:"recipient,omitempty"`
	Address    json.RawMessage `json:"address,omitempty"`
	Tags       []string        `json:"tags,omitempty"`
	Attributes Attributes      `json:"attributes,omitempty"`
	Locale     string          `json:"locale,omitempty"`
	Timezone   string          `json:"timezone,omitempty"`
	Status     Status          `json:"-"` // as the table says
}

// TableReader reads CSV with headings. It knows the columns that Table writes; endpoint, p256dh, auth; chat_id; token;
// url; uuid, which makes id mean nothing. Others are attributes, with or without attributes. before their name. A heading that ends with :text
// keeps its column from being read as numbers. Empty cells say nothing.
type TableReader struct {
	csv     *csv.Reader
	columns []tableColumn
}

type tableColumn struct {
	name      string
	attribute bool
	text      bool
}

var addressColumns = []string{"endpoint", "p256dh", "auth", "chat_id", "token", "url"}

// otherNames are what other programs call columns.
var otherNames = map[string]string{"key_p256dh": "p256dh", "key_auth": "auth", "uuid": "id"}

// ignored is the name of a column that says nothing.
const ignored = ""

// NewTableReader reads the headings.
func NewTableReader(r io.Reader) (*TableReader, error) {
	t := &TableReader{csv: csv.NewReader(r)}
	t.csv.ReuseRecord = true
	head, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the table is empty: its first line must name the columns")
	}
	if err != nil {
		return nil, fmt.Errorf("read the names of the columns: %w", err)
	}
	hasUUID := slices.Contains(head, "uuid")
	for i, text := range head {
		if i == 0 {
			text = strings.TrimPrefix(text, "\ufeff") // spreadsheets mark UTF-8 so
		}
		name, isText := strings.CutSuffix(strings.TrimSpace(text), ":text")
		if name == ignored {
			return nil, fmt.Errorf("column %d has no name", i+1)
		}
		if other, ok := otherNames[name]; ok {
			name = other
		} else if name == "id" && hasUUID {
			name = ignored // a number of the database that the table is from
		}
		c := tableColumn{name: name, text: isText}
		if !slices.Contains(tableColumns, name) && !slices.Contains(addressColumns, name) && name != ignored {
			c.attribute = true
			c.name = strings.TrimPrefix(name, attributesPrefix)
			if checkAttributeName(c.name) != nil {
				return nil, fmt.Errorf("column %d: %q is neither a known column nor a name for an attribute", i+1, notification.Clip(text))
			}
		}
		t.columns = append(t.columns, c)
	}
	return t, nil
}

// Attributes names the columns that become attributes.
func (t *TableReader) Attributes() (names []string) {
	for _, c := range t.columns {
		if c.attribute {
			names = append(names, c.name)
		}
	}
	return names
}

// Next reads a line; io.EOF after the last. An error that is a *LineError concerns this line alone.
func (t *TableReader) Next() (row Row, line int, err error) {
	cells, err := t.csv.Read()
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return row, parse.StartLine, &LineError{parse.StartLine, parse.Err}
	}
	if err != nil {
		return row, 0, err
	}
	line, _ = t.csv.FieldPos(0)
	address := map[string]string{}
	for i, c := range t.columns {
		text := cells[i]
		switch {
		case text == "":
		case c.attribute:
			if row.Attributes == nil {
				row.Attributes = Attributes{}
			}
			row.Attributes[c.name] = readCell(text)
			if c.text {
				row.Attributes[c.name] = Text(unguarded(text))
			}
		case slices.Contains(addressColumns, c.name):
			address[c.name] = text
		default:
			row.set(c.name, text)
		}
	}
	if len(row.Address) == 0 && len(address) > 0 {
		err = row.compose(address)
	}
	if len(row.Address) > 0 && !json.Valid(row.Address) {
		err = errors.New("address is not JSON")
	}
	if err != nil {
		return row, line, &LineError{line, err}
	}
	return row, line, nil
}

func (r *Row) set(name, text string) {
	switch name {
	case "id":
		r.ID = text
	case "channel":
		r.Channel = push.Channel(text)
	case "recipient":
		r.Recipient = text
	case "address":
		r.Address = json.RawMessage(text)
	case "tags":
		for t := range strings.FieldsFuncSeq(unguarded(text), func(c rune) bool { return c == ';' || c == ',' || c == '|' }) {
			if t = strings.TrimSpace(t); t != "" {
				r.Tags = append(r.Tags, t)
			}
		}
	case "locale":
		r.Locale = text
	case "timezone":
		r.Timezone = text
	case "status":
		r.Status = Status(text)
	}
}

// compose makes an address of the columns that hold its parts, and finds the channel by them where none is named.
func (r *Row) compose(parts map[string]string) (err error) {
	var v any
	var ch push.Channel
	switch {
	case parts["endpoint"] != "":
		ch, v = push.WebPush, WebPushAddress{parts["endpoint"], WebPushKeys{parts["p256dh"], parts["auth"]}}
	case parts["chat_id"] != "":
		ch, v = push.Telegram, map[string]string{"chat_id": parts["chat_id"]}
	case parts["url"] != "":
		ch, v = push.Webhook, map[string]string{"url": parts["url"]}
	default:
		ch, v = r.Channel, map[string]string{"token": parts["token"]}
	}
	if r.Channel == "" {
		r.Channel = ch
	}
	r.Address, err = marshal(v)
	return err
}

// LineError is what is wrong with one line of a table.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

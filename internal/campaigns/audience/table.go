package audience

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// tableColumns are the columns of every table of endpoints; attributes.NAME for each attribute follow.
var tableColumns = []string{"id", "channel", "recipient", "address", "tags", "locale", "timezone", "status", "disabled_reason", "created_at", "last_seen_at"}

// Table writes endpoints as CSV.
type Table struct {
	columns []string
	names   []string
	begun   bool
}

// NewTable begins a table with columns for these attributes, and with a column for addresses if addresses is true.
func NewTable(attributes []string, addresses bool) *Table {
	t := &Table{columns: tableColumns, names: attributes}
	if !addresses {
		t.columns = slices.DeleteFunc(slices.Clone(tableColumns), isAddress)
	}
	return t
}

func isAddress(column string) bool { return column == "address" }

// Rows returns the lines of endpoints; the first call also returns the headings.
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

// cell formats an attribute so that ReadCell returns the same value.
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

// risky are the characters that begin a formula in spreadsheets.
const risky = "=+-@\t\r"

// guarded prepends an apostrophe to a text that a spreadsheet would take for a formula, and to a text that looks guarded already.
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

// ReadCell parses a cell written by Table.
func ReadCell(s string) Value {
	if rest := unguarded(s); rest != s {
		return Text(rest)
	}
	return Guess(s)
}

// Unguarded returns a text without the apostrophe that marks it as text for spreadsheets.
func Unguarded(s string) string { return unguarded(s) }

// Row is a line of a table or export, in the API's form of a registration.
type Row struct {
	ID         string          `json:"id,omitempty"`
	Channel    push.Channel    `json:"channel"`
	Recipient  string          `json:"recipient,omitempty"`
	Address    json.RawMessage `json:"address,omitempty"`
	Tags       []string        `json:"tags,omitempty"`
	Attributes Attributes      `json:"attributes,omitempty"`
	Locale     string          `json:"locale,omitempty"`
	Timezone   string          `json:"timezone,omitempty"`
	CreatedAt  time.Time       `json:"-"` // as another service says; zero: now
	LastSeenAt time.Time       `json:"-"`
	Status     Status          `json:"-"` // as the table says
	Warnings   []string        `json:"-"` // cells of the line whose kind differs from their columns'
}

// LineError is an error in one line of a table.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

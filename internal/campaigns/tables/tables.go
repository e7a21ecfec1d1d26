// Package tables reads endpoints from files of people and other programs, CSV and NDJSON: it detects encoding, separator and kinds of
// columns, reports them, and rejects invalid lines one by one. Its memory does not grow with the file.
package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/textfile"
)

// Options describe a file. The reader detects those that are empty.
type Options struct {
	Format    string // csv, else NDJSON
	Encoding  string
	Separator string
}

// AskError reports a file whose encoding cannot be detected: a person has to say it.
type AskError = textfile.AskError

// Reader reads the endpoints of a file.
type Reader struct {
	rows interface {
		Next() (row audience.Row, line int, err error)
	}
	encoding, separator string
	columns             func() []Column
}

// Open begins to read a file.
func Open(r io.Reader, o Options) (*Reader, error) {
	in, err := textfile.Open(r, o.Encoding)
	if err != nil {
		return nil, err
	}
	l := newLines(in.Reader, in.Decoded)
	if o.Format != "csv" {
		return &Reader{rows: &ndjson{l}, encoding: in.Encoding, columns: func() []Column { return nil }}, nil
	}
	c, err := newCSV(l, o.Separator)
	if err != nil {
		return nil, err
	}
	return &Reader{rows: c, encoding: in.Encoding, separator: SeparatorName(c.records.separator), columns: func() []Column { return c.columns }}, nil
}

// Next returns the next row with its line number; io.EOF after the last. An error that is a *audience.LineError affects only this line.
func (r *Reader) Next() (row audience.Row, line int, err error) { return r.rows.Next() }

// Found describes for people how the file is interpreted.
func (r *Reader) Found() string {
	if r.separator == "" {
		return r.encoding
	}
	return r.encoding + ", cells separated by " + r.separator
}

// Encoding returns the name of the file's encoding.
func (r *Reader) Encoding() string { return r.encoding }

// Separator returns the name of a CSV file's separator of cells. NDJSON has none.
func (r *Reader) Separator() string { return r.separator }

// Columns returns the columns of a CSV file and their uses. NDJSON has none.
func (r *Reader) Columns() []Column { return r.columns() }

// ndjson reads one JSON object a line.
type ndjson struct{ lines *lines }

func (n *ndjson) Next() (row audience.Row, number int, err error) {
	for {
		l, err := n.lines.next()
		if err != nil {
			return row, 0, err
		}
		if l.err != nil {
			return row, l.number, lineError(l.number, l.err)
		}
		text := bytes.TrimSpace(l.text)
		if len(text) == 0 {
			continue
		}
		if row, err = parseObject(text); err != nil {
			return row, l.number, lineError(l.number, err)
		}
		return row, l.number, nil
	}
}

func parseObject(text []byte) (row audience.Row, err error) {
	if text[0] == '[' {
		return row, errors.New("begins a JSON list: NDJSON has one object a line, without a list around them")
	}
	var one struct {
		audience.Row
		Status         audience.Status `json:"status"`
		CreatedAt      any             `json:"created_at"` // present in exports; ignored, because the new endpoint gets its own
		UpdatedAt      any             `json:"updated_at"`
		LastSeenAt     any             `json:"last_seen_at"`
		DisabledReason any             `json:"disabled_reason"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // no field may be ignored silently
	if err := d.Decode(&one); err != nil {
		return row, fmt.Errorf("cannot be read as JSON: %w", err)
	}
	if d.InputOffset() < int64(len(text)) {
		return row, errors.New("has more than one JSON value")
	}
	one.Row.Status = one.Status
	return one.Row, nil
}

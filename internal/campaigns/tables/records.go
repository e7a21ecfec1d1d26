package tables

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

func validUTF8(b []byte) bool { return utf8.Valid(b) }

// record is the cells of one row.
type record struct {
	line  int // line of the file where the record begins
	cells []string
	err   error // why the record cannot be read; later ones can
}

// records reads CSV record by record. encoding/csv splits records into cells; this type finds their ends itself, so that an unclosed quote
// affects only its own line.
type records struct {
	lines     *lines
	separator byte
	buf       *bufio.Reader // of csv
}

// next returns the next record that is not empty; io.EOF after the last.
func (r *records) next() (record, error) {
	for {
		first, err := r.lines.next()
		if err != nil {
			return record{}, err
		}
		if first.err != nil {
			return record{line: first.number, err: first.err}, nil
		}
		text, err := r.complete(first)
		var stray *strayError
		switch {
		case errors.As(err, &stray):
			return record{line: first.number, err: err}, nil
		case err != nil:
			return record{}, err
		}
		cells, err := r.split(text)
		if err != nil {
			return record{line: first.number, err: err}, nil
		}
		if strings.Join(cells, "") != "" { // spreadsheets write rows of separators
			return record{line: first.number, cells: cells}, nil
		}
	}
}

// strayError is a misplaced quote.
type strayError struct{ what string }

func (e *strayError) Error() string { return e.what }

// complete adds the following lines of a record. If the quotes do not match, it puts these lines back.
func (r *records) complete(first line) ([]byte, error) {
	var s quotes
	s.read(first.text, r.separator)
	text := first.text
	var more []line
	for s.state == quoted {
		next, err := r.lines.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err == nil {
			more = append(more, next)
		}
		if err != nil || next.err != nil || len(more) > maxLines || len(text)+len(next.text) > maxRecord {
			r.lines.giveBack(more)
			return nil, &strayError{"has a quote \" that is not closed"}
		}
		text = append(text, next.text...)
		s.read(next.text, r.separator)
	}
	if s.state != broken {
		return text, nil
	}
	r.lines.giveBack(more)
	if len(more) > 0 {
		return nil, &strayError{"has a quote \" that is not closed"}
	}
	return nil, &strayError{"has text behind a cell that a quote \" ends: write \"\" for a quote within one"}
}

// quotes tracks whether a position in a record is within quotes.
type quotes struct{ state quoteState }

type quoteState uint8

const (
	begin  quoteState = iota // of a cell
	bare                     // within an unquoted cell, where a quote is an ordinary character
	quoted                   // within quotes
	ended                    // after a quote that ends a cell, or is the first of two
	broken                   // an invalid character follows a quote
)

func (q *quotes) read(text []byte, separator byte) {
	text = bytes.TrimRight(text, "\r\n")
	for _, c := range text {
		switch {
		case q.state == broken:
			return
		case q.state == quoted && c == '"':
			q.state = ended
		case q.state == quoted:
		case q.state == ended && c == '"':
			q.state = quoted
		case c == separator:
			q.state = begin
		case q.state == ended:
			q.state = broken
		case q.state == begin && c == '"':
			q.state = quoted
		default:
			q.state = bare
		}
	}
}

// split splits a record into cells. encoding/csv would replace \r\n in cells by \n, so \r is temporarily replaced by a zero byte: zero
// bytes were rejected before.
func (r *records) split(text []byte) ([]string, error) {
	text = bytes.TrimRight(text, "\r\n")
	kept := bytes.IndexByte(text, '\r') >= 0
	if kept {
		text = bytes.ReplaceAll(text, []byte("\r"), []byte{0})
	}
	r.buf.Reset(bytes.NewReader(text))
	c := csv.NewReader(r.buf)
	c.Comma, c.LazyQuotes, c.FieldsPerRecord = rune(r.separator), true, -1
	cells, err := c.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil // an empty line
	case err != nil:
		return nil, fmt.Errorf("cannot be read as CSV: %w", err)
	}
	for i := range cells {
		if kept {
			cells[i] = strings.ReplaceAll(cells[i], "\x00", "\r")
		}
		if line, column := c.FieldPos(i); nulls[cells[i]] && !opensQuote(text, line, column) {
			cells[i] = ""
		}
	}
	return cells, nil
}

// nulls are the unquoted words that databases (phpMyAdmin, MySQL) write for a column without a value.
var nulls = map[string]bool{"NULL": true, `\N`: true}

// opensQuote reports whether a quote is at this line and column of a record, both counted from 1.
func opensQuote(text []byte, line, column int) bool {
	for ; line > 1; line-- {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return column <= len(text) && text[column-1] == '"'
}

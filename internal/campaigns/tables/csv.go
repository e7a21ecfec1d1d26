package tables

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// Limits of the first rows, which determine the kinds of columns and are kept until they are returned.
const (
	sampleRows  = 1000
	sampleBytes = 1 << 20
)

// csvReader reads endpoints from CSV with headings.
type csvReader struct {
	records *records
	columns []Column
	table   table
	ahead   []record
	after   error // what came after those
}

func newCSV(in *lines, named string) (*csvReader, error) {
	r := &csvReader{records: &records{lines: in, buf: bufio.NewReaderSize(nil, MaxLine)}}
	var err error
	if named != "" {
		if r.records.separator, err = namedSeparator(named); err != nil {
			return nil, err
		}
	}
	head, err := r.head()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the table is empty: its first line must name the columns")
	case err != nil:
		return nil, fmt.Errorf("read the names of the columns: %w", err)
	}
	if r.columns, r.table, err = columns(head.cells); err != nil {
		return nil, err
	}
	r.sample()
	return r, nil
}

// head reads the headings, which determine the separator.
func (r *csvReader) head() (record, error) {
	for {
		first, err := r.records.lines.next()
		if err != nil {
			return record{}, err
		}
		if first.err != nil {
			return record{}, lineError(first.number, first.err)
		}
		if c, ok := excelHint(first.text); ok {
			if r.records.separator == 0 {
				r.records.separator = c
			}
			continue
		}
		if strings.TrimSpace(string(first.text)) == "" {
			continue
		}
		if r.records.separator == 0 {
			r.records.separator = findSeparator(first.text)
		}
		r.records.lines.giveBack([]line{first})
		head, err := r.records.next()
		if err == nil && head.err != nil {
			err = lineError(head.line, head.err)
		}
		return head, err
	}
}

// sample reads the first rows, which determine the kinds of the columns.
func (r *csvReader) sample() {
	for size := 0; len(r.ahead) < sampleRows && size < sampleBytes; {
		row, err := r.records.next()
		if err != nil {
			r.after = err
			break
		}
		r.ahead = append(r.ahead, row)
		for _, cell := range row.cells {
			size += len(cell)
		}
	}
	cells := make([]string, 0, len(r.ahead))
	for i := range r.columns {
		c := &r.columns[i]
		cells = cells[:0]
		for _, row := range r.ahead {
			if row.err == nil && i < len(row.cells) {
				cells = append(cells, row.cells[i])
				if row.cells[i] != "" && len(c.Samples) < shownSamples {
					c.Samples = append(c.Samples, row.cells[i])
				}
			}
		}
		if c.use == attribute && c.kind == open {
			c.kind, c.why = settle(cells)
		}
	}
}

func (r *csvReader) next() (record, error) {
	if len(r.ahead) > 0 {
		row := r.ahead[0]
		r.ahead[0] = record{}
		r.ahead = r.ahead[1:]
		return row, nil
	}
	if r.after != nil {
		return record{}, r.after
	}
	return r.records.next()
}

// Next implements Rows.
func (r *csvReader) Next() (row audience.Row, number int, err error) {
	rec, err := r.next()
	if err != nil {
		return row, 0, err
	}
	if err = rec.err; err == nil {
		row, err = r.row(rec.cells)
	}
	if err != nil {
		return row, rec.line, lineError(rec.line, err)
	}
	return row, rec.line, nil
}

func (r *csvReader) row(cells []string) (row audience.Row, err error) {
	if len(cells) < len(r.columns) {
		return row, fmt.Errorf("has %d cells; the first line names %d columns", len(cells), len(r.columns))
	}
	for i := len(r.columns); i < len(cells); i++ {
		if cells[i] != "" {
			return row, fmt.Errorf("has %d cells; the first line names %d columns", len(cells), len(r.columns))
		}
	}
	at := map[string]string{}
	for i := range r.columns {
		c, cell := &r.columns[i], cells[i]
		switch {
		case cell == "":
		case c.Heading == "":
			return row, fmt.Errorf("has %.40q in column %d, which has no name", cell, i+1)
		case c.use == address:
			at[c.Name] = cell
		default:
			if err := r.set(&row, c, cell); err != nil {
				return row, err
			}
		}
	}
	if r.table.oneSignal {
		r.identify(&row, at, cells)
	}
	if len(row.Address) == 0 && len(at) > 0 {
		if err := compose(&row, at); err != nil {
			return row, err
		}
	}
	return row, nil
}

// set sets a row's field from a cell.
func (r *csvReader) set(row *audience.Row, c *Column, cell string) error {
	switch c.use {
	case dropped:
		return nil
	case attribute:
		v, warning, err := c.value(cell)
		if warning != "" {
			row.Warnings = append(row.Warnings, warning)
		}
		add(row, c.Name, v)
		return err
	case members:
		return setMembers(row, "attributes", cell)
	case heeded:
		return heed(row, c.Name, cell)
	}
	switch c.Name {
	case "id":
		row.ID = cell
	case "channel":
		row.Channel = push.Channel(cell)
	case "recipient":
		row.Recipient = cell
	case "address", "subscription":
		return setAddress(row, c.Name, cell)
	case "tags":
		return setTags(row, cell)
	case "locale":
		row.Locale = cell
	case "timezone":
		row.Timezone = cell
	}
	return nil
}

func add(row *audience.Row, name string, v audience.Value) {
	if row.Attributes == nil {
		row.Attributes = audience.Attributes{}
	}
	row.Attributes[name] = v
}

func setAddress(row *audience.Row, name, cell string) error {
	if !json.Valid([]byte(cell)) {
		return fmt.Errorf("%s is not JSON", name)
	}
	row.Address = json.RawMessage(cell)
	if name == "subscription" && row.Channel == "" {
		row.Channel = push.WebPush
	}
	return nil
}

// setTags parses tags: a JSON list; a JSON object, which other services call tags and which becomes attributes; or words separated by ; ,
// or |.
func setTags(row *audience.Row, cell string) error {
	switch cell = audience.Unguarded(cell); cell[:min(len(cell), 1)] {
	case "[":
		if err := json.Unmarshal([]byte(cell), &row.Tags); err != nil {
			return errors.New("tags is not a JSON list of texts")
		}
		return nil
	case "{":
		return setMembers(row, "tags", cell)
	}
	for t := range strings.FieldsFuncSeq(cell, func(c rune) bool { return c == ';' || c == ',' || c == '|' }) {
		if t = strings.TrimSpace(t); t != "" {
			row.Tags = append(row.Tags, t)
		}
	}
	return nil
}

func setMembers(row *audience.Row, name, cell string) error {
	values, _, err := audience.DecodeAttributes([]byte(cell))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for name, v := range values {
		add(row, name, v)
	}
	return nil
}

// heed sets a row's status from a cell, which determines whether the line is registered.
func heed(row *audience.Row, name, cell string) error {
	if name == "invalid_identifier" {
		v, ok := readTruth(cell, true)
		if !ok {
			return fmt.Errorf("%s: %.40q is neither true nor false", name, cell)
		}
		if v == audience.Bool(true) {
			row.Status = audience.Disabled
		}
		return nil
	}
	switch status := audience.Status(strings.ToLower(cell)); status {
	case audience.Active, audience.Disabled:
		row.Status = status
		return nil
	}
	return fmt.Errorf("status: %.40q is none of active, disabled", cell)
}

// identify stores OneSignal's identifier in the field for the kind of device.
func (r *csvReader) identify(row *audience.Row, at map[string]string, cells []string) {
	id := at["identifier"]
	delete(at, "identifier")
	kind := ""
	if i := slices.IndexFunc(r.columns, func(c Column) bool { return normal(c.Heading) == "device_type" }); i >= 0 {
		kind = strings.ToLower(cells[i])
	}
	switch {
	case id == "":
	case strings.HasPrefix(id, "https://"):
		at["endpoint"] = id
	case kind == "0" || kind == "ios":
		at["token"], row.Channel = id, push.APNs
	case kind == "1" || kind == "android":
		at["token"], row.Channel = id, push.FCM
	default:
		at["token"] = id // the channel's validation rejects this, unless the command names a channel
	}
}

// compose makes an address from the columns with its parts, and determines the channel from them if none is named.
func compose(row *audience.Row, at map[string]string) (err error) {
	var v any
	ch := row.Channel
	switch {
	case at["endpoint"] != "":
		ch, v = push.WebPush, audience.WebPushAddress{Endpoint: plainURL(at["endpoint"]), Keys: audience.WebPushKeys{P256DH: at["p256dh"], Auth: at["auth"]}}
	case at["chat_id"] != "":
		ch, v = push.Telegram, map[string]string{"chat_id": at["chat_id"]}
	case at["url"] != "":
		ch, v = push.Webhook, map[string]string{"url": plainURL(at["url"])}
	default:
		v = map[string]string{"token": at["token"]}
	}
	if row.Channel == "" {
		row.Channel = ch
	}
	row.Address, err = audience.MarshalAddress(v)
	return err
}

// plainURL undoes the escaping of a program that wrote the URL into HTML: &#038; becomes &. No address's URL has a fragment.
func plainURL(s string) string {
	if strings.Contains(s, "&#") || strings.Contains(s, "&amp;") {
		return html.UnescapeString(s)
	}
	return s
}

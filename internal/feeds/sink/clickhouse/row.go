package clickhouse

import (
	"encoding/json"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

// appendRow appends an event as a row of the table: a line of JSON without empty fields. A batch has thousands of rows: with encoding/json,
// reflection took half of a sink's time.
func appendRow(b []byte, e *event.Event, s *second) []byte {
	b = appendText(append(b, `{"app":`...), e.App)
	b = strconv.AppendUint(append(b, `,"event_id":`...), e.ID, 10)
	b = appendText(append(b, `,"type":`...), string(e.Type))
	b = append(s.append(append(b, `,"at":"`...), e.At), '"')
	b = appendText(append(b, `,"id":`...), e.Note)
	b = appendText(append(b, `,"recipient":`...), e.To)
	if e.Channel != "" {
		b = appendText(append(b, `,"channel":`...), e.Channel)
	}
	if e.Category != "" {
		b = appendText(append(b, `,"category":`...), e.Category)
	}
	if e.Step != 0 {
		b = strconv.AppendInt(append(b, `,"step":`...), int64(e.Step), 10)
	}
	if e.Detail != "" {
		b = appendText(append(b, `,"detail":`...), e.Detail)
	}
	if e.Reconciled {
		b = append(b, `,"reconciled":true`...)
	}
	if e.TookKnown {
		b = strconv.AppendInt(append(b, `,"latency_ms":`...), min(e.Took.Milliseconds(), 1<<32-1), 10)
	}
	return append(b, "}\n"...)
}

// second caches the written form of one second: the events of a batch lie within few seconds.
type second struct {
	of   int64 // Unix time
	text []byte
}

// append appends a time with its milliseconds.
func (s *second) append(b []byte, at time.Time) []byte {
	if of := at.Unix(); s.text == nil || s.of != of {
		s.of, s.text = of, at.UTC().AppendFormat(s.text[:0], "2006-01-02T15:04:05.")
	}
	ms := at.Nanosecond() / 1e6
	return append(append(b, s.text...), '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z')
}

// appendText appends a string of JSON. Invalid UTF-8 is replaced.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string has an encoding
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

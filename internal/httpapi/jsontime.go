package httpapi

import (
	"encoding/json"
	"time"
)

// moment is a time as the API writes it: UTC with milliseconds; the zero time is null.
type moment time.Time

// MarshalJSON implements json.Marshaler.
func (m moment) MarshalJSON() ([]byte, error) {
	if time.Time(m).IsZero() {
		return []byte("null"), nil
	}
	return appendTime(nil, time.Time(m)), nil
}

// value answers with a value that encoding/json encodes, for routes where speed does not matter.
func (c *call) value(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.json(status, append(b, '\n'))
}

// list is a page of a list. NextCursor is null on the last one.
type list[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

func newList[T any](n int, cursor string) list[T] {
	l := list[T]{Items: make([]T, 0, n)}
	if cursor != "" {
		l.NextCursor = &cursor
	}
	return l
}

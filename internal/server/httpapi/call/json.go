package call

import (
	"encoding/json"
	"time"
)

// Moment is a time as the API writes it: UTC with milliseconds; the zero time is null.
type Moment time.Time

// MarshalJSON implements json.Marshaler.
func (m Moment) MarshalJSON() ([]byte, error) {
	if time.Time(m).IsZero() {
		return []byte("null"), nil
	}
	return AppendTime(nil, time.Time(m)), nil
}

// Value answers with a value that encoding/json encodes, for routes where speed does not matter.
func (c *Call) Value(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.JSON(status, append(b, '\n'))
}

// List is a page of a list. NextCursor is null on the last page.
type List[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

// NewList begins a page with room for n items; an empty cursor means the last page.
func NewList[T any](n int, cursor string) List[T] {
	l := List[T]{Items: make([]T, 0, n)}
	if cursor != "" {
		l.NextCursor = &cursor
	}
	return l
}

// AppendMoment appends a further member that is a time; the zero time is null.
func AppendMoment(b []byte, name string, t time.Time) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	if t.IsZero() {
		return append(b, "null"...)
	}
	return AppendTime(b, t)
}

// OrNull returns nil for an empty text, so that JSON has null instead.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

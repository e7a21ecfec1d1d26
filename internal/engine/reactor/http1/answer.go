package http1

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// ownHead exceeds the size of an answer's head without the given fields, in bytes.
const ownHead = 256

// AppendAnswer appends an answer in net/http's format: fields are header lines in the order of their names. last means that the connection
// is closed after it.
func AppendAnswer(b []byte, status int, fields, body []byte, now time.Time, last bool) []byte {
	b = append(slices.Grow(b, ownHead+len(fields)+len(body)), "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	b = append(b, "\r\n"...)
	b = append(b, fields...)
	b = append(b, "Date: "...)
	b = now.UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	if last {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, "\r\n\r\n"...)
	return append(b, body...)
}

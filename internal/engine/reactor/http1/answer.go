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
	b = appendStatus(slices.Grow(b, ownHead+len(fields)+len(body)), status)
	b = append(b, fields...)
	b = appendDate(b, now)
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	if last {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, "\r\n\r\n"...)
	return append(b, body...)
}

func appendStatus(b []byte, status int) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	text := http.StatusText(status)
	if text == "" { // as net/http does
		text = "status code " + strconv.Itoa(status)
	}
	b = append(b, text...)
	return append(b, "\r\n"...)
}

func appendDate(b []byte, now time.Time) []byte {
	b = append(b, "Date: "...)
	b = now.UTC().AppendFormat(b, http.TimeFormat)
	return append(b, "\r\n"...)
}

// AppendWritten appends the answer that a handler has written, as net/http would send it. bodiless: the request was HEAD. last means that
// the connection is closed after it.
func AppendWritten(b []byte, status int, h http.Header, body []byte, bodiless bool, now time.Time, last bool) []byte {
	b = appendStatus(slices.Grow(b, ownHead+len(body)), status)
	_ = h.WriteSubset((*buffer)(&b), framing) // a buffer takes all
	if len(h["Date"]) == 0 {
		b = appendDate(b, now)
	}
	none := status == http.StatusNoContent || status == http.StatusNotModified
	switch length := h["Content-Length"]; {
	case none:
	case len(length) > 0 && bodiless:
		b = append(b, "Content-Length: "...)
		b = append(b, length[0]...)
		b = append(b, "\r\n"...)
	case !bodiless || len(body) > 0:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(body)), 10)
		b = append(b, "\r\n"...)
	}
	if last {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	if none || bodiless {
		return b
	}
	return append(b, body...)
}

// framing are the headers that say where an answer ends and what becomes of the connection.
var framing = map[string]bool{"Content-Length": true, "Connection": true, "Transfer-Encoding": true}

// buffer is a slice to which headers are written.
type buffer []byte

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (b *buffer) WriteString(s string) (int, error) {
	*b = append(*b, s...)
	return len(s), nil
}

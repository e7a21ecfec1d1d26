package frame

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/notify/notification"
)

// Headers are the headers of a request or an answer; some occur more than once, like Set-Cookie.
type Headers map[string][]string

// Check returns what is wrong with headers, or "".
func (h Headers) Check() string {
	size := 0
	for name, values := range h {
		if !isToken(name) {
			return fmt.Sprintf("have %.64q, which is not a header's name", name)
		}
		for _, v := range values {
			size += len(name) + len(v)
			if !isHeaderValue(v) {
				return fmt.Sprintf("have a value of %.64s with control characters or not in UTF-8", name)
			}
		}
	}
	if size > MaxHeaderBytes {
		return fmt.Sprintf("have %d bytes; at most %d are allowed", size, MaxHeaderBytes)
	}
	return ""
}

// contentType returns the content type in the headers, whose name may have any case; empty: there is none.
func (h Headers) contentType() string {
	for name, values := range h {
		if len(name) == len("Content-Type") && strings.EqualFold(name, "Content-Type") && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

// isToken reports whether s may be a header's name: a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenBytes = func() (is [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		is[c] = true
	}
	return is
}()

func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

// readHeaders reads an object whose values are strings, or lists of strings for headers that repeat.
func readHeaders(v json.RawMessage) (h Headers, problem string) {
	var given map[string]json.RawMessage
	if json.Unmarshal(v, &given) != nil || given == nil {
		return nil, "must be an object of strings or lists of strings"
	}
	h = make(Headers, len(given))
	for name, raw := range given {
		if string(raw) == "null" { // some encoders write an empty list this way
			continue
		}
		if raw[0] == '[' {
			h[name], problem = texts(raw)
		} else {
			var one string
			one, problem = text(raw)
			h[name] = []string{one}
		}
		if problem != "" {
			return nil, "must be an object of strings or lists of strings"
		}
	}
	return h, ""
}

// Request asks a session for an answer.
type Request struct {
	ID, Subject         string
	Method, Path, Query string // for an HTTP request; else empty
	Headers             Headers
	ContentType         string
	Data                []byte
	Deadline            time.Time
}

// size is the approximate size of the frame in bytes; in JSON, data may take half as much again.
func (r *Request) size() int {
	n := 160 + len(r.ID) + len(r.Subject) + len(r.Path) + len(r.Query) + len(r.ContentType) + len(r.Data) + len(r.Data)/2
	for name, values := range r.Headers {
		for _, v := range values {
			n += len(name) + len(v) + 8
		}
	}
	return n
}

func (t textEncoding) Request(dst []byte, r *Request) []byte {
	dst = appendString(append(t.open(dst, ServerRequest), `{"request_id":`...), r.ID)
	dst = appendText(dst, "subject", r.Subject)
	dst = appendText(dst, "method", r.Method)
	dst = appendText(dst, "path", r.Path)
	dst = appendText(dst, "query", r.Query)
	if len(r.Headers) > 0 {
		dst = appendHeaders(append(dst, `,"headers":`...), r.Headers)
	}
	dst = t.appendBody(dst, r.Data, r.ContentType)
	dst = appendTime(append(dst, `,"deadline":`...), r.Deadline)
	return t.end(append(dst, '}'))
}

// appendBody does the same as appendData for an unchecked body. The body is written as bytes if it has no type, if it claims to be JSON and
// is not, or if it exceeds the limits within which all parsers read JSON. Line breaks between tokens are replaced only if one would end the
// frame.
func (t textEncoding) appendBody(dst, data []byte, contentType string) []byte {
	switch {
	case len(data) == 0:
		return appendText(dst, "content_type", contentType)
	case contentType != "" && !notification.IsJSON(contentType):
		return appendData(dst, data, contentType)
	case contentType == "" || !utf8.Valid(data) || !json.Valid(data) || notification.CheckJSON("", data) != nil:
		dst = base64.StdEncoding.AppendEncode(append(dst, `,"data_base64":"`...), data)
		return appendText(append(dst, '"'), "content_type", contentType)
	case t.events:
		return appendData(dst, data, contentType)
	}
	dst = append(append(dst, `,"data":`...), data...)
	if contentType == jsonType {
		return dst
	}
	return appendText(dst, "content_type", contentType)
}

func appendHeaders(dst []byte, h Headers) []byte {
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(h)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ':')
		if values := h[name]; len(values) == 1 {
			dst = appendString(dst, values[0])
		} else {
			dst = appendStrings(dst, values)
		}
	}
	return append(dst, '}')
}

func (protoEncoding) Request(dst []byte, r *Request) []byte {
	dst = openProto(dst, ServerRequest)
	body := len(dst)
	dst = appendProtoString(dst, 1, r.ID)
	dst = appendProtoString(dst, 2, r.Subject)
	dst = appendProtoString(dst, 3, r.Method)
	dst = appendProtoString(dst, 4, r.Path)
	dst = appendProtoString(dst, 5, r.Query)
	for name, values := range r.Headers { // in any order, like every protobuf map
		num := protowire.Number(6)
		if len(values) != 1 {
			num = 10
		}
		for _, v := range values {
			var buf [smallFrame]byte
			field := appendProtoString(appendProtoString(buf[:0], 1, name), 2, v)
			dst = protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), field)
		}
	}
	dst = appendProtoString(dst, 7, r.ContentType)
	if len(r.Data) > 0 {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 8, protowire.BytesType), r.Data)
	}
	dst = appendProtoInt(dst, 9, r.Deadline.UnixMilli())
	return putLength(dst, body)
}

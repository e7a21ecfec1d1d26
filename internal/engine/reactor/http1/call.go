package http1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// Call is the head of a plain request with any of the usual methods below one path.
type Call struct {
	Head
	Method string
	Target string      // as it was sent
	URL    *url.URL    // the same
	Header http.Header // as net/http gives it to handlers: without Host
}

// methods are the methods of plain requests. Others are left to a full HTTP server: CONNECT and TRACE are special, and the rest is rare.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}

const version = " HTTP/1.1"

// ReadCall parses the head of a request whose path begins with prefix, which begins and ends with a slash.
func ReadCall(b []byte, prefix string) (c Call, k Kind) {
	end := bytes.IndexByte(b, '\r')
	if end < 0 {
		end = len(b)
	}
	method, rest, complete := bytes.Cut(b[:end], []byte{' '})
	for _, m := range methods {
		if string(method) == m || !complete && strings.HasPrefix(m, string(method)) {
			c.Method = m
			break
		}
	}
	if n := min(len(rest), len(prefix)); c.Method == "" || string(rest[:n]) != prefix[:n] || bytes.IndexByte(rest, '\n') >= 0 {
		return c, Other
	}
	if end == len(b) {
		return c, partial(b)
	}
	target, plain := strings.CutSuffix(string(rest), version)
	if !plain || len(rest) < len(prefix) || strings.IndexByte(target, ' ') >= 0 {
		return c, Other
	}
	c.Length = -1
	count := 0
	if k := c.fields(b, end, func(f []byte) bool { count++; return c.field(f) }); k != Plain {
		return c, k
	}
	var err error
	if c.URL, err = url.ParseRequestURI(target); err != nil {
		return c, Other
	}
	c.Target = target
	c.Length = max(c.Length, 0)
	if !c.headers(string(b[end+2:c.Size-2]), count) {
		return c, Other
	}
	return c, Plain
}

// headers makes Header of the header lines, which fields has checked. It returns false if net/http would change one.
func (c *Call) headers(lines string, count int) bool {
	c.Header = make(http.Header, count)
	values := make([]string, count) // in one allocation
	for lines != "" {
		var line string
		line, lines, _ = strings.Cut(lines, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		name = textproto.CanonicalMIMEHeaderKey(name)
		switch name {
		case "Host":
			continue
		case "Pragma":
			return false // net/http may add a Cache-Control to it
		}
		value = textproto.TrimString(value)
		if before := c.Header[name]; before != nil {
			c.Header[name] = append(before, value)
			continue
		}
		values[0] = value
		c.Header[name], values = values[:1:1], values[1:]
	}
	return true
}

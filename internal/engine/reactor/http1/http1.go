// Package http1 tells plain HTTP/1.1 requests of one kind from everything else. A plain request is one that every server
// reads alike: one known line, headers of one line each without anything that decides where the body ends but one
// Content-Length, and nothing that asks for more than an answer. Whatever else may be right as well is not plain, and is for a
// whole HTTP server to judge; so nothing here has to refuse anything.
package http1

import "bytes"

// MaxHead is how long the line and the headers of a plain request may be together. A back end's head is about a tenth of that.
const MaxHead = 4 << 10

// MaxBody is how long the body of a plain request may be.
const MaxBody = 256 << 10

// Head is the line and the headers of a plain request. Its slices are of the input.
type Head struct {
	Size           int // bytes of line and headers, with the empty line
	Length         int // of the body, which follows
	Host           []byte
	Authorization  []byte // nil: there is none
	IdempotencyKey []byte // nil: there is none
	Traceparent    []byte // nil: there is none
	Tracestate     []byte // nil: there is none
}

// Kind says what the input begins with.
type Kind uint8

// Kinds.
const (
	Other   Kind = iota // no plain request, for whatever reason
	Partial             // it may become one: line and headers are not whole yet
	Plain
)

// Read reads the head of a request whose line is line, without its end.
func Read(b []byte, line string) (h Head, k Kind) {
	if n := min(len(b), len(line)); string(b[:n]) != line[:n] {
		return h, Other
	}
	h.Length = -1
	at := len(line)
	for {
		if len(b) < at+2 {
			return h, partial(b)
		}
		if b[at] != '\r' || b[at+1] != '\n' {
			return h, Other
		}
		at += 2
		field := b[at:]
		n := bytes.IndexByte(field, '\r')
		switch {
		case n == 0 && len(field) < 2:
			return h, partial(b)
		case n == 0 && field[1] == '\n':
			h.Size = at + 2
			return h, h.whole()
		case n < 0 && bytes.IndexByte(field, '\n') < 0:
			return h, partial(b)
		case n < 0:
			return h, Other
		case !h.field(field[:n]):
			return h, Other
		}
		if at += n; at > MaxHead {
			return h, Other
		}
	}
}

func partial(b []byte) Kind {
	if len(b) > MaxHead {
		return Other
	}
	return Partial
}

// whole judges the headers together.
func (h *Head) whole() Kind {
	if h.Size > MaxHead || h.Host == nil || h.Length < 0 {
		return Other
	}
	return Plain
}

// field takes a header. It is false if that is not of a plain request.
func (h *Head) field(f []byte) bool {
	colon := bytes.IndexByte(f, ':')
	if colon <= 0 {
		return false
	}
	name, value := f[:colon], bytes.Trim(f[colon+1:], " \t")
	for _, c := range name {
		if !isName[c] {
			return false
		}
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	switch len(name) {
	case len("Host"):
		if is(name, "host") {
			return once(&h.Host, value)
		}
	case len("Expect"):
		return !is(name, "expect")
	case len("Trailer"):
		return !is(name, "trailer") && !is(name, "upgrade")
	case len("Connection"):
		if is(name, "tracestate") {
			return once(&h.Tracestate, value)
		}
		return !is(name, "connection") || is(value, "keep-alive")
	case len("Traceparent"):
		if is(name, "traceparent") {
			return once(&h.Traceparent, value)
		}
	case len("Authorization"):
		if is(name, "authorization") {
			return once(&h.Authorization, value)
		}
	case len("Content-Length"):
		if is(name, "content-length") {
			return h.Length < 0 && h.length(value)
		}
	case len("Idempotency-Key"):
		if is(name, "idempotency-key") {
			return once(&h.IdempotencyKey, value)
		}
	case len("Content-Encoding"):
		return !is(name, "content-encoding")
	case len("Transfer-Encoding"):
		return !is(name, "transfer-encoding")
	}
	return true
}

// once sets a value that must be given only once and not be empty.
func once(into *[]byte, value []byte) bool {
	if *into != nil || len(value) == 0 {
		return false
	}
	*into = value
	return true
}

// length reads a Content-Length in its usual form: only digits, and few of them.
func (h *Head) length(value []byte) bool {
	if len(value) == 0 || len(value) > len("262144") {
		return false
	}
	n := 0
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
		n = 10*n + int(c-'0')
	}
	h.Length = n
	return n <= MaxBody
}

// is compares without regard to case; name is in small letters.
func is(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}

// isName are the bytes of a header's name (RFC 9110 section 5.6.2).
var isName = func() (t [256]bool) {
	for c := range t {
		t[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

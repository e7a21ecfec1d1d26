// Package http1 recognises plain HTTP/1.1 requests of one kind. A plain request is one that every server reads in the same way: it has one
// known request line and headers of one line each; only one Content-Length determines where the body ends; and nothing in it requires more
// than an answer. Any other request, even a valid one, is left to a full HTTP server, so this package need not reject anything.
package http1

import "bytes"

// MaxHead limits the request line and the headers of a plain request together, in bytes. A back end's head has about a tenth of that.
const MaxHead = 4 << 10

// MaxBody limits the body of a plain request, in bytes.
const MaxBody = 256 << 10

// Head holds the request line and the headers of a plain request. Its slices refer to the input.
type Head struct {
	Size           int // bytes of line and headers, including the empty line
	Length         int // of the body, which follows
	Host           []byte
	Authorization  []byte // nil: there is none
	IdempotencyKey []byte // nil: there is none
	Traceparent    []byte // nil: there is none
	Tracestate     []byte // nil: there is none
}

// Kind is what the input begins with.
type Kind uint8

// Kinds.
const (
	Other   Kind = iota // not a plain request
	Partial             // may become one: line and headers are incomplete
	Plain
)

// Read parses the head of a request whose request line is line, without its line end.
func Read(b []byte, line string) (h Head, k Kind) {
	if n := min(len(b), len(line)); string(b[:n]) != line[:n] {
		return h, Other
	}
	h.Length = -1
	k = h.fields(b, len(line), func(f []byte) bool { return h.field(f) })
	if k == Plain && h.Length < 0 {
		k = Other
	}
	return h, k
}

// fields reads the headers after a request line of at bytes, and passes each to take, which returns false if a plain request must not have it.
func (h *Head) fields(b []byte, at int, take func([]byte) bool) Kind {
	for {
		if len(b) < at+2 {
			return partial(b)
		}
		if b[at] != '\r' || b[at+1] != '\n' {
			return Other
		}
		at += 2
		field := b[at:]
		n := bytes.IndexByte(field, '\r')
		switch {
		case n == 0 && len(field) < 2:
			return partial(b)
		case n == 0 && field[1] == '\n':
			h.Size = at + 2
			return h.whole()
		case n < 0 && bytes.IndexByte(field, '\n') < 0:
			return partial(b)
		case n < 0:
			return Other
		case !take(field[:n]):
			return Other
		}
		if at += n; at > MaxHead {
			return Other
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
	if h.Size > MaxHead || h.Host == nil {
		return Other
	}
	return Plain
}

// field handles a header. It returns false if a plain request must not have it.
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

// once sets a value that must occur only once and must not be empty.
func once(into *[]byte, value []byte) bool {
	if *into != nil || len(value) == 0 {
		return false
	}
	*into = value
	return true
}

// length parses a Content-Length in its usual form: only digits, and few of them.
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

// is compares case-insensitively; name must be in lower case.
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

// isName marks the bytes that are valid in a header's name (RFC 9110 section 5.6.2).
var isName = func() (t [256]bool) {
	for c := range t {
		t[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

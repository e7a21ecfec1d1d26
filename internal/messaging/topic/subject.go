package topic

import (
	"errors"
	"fmt"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// MaxData is the largest message of a topic, in bytes.
const MaxData = 64 << 10

// MaxHeader is the most bytes of headers that a NATS client may send with a message.
const MaxHeader = 32 << 10

// Errors of a bus that callers distinguish.
var (
	ErrNoResponders = errors.New("nobody serves this subject")
	ErrUnavailable  = errors.New("the message bus cannot be reached now")
)

// Header are a message's headers by name. A name may have several values, whose order counts.
type Header map[string][]string

// Get is the first value of a header; names are compared as they are written.
func (h Header) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Check refuses headers that would be read as something else: names that are no token of RFC 9110, and values with CR,
// LF or NUL in them.
func (h Header) Check() error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }) {
			return notification.BadField("headers", "%.100q is not the name of a header", name)
		}
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") {
				return notification.BadField("headers", "the value of %.100s has a line break or a NUL byte", name)
			}
		}
	}
	return nil
}

// Message is a message on the bus.
type Message struct {
	Subject string // within the app: "t.rides.oslo", "r.orders.get", or an inbox
	Reply   string // where an answer is to go, within the app; empty: none is expected
	Header  Header
	Data    []byte
}

// Prefixes of subjects within an app.
const (
	topics   = "t."
	requests = "r."
)

// Topic is the subject of a topic, or of a pattern of topics, within its app.
func Topic(name string) string { return topics + name }

// Request is the subject of a request, or of a pattern of requests, within its app.
func Request(name string) string { return requests + name }

// CutTopic takes the topic out of a subject within an app; ok: it is one.
func CutTopic(subject string) (name string, ok bool) { return strings.CutPrefix(subject, topics) }

// CutRequest takes the name of a request out of a subject within an app; ok: it is one.
func CutRequest(subject string) (name string, ok bool) { return strings.CutPrefix(subject, requests) }

// tokenByte are the allowed bytes of a token: those of names without the dot.
var tokenByte = func() (t [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:@+-" {
		t[c] = true
	}
	return t
}()

// EncodeToken writes any text as one token: a byte that must not stand in one becomes %XX, so that two texts never
// become the same token. An empty text, which no name has, becomes "_".
func EncodeToken(s string) string {
	if s == "" {
		return "_"
	}
	plain := 0
	for plain < len(s) && tokenByte[s[plain]] {
		plain++
	}
	if plain == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:plain])
	for i := plain; i < len(s); i++ {
		if c := s[i]; tokenByte[c] {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// DecodeToken is the text that EncodeToken wrote.
func DecodeToken(tok string) string {
	if !strings.Contains(tok, "%") {
		return tok
	}
	var b strings.Builder
	for i := 0; i < len(tok); i++ {
		if tok[i] == '%' && isEscape(tok[i:]) {
			b.WriteByte(unhex(tok[i+1])<<4 | unhex(tok[i+2]))
			i += 2
			continue
		}
		b.WriteByte(tok[i])
	}
	return b.String()
}

// isEscape reports whether s begins with %XX as EncodeToken writes it: one spelling for each byte, and none for bytes
// that need none.
func isEscape(s string) bool {
	return len(s) >= 3 && isHex(s[1]) && isHex(s[2]) && !tokenByte[unhex(s[1])<<4|unhex(s[2])]
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'F' }

func unhex(c byte) byte {
	if c >= 'A' {
		return c - 'A' + 10
	}
	return c - '0'
}

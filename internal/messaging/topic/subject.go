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

// Get returns the first value of a header; the case of names matters.
func (h Header) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Check refuses headers that a reader could misread: names that are no token of RFC 9110, and values that contain CR, LF or NUL.
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
	Reply   string // subject for the answer, within the app; empty: no answer is expected
	Header  Header
	Data    []byte
}

// Prefixes of subjects within an app.
const (
	topics   = "t."
	requests = "r."
)

// Topic returns the subject of a topic, or of a pattern of topics, within its app.
func Topic(name string) string { return topics + name }

// Request returns the subject of a request, or of a pattern of requests, within its app.
func Request(name string) string { return requests + name }

// CutTopic returns the topic of a subject within an app; ok is false if the subject is not a topic's.
func CutTopic(subject string) (name string, ok bool) { return strings.CutPrefix(subject, topics) }

// CutRequest returns the name of a request from a subject within an app; ok is false if the subject is not a request's.
func CutRequest(subject string) (name string, ok bool) { return strings.CutPrefix(subject, requests) }

// tokenByte are the bytes allowed in a token: those of names, except the dot.
var tokenByte = func() (t [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:@+-" {
		t[c] = true
	}
	return t
}()

// EncodeToken writes any text as one token: a byte that is not allowed in a token becomes %XX, so that different texts give different
// tokens. An empty text, which no name has, becomes "_".
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

// DecodeToken returns the text of a token that EncodeToken wrote.
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

// isEscape reports whether s begins with %XX as EncodeToken writes it. Each byte has only one spelling, and bytes that need no escape have
// none.
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

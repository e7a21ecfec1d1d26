package godwit

import (
	"bytes"
	"net/http"
	"net/textproto"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// This file encodes and decodes requests and answers in protobuf without reflection, which took longer than a worker's handler. The
// protobuf library handles unusual frames.

// Field numbers of protobuf frames.
const (
	fieldRequest = 8  // of the server's
	fieldReply   = 11 // of ours
)

// quickMost is the longest message in bytes that quickRequest decodes: all texts of a message share one string.
const quickMost = 8 << 10

// quickRequest decodes a message that holds one request. nil: use the protobuf library instead.
func quickRequest(b []byte) *Request {
	if len(b) > quickMost {
		return nil
	}
	m := wireReader{b: b, text: string(b)}
	if num, typ := m.tag(); num != fieldRequest || typ != protowire.BytesType {
		return nil
	}
	from, to := m.bytes()
	if m.bad || to != len(b) {
		return nil
	}
	m.at = from
	r := &Request{Header: make(http.Header), Deadline: time.UnixMilli(0).UTC()}
	values := make([]string, 8) // enough for most requests, in one allocation
	for m.at < len(b) {
		switch num, typ := m.tag(); {
		case typ == protowire.BytesType && (num == 6 || num == 10):
			name, value := m.header()
			name = textproto.CanonicalMIMEHeaderKey(name)
			before := r.Header[name]
			switch {
			case before != nil && num == 6:
				return nil // an entry repeats a map's key: the last one would count
			case before != nil:
				r.Header[name] = append(before, value)
			default:
				if len(values) == 0 {
					values = make([]string, 8)
				}
				values[0] = value
				r.Header[name], values = values[:1:1], values[1:]
			}
		case typ == protowire.BytesType && num == 8:
			from, to := m.bytes()
			r.Data = bytes.Clone(b[from:to])
		case typ == protowire.BytesType && num >= 1 && num <= 7:
			*r.field(num) = m.string()
		case typ == protowire.VarintType && num == 9:
			r.Deadline = time.UnixMilli(int64(m.varint())).UTC()
		default:
			return nil
		}
		if m.bad {
			return nil
		}
	}
	return r
}

// field returns the text field of a request with this number.
func (r *Request) field(num protowire.Number) *string {
	return [...]*string{1: &r.id, 2: &r.Subject, 3: &r.Method, 4: &r.Path, 5: &r.Query, 7: &r.ContentType}[num]
}

// wireReader reads fields one after the other, until one is malformed.
type wireReader struct {
	b    []byte
	text string // the same
	at   int
	bad  bool
}

func (m *wireReader) tag() (protowire.Number, protowire.Type) {
	num, typ, n := protowire.ConsumeTag(m.b[m.at:])
	m.skip(n)
	return num, typ
}

func (m *wireReader) varint() uint64 {
	v, n := protowire.ConsumeVarint(m.b[m.at:])
	m.skip(n)
	return v
}

// bytes returns the positions where a field's bytes begin and end.
func (m *wireReader) bytes() (from, to int) {
	v, n := protowire.ConsumeBytes(m.b[m.at:])
	m.skip(n)
	return m.at - len(v), m.at
}

func (m *wireReader) string() string {
	from, to := m.bytes()
	if !utf8.Valid(m.b[from:to]) {
		m.bad = true
	}
	return m.text[from:to]
}

// header reads a HeaderField, or a map's entry, which has the same encoding.
func (m *wireReader) header() (name, value string) {
	from, end := m.bytes()
	m.at = from
	for m.at < end && !m.bad {
		switch num, typ := m.tag(); {
		case typ == protowire.BytesType && num == 1:
			name = m.string()
		case typ == protowire.BytesType && num == 2:
			value = m.string()
		default:
			m.bad = true
		}
	}
	m.bad = m.bad || m.at != end
	return name, value
}

func (m *wireReader) skip(n int) {
	if n < 0 {
		m.bad, n = true, 0
	}
	m.at += n
}

// quickReply appends the encoding of a reply's frame. false: use the protobuf library, which produces the error.
func quickReply(dst []byte, r *reply) ([]byte, bool) {
	ok := true
	text := func(dst []byte, num protowire.Number, s string) []byte {
		ok = ok && utf8.ValidString(s)
		return protowire.AppendString(protowire.AppendTag(dst, num, protowire.BytesType), s)
	}
	some := func(num protowire.Number, s string) {
		if s != "" {
			dst = text(dst, num, s)
		}
	}
	some(1, r.RequestID)
	some(2, r.ID)
	if r.Status != 0 {
		dst = protowire.AppendVarint(protowire.AppendTag(dst, 3, protowire.VarintType), uint64(r.Status))
	}
	for name, values := range r.Header {
		num := protowire.Number(4)
		if len(values) != 1 {
			num = 7
		}
		for _, v := range values {
			n := 2 + protowire.SizeBytes(len(name)) + protowire.SizeBytes(len(v))
			dst = protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.BytesType), uint64(n))
			dst = text(text(dst, 1, name), 2, v)
		}
	}
	if len(r.Data) > 0 {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 5, protowire.BytesType), r.Data)
	}
	some(6, r.ContentType)
	return dst, ok
}

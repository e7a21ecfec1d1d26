package http2

import (
	"strings"
	"sync"

	"golang.org/x/net/http2/hpack"
)

// headerDecoder decodes and validates header blocks (RFC 9113, section 8.2 and 8.3).
type headerDecoder struct {
	hp         *hpack.Decoder
	h          Headers
	size       int    // as SETTINGS_MAX_HEADER_LIST_SIZE counts
	kind       string // the content type, even if the list is too long
	pseudo     uint8  // those seen
	bad        string // why the list is not a valid request
	trailerBad string // why the list is not a valid trailer
}

var decoders = sync.Pool{New: func() any {
	d := &headerDecoder{}
	d.hp = hpack.NewDecoder(0, d.field)
	return d
}}

// newDecoder returns a decoder with an empty table of at most this size.
func newDecoder(table uint32) *headerDecoder {
	d := decoders.Get().(*headerDecoder)
	d.hp.SetAllowedMaxDynamicTableSize(table)
	d.hp.SetMaxDynamicTableSize(table)
	return d
}

// free returns the decoder to the pool, even after an error.
func (d *headerDecoder) free() {
	_ = d.hp.Close() // forgets half a field
	d.hp.SetMaxDynamicTableSize(0)
	d.clear()
	decoders.Put(d)
}

func (d *headerDecoder) clear() {
	clear(d.h.Fields)
	d.h = Headers{Fields: d.h.Fields[:0]}
	d.size, d.pseudo, d.kind, d.bad, d.trailerBad = 0, 0, "", "", ""
}

func (d *headerDecoder) decode(block []byte) error {
	d.clear()
	if _, err := d.hp.Write(block); err != nil {
		return &ConnError{Compression, err.Error()}
	}
	if err := d.hp.Close(); err != nil {
		return &ConnError{Compression, err.Error()}
	}
	switch {
	case d.bad != "":
	case d.pseudo&needed == connect:
		d.bad = "CONNECT is not served"
	case d.pseudo&needed != needed:
		d.bad = "a pseudo-header is missing"
	case d.h.Path == "":
		d.bad = ":path is empty"
	}
	return nil
}

const (
	sawMethod uint8 = 1 << iota
	sawScheme
	sawPath
	sawAuthority
	sawUnknown
	needed  = sawMethod | sawScheme | sawPath
	connect = sawMethod
)

// field takes one decoded field.
func (d *headerDecoder) field(f hpack.HeaderField) {
	if f.Name == "content-type" && len(f.Value) <= maxHeaderList {
		d.kind = f.Value
	}
	if d.size += int(f.Size()); d.size > maxHeaderList {
		d.h.Fields = d.h.Fields[:0] // it is refused: keep nothing
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		d.pseudoField(f)
		return
	}
	if reason := badField(&f); reason != "" {
		d.bad, d.trailerBad = reason, reason
	}
	d.h.Fields = append(d.h.Fields, f)
}

func (d *headerDecoder) pseudoField(f hpack.HeaderField) {
	saw, into := sawUnknown, (*string)(nil)
	switch f.Name {
	case ":method":
		saw, into = sawMethod, &d.h.Method
	case ":scheme":
		saw, into = sawScheme, &d.h.Scheme
	case ":path":
		saw, into = sawPath, &d.h.Path
	case ":authority":
		saw, into = sawAuthority, &d.h.Authority
	}
	switch {
	case into == nil:
		d.bad = "unknown pseudo-header"
	case d.pseudo&saw != 0:
		d.bad = "a pseudo-header comes twice"
	case len(d.h.Fields) > 0:
		d.bad = "a pseudo-header follows a regular field"
	case !validValue(f.Value):
		d.bad = "a pseudo-header has a forbidden byte"
	default:
		*into = f.Value
	}
	d.pseudo |= saw
}

func badField(f *hpack.HeaderField) string {
	if f.Name == "" || !validName(f.Name) {
		return "field name has a forbidden byte"
	}
	if !validValue(f.Value) {
		return "field value has a forbidden byte"
	}
	switch f.Name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return "connection-specific field"
	case "te":
		if f.Value != "trailers" {
			return "te is not trailers"
		}
	}
	return ""
}

// validName rejects upper case, blanks, control characters and characters beyond ASCII (RFC 9113, section 8.2.1).
func validName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' || c == ':' {
			return false
		}
	}
	return true
}

func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c == 0 || c == '\r' || c == '\n' {
			return false
		}
	}
	return true
}

package http2

import (
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2/hpack"
)

// headerBlock is an incomplete header block that spans several frames.
type headerBlock struct {
	id     uint32
	end    bool // END_STREAM
	frames int
	old    bool // it existed at the previous check for silence
	buf    []byte
}

// headers takes a HEADERS frame.
func (c *Conn) headers(flags byte, id uint32, p []byte) error {
	if id%2 == 0 {
		return &ConnError{ProtocolError, "HEADERS on a stream that is not the client's"}
	}
	p, err := unpad(flags, p)
	if err != nil {
		return err
	}
	selfish := false
	if flags&flagPriority != 0 {
		if len(p) < 5 {
			return &ConnError{FrameSize, "HEADERS is too short for its priority"}
		}
		selfish = dependsOn(p) == id
		p = p[5:]
	}
	if flags&flagEndHeaders == 0 {
		if c.in == nil {
			c.in = &input{}
		}
		c.in.block = &headerBlock{id: id, end: flags&flagEndStream != 0, buf: append([]byte(nil), p...)}
		return nil
	}
	if err := c.headerBlock(id, flags&flagEndStream != 0, p); err != nil || !selfish {
		return err
	}
	return c.streamError(id, ProtocolError, "a stream depends on itself")
}

func (c *Conn) continuation(flags byte, id uint32, p []byte) error {
	if c.in == nil || c.in.block == nil {
		return &ConnError{ProtocolError, "CONTINUATION without HEADERS"}
	}
	h := c.in.block
	h.frames++
	if h.frames > maxContinuation || len(h.buf)+len(p) > maxHeaderBlock {
		return &ConnError{EnhanceYourCalm, "the header block is too large"}
	}
	h.buf = append(h.buf, p...)
	if flags&flagEndHeaders == 0 {
		return nil
	}
	if c.in.block = nil; c.in.dec == nil {
		c.in = nil
	}
	return c.headerBlock(id, h.end, h.buf)
}

// headerBlock handles a complete header block: a new request, or trailers.
func (c *Conn) headerBlock(id uint32, end bool, block []byte) error {
	own := c.in != nil && c.in.dec != nil
	var d *headerDecoder
	if own {
		d = c.in.dec
	} else {
		d = newDecoder(0)
		defer d.free()
	}
	if err := d.decode(block); err != nil {
		return err
	}
	return c.request(d, id, end)
}

func (c *Conn) request(d *headerDecoder, id uint32, end bool) error {
	c.mu.Lock()
	if id <= c.lastID {
		defer c.mu.Unlock()
		return c.trailers(d, id, end)
	}
	if c.lastID == 0 {
		c.checkAt = now().add(c.srv.cfg.KeepAlive)
	}
	c.lastID = id
	switch {
	case int(c.open) >= c.srv.cfg.MaxStreams, c.flags&connDrained != 0:
		defer c.mu.Unlock()
		return c.refuse(id, RefusedStream)
	case d.bad != "":
		defer c.mu.Unlock()
		return c.refuse(id, ProtocolError)
	}
	s := &Stream{conn: c, id: id, sendWin: c.initWin, recvWin: int32(c.srv.cfg.StreamWindow)}
	if !s.setLength(d, end) {
		defer c.mu.Unlock()
		return c.refuse(id, ProtocolError)
	}
	if end {
		s.flags |= streamRemoteEnded
	}
	c.insert(s)
	c.mu.Unlock()
	if d.size > maxHeaderList {
		if h, ok := c.srv.handler.(LongHandler); ok {
			h.RefuseLong(s, d.kind)
			return nil
		}
		s.WriteHeaders(hpack.HeaderField{Name: ":status", Value: "431"})
		s.End()
		return nil
	}
	if strings.HasPrefix(d.h.Get("content-type"), "application/grpc") {
		c.shrinkTable()
	}
	if h := c.srv.handler.Open(s, &d.h); h != nil {
		s.handler = h
		if end {
			c.halfClosed(s)
		}
	}
	return nil
}

// trailers handles a header block on a stream that was opened before. Caller holds mu.
func (c *Conn) trailers(d *headerDecoder, id uint32, end bool) error {
	s := c.find(id)
	switch {
	case s == nil && d.pseudo == 0 && end: // sent before the client received the stream's reset
		return c.refuse(id, StreamClosed)
	case s == nil:
		return &ConnError{StreamClosed, "HEADERS on a closed stream"}
	case s.flags&streamRemoteEnded != 0:
		c.resetLocked(s, StreamClosed, "HEADERS after the end of the request")
		return nil
	case !end:
		c.resetLocked(s, ProtocolError, "trailers must end the stream")
		return nil
	case d.pseudo != 0 || d.trailerBad != "":
		c.resetLocked(s, ProtocolError, "bad field in trailers")
		return nil
	case !s.body(0, true):
		c.resetLocked(s, ProtocolError, "content-length does not match the body")
		return nil
	}
	s.flags |= streamRemoteEnded
	if s.handler != nil {
		c.mu.Unlock()
		s.handler.HalfClosed()
		c.mu.Lock()
	}
	return nil
}

// setLength stores the request's content-length, if it has one.
func (s *Stream) setLength(d *headerDecoder, end bool) bool {
	v := d.h.Get("content-length")
	if v == "" {
		return true
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil {
		return false
	}
	s.flags |= streamSized
	s.bodyEnd = uint32(n)
	return s.body(0, end)
}

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

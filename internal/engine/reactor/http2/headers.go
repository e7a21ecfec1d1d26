package http2

import (
	"strconv"
	"strings"

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

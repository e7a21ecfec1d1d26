// Package websocket is a push parser and frame writer for servers (RFC 6455): bytes in, messages out, no reads, no goroutine, and no memory
// on an idle connection beyond the Parser itself. It does not do the opening handshake and supports no extension.
package websocket

import (
	"encoding/binary"
	"unicode/utf8"
)

// DefaultMaxMessage bounds a message when Parser.MaxMessage is 0. Client frames of this project are far smaller.
const DefaultMaxMessage = 1 << 20

// Sink receives the messages and control frames that a Parser finds. Byte slices are valid only during the call.
type Sink interface {
	// Message is a whole text or binary message, put together from its fragments; text is valid UTF-8. If it returns false, Feed returns at
	// once: the sink wants no more messages now.
	Message(op Opcode, p []byte) (more bool)
	// Ping must be answered with a pong of the same payload.
	Ping(p []byte)
	Pong(p []byte)
	// CloseFrame is the peer's close frame; code is CodeNoStatus if it has none. Bytes after it are ignored.
	CloseFrame(code uint16, reason string)
}

// Parser takes a client's frames apart. The zero value is ready.
type Parser struct {
	MaxMessage int32 // most bytes of a message; 0 means DefaultMaxMessage

	left    int32  // payload bytes of the current data frame that are still to come
	key     uint32 // mask of the current data frame, rotated to the next byte
	op      Opcode // opcode of the incomplete message; 0: no message has begun
	inFrame bool   // left and key count
	fin     bool   // the current data frame is the message's last
	closed  bool   // the peer has sent its close frame
	msg     []byte // the part of the message received so far; nil: none
}

// header is a frame's header.
type header struct {
	op   Opcode
	fin  bool
	key  uint32
	size int // of the header itself
	len  int // of the payload
}

// Bits and special lengths of a header (RFC 6455 section 5.2).
const (
	finBit  = 0x80
	rsvBits = 0x70
	opBits  = 0x0f
	maskBit = 0x80
	lenBits = 0x7f
	len16   = 126
	len64   = 127
	keySize = 4
)

// Feed parses b, which it may overwrite, and hands complete messages to s. It returns how many bytes it has used. The caller must pass the
// rest again with more bytes behind it; the rest is at most a header or a control frame, unless the sink wanted to stop. An error is a
// *CloseError; the parser must not be used after it.
func (p *Parser) Feed(b []byte, s Sink) (used int, err error) {
	for used < len(b) {
		if p.closed {
			return len(b), nil
		}
		rest := b[used:]
		if p.inFrame {
			n, more, err := p.collect(rest, s)
			used += n
			if err != nil || !more {
				return used, err
			}
			continue
		}
		h, err := p.header(rest)
		if err != nil {
			return used, err
		}
		if h.size == 0 {
			return used, nil
		}
		n, more, err := p.frame(h, rest, s)
		used += n
		if err != nil || !more || n == 0 {
			return used, err
		}
	}
	return used, nil
}

// Idle reports that no message has begun.
func (p *Parser) Idle() bool { return p.op == 0 && !p.inFrame }

// frame handles the frame whose header h begins b. It uses no bytes while a control frame is incomplete.
func (p *Parser) frame(h header, b []byte, s Sink) (used int, more bool, err error) {
	whole := h.size+h.len <= len(b)
	if h.op.control() {
		if !whole {
			return 0, true, nil
		}
		payload := b[h.size : h.size+h.len]
		unmask(payload, h.key)
		return h.size + h.len, true, p.control(h.op, payload, s)
	}
	if whole && h.fin && p.op == 0 { // the usual case needs no copy
		payload := b[h.size : h.size+h.len]
		unmask(payload, h.key)
		more, err = deliver(h.op, payload, s)
		return h.size + h.len, more, err
	}
	if h.op != Continuation {
		p.op = h.op
	}
	p.left, p.key, p.fin, p.inFrame = int32(h.len), h.key, h.fin, true
	n, more, err := p.collect(b[h.size:], s)
	return h.size + n, more, err
}

// collect adds the received bytes of the current frame to the message.
func (p *Parser) collect(b []byte, s Sink) (used int, more bool, err error) {
	used = min(len(b), int(p.left))
	at := len(p.msg)
	p.msg = append(p.msg, b[:used]...)
	p.key = unmask(p.msg[at:], p.key)
	p.left -= int32(used)
	if p.left > 0 {
		return used, true, nil
	}
	p.inFrame = false
	if !p.fin {
		return used, true, nil
	}
	op, msg := p.op, p.msg
	p.op, p.msg = 0, nil
	more, err = deliver(op, msg, s)
	return used, more, err
}

func deliver(op Opcode, msg []byte, s Sink) (more bool, err error) {
	if op == Text && !utf8.Valid(msg) {
		return false, &CloseError{CodeInvalidPayload, "a text message is not valid UTF-8"}
	}
	return s.Message(op, msg), nil
}

func (p *Parser) control(op Opcode, payload []byte, s Sink) error {
	switch op {
	case Ping:
		s.Ping(payload)
	case Pong:
		s.Pong(payload)
	default:
		return p.close(payload, s)
	}
	return nil
}

func (p *Parser) close(payload []byte, s Sink) error {
	code, reason := uint16(CodeNoStatus), payload
	switch {
	case len(payload) == 1:
		return &CloseError{CodeProtocolError, "a close frame has half a code"}
	case len(payload) >= 2:
		code, reason = binary.BigEndian.Uint16(payload), payload[2:]
		if !validCode(code) {
			return &CloseError{CodeProtocolError, "a close frame has a code that must not be sent"}
		}
		if !utf8.Valid(reason) {
			return &CloseError{CodeInvalidPayload, "the reason in a close frame is not valid UTF-8"}
		}
	}
	p.closed, p.msg, p.op = true, nil, 0
	s.CloseFrame(code, string(reason))
	return nil
}

// header reads and checks the header at the start of b. A header of size 0 means that it is not complete yet.
func (p *Parser) header(b []byte) (header, error) {
	if len(b) < 2 {
		return header{}, nil
	}
	h := header{op: Opcode(b[0] & opBits), fin: b[0]&finBit != 0, len: int(b[1] & lenBits)}
	if err := p.checkStart(b, h); err != nil {
		return header{}, err
	}
	size := 2
	switch h.len {
	case len16:
		if size = 4; len(b) < size {
			return header{}, nil
		}
		if h.len = int(binary.BigEndian.Uint16(b[2:])); h.len <= maxControl {
			return header{}, &CloseError{CodeProtocolError, "a length is not in its shortest form"}
		}
	case len64:
		if size = 10; len(b) < size {
			return header{}, nil
		}
		n := binary.BigEndian.Uint64(b[2:])
		if n <= 0xffff || n>>63 != 0 {
			return header{}, &CloseError{CodeProtocolError, "a length is not in its shortest form"}
		}
		h.len = int(min(n, 1<<31-1)) // longer than any limit anyway
	}
	if !h.op.control() && h.len > p.limit()-len(p.msg) {
		return header{}, &CloseError{CodeTooBig, "a message is longer than the limit"}
	}
	if len(b) < size+keySize {
		return header{}, nil
	}
	h.key = binary.LittleEndian.Uint32(b[size:])
	h.size = size + keySize
	return h, nil
}

// checkStart checks the first two bytes of a header.
func (p *Parser) checkStart(b []byte, h header) error {
	var fault string
	switch {
	case b[0]&rsvBits != 0:
		fault = "a reserved bit is set"
	case !h.op.known():
		fault = "a frame has a reserved opcode"
	case b[1]&maskBit == 0:
		fault = "a frame is not masked"
	case h.op.control() && !h.fin:
		fault = "a control frame is fragmented"
	case h.op.control() && h.len > maxControl:
		fault = "a control frame is too long"
	case h.op == Continuation && p.op == 0:
		fault = "a continuation continues nothing"
	case !h.op.control() && h.op != Continuation && p.op != 0:
		fault = "a message begins within another"
	default:
		return nil
	}
	return &CloseError{CodeProtocolError, fault}
}

func (p *Parser) limit() int {
	if p.MaxMessage > 0 {
		return int(p.MaxMessage)
	}
	return DefaultMaxMessage
}

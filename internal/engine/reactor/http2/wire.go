package http2

import (
	"encoding/binary"
	"strconv"

	"golang.org/x/net/http2/hpack"
)

// ErrCode is an HTTP/2 error code (RFC 9113, section 7).
type ErrCode uint32

// Error codes.
const (
	NoError         ErrCode = 0x0
	ProtocolError   ErrCode = 0x1
	InternalError   ErrCode = 0x2
	FlowControl     ErrCode = 0x3
	StreamClosed    ErrCode = 0x5
	FrameSize       ErrCode = 0x6
	RefusedStream   ErrCode = 0x7
	Cancel          ErrCode = 0x8
	Compression     ErrCode = 0x9
	EnhanceYourCalm ErrCode = 0xb
)

func (c ErrCode) String() string {
	switch c {
	case NoError:
		return "NO_ERROR"
	case ProtocolError:
		return "PROTOCOL_ERROR"
	case InternalError:
		return "INTERNAL_ERROR"
	case FlowControl:
		return "FLOW_CONTROL_ERROR"
	case StreamClosed:
		return "STREAM_CLOSED"
	case FrameSize:
		return "FRAME_SIZE_ERROR"
	case RefusedStream:
		return "REFUSED_STREAM"
	case Cancel:
		return "CANCEL"
	case Compression:
		return "COMPRESSION_ERROR"
	case EnhanceYourCalm:
		return "ENHANCE_YOUR_CALM"
	}
	return "error code " + strconv.Itoa(int(c))
}

// Frame types and flags (RFC 9113, section 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameRSTStream    = 0x3
	frameSettings     = 0x4
	framePushPromise  = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9

	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	settingHeaderTable = 0x1
	settingEnablePush  = 0x2
	settingMaxStreams  = 0x3
	settingWindow      = 0x4
	settingMaxFrame    = 0x5
	settingHeaderList  = 0x6

	frameHead = 9
	preface   = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

func appendFrameHead(b []byte, n int, typ, flags byte, id uint32) []byte {
	return append(b, byte(n>>16), byte(n>>8), byte(n), typ, flags, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

func appendSetting(b []byte, id uint16, v uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, id), v)
}

// firstFrames returns the server's connection preface: SETTINGS, and the connection's window beyond the protocol's default.
func firstFrames(cfg *Config) []byte {
	var p []byte
	p = appendSetting(p, settingMaxStreams, uint32(cfg.MaxStreams))
	p = appendSetting(p, settingWindow, uint32(cfg.StreamWindow))
	p = appendSetting(p, settingHeaderList, maxHeaderBlock)
	b := append(appendFrameHead(nil, len(p), frameSettings, 0, 0), p...)
	if more := cfg.ConnWindow - defaultWindow; more > 0 {
		b = appendWindowUpdate(b, 0, uint32(more))
	}
	return b
}

func appendWindowUpdate(b []byte, id, n uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrameHead(b, 4, frameWindowUpdate, 0, id), n)
}

func appendReset(b []byte, id uint32, code ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendFrameHead(b, 4, frameRSTStream, 0, id), uint32(code))
}

func appendGoAway(b []byte, last uint32, code ErrCode, reason string) []byte {
	b = appendFrameHead(b, 8+len(reason), frameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	return append(binary.BigEndian.AppendUint32(b, uint32(code)), reason...)
}

// appendBlock encodes fields as literals without the dynamic table, so that the server needs no encoder state and the peer no memory.
// ":status" and "content-type" use their names in the static table.
func appendBlock(b []byte, fields []hpack.HeaderField) []byte {
	for i := range fields {
		switch f := &fields[i]; {
		case f.Name == ":status" && f.Value == "200":
			b = append(b, 0x88)
			continue
		case f.Name == ":status":
			b = append(b, 0x08)
		case f.Name == "content-type":
			b = append(b, 0x0f, 31-15)
		default:
			b = append(b, 0)
			b = appendString(b, f.Name)
		}
		b = appendString(b, fields[i].Value)
	}
	return b
}

// appendString appends an HPACK string without Huffman coding (RFC 7541, sections 5.1 and 5.2).
func appendString(b []byte, s string) []byte {
	n := len(s)
	if n < 0x7f {
		b = append(b, byte(n))
	} else {
		b = append(b, 0x7f)
		for n -= 0x7f; n >= 0x80; n >>= 7 {
			b = append(b, byte(n)|0x80)
		}
		b = append(b, byte(n))
	}
	return append(b, s...)
}

// appendHeaders appends a HEADERS frame, and CONTINUATION frames if the block exceeds the frame size.
func appendHeaders(b []byte, id uint32, end bool, fields []hpack.HeaderField) []byte {
	at := len(b)
	b = appendBlock(appendFrameHead(b, 0, frameHeaders, 0, id), fields)
	var flags byte
	if end {
		flags = flagEndStream
	}
	n := len(b) - at - frameHead
	if n <= maxFrameSize {
		appendFrameHead(b[:at], n, frameHeaders, flags|flagEndHeaders, id)
		return b
	}
	block := append([]byte(nil), b[at+frameHead:]...)
	b = b[:at]
	for typ := byte(frameHeaders); len(block) > 0; typ, flags = frameContinuation, 0 {
		part := block[:min(len(block), maxFrameSize)]
		block = block[len(part):]
		if len(block) == 0 {
			flags |= flagEndHeaders
		}
		b = append(appendFrameHead(b, len(part), typ, flags, id), part...)
	}
	return b
}

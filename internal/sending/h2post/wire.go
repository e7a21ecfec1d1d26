package h2post

import "encoding/binary"

// Frame types, flags, settings and error codes (RFC 9113, sections 6 and 7).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	framePing         = 0x6
	frameWindow       = 0x8
	frameContinuation = 0x9

	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4

	settingPush       = 0x2
	settingHeaderList = 0x6

	codeCancel   = 0x8
	codeProtocol = 0x1

	// frameBytes is the largest frame that every server accepts.
	frameBytes = 16 << 10
)

func appendFrame(b []byte, size int, kind, flags byte, stream uint32) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), kind, flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

// appendGreeting appends the client's connection preface.
func appendGreeting(b []byte) []byte {
	b = append(b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...)
	b = appendFrame(b, 12, frameSettings, 0, 0)
	b = appendSetting(b, settingPush, 0)
	return appendSetting(b, settingHeaderList, maxHeaderList)
}

func appendSetting(b []byte, id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, id), value)
}

func appendSettingsAck(b []byte) []byte { return appendFrame(b, 0, frameSettings, flagAck, 0) }

func appendPing(b []byte, ack bool, data [8]byte) []byte {
	flags := byte(0)
	if ack {
		flags = flagAck
	}
	return append(appendFrame(b, 8, framePing, flags, 0), data[:]...)
}

func appendReset(b []byte, stream, code uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, frameReset, 0, stream), code)
}

func appendWindow(b []byte, stream, more uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, frameWindow, 0, stream), more)
}

// appendHeaders appends a block of header fields as a HEADERS frame, and CONTINUATION frames for the part that does not fit.
func appendHeaders(b []byte, stream uint32, block []byte, end bool) []byte {
	kind, flags := byte(frameHeaders), byte(0)
	if end {
		flags = flagEndStream
	}
	for {
		part := block[:min(len(block), frameBytes)]
		if block = block[len(part):]; len(block) == 0 {
			flags |= flagEndHeaders
		}
		b = append(appendFrame(b, len(part), kind, flags, stream), part...)
		if len(block) == 0 {
			return b
		}
		kind, flags = frameContinuation, 0
	}
}

// appendData writes a message's body.
func appendData(b []byte, stream uint32, body []byte) []byte {
	for len(body) > 0 {
		part := body[:min(len(body), frameBytes)]
		flags := byte(0)
		if body = body[len(part):]; len(body) == 0 {
			flags = flagEndStream
		}
		b = append(appendFrame(b, len(part), frameData, flags, stream), part...)
	}
	return b
}

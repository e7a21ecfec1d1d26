package websocket

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Opcode is the kind of a frame or message (RFC 6455 section 5.2).
type Opcode uint8

// Opcodes.
const (
	Continuation Opcode = 0
	Text         Opcode = 1
	Binary       Opcode = 2
	Close        Opcode = 8
	Ping         Opcode = 9
	Pong         Opcode = 10
)

func (o Opcode) control() bool { return o >= Close }

func (o Opcode) known() bool { return o <= Binary || o >= Close && o <= Pong }

// Close codes (RFC 6455 section 7.4).
const (
	CodeNormal          = 1000
	CodeGoingAway       = 1001
	CodeProtocolError   = 1002
	CodeUnsupported     = 1003
	CodeNoStatus        = 1005 // never on the wire: a close frame without a code
	CodeInvalidPayload  = 1007
	CodePolicyViolation = 1008
	CodeTooBig          = 1009
	CodeInternalError   = 1011
	CodeServiceRestart  = 1012
	CodeTryAgainLater   = 1013
)

// validCode reports whether a peer may send code: the RFC and the IANA registry define some codes, and leave ranges to libraries and
// applications.
func validCode(code uint16) bool {
	switch {
	case code >= 1000 && code <= 1003, code >= 1007 && code <= 1014, code >= 3000 && code <= 4999:
		return true
	default:
		return false
	}
}

// CloseError is a protocol error of the peer. It ends the connection with a close frame of this code.
type CloseError struct {
	Code   uint16
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("websocket: %s (close code %d)", e.Reason, e.Code)
}

const (
	// maxControl is the longest payload of a control frame.
	maxControl = 125
	// maxReason is the room for a reason in a close frame, after its code.
	maxReason = maxControl - 2
	// MaxHeader is the longest header of a server's frame.
	MaxHeader = 10
)

// AppendHeader appends the header of an unfragmented, unmasked frame with n bytes of payload.
func AppendHeader(dst []byte, op Opcode, n int) []byte {
	const fin = 0x80
	dst = append(dst, fin|byte(op))
	switch {
	case n <= maxControl:
		return append(dst, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(dst, len16), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, len64), uint64(n))
	}
}

// AppendFrame appends a whole frame with its payload. It suits short frames such as pings and pongs.
func AppendFrame(dst []byte, op Opcode, p []byte) []byte {
	return append(AppendHeader(dst, op, len(p)), p...)
}

// AppendClose appends a close frame. With code 0 or CodeNoStatus the frame has no code. A reason longer than maxReason bytes is cut.
func AppendClose(dst []byte, code uint16, reason string) []byte {
	if code == 0 || code == CodeNoStatus {
		return AppendHeader(dst, Close, 0)
	}
	if len(reason) > maxReason {
		cut := maxReason
		for cut > 0 && !utf8.RuneStart(reason[cut]) {
			cut--
		}
		reason = reason[:cut]
	}
	dst = AppendHeader(dst, Close, 2+len(reason))
	return append(binary.BigEndian.AppendUint16(dst, code), reason...)
}

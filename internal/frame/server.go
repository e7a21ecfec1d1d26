package frame

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of godwit.v1.ServerFrame.
const (
	fieldWelcome protowire.Number = 1
	fieldRecall  protowire.Number = 3
	fieldPong    protowire.Number = 9
	fieldGoodbye protowire.Number = 10
	fieldError   protowire.Number = 11
)

// smallFrame is room on the stack for the body of a frame; longer bodies move to the heap.
const smallFrame = 512

// AppendWelcome appends a welcome frame.
func AppendWelcome(dst []byte, f Format, w *Welcome) []byte {
	if f == Proto {
		var room [smallFrame]byte
		m := appendProtoString(room[:0], 1, w.Session)
		m = appendProtoString(m, 2, w.App)
		m = appendProtoString(m, 3, w.Recipient)
		m = appendProtoInt(m, 4, w.Heartbeat.Milliseconds())
		m = appendProtoString(m, 5, w.Digest)
		m = appendProtoInt(m, 6, int64(w.Registrations))
		m = appendProtoInt(m, 7, w.ServerTime.UnixMilli())
		return appendMessage(dst, fieldWelcome, m)
	}
	dst = open(dst, f, "welcome")
	dst = appendString(append(dst, `{"session":`...), w.Session)
	dst = appendString(append(dst, `,"app":`...), w.App)
	dst = appendString(append(dst, `,"recipient":`...), w.Recipient)
	dst = appendDuration(append(dst, `,"heartbeat":`...), w.Heartbeat)
	dst = appendString(append(dst, `,"digest":`...), w.Digest)
	dst = strconv.AppendInt(append(dst, `,"registrations":`...), int64(w.Registrations), 10)
	dst = appendTime(append(dst, `,"server_time":`...), w.ServerTime)
	return end(append(dst, '}'), f)
}

// AppendRecall appends a recall frame of these notification ids.
func AppendRecall(dst []byte, f Format, ids []string) []byte {
	if f == Proto {
		var room [smallFrame]byte
		m := room[:0]
		for _, id := range ids {
			m = appendProtoString(m, 1, id)
		}
		return appendMessage(dst, fieldRecall, m)
	}
	dst = append(open(dst, f, "recall"), `{"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, id)
	}
	return end(append(dst, "]}"...), f)
}

// AppendPong appends a pong frame; digest may be empty.
func AppendPong(dst []byte, f Format, digest string) []byte {
	if f == Proto {
		var room [smallFrame]byte
		return appendMessage(dst, fieldPong, appendProtoString(room[:0], 1, digest))
	}
	dst = append(open(dst, f, "pong"), '{')
	if digest != "" {
		dst = appendString(append(dst, `"digest":`...), digest)
	}
	return end(append(dst, '}'), f)
}

// AppendGoodbye appends a goodbye frame.
func AppendGoodbye(dst []byte, f Format, g Goodbye) []byte {
	if f == Proto {
		var room [smallFrame]byte
		m := appendProtoString(room[:0], 1, g.Reason)
		return appendMessage(dst, fieldGoodbye, appendProtoInt(m, 2, g.RetryAfter.Milliseconds()))
	}
	dst = appendString(append(open(dst, f, "goodbye"), `{"reason":`...), g.Reason)
	dst = appendDuration(append(dst, `,"retry_after":`...), g.RetryAfter)
	return end(append(dst, '}'), f)
}

// AppendError appends an error frame.
func AppendError(dst []byte, f Format, e *Error) []byte {
	if f == Proto {
		var room [smallFrame]byte
		m := appendProtoString(room[:0], 1, e.Code)
		m = appendProtoString(m, 2, e.Message)
		return appendMessage(dst, fieldError, appendProtoString(m, 3, e.Field))
	}
	dst = appendString(append(open(dst, f, "error"), `{"code":`...), e.Code)
	dst = appendString(append(dst, `,"message":`...), e.Message)
	dst = appendText(dst, "field", e.Field)
	return end(append(dst, '}'), f)
}

// open and end put the format's wrapping around the object of a JSON or SSE frame.
func open(dst []byte, f Format, name string) []byte {
	if f == SSE {
		dst = append(append(dst, "event: "...), name...)
		return append(dst, "\ndata: "...)
	}
	dst = append(append(dst, `{"`...), name...)
	return append(dst, `":`...)
}

func end(dst []byte, f Format) []byte {
	if f == SSE {
		return append(dst, "\n\n"...)
	}
	return append(dst, '}')
}

// putLength puts its length in front of a message that was appended from at on: for those that may be long.
func putLength(dst []byte, at int) []byte {
	n := len(dst) - at
	var room [10]byte
	length := protowire.AppendVarint(room[:0], uint64(n))
	dst = append(dst, length...)
	copy(dst[at+len(length):], dst[at:at+n])
	copy(dst[at:], length)
	return dst
}

func appendMessage(dst []byte, num protowire.Number, body []byte) []byte {
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	return protowire.AppendBytes(dst, body)
}

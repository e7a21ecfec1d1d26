package frame

import (
	"encoding/base64"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/internal/notification"
)

// Field numbers of godwit.v1.ServerFrame and godwit.v1.Notification.
const (
	fieldNotification protowire.Number = 2

	noteSeq       protowire.Number = 1
	noteAttempt   protowire.Number = 2
	noteID        protowire.Number = 3
	noteTitle     protowire.Number = 4
	noteBody      protowire.Number = 5
	noteCategory  protowire.Number = 6
	noteData      protowire.Number = 7
	noteType      protowire.Number = 8
	notePriority  protowire.Number = 9
	noteCreatedAt protowire.Number = 10
	noteExpiresAt protowire.Number = 11
)

const jsonType = "application/json"

// tailOverhead is about what names, times and punctuation of a tail take beside its texts.
const tailOverhead = 192

var tailEncoders = [...]func(*notification.Notification) []byte{JSON: jsonTail, Proto: protoTail, SSE: sseTail}

// AppendNotificationHead appends what precedes the tail of a notification frame: what differs from one receiver to
// the next. tailLen is the length of the tail that will follow.
func AppendNotificationHead(dst []byte, f Format, seq uint64, attempt uint32, tailLen int) []byte {
	switch f {
	case Proto:
		size := protowire.SizeTag(noteSeq) + protowire.SizeVarint(seq) +
			protowire.SizeTag(noteAttempt) + protowire.SizeVarint(uint64(attempt))
		dst = protowire.AppendTag(dst, fieldNotification, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(size+tailLen))
		dst = protowire.AppendTag(dst, noteSeq, protowire.VarintType)
		dst = protowire.AppendVarint(dst, seq)
		dst = protowire.AppendTag(dst, noteAttempt, protowire.VarintType)
		return protowire.AppendVarint(dst, uint64(attempt))
	case SSE:
		dst = append(dst, "event: notification\nid: "...)
		dst = strconv.AppendUint(dst, seq, 10)
		dst = append(dst, "\ndata: "...)
	default:
		dst = append(dst, `{"notification":`...)
	}
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, `,"attempt":`...)
	dst = strconv.AppendUint(dst, uint64(attempt), 10)
	return append(dst, ',')
}

func jsonTail(n *notification.Notification) []byte {
	return slices.Clip(append(appendNotification(make([]byte, 0, tailSize(n)), n), "}}"...))
}

func sseTail(n *notification.Notification) []byte {
	return slices.Clip(append(appendNotification(make([]byte, 0, tailSize(n)), n), "}\n\n"...))
}

func tailSize(n *notification.Notification) int {
	c := &n.Content
	return tailOverhead + len(n.ID) + len(c.Title) + len(c.Body) + len(c.Category) + len(c.Data) + len(c.ContentType)
}

// appendNotification appends the members of a notification that all receivers share, without braces.
func appendNotification(dst []byte, n *notification.Notification) []byte {
	dst = append(dst, `"id":`...)
	dst = appendString(dst, n.ID)
	dst = appendText(dst, "title", n.Content.Title)
	dst = appendText(dst, "body", n.Content.Body)
	dst = appendText(dst, "category", n.Content.Category)
	dst = appendData(dst, n.Content.Data, n.Content.ContentType)
	dst = append(dst, `,"priority":"`...)
	dst = append(dst, n.Priority.String()...)
	dst = append(dst, `","created_at":`...)
	dst = appendTime(dst, n.CreatedAt)
	dst = append(dst, `,"expires_at":`...)
	return appendTime(dst, n.ExpiresAt)
}

// appendData appends data in the form its type and bytes allow, and content_type where it does not go without
// saying. A JSON text stands as it is: publishing has checked its syntax, but not that it is UTF-8.
func appendData(dst, data []byte, contentType string) []byte {
	if len(data) == 0 {
		return dst
	}
	text := utf8.Valid(data)
	switch {
	case text && notification.IsJSON(contentType):
		dst = appendJSONText(append(dst, `,"data":`...), data)
		if contentType == jsonType {
			return dst
		}
	case text:
		dst = appendString(append(dst, `,"data":`...), data)
	default:
		dst = append(dst, `,"data_base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, data)
		dst = append(dst, '"')
	}
	return appendText(dst, "content_type", contentType)
}

// appendJSONText appends a JSON text on one line: a line break inside would end an SSE field.
func appendJSONText(dst, data []byte) []byte {
	start := len(dst)
	dst = append(dst, data...)
	for i, c := range dst[start:] {
		if c == '\n' || c == '\r' { // only ever white space between tokens: inside strings they must be escaped
			dst[start+i] = ' '
		}
	}
	return dst
}

func protoTail(n *notification.Notification) []byte {
	c := &n.Content
	dst := make([]byte, 0, tailSize(n))
	dst = appendProtoString(dst, noteID, n.ID)
	dst = appendProtoString(dst, noteTitle, c.Title)
	dst = appendProtoString(dst, noteBody, c.Body)
	dst = appendProtoString(dst, noteCategory, c.Category)
	if len(c.Data) > 0 {
		dst = protowire.AppendTag(dst, noteData, protowire.BytesType)
		dst = protowire.AppendBytes(dst, c.Data)
		dst = appendProtoString(dst, noteType, c.ContentType)
	}
	dst = appendProtoInt(dst, notePriority, protoPriority(n.Priority))
	dst = appendProtoInt(dst, noteCreatedAt, n.CreatedAt.UnixMilli())
	dst = appendProtoInt(dst, noteExpiresAt, n.ExpiresAt.UnixMilli())
	return slices.Clip(dst)
}

// protoPriority gives the number of godwit.v1.Priority: HIGH is 1, NORMAL 2, LOW 3.
func protoPriority(p notification.Priority) int64 { return int64(p) + 2 }

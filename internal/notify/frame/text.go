package frame

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

const jsonType = "application/json"

// tailOverhead is about how many bytes the names, times and punctuation of a tail take in addition to its texts.
const tailOverhead = 192

// textEncoding writes frames as JSON, or as server-sent events with the same data.
type textEncoding struct{ events bool }

// The bytes before and after the name and the object of a frame.
const (
	jsonBegin, jsonMiddle, jsonEnd    = `{"`, `":`, "}"
	eventBegin, eventMiddle, eventEnd = "event: ", "\ndata: ", "\n\n"
)

// open begins a frame; its object follows, then end.
func (t textEncoding) open(dst []byte, k ServerKind) []byte {
	if t.events {
		dst = append(append(dst, eventBegin...), serverKinds[k]...)
		return append(dst, eventMiddle...)
	}
	dst = append(append(dst, jsonBegin...), serverKinds[k]...)
	return append(dst, jsonMiddle...)
}

func (t textEncoding) end(dst []byte) []byte {
	if t.events {
		return append(dst, eventEnd...)
	}
	return append(dst, jsonEnd...)
}

// AppendAnswer appends an encoded answer (see ServerKind.Answers) of format JSON or SSE as a JSON frame: the answer goes into the response
// to the client's post, which is no stream of events.
func AppendAnswer(dst []byte, f Format, k ServerKind, b []byte) []byte {
	if f != SSE {
		return append(dst, b...)
	}
	object := b[len(eventBegin)+len(serverKinds[k])+len(eventMiddle) : len(b)-len(eventEnd)]
	json := textEncoding{}
	return json.end(append(json.open(dst, k), object...))
}

func (t textEncoding) NotificationTail(n *notification.Notification) []byte {
	return slices.Clip(t.end(append(appendNotification(make([]byte, 0, tailSize(n)), n), '}')))
}

func jsonHead(dst []byte, seq uint64, attempt uint32, _ int) []byte {
	dst = append(dst, `{"notification":{"seq":`...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, `,"attempt":`...)
	dst = strconv.AppendUint(dst, uint64(attempt), 10)
	return append(dst, ',')
}

func eventHead(dst []byte, seq uint64, attempt uint32, _ int) []byte {
	dst = append(dst, "event: notification\nid: "...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, "\ndata: {\"seq\":"...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, `,"attempt":`...)
	dst = strconv.AppendUint(dst, uint64(attempt), 10)
	return append(dst, ',')
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
	dst = appendTime(dst, n.ExpiresAt)
	if n.ReplyBy.IsZero() {
		return dst
	}
	return appendTime(append(dst, `,"reply_by":`...), n.ReplyBy)
}

// appendData appends data in the form that its type and bytes allow, and content_type unless the form implies it. JSON text is not changed:
// publishing has checked its syntax, but not that it is UTF-8.
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

// AppendData appends data as a further member of an object, in the form that its type and bytes allow.
func AppendData(dst, data []byte, contentType string) []byte {
	return appendData(dst, data, contentType)
}

// appendJSONText appends a JSON text on one line: a line break inside would end an SSE field.
func appendJSONText(dst, data []byte) []byte {
	start := len(dst)
	dst = append(dst, data...)
	for _, lineEnd := range []byte("\n\r") { // line ends occur only as white space between tokens: inside strings they are always escaped
		for text := dst[start:]; ; {
			i := bytes.IndexByte(text, lineEnd)
			if i < 0 {
				break
			}
			text[i] = ' '
			text = text[i+1:]
		}
	}
	return dst
}

// retry makes an EventSource wait for d before it reconnects. The time holds until the next retry line, so each welcome replaces the time
// of a goodbye. JSON frames have no retry line.
func (t textEncoding) retry(dst []byte, d time.Duration) []byte {
	if !t.events {
		return dst
	}
	dst = strconv.AppendInt(append(dst, "retry: "...), d.Milliseconds(), 10)
	return append(dst, '\n')
}

func (t textEncoding) Welcome(dst []byte, w Welcome) []byte {
	dst = t.open(t.retry(dst, anyTime()), ServerWelcome)
	dst = appendString(append(dst, `{"session":`...), w.Session)
	dst = appendString(append(dst, `,"app":`...), w.App)
	dst = appendString(append(dst, `,"recipient":`...), w.Recipient)
	dst = appendDuration(append(dst, `,"heartbeat":`...), w.Heartbeat)
	dst = appendString(append(dst, `,"digest":`...), w.Digest)
	dst = strconv.AppendInt(append(dst, `,"registrations":`...), int64(w.Registrations), 10)
	dst = appendTime(append(dst, `,"server_time":`...), w.ServerTime)
	if w.Inbox != nil {
		dst = append(appendInboxCounts(append(dst, `,"inbox":`...), w.Inbox), '}')
	}
	return t.end(append(dst, '}'))
}

func (t textEncoding) Recall(dst []byte, ids []string) []byte {
	dst = appendStrings(append(t.open(dst, ServerRecall), `{"ids":`...), ids)
	return t.end(append(dst, '}'))
}

func (t textEncoding) Pong(dst []byte, digest string) []byte {
	dst = append(t.open(dst, ServerPong), '{')
	if digest != "" {
		dst = appendString(append(dst, `"digest":`...), digest)
	}
	return t.end(append(dst, '}'))
}

func (t textEncoding) Goodbye(dst []byte, g Goodbye) []byte {
	dst = appendString(append(t.open(t.retry(dst, g.comeBack()), ServerGoodbye), `{"reason":`...), g.Reason)
	dst = appendDuration(append(dst, `,"retry_after":`...), g.RetryAfter)
	return t.end(append(dst, '}'))
}

func (t textEncoding) Error(dst []byte, e Error) []byte {
	dst = appendString(append(t.open(dst, ServerError), `{"code":`...), e.Code)
	dst = appendString(append(dst, `,"message":`...), e.Message)
	dst = appendText(dst, "field", e.Field)
	if len(e.Refused) > 0 {
		dst = appendStrings(append(dst, `,"refused":`...), e.Refused)
	}
	return t.end(append(dst, '}'))
}

func (t textEncoding) Registered(dst []byte, r Registered) []byte {
	dst = appendStrings(append(t.open(dst, ServerRegistered), `{"objects":`...), r.Objects)
	dst = appendString(append(dst, `,"digest":`...), r.Digest)
	return t.end(append(appendText(dst, "group", r.Group), '}'))
}

func (t textEncoding) RegistrationFailed(dst []byte, r RegistrationFailed) []byte {
	dst = appendStrings(append(t.open(dst, ServerRegistrationFailed), `{"objects":`...), r.Objects)
	dst = appendString(append(dst, `,"code":`...), r.Code)
	dst = strconv.AppendBool(append(dst, `,"transient":`...), r.Transient)
	return t.end(append(appendText(dst, "group", r.Group), '}'))
}

func (t textEncoding) Object(k object.Key, s *object.State) []byte {
	dst := make([]byte, 0, objectSize(k, s))
	dst = appendString(append(t.open(dst, ServerObject), `{"group":`...), k.Group)
	dst = appendString(append(dst, `,"object":`...), k.Object)
	if s.Version > 0 {
		dst = append(strconv.AppendInt(append(dst, `,"version":"`...), int64(s.Version), 10), '"')
	}
	dst = appendPayload(dst, s.Payload, s.ContentType)
	dst = strconv.AppendBool(append(dst, `,"unknown":`...), !s.Known)
	return slices.Clip(t.end(append(dst, '}')))
}

func objectSize(k object.Key, s *object.State) int {
	return 96 + len(k.Group) + len(k.Object) + len(s.Payload) + len(s.ContentType)
}

// appendPayload does the same as appendData, with other member names.
func appendPayload(dst, payload []byte, contentType string) []byte {
	if len(payload) == 0 {
		return dst
	}
	text := utf8.Valid(payload)
	switch {
	case text && notification.IsJSON(contentType):
		dst = appendJSONText(append(dst, `,"payload":`...), payload)
		if contentType == jsonType {
			return dst
		}
	case text:
		dst = appendString(append(dst, `,"payload":`...), payload)
	default:
		dst = base64.StdEncoding.AppendEncode(append(dst, `,"payload_base64":"`...), payload)
		dst = append(dst, '"')
	}
	return appendText(dst, "content_type", contentType)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

package godwit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"
)

// UndecodableError reports a frame from the server that cannot be decoded. The session continues: the client requests a notification again,
// does not acknowledge an object, and ignores anything else.
type UndecodableError struct {
	ID     string // id of the notification; empty: the frame was none, or its id cannot be decoded either
	Object string // "group/object", where it was one
	Reason string // begins with the invalid member's name: "data: is nested too deeply"

	attempt int // delivery attempt of the notification; 0: it cannot be decoded either
}

func (e *UndecodableError) Error() string {
	switch {
	case e.ID != "":
		return "cannot read notification " + e.ID + ": " + e.Reason
	case e.Object != "":
		return "cannot read object " + e.Object + ": " + e.Reason
	}
	return "cannot read a frame of the server: " + e.Reason
}

// The next version of the program may be able to decode the notification, but that takes a while.
const (
	unreadPause = 10 * time.Second
	unreadMost  = 5 * time.Minute
)

// pause returns the delay of the redelivery to request: it doubles with every attempt.
func (e *UndecodableError) pause() time.Duration {
	if e.attempt < 1 || e.attempt > 5 {
		return unreadMost
	}
	return min(unreadPause<<(e.attempt-1), unreadMost)
}

// memberError is the error in one member of a frame. It contains no part of the member's value, because the reason is logged.
type memberError struct{ name, what string }

func (e *memberError) Error() string { return e.name + ": " + e.what }

// unread returns a frame that reports the error in a notification or an object.
func unread(err error, id, object string, attempt int) serverFrame {
	e := &UndecodableError{Reason: reason(err), attempt: attempt}
	if checkName("id", id) == nil {
		e.ID = id
	}
	if object != "" && len(object) < 2*128 {
		e.Object = object
	}
	return serverFrame{Unread: e}
}

// maxReason is the longest reason in bytes that the server accepts.
const maxReason = 1000

// cut shortens a reason so that the server accepts it.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

func reason(err error) string {
	text := err.Error()
	var m *memberError
	if !errors.As(err, &m) {
		text = "frame: " + text
	}
	return cut(text)
}

// member is the destination for one member of a frame.
type member struct {
	name string
	into any
}

// readMembers decodes the members one by one and returns the first error. Unknown members may have any value.
func readMembers(raw map[string][]byte, members []member) error {
	for _, m := range members {
		b, ok := raw[m.name]
		if !ok {
			continue
		}
		if !utf8.Valid(b) {
			return &memberError{m.name, "is not UTF-8"}
		}
		if err := json.Unmarshal(b, m.into); err != nil {
			return &memberError{m.name, whatIsWrong(err)}
		}
	}
	return nil
}

func whatIsWrong(err error) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		return "is of the wrong type or out of range"
	case errors.As(err, &syntax) && syntax.Error() == "exceeded max depth":
		return "is nested too deeply"
	case errors.As(err, &syntax):
		return "is not JSON"
	}
	return "cannot be read"
}

func (w *wireNotification) members() []member {
	return []member{
		{"id", &w.ID},
		{"attempt", &w.Attempt},
		{"seq", &w.Seq},
		{"title", &w.Title},
		{"body", &w.Body},
		{"category", &w.Category},
		{"content_type", &w.ContentType},
		{"data", &w.Data},
		{"data_base64", &w.DataBase64},
		{"priority", &w.Priority},
		{"created_at", &w.CreatedAt},
		{"expires_at", &w.ExpiresAt},
	}
}

func (w *wireObject) members() []member {
	return []member{
		{"object", &w.Object},
		{"group", &w.Group},
		{"version", &w.Version},
		{"unknown", &w.Unknown},
		{"content_type", &w.ContentType},
		{"payload", &w.Payload},
		{"payload_base64", &w.PayloadBase64},
	}
}

// salvage decodes an invalid frame member by member: the error may be in a member that this client does not use; if not, there may still be
// an id for the answer.
func salvage(b []byte, cause error) serverFrame {
	name, raw, whole := split(b)
	switch name {
	case "notification":
		var w wireNotification
		err := readMembers(raw, w.members())
		if err == nil && !whole {
			err = cause
		}
		if err == nil {
			return w.frame()
		}
		return unread(err, w.ID, "", w.Attempt)
	case "object":
		var w wireObject
		err := readMembers(raw, w.members())
		if err == nil && !whole {
			err = cause
		}
		if err == nil {
			return w.frame()
		}
		return unread(err, "", w.Object, 0)
	}
	return unread(cause, "", "", 0)
}

// report passes an error to the program's callback.
func (l *listener) report(err error) {
	if l.opts.failed != nil {
		l.opts.failed(err)
		return
	}
	//nolint:sloglint // a program that gave no OnError has nothing else to be told by
	slog.Warn("godwit server sent what cannot be used", "error", err)
}

// unread answers an unreadable frame. It requests a notification again after a while, for a program that can read it; the server gives up
// eventually.
func (l *listener) unread(e *UndecodableError) {
	if e.ID == "" {
		l.report(e)
		return
	}
	if l.handle == nil {
		return // the program uses only objects
	}
	l.mu.Lock()
	held, seen := l.held[e.ID] != nil, l.seen.contains(e.ID)
	l.mu.Unlock()
	switch {
	case held:
		return
	case seen && !l.opts.silent():
		l.out.ack(e.ID) // a readable copy was handled before
		return
	}
	l.report(e)
	if !l.opts.silent() {
		l.out.nack(nack{IDs: []string{e.ID}, After: wireTime(e.pause()), Reason: e.Reason})
	}
}

// inJSON returns the error in data of a JSON type that arrived as bytes.
func inJSON(name string, data []byte, contentType string) error {
	if len(data) == 0 || contentType != "" && !isJSON(contentType) {
		return nil
	}
	var raw json.RawMessage
	if !utf8.Valid(data) {
		return &memberError{name, "is not UTF-8"}
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return &memberError{name, whatIsWrong(err)}
	}
	return nil
}

// timeOf decodes a time from protobuf, within the range of RFC 3339.
func timeOf(name string, ms int64) (time.Time, error) {
	t := time.UnixMilli(ms).UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}, &memberError{name, fmt.Sprintf("is outside the years 1 to 9999: %d ms", ms)}
	}
	return t, nil
}

package redisstream

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
)

// maxEntryBytes limits an entry's size. By default gRPC clients accept messages of up to 4 MB. A larger one ends their stream, and the next
// stream would send it again.
const maxEntryBytes = 4<<20 - 1<<10

// Field is a field of an entry.
type Field struct{ Name, Value string }

// Entry is an entry that a publisher added to a client's stream.
type Entry struct {
	Stream, Client string // the stream's key, and its client
	ID             EntryID
	NotificationID string // what the client acknowledges

	Category, Title, Body            string
	Show                             string // SHOW or DO_NOT_SHOW
	EntityID, EntityType, EntityData string // EntityData is JSON
	CreatedAt, ExpiresAt             time.Time
}

// PoisonError says why an entry can never be delivered.
type PoisonError struct {
	Stream, ID string
	Field      string // empty: the entry as a whole
	Reason     string
}

func (e *PoisonError) Error() string {
	what := "entry " + e.ID + " of " + e.Stream
	if e.Field != "" {
		what += ": field " + e.Field
	}
	return what + " " + e.Reason
}

// ParseEntry parses an entry of a stream. Fields may have any order; unknown fields are ignored, and the last one of a name counts. Its
// errors are *PoisonError.
func ParseEntry(key, id string, fields []Field) (Entry, error) {
	e := Entry{Stream: key}
	bad := func(field, reason string) (Entry, error) {
		return Entry{}, &PoisonError{Stream: key, ID: id, Field: field, Reason: reason}
	}
	var ok bool
	if e.Client, _, ok = ClientOf(key); !ok {
		return bad("", "is in a stream whose key names no client")
	}
	var err error
	if e.ID, err = ParseEntryID(id); err != nil {
		return bad("", "has no valid id")
	}
	var created, ttl string
	wanted := [...]struct {
		name string
		to   *string
	}{
		{"id", &e.NotificationID},
		{"category", &e.Category},
		{"title", &e.Title},
		{"body", &e.Body},
		{"show", &e.Show},
		{"entity.id", &e.EntityID},
		{"entity.type", &e.EntityType},
		{"entity.data", &e.EntityData},
		{"created_at", &created},
		{"ttl", &ttl},
	}
	var found [len(wanted)]bool
	size := 0
	for _, f := range fields {
		for i := range wanted {
			if wanted[i].name == f.Name {
				*wanted[i].to, found[i] = f.Value, true
			}
		}
	}
	for i, w := range wanted {
		switch {
		case !found[i]:
			return bad(w.name, "is missing")
		case !utf8.ValidString(*w.to):
			return bad(w.name, "is not UTF-8")
		}
		size += len(*w.to)
	}
	switch {
	case size > maxEntryBytes:
		return bad("", fmt.Sprintf("has %d bytes; clients take %d", size, maxEntryBytes))
	case e.NotificationID == "":
		return bad("id", "is empty, so that nobody could acknowledge it")
	}
	if e.CreatedAt, err = parseTime(created); err != nil {
		return bad("created_at", "is no time such as 2026-11-20T23:23:58.654Z or 2026-11-20 23:23:58.654 UTC")
	}
	if e.ExpiresAt, err = parseTime(ttl); err != nil {
		return bad("ttl", "is no time such as 2026-11-20T23:23:58.654Z or 2026-11-20 23:23:58.654 UTC")
	}
	return e, nil
}

// parseTime parses the publishers' time formats: RFC 3339, also with a space before the time of day or the zone, and with UTC as letters.
// It ignores digits after the ninth of a second's fraction.
func parseTime(s string) (time.Time, error) {
	const day = len("2006-01-02")
	if len(s) <= day || s[day] != 'T' && s[day] != 't' && s[day] != ' ' || strings.ContainsRune(s, ',') {
		return time.Time{}, fmt.Errorf("%q is no time", s)
	}
	clock, zone := s[day+1:], ""
	if at := strings.IndexAny(clock, " Zz+-U"); at >= 0 {
		clock, zone = clock[:at], strings.TrimPrefix(clock[at:], " ")
	}
	switch zone {
	case "Z", "z", "UTC":
		zone = "Z"
	default:
		if len(zone) == len("+0530") {
			zone = zone[:3] + ":" + zone[3:]
		}
	}
	t, err := time.Parse(time.RFC3339Nano, s[:day]+"T"+clock+zone)
	if err != nil {
		return time.Time{}, err
	}
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, fmt.Errorf("%q is out of range", s)
	}
	return t, nil
}

// Notification makes the notification of an entry. All fields beside title, body and category travel in Data, as
// {"show":…,"entity":{"id":…,"type":…,"data":…}} where data is the text as it is in Redis.
func (e *Entry) Notification(app string) *notification.Notification {
	n := e.plain(app)
	n.Content.Data, _ = json.Marshal(e.payload()) // strings always encode
	n.Content.ContentType = "application/json"
	return n
}

// plain returns the notification with only title, body and category as its content.
func (e *Entry) plain(app string) *notification.Notification {
	return &notification.Notification{
		App: app, ID: e.NotificationID,
		Content:   notification.Content{Title: e.Title, Body: e.Body, Category: e.Category},
		CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt,
	}
}

func (e *Entry) payload() *frame.PayloadData {
	return &frame.PayloadData{Show: e.Show, Entity: frame.PayloadEntity{ID: e.EntityID, Type: e.EntityType, Data: e.EntityData}}
}

package redisstream

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/frame"
)

const someStream = "Nf8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f10{52}"

// fields returns the fields of a valid entry with changes: name, value, name, value. The value "-" omits a field.
func fields(changes ...string) []Field {
	list := []Field{
		{"entity.id", "e1"},
		{"entity.type", "SearchRequest"},
		{"entity.data", `{"fare":12.5}`},
		{"id", "n1"},
		{"category", "NEW_RIDE_AVAILABLE"},
		{"title", "Ride"},
		{"body", "Near"},
		{"show", "SHOW"},
		{"created_at", "2026-11-20 23:23:28.654123456789 UTC"},
		{"ttl", "2026-11-20T23:23:58.654Z"},
	}
	for i := 0; i < len(changes); i += 2 {
		for k := range list {
			if list[k].Name != changes[i] {
				continue
			}
			if list[k].Value = changes[i+1]; changes[i+1] == "-" {
				list = append(list[:k], list[k+1:]...)
			}
			break
		}
	}
	return list
}

func TestEntriesAreRead(t *testing.T) {
	e, err := ParseEntry(someStream, "1732147438654-3", append(fields(), Field{"further", "\xff"}))
	if err != nil {
		t.Fatal(err)
	}
	want := Entry{
		Stream: someStream, Client: "f8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f10", ID: EntryID{1732147438654, 3}, NotificationID: "n1",
		Category: "NEW_RIDE_AVAILABLE", Title: "Ride", Body: "Near", Show: "SHOW",
		EntityID: "e1", EntityType: "SearchRequest", EntityData: `{"fare":12.5}`,
		CreatedAt: time.Date(2026, 11, 20, 23, 23, 28, 654123456, time.UTC),
		ExpiresAt: time.Date(2026, 11, 20, 23, 23, 58, 654000000, time.UTC),
	}
	if e != want {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
	n := e.Notification("nammayatri")
	const data = `{"show":"SHOW","entity":{"id":"e1","type":"SearchRequest","data":"{\"fare\":12.5}"}}`
	if n.App != "nammayatri" || n.ID != "n1" || n.Content.Title != "Ride" || n.Content.Body != "Near" || string(n.Content.Data) != data || !n.ExpiresAt.Equal(e.ExpiresAt) {
		t.Errorf("the notification is %+v with %s", n, n.Content.Data)
	}
}

func TestPoisonIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		key, id string
		fields  []Field
		field   string
	}{
		"no field":     {fields: nil, field: "id"},
		"no category":  {fields: fields("category", "-"), field: "category"},
		"no ttl":       {fields: fields("ttl", "-"), field: "ttl"},
		"no creation":  {fields: fields("created_at", "-"), field: "created_at"},
		"empty id":     {fields: fields("id", ""), field: "id"},
		"bad ttl":      {fields: fields("ttl", "tomorrow"), field: "ttl"},
		"bad creation": {fields: fields("created_at", ""), field: "created_at"},
		"not UTF-8":    {fields: fields("body", "a\xffb"), field: "body"},
		"too large":    {fields: fields("body", strings.Repeat("x", maxEntryBytes)), field: ""},
		"foreign key":  {key: "queue", fields: fields(), field: ""},
		"bad entry id": {id: "7", fields: fields(), field: ""},
	} {
		key, id := someStream, "1732147438654-0"
		if c.key != "" {
			key = c.key
		}
		if c.id != "" {
			id = c.id
		}
		_, err := ParseEntry(key, id, c.fields)
		var poison *PoisonError
		if !errors.As(err, &poison) || poison.Field != c.field || poison.Stream != key || poison.ID != id {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The replaced service treats these fields as plain texts.
func TestShowAndDataAreTakenAsTheyCome(t *testing.T) {
	for _, text := range []string{"", "xxxx", "{", "MAYBE", "null", "\u2028"} {
		e, err := ParseEntry(someStream, "1732147438654-0", append(fields("show", text), Field{"entity.data", text}))
		if err != nil || e.Show != text || e.EntityData != text {
			t.Errorf("%q: %+v, %v", text, e, err)
			continue
		}
		n := e.Notification("app")
		var payload frame.PayloadData
		if err := json.Unmarshal(n.Content.Data, &payload); err != nil || payload.Show != text || payload.Entity.Data != text {
			t.Errorf("%q: the notification has %s, %v", text, n.Content.Data, err)
		}
	}
}

func TestTimesOfBothForms(t *testing.T) {
	want := time.Date(2026, 11, 20, 23, 23, 58, 0, time.UTC)
	for s, fraction := range map[string]time.Duration{
		"2026-11-20T23:23:58Z":                 0,
		"2026-11-20T23:23:58.654Z":             654 * time.Millisecond,
		"2026-11-20 23:23:58 UTC":              0,
		"2026-11-20 23:23:58.654 UTC":          654 * time.Millisecond,
		"2026-11-20 23:23:58.5UTC":             500 * time.Millisecond,
		"2026-11-20 23:23:58.654123456789 UTC": 654123456,
		"2026-11-20T23:23:58.000000000001Z":    0,
		"2026-11-21T04:53:58+05:30":            0,
		"2026-11-21 04:53:58.25 +05:30":        250 * time.Millisecond,
		"2026-11-21 04:53:58+0530":             0,
		"2026-11-20T15:23:58-08:00":            0,
		"2026-11-20 23:23:58Z":                 0,
	} {
		got, err := parseTime(s)
		if err != nil || !got.Equal(want.Add(fraction)) {
			t.Errorf("%q is %s, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "2026-11-20", "2026-11-20T", "2026-11-20T23:23:58", "2026-11-20 23:23:58", "2026-11-20T23:23:58 CET", "2026-11-20T25:00:00Z",
		"2026-02-30T00:00:00Z", "2026-11-20T23:23Z", "2026-11-20T23:23:58,5Z", "2026-11-20T23:23:58.Z", "2026-11-20_23:23:58Z", "20 November", "1732147438",
		"2026-11-20T23:23:58 UTC+1", "2026-11-20  23:23:58 UTC", "2026-11-20T23:23:58Zjunk", "2026-11-20T23:23:58+5:30",
	} {
		if got, err := parseTime(s); err == nil {
			t.Errorf("%q is taken for %s", s, got)
		}
	}
}

// Publishers of other systems may leave out what a publish to Godwit must have.
func TestEntryWithoutContentIsPublished(t *testing.T) {
	e := entryOf(someStream, raw{id: "1732147438654-3", fields: fields("title", "", "body", "", "category", "", "show", "", "entity.id", "", "entity.type", "", "entity.data", "")})
	if e.Wrong != nil {
		t.Fatal(e.Wrong)
	}
	e.Draft.ExpiresAt = time.Time{}
	if _, err := e.Draft.Check("nammayatri", time.Now(), nil); err != nil {
		t.Error(err)
	}
}

// FuzzParseEntry: every input either parses or is reported as poison, and parsed entries can be delivered and acknowledged.
func FuzzParseEntry(f *testing.F) {
	f.Add("1732147438654-0", "n1", "c", "t", "b", "SHOW", `{"a":1}`, "2026-11-20 23:23:58.654123456789 UTC", "2026-11-20T23:23:58+05:30")
	f.Add("1-1", "", "", "", "\xff", "DO_NOT_SHOW", `"`, "", "9999-12-31T23:59:59-23:59")
	f.Fuzz(func(t *testing.T, id, note, category, title, body, show, data, created, ttl string) {
		in := []Field{
			{"id", note},
			{"category", category},
			{"title", title},
			{"body", body},
			{"show", show},
			{"entity.id", note},
			{"entity.type", category},
			{"entity.data", data},
			{"created_at", created},
			{"ttl", ttl},
		}
		e, err := ParseEntry(someStream, id, in)
		if err != nil {
			var poison *PoisonError
			if !errors.As(err, &poison) {
				t.Fatalf("an entry is refused with %v", err)
			}
			return
		}
		if e.NotificationID == "" || !json.Valid([]byte(e.EntityData)) || !utf8.ValidString(e.Body) || e.ExpiresAt.Location() != time.UTC {
			t.Errorf("what is read cannot be delivered: %+v", e)
		}
		var extra frame.PayloadData
		if err := json.Unmarshal(e.Notification("a").Content.Data, &extra); err != nil || extra.Show != show || extra.Entity != (frame.PayloadEntity{ID: note, Type: category, Data: data}) {
			t.Errorf("what comes out of the data is %+v, %v", extra, err)
		}
		in[0], in[9] = in[9], in[0]
		if again, err := ParseEntry(someStream, id, in); err != nil || again != e {
			t.Errorf("in another order it is %+v, %v", again, err)
		}
	})
}

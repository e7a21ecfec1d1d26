package notification_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func check(d notification.Draft) (*notification.Notification, error) {
	if d.To == nil {
		d.To = []string{"driver-42"}
	}
	if d.Content.Empty() && d.Content.ContentType == "" {
		d.Content.Title = "Hi"
	}
	return d.Check("demo", now, func() string { return "made" })
}

func TestBadInputNamesItsField(t *testing.T) {
	day := 24 * time.Hour
	cases := map[string]struct {
		draft notification.Draft
		field string
	}{
		"no recipient":        {notification.Draft{To: []string{}}, "to"},
		"too many recipients": {notification.Draft{To: make([]string, 1001)}, "to"},
		"id of bad letters":   {notification.Draft{ID: "a b"}, "id"},
		"id too long":         {notification.Draft{ID: strings.Repeat("x", 129)}, "id"},
		"negative ttl":        {notification.Draft{TTL: -1}, "ttl"},
		"ttl over 30 days":    {notification.Draft{TTL: 30*day + 1}, "ttl"},
		"ttl and expires_at":  {notification.Draft{TTL: day, ExpiresAt: now.Add(day)}, "expires_at"},
		"expired already":     {notification.Draft{ExpiresAt: now}, "expires_at"},
		"expires too late":    {notification.Draft{ExpiresAt: now.Add(31 * day)}, "expires_at"},
		"send_at too late":    {notification.Draft{SendAt: now.Add(31 * day)}, "send_at"},
		"expires before sent": {notification.Draft{SendAt: now.Add(day), ExpiresAt: now.Add(day)}, "expires_at"},
		"collapse key":        {notification.Draft{CollapseKey: "a/b"}, "collapse_key"},
		"title not UTF-8":     {notification.Draft{Content: notification.Content{Title: "\xff"}}, "title"},
		"body not UTF-8":      {notification.Draft{Content: notification.Content{Body: "\xff"}}, "body"},
		"data not JSON":       {notification.Draft{Content: notification.Content{Data: []byte("{"), ContentType: "application/json"}}, "data"},
		"content type":        {notification.Draft{Content: notification.Content{ContentType: "a\nb"}}, "content_type"},
		"too large":           {notification.Draft{Content: notification.Content{Body: strings.Repeat("x", 256<<10+1)}}, "data"},
		"reply without ack":   {notification.Draft{ReplyBy: time.Hour, Ack: notification.AckNone}, "reply_by"},
		"reply in the past":   {notification.Draft{ReplyBy: -time.Hour}, "reply_by"},
		"reply too late":      {notification.Draft{ReplyBy: 31 * 24 * time.Hour}, "reply_by"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := check(c.draft)
			var f *notification.FieldError
			if !errors.As(err, &f) || f.Field != c.field {
				t.Fatalf("got %v, want a complaint about %s", err, c.field)
			}
		})
	}
}

func TestEmptyNotificationIsRefused(t *testing.T) {
	const all = "title: is missing, and so are body, category and data"
	for name, c := range map[string]struct {
		draft notification.Draft
		want  string // begins the error
	}{
		"nothing":             {notification.Draft{}, all},
		"a type of no data":   {notification.Draft{Content: notification.Content{ContentType: "application/json"}}, all},
		"a question of none":  {notification.Draft{ReplyBy: time.Hour}, all},
		"expired besides":     {notification.Draft{ExpiresAt: now}, "expires_at: "},
		"another fault first": {notification.Draft{TTL: -1}, "ttl: "},
		"a title":             {notification.Draft{Content: notification.Content{Title: "x"}}, ""},
		"a body":              {notification.Draft{Content: notification.Content{Body: "x"}}, ""},
		"a category":          {notification.Draft{Content: notification.Content{Category: "NEW_RIDE"}}, ""},
		"data":                {notification.Draft{Content: notification.Content{Data: []byte("{}")}}, ""},
		"content for push":    {notification.Draft{Content: notification.Content{Push: []byte("{}")}}, ""},
		"a template":          {notification.Draft{Template: "welcome"}, ""},
	} {
		c.draft.To = []string{"driver-42"}
		n, err := c.draft.Check("demo", now, func() string { return "made" })
		if c.want == all && (n == nil || !notification.IsLapsed(err)) {
			t.Errorf("%s: a repeated publish of one that an earlier version stored is not recognised: %v", name, err)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestExpiryCountsFromWhenItIsSent(t *testing.T) {
	ms := now.Truncate(time.Millisecond)
	cases := map[string]struct {
		draft   notification.Draft
		expires time.Time
	}{
		"default":         {notification.Draft{}, ms.Add(24 * time.Hour)},
		"ttl":             {notification.Draft{TTL: time.Minute}, ms.Add(time.Minute)},
		"expires_at":      {notification.Draft{ExpiresAt: ms.Add(time.Second)}, ms.Add(time.Second)},
		"ttl and send_at": {notification.Draft{TTL: time.Minute, SendAt: ms.Add(time.Hour)}, ms.Add(time.Hour + time.Minute)},
		"overdue send_at": {notification.Draft{SendAt: ms.Add(-time.Hour)}, ms.Add(24 * time.Hour)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n, err := check(c.draft)
			if err != nil {
				t.Fatal(err)
			}
			if !n.ExpiresAt.Equal(c.expires) {
				t.Fatalf("expires at %s, want %s", n.ExpiresAt, c.expires)
			}
		})
	}
}

func TestContentTypeIsFoundWhenAbsent(t *testing.T) {
	for data, want := range map[string]string{"": "", `{"a":1}`: "application/json", "\x00": "application/octet-stream"} {
		n, err := check(notification.Draft{Content: notification.Content{Data: []byte(data)}})
		if err != nil {
			t.Fatal(err)
		}
		if n.Content.ContentType != want {
			t.Errorf("data %q got type %q, want %q", data, n.Content.ContentType, want)
		}
	}
}

func TestReplyDeadlineEndsNotification(t *testing.T) {
	ms := now.Truncate(time.Millisecond)
	for name, c := range map[string]struct {
		draft notification.Draft
		want  time.Time
	}{
		"alone":           {notification.Draft{ReplyBy: 72 * time.Hour}, ms.Add(72 * time.Hour)},
		"expires later":   {notification.Draft{ReplyBy: time.Hour, TTL: 2 * time.Hour}, ms.Add(time.Hour)},
		"expires sooner":  {notification.Draft{ReplyBy: 2 * time.Hour, TTL: time.Hour}, ms.Add(time.Hour)},
		"until some time": {notification.Draft{ReplyBy: 2 * time.Hour, ExpiresAt: now.Add(time.Hour)}, ms.Add(time.Hour)},
		"sent later":      {notification.Draft{ReplyBy: time.Hour, SendAt: now.Add(time.Hour)}, ms.Add(2 * time.Hour)},
	} {
		n, err := check(c.draft)
		if err != nil || !n.ReplyBy.Equal(c.want) || !n.ExpiresAt.Equal(c.want) {
			t.Errorf("%s: reply by %s, expires at %s (%v), want %s", name, n.ReplyBy, n.ExpiresAt, err, c.want)
		}
	}
	if n, err := check(notification.Draft{}); err != nil || !n.ReplyBy.IsZero() {
		t.Errorf("one that asks for none has reply_by %s (%v)", n.ReplyBy, err)
	}
}

func TestAbsentIDIsMade(t *testing.T) {
	n, err := check(notification.Draft{})
	if err != nil || n.ID != "made" {
		t.Fatalf("id %q, error %v", n.ID, err)
	}
}

func TestNamesHaveALength(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 1: true, notification.MaxNameBytes: true, notification.MaxNameBytes + 1: false} {
		if err := notification.CheckName("id", strings.Repeat("a", n)); (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestDotsAreNoNames(t *testing.T) {
	for name, ok := range map[string]bool{".": false, "..": false, "...": true, ".a": true, "a.": true, "a..b": true} {
		if err := notification.CheckName("id", name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheCharacterThatANameMayNotHaveIsNamed(t *testing.T) {
	for name, want := range map[string]string{"Zoé": `'é' at byte 3`, "a/b": `'/' at byte 2`, "😀": `'😀' at byte 1`, "a\u202eb": `'\u202e' at byte 2`, "\xff": `'�' at byte 1`} {
		if err := notification.CheckName("id", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

func TestRecipientsAreBounded(t *testing.T) {
	for n, ok := range map[int]bool{1: true, notification.MaxRecipients: true, notification.MaxRecipients + 1: false} {
		if _, err := check(notification.Draft{To: make([]string, n)}); (err == nil) != ok {
			t.Errorf("%d recipients: %v", n, err)
		}
	}
}

func TestDurations(t *testing.T) {
	good := map[string]time.Duration{
		"30s": 30 * time.Second, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "90": 90 * time.Second,
		"1h30m": 90 * time.Minute, "0.5d": 12 * time.Hour, "0": 0, "0s": 0,
	}
	for s, want := range good {
		if d, err := notification.ParseDuration(s); err != nil || d != want {
			t.Errorf("%q: %s, %v; want %s", s, d, err, want)
		}
	}
	for _, s := range []string{"", "x", "-1", "-5s", "d", "9223372036854775807", "1e9d", "NaNd"} {
		if d, err := notification.ParseDuration(s); err == nil {
			t.Errorf("%q was accepted as %s", s, d)
		}
	}
}

func TestStatusNamesAreReadBack(t *testing.T) {
	for s := notification.Scheduled; s <= notification.Failed; s++ {
		if s.String() == "" || s == notification.Gathered { // no mailbox has such a copy
			continue
		}
		if got, ok := notification.ParseStatus(s.String()); !ok || got != s {
			t.Errorf("%s is read back as %s", s, got)
		}
	}
}

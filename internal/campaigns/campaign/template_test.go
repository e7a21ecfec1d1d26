package campaign

import (
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var bad *notification.FieldError
	if !errors.As(err, &bad) {
		t.Errorf("%s: got error %v, want one that names the field", field, err)
	} else if bad.Field != field {
		t.Errorf("error names %s, want %s: %v", bad.Field, field, err)
	}
}

func TestBadSpecsNameTheirField(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good := func() Spec { return Spec{Content: Content{Content: push.Content{Title: "Hi"}}} }
	if s := good(); s.Check(now, time.Time{}) != nil {
		t.Fatal(s.Check(now, time.Time{}))
	}
	for field, spoil := range map[string]func(*Spec){
		"content.title":                   func(s *Spec) { s.Content.Title = "" },
		"content.body":                    func(s *Spec) { s.Content.Body = "Hi {{name" },
		"content.url":                     func(s *Spec) { s.Content.URL = "javascript:alert(1)" },
		"content.locales":                 func(s *Spec) { s.Content.Locales = map[string]template.Variant{"not a tag": {}} },
		"content.locales.fr.title":        func(s *Spec) { s.Content.Locales = map[string]template.Variant{"fr": {Title: "{{a b}}"}} },
		"content.locales.fr.url":          func(s *Spec) { s.Content.Locales = map[string]template.Variant{"fr": {URL: "https://{{host}}/"}} },
		"content.apns.badge":              func(s *Spec) { n := -1; s.Content.APNs.Badge = &n },
		"content.apns.interruption_level": func(s *Spec) { s.Content.APNs.InterruptionLevel = "loud" },
		"content.telegram.parse_mode":     func(s *Spec) { s.Content.Telegram.ParseMode = "markdown" },
		"content.telegram.video":          func(s *Spec) { s.Content.Telegram.Photo, s.Content.Telegram.Video = "a", "b" },
		"content.telegram.document":       func(s *Spec) { s.Content.Telegram.Document = "{{" },
		"content.telegram.buttons[0]":     func(s *Spec) { s.Content.Telegram.Buttons = [][]push.TelegramLink{{}} },
		"content.telegram.buttons[1][0].text": func(s *Spec) {
			s.Content.Telegram.Buttons = [][]push.TelegramLink{{{Text: "a", URL: "https://x.example"}}, {{URL: "https://x.example"}}}
		},
		"content.telegram.buttons[0][0].url": func(s *Spec) {
			s.Content.Telegram.Buttons = [][]push.TelegramLink{{{Text: "a", URL: "javascript:alert(1)"}}}
		},
		"content":          func(s *Spec) { s.Content.Body = strings.Repeat("x", MaxContentBytes) },
		"name":             func(s *Spec) { s.Name = strings.Repeat("x", 201) },
		"spread":           func(s *Spec) { s.Spread = Duration(8 * 24 * time.Hour) },
		"ttl":              func(s *Spec) { s.TTL = Duration(29 * 24 * time.Hour) },
		"expires_at":       func(s *Spec) { s.Expires = now.Add(-time.Hour) },
		"priority":         func(s *Spec) { s.Priority = "urgent" },
		"collapse_key":     func(s *Spec) { s.Collapse = "a b" },
		"utm":              func(s *Spec) { s.UTM = "?utm_source=x" },
		"quiet_hours.from": func(s *Spec) { s.Quiet = &QuietHours{From: "x", To: "08:00"} },
	} {
		s := good()
		spoil(&s)
		wantField(t, s.Check(now, time.Time{}), field)
	}
	long := good()
	if long.Name = strings.Repeat("潮", 200); long.Check(now, time.Time{}) != nil {
		t.Error(long.Check(now, time.Time{}))
	}
	s := good()
	wantField(t, s.Check(now, now.Add(367*24*time.Hour)), "send_at")
}

func TestRatesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{"25/s": "25/s", "100/m": "1.67/s", "30/m": "30/m", "10/h": "10/h", "0.5/s": "30/m", "1000000/s": "1000000/s"} {
		r, err := ParseRate(text)
		if err != nil || r.String() != want {
			t.Errorf("%s: %s (%v), want %s", text, r, err, want)
		}
	}
	for _, text := range []string{"", "25", "25/d", "-1/s", "0/s", "x/s", "NaN/s", "1e9/s", "1000001/s"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q was taken as %s", text, r)
		}
	}
}

func TestDeliveryIDsAreStableUUIDs(t *testing.T) {
	id := DeliveryID("01J", "e1")
	if id != DeliveryID("01J", "e1") || id == DeliveryID("01J", "e2") || id == DeliveryID("01Je", "1") {
		t.Error("delivery ids do not follow campaign and endpoint")
	}
	if len(id) != 36 || id[14] != '5' || !strings.ContainsRune("89ab", rune(id[19])) {
		t.Errorf("%s is not a UUID of version 5", id)
	}
}

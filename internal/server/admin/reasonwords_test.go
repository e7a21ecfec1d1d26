package admin

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/server/admin/words"
)

func TestStoredReasonsAreSaidInTheReadersLanguage(t *testing.T) {
	german := words.Tagged("de")
	for stored, want := range map[string]string{
		"somebody chose it": "jemand hat es so gewählt",
		"webhook at https://a.example cannot be reached: lookup a.example: no such host":             "der Webhook unter https://a.example ist nicht erreichbar: den Namen a.example gibt es im DNS nicht",
		"ClickHouse cannot be reached: dial 10.0.0.1:8123: connection refused":                       "ClickHouse ist nicht erreichbar: Verbindung zu 10.0.0.1:8123 abgelehnt",
		"no clicks were counted, so the rest gets the first variant":                                 "es wurden keine Klicks gezählt, daher bekommt der Rest die erste Variante",
		"B has the larger share: 5 clicks of 1198 for A, 12 of 2000 for B":                           "B hat den größeren Anteil: 5 Klicks von 1.198 bei A, 12 von 2.000 bei B",
		"a reason of another version":                                                                "a reason of another version",
		"gave up after 7 attempts: FCM answered 503: overloaded":                                     "nach 7 Versuchen aufgegeben: FCM antwortete mit 503: überlastet",
		"gave up after 7 attempts: their own words":                                                  "nach 7 Versuchen aufgegeben: their own words",
		"the recipient's quiet hours end at 2026-12-01T07:00:00Z, when the notification has expired": "die Ruhezeit des Empfängers endet erst am 01.12.2026, 07:00:00 UTC; dann ist die Benachrichtigung abgelaufen",
		"push.example.org answered 400: the message is refused: {\"code\":\"bad\"}":                  "push.example.org antwortete mit 400: Die Nachricht wird abgelehnt: {\"code\":\"bad\"}",
		strings.Repeat("not sent: ", 10) + "cancelled":                                               strings.Repeat("nicht gesendet: ", 4) + strings.Repeat("not sent: ", 6) + "cancelled",
		"the recipient's preferences do not let category not sent: x come over webpush":              "die Präferenzen des Empfängers lassen die Kategorie not sent: x nicht über webpush zu",
	} {
		if got := reasonIn(german, stored); got != want {
			t.Errorf("%q is\n%q, want\n%q", stored, got, want)
		}
		if got := reasonIn(words.English, stored); got != stored {
			t.Errorf("in English: %q", got)
		}
	}
}

// seams are where a reason, or a text about a table, is put together.
var seams = regexp.MustCompile(`%s|: |clicks|views|(what has no )?category|, text|(, )?(numbers|true and false)|, as exported`)

// TestEachReasonIsOneOfTheCode finds reasons, and texts about tables, that the program says in other words by now.
func TestEachReasonIsOneOfTheCode(t *testing.T) {
	var all strings.Builder
	for _, text := range literalsBelow(t, "../../notify", "../../campaigns", "../../sending") {
		all.WriteString(verbs.ReplaceAllString(text, "%s") + "\n")
	}
	for _, known := range slices.Concat(reasons, tableTexts) {
		if strings.HasPrefix(known, "telegram answered") || known == pausedByHand || strings.HasPrefix(known, "lookup ") || strings.HasPrefix(known, "dial ") {
			continue // Telegram's own words, this page's, and the system's
		}
		for _, part := range seams.Split(known, -1) {
			if !strings.Contains(all.String(), part) {
				t.Errorf("nothing says %q of %q", part, known)
			}
		}
	}
}

func TestReasonsOfPreferencesAreKnown(t *testing.T) {
	limit, err := preference.ParseLimit("3/d")
	if err != nil {
		t.Fatal(err)
	}
	campaigns, err := preference.ParseCampaignLimit("1/8h")
	if err != nil {
		t.Fatal(err)
	}
	for _, category := range []string{"", "2026"} {
		for _, stored := range []string{preference.Beyond(limit, category), preference.BeyondCampaigns(campaigns, category, time.Unix(1e9, 0))} {
			said := reasonIn(words.Tagged("de"), stored)
			if said == stored || category != "" && !strings.Contains(said, "2026") {
				t.Errorf("%q is %q", stored, said)
			}
		}
	}
}

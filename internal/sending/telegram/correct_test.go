package telegram_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/botserver"
)

func link(text string) [][]push.TelegramLink {
	return [][]push.TelegramLink{{{Text: text, URL: "https://x.example/"}}}
}

func TestACorrectionEditsWhatWasSent(t *testing.T) {
	photo := push.TelegramContent{Photo: "f"}
	for name, c := range map[string]struct {
		sent, now push.Content
		put       func(*botserver.Server)
		want      sendertest.Outcome
		says      string // of an error
		text      string // that the message has then
		edits     int
	}{
		"text": {
			sent: push.Content{Title: "Mondey", Telegram: push.TelegramContent{Buttons: link("Old")}},
			now:  push.Content{Title: "Monday", Body: "1 < 2", Telegram: push.TelegramContent{Buttons: link("New")}},
			want: sendertest.Accepted, text: "<b>Monday</b>\n1 &lt; 2", edits: 1,
		},
		"buttons are taken away": {
			sent: push.Content{Title: "T", Telegram: push.TelegramContent{Buttons: link("Old")}}, now: push.Content{Title: "T"},
			want: sendertest.Accepted, text: "<b>T</b>", edits: 1,
		},
		"caption": {
			sent: push.Content{Title: "A", Telegram: photo}, now: push.Content{Title: "B", Telegram: photo},
			want: sendertest.Accepted, text: "<b>B</b>", edits: 1,
		},
		"a caption that is too long": {
			sent: push.Content{Title: "A", Telegram: photo}, now: push.Content{Body: strings.Repeat("x", 1025), Telegram: photo},
			want: sendertest.Permanent, says: "telegram takes 1024", text: "<b>A</b>",
		},
		"not modified": {sent: push.Content{Title: "T"}, now: push.Content{Title: "T"}, want: sendertest.Accepted, text: "<b>T</b>"},
		"not found": {
			sent: push.Content{Title: "A"}, now: push.Content{Title: "B"}, want: sendertest.Permanent, says: "message to edit not found", text: "<b>A</b>",
			put: func(b *botserver.Server) { b.Delete(1) },
		},
		"can't be edited": {
			sent: push.Content{Title: "A"}, now: push.Content{Title: "B"}, want: sendertest.Permanent, says: "message can't be edited", text: "<b>A</b>",
			put: func(b *botserver.Server) { b.Fix(1) },
		},
		"blocked": {
			sent: push.Content{Title: "A"}, now: push.Content{Title: "B"}, want: sendertest.IsGone, says: "bot was blocked", text: "<b>A</b>",
			put: func(b *botserver.Server) { b.Put(7, botserver.Blocked) },
		},
		"an answer that is lost": {
			sent: push.Content{Title: "A"}, now: push.Content{Title: "B"}, want: sendertest.Unknown, text: "<b>B</b>", edits: 1,
			put: func(b *botserver.Server) { b.Break(botserver.HTML, 1) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, s := start(t, botserver.Options{})
			r, err := send(t, s, "7", c.sent)
			if err != nil {
				t.Fatal(err)
			}
			if c.put != nil {
				c.put(server)
			}
			err = s.Correct(t.Context(), push.Sent{Request: push.Request{Content: c.now}, ExternalID: r.ExternalID})
			if got := sendertest.OutcomeOf(err); got != c.want || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s (%v), want %s with %q", got, err, c.want, c.says)
			}
			m := server.Messages()[0]
			if m.Text != c.text || m.Edits != c.edits || m.Media != c.sent.Telegram.Photo {
				t.Errorf("the message is %+v, want %q after %d edits", m, c.text, c.edits)
			}
			if c.edits > 0 && (m.Buttons != "") != (c.now.Telegram.Buttons != nil) {
				t.Errorf("buttons %s", m.Buttons)
			}
		})
	}
}

func TestACorrectionWaitsAsLongAsTelegramSays(t *testing.T) {
	server, s := start(t, botserver.Options{})
	r, err := send(t, s, "7", push.Content{Title: "A"})
	if err != nil {
		t.Fatal(err)
	}
	server.Break(botserver.Flood, 1)
	sent := push.Sent{Request: push.Request{Content: push.Content{Title: "B"}}, ExternalID: r.ExternalID}
	var retry *push.RetryError
	if err := s.Correct(t.Context(), sent); !errors.As(err, &retry) || retry.After != 7*time.Second || !retry.Credential {
		t.Errorf("%v", err)
	}
	if err := s.Correct(t.Context(), sent); err != nil || server.Messages()[0].Text != "<b>B</b>" {
		t.Errorf("%v, %+v", err, server.Messages())
	}
	sent.ExternalID = ""
	if err := s.Correct(t.Context(), sent); sendertest.OutcomeOf(err) != sendertest.Permanent {
		t.Errorf("without an id: %v", err)
	}
}

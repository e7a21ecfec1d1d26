package live_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/sending/live"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start makes a sender on a real mailbox that holds 100 notifications for each recipient.
func start(t *testing.T) (*mailbox.Mailbox, *live.Sender) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, log, clock := t.TempDir(), slog.New(slog.DiscardHandler), mailbox.Clock()
	events, err := eventdb.Open(t.Context(), filepath.Join(dir, "events.db"), eventdb.Options{})
	must(err)
	store, err := mailboxdb.Open(t.Context(), filepath.Join(dir, "mailbox.db"), mailboxdb.Config{MaxPending: 100, MinFree: 1 << 20, Now: clock})
	must(err)
	m := mailbox.New(mailbox.Config{Store: store, Events: events, Log: log})
	hub := session.NewHub(session.Config{Store: store, Mailbox: m, Events: events, Log: log, Now: clock})
	t.Cleanup(func() {
		_ = hub.Close()
		_ = store.Close()
		_ = events.Close()
	})
	return m, live.New(delivery.New(store, clock), m, clock)
}

func request(id string) push.Request {
	return push.Request{ID: id, App: "shop", Recipient: "ann", Address: json.RawMessage("{}"), Content: push.Content{Title: "Hi"}}
}

func history(t *testing.T, m *mailbox.Mailbox) []mailbox.Record {
	t.Helper()
	list, _, err := m.History(t.Context(), "shop", "ann", 0, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestConformance(t *testing.T) {
	sendertest.Run(t, sendertest.Suite{New: func(t *testing.T) *sendertest.Bed {
		m, s := start(t)
		return &sendertest.Bed{
			Sender: s, Request: request,
			Put:  func(situation sendertest.Situation) bool { return situation == sendertest.Accepts },
			Took: func() int { return len(history(t, m)) },
		}
	}})
}

func TestSecondAttemptChangesNothing(t *testing.T) {
	m, s := start(t)
	for range 3 {
		r, err := s.Send(t.Context(), request("d-1"))
		if err != nil || r.ExternalID != "d-1" {
			t.Fatal(r, err)
		}
	}
	if list := history(t, m); len(list) != 1 || list[0].ID != "d-1" {
		t.Errorf("mailbox %+v", list)
	}
	other := request("d-1")
	other.Content.Title = "something else"
	if _, err := s.Send(t.Context(), other); sendertest.OutcomeOf(err) != sendertest.Permanent {
		t.Errorf("other content under the same id: %v", err)
	}
}

func TestRefusalsOfTheMailboxAreTold(t *testing.T) {
	_, s := start(t)
	for i := range 100 {
		if _, err := s.Send(t.Context(), request(string(rune('A'+i%26))+string(rune('a'+i/26)))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Send(t.Context(), request("one-too-many")); sendertest.OutcomeOf(err) != sendertest.Retry {
		t.Errorf("full mailbox: %v", err)
	}
	bad := request("x")
	bad.Collapse = "no spaces"
	if _, err := s.Send(t.Context(), bad); sendertest.OutcomeOf(err) != sendertest.Permanent {
		t.Errorf("bad collapse key: %v", err)
	}
}

func TestContentKeepsItsLinks(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"", `{"icon":"https://i","url":"https://u"}`}, {`{"a":1,"url":"mine"}`, `{"a":1,"icon":"https://i","url":"mine"}`}, {`[1]`, `[1]`},
	} {
		kept := &keeper{}
		s := live.New(kept, nil, time.Now)
		r := request("d")
		r.Content.URL, r.Content.Icon, r.Content.Data = "https://u", "https://i", json.RawMessage(c.data)
		r.ExpiresAt, r.Urgency, r.Collapse = time.Now().Add(90*24*time.Hour), push.UrgencyHigh, "k"
		if _, err := s.Send(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		d := kept.draft
		if string(d.Content.Data) != c.want || d.Priority != notification.High || d.CollapseKey != "k" || time.Until(d.ExpiresAt) > notification.MaxTTL {
			t.Errorf("data %s, want %s; draft %+v", d.Content.Data, c.want, d)
		}
	}
}

func TestExpiredNotificationIsNotPublished(t *testing.T) {
	m, s := start(t)
	for _, late := range []time.Duration{0, time.Hour} {
		r := request("d")
		r.ExpiresAt = time.Now().Add(-late)
		_, err := s.Send(t.Context(), r)
		if list := history(t, m); sendertest.OutcomeOf(err) != sendertest.Permanent || len(list) > 0 {
			t.Errorf("%s after it expired: %v; published %+v", late, err, list)
		}
	}
}

// The first attempt was stored but its answer lost; the second arrives after the message has expired.
func TestSecondAttemptAfterTheEndFindsTheFirst(t *testing.T) {
	_, s := start(t)
	r := request("d")
	if _, err := s.Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r.ExpiresAt = time.Now()
	if receipt, err := s.Send(t.Context(), r); err != nil || receipt.ExternalID != "d" {
		t.Errorf("%+v, %v; want what the first attempt stored", receipt, err)
	}
}

// keeper is a publisher that keeps the last draft.
type keeper struct{ draft *notification.Draft }

func (k *keeper) Publish(_ context.Context, _ string, drafts []*notification.Draft) []delivery.Result {
	k.draft = drafts[0]
	return []delivery.Result{{Copies: []delivery.Copy{{}}}}
}

func TestRecallWithdrawsWhatNobodyHasAcknowledged(t *testing.T) {
	m, s := start(t)
	sent := []push.Sent{}
	for _, id := range []string{"read", "unread", "never"} {
		if id != "never" {
			if _, err := s.Send(t.Context(), request(id)); err != nil {
				t.Fatal(err)
			}
		}
		sent = append(sent, push.Sent{Request: request(id), ExternalID: id})
	}
	if n, err := m.Ack(t.Context(), "shop", "ann", "", []string{"read"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	errs := s.Recall(t.Context(), sent)
	if sendertest.OutcomeOf(errs[0]) != sendertest.Permanent || errs[1] != nil || sendertest.OutcomeOf(errs[2]) != sendertest.Permanent {
		t.Errorf("%v", errs)
	}
	for _, r := range history(t, m) {
		if want := map[string]notification.Status{"read": notification.Acked, "unread": notification.Recalled}[r.ID]; r.Status != want {
			t.Errorf("%s is %s, want %s", r.ID, r.Status, want)
		}
	}
}

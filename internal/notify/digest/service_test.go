package digest_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store"
)

// world is a service with a real store, and mailboxes that the test fills.
type world struct {
	*digest.Service
	*testing.T
	mu       sync.Mutex
	now      time.Time
	refuse   func(*notification.Draft) error // nil: everything is stored
	sent     []*notification.Draft
	known    []mailbox.Record // that the mailboxes have
	recalled []string
	events   []string
	before   func() // called before a publish
}

func begin(t *testing.T) *world {
	t.Helper()
	stores, err := store.Open(t.Context(), store.Config{Data: t.TempDir(), MinFree: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stores.Close() })
	w := &world{T: t, now: time.UnixMilli(1_800_000_000_000)}
	w.Service = digest.New(digest.Config{
		Store: stores.Digests, Mailboxes: w, Publisher: w, Recall: w.recall, Events: w, Fill: w.fill, Log: slog.New(slog.DiscardHandler),
		Categories: func(string) map[string]preference.Category {
			return map[string]preference.Category{"c": {Digest: preference.Digest{Window: time.Minute, By: "post", Template: "t"}}, "full": {Digest: preference.Digest{Window: time.Hour, Max: 2}}}
		},
		Gathers: func(string) bool { return true },
		Now:     func() time.Time { return w.now },
	})
	if err := w.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) Publish(_ context.Context, _ string, drafts []*notification.Draft) []delivery.Result {
	if w.before != nil {
		w.before()
	}
	results := make([]delivery.Result, len(drafts))
	for i, d := range drafts {
		if w.refuse != nil {
			results[i].Err = w.refuse(d)
		}
		if results[i].Err == nil {
			w.sent = append(w.sent, d)
			results[i].Copies = []delivery.Copy{{To: d.To[0], Status: notification.Stored}}
		}
	}
	return results
}

func (w *world) Lookup(_ context.Context, _, id, _ string) ([]mailbox.Record, error) {
	return slices.DeleteFunc(slices.Clone(w.known), func(r mailbox.Record) bool { return r.ID != id }), nil
}

func (w *world) recall(_ context.Context, _, id, _ string) (int, error) {
	w.recalled = append(w.recalled, id)
	return 1, nil
}

func (w *world) Emit(evs []event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range evs {
		w.events = append(w.events, string(evs[i].Type)+" "+evs[i].Note)
	}
}

func (w *world) fill(_ context.Context, _ string, d *notification.Draft) error {
	return notification.LapsedField("template", "the app has no template %s", d.Template)
}

// gather publishes one that waits, and returns its digest.
func (w *world) gather(id string, more func(*notification.Draft)) string {
	w.Helper()
	d := &notification.Draft{To: []string{"ann"}, ID: id, Content: notification.Content{Title: "T", Category: "c", Data: []byte(`{"post":"p1"}`)}}
	if more != nil {
		more(d)
	}
	n, err := d.Check("shop", w.now, nil)
	if err != nil {
		w.Fatal(err)
	}
	a := &mailbox.Append{N: n, To: d.To}
	taken, err := w.Gather(w.Context(), "shop", []*mailbox.Append{a}, []*notification.Draft{d})
	if err != nil || len(taken[0]) != 1 || !taken[0][0] {
		w.Fatalf("gather %s: %v, %v", id, taken, err)
	}
	found, err := w.Service.Lookup(w.Context(), "shop", id, "ann")
	if err != nil || len(found) != 1 {
		w.Fatal(found, err)
	}
	return found[0].Digest.ID
}

// pass lets time pass, and sends what is due.
func (w *world) pass(d time.Duration) {
	w.Helper()
	w.now = w.now.Add(d)
	if err := w.Round(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) wantStatus(id string, want notification.Status) {
	w.Helper()
	if got, err := w.Service.Lookup(w.Context(), "shop", id, "ann"); err != nil || len(got) != 1 || got[0].Status != want {
		w.Errorf("%s is %+v, %v; want %s", id, got, err, want)
	}
}

func TestDigestOfAFullMailboxIsTriedAgainUntilItExpires(t *testing.T) {
	w := begin(t)
	w.refuse = func(*notification.Draft) error { return mailbox.ErrFull }
	of := w.gather("1", nil)
	w.pass(time.Minute)
	w.wantStatus("1", notification.Gathered)
	w.refuse = nil
	w.pass(time.Second) // it waits a while before the next attempt
	if len(w.sent) != 0 {
		t.Errorf("sent: %v", w.sent)
	}
	w.pass(10 * time.Second)
	if len(w.sent) != 1 || w.sent[0].ID != of || w.sent[0].Content.Key != "digest:"+of {
		t.Errorf("sent: %+v, want digest %s", w.sent, of)
	}
	w.wantStatus("1", notification.Digested)

	w.refuse = func(d *notification.Draft) error {
		return fmt.Errorf("publish %s: %w", d.ID, mailbox.ErrFull)
	}
	w.gather("2", nil)
	w.pass(time.Minute)
	w.pass(2 * notification.DefaultTTL)
	w.wantStatus("2", notification.Expired)
	if want := []string{"gathered 1", "digested 1", "gathered 2", "expired 2"}; !slices.Equal(w.events, want) {
		t.Errorf("events: %v, want %v", w.events, want)
	}
}

func TestStepThatCannotBeUsedAnyMoreIsLeftOut(t *testing.T) {
	w := begin(t)
	w.refuse = func(d *notification.Draft) error {
		for i, s := range d.Escalate {
			if s.Channel == "fcm" {
				return notification.LapsedField(fmt.Sprintf("escalate[%d].channel", i), "channel fcm is not configured")
			}
		}
		return nil
	}
	w.gather("1", func(d *notification.Draft) {
		d.Escalate = []notification.Step{{Channel: "webpush", After: time.Second}, {Channel: "fcm", After: 2 * time.Second}, {Channel: "telegram", After: 3 * time.Second}}
	})
	w.pass(time.Minute)
	if len(w.sent) != 1 || len(w.sent[0].Escalate) != 2 || w.sent[0].Escalate[1].Channel != "telegram" {
		t.Errorf("sent: %+v", w.sent)
	}
	w.wantStatus("1", notification.Digested)
}

func TestDigestWhoseTemplateIsMissingHasAPlainText(t *testing.T) {
	w := begin(t)
	w.gather("1", nil)
	w.gather("2", nil)
	w.pass(time.Minute)
	if len(w.sent) != 1 || w.sent[0].Content.Title != "2 new notifications" || w.sent[0].Content.Category != "c" || w.sent[0].Template != "" {
		t.Errorf("sent: %+v", w.sent)
	}
}

// A server has stored the notification, and died before it noted that; the next one starts long afterwards.
func TestDigestThatIsStoredAlreadyIsNotSentAgain(t *testing.T) {
	w := begin(t)
	of := w.gather("1", nil)
	w.refuse = func(*notification.Draft) error { return mailbox.ErrAway }
	w.pass(time.Minute)
	w.refuse, w.known = nil, []mailbox.Record{{ID: of, To: "ann", Status: notification.Acked}}
	w.pass(time.Hour)
	if len(w.sent) != 0 {
		t.Errorf("sent again: %+v", w.sent)
	}
	w.wantStatus("1", notification.Digested)
}

func TestDigestOfARecipientWhoIsErasedMeanwhileIsWithdrawn(t *testing.T) {
	w := begin(t)
	of := w.gather("1", nil)
	w.before = func() {
		if _, err := w.EraseRecipient(w.Context(), "shop", "ann"); err != nil {
			t.Error(err)
		}
	}
	w.pass(time.Minute)
	if !slices.Equal(w.recalled, []string{of}) {
		t.Errorf("recalled: %v, want %s", w.recalled, of)
	}
}

func TestFullDigestWakesTheSender(t *testing.T) {
	w := begin(t)
	ctx, stop := context.WithCancel(t.Context())
	over, sent := make(chan error, 1), make(chan struct{}, 1)
	w.before = func() { sent <- struct{}{} }
	go func() { over <- w.Service.Run(ctx) }()
	for i := range 2 {
		w.gather(fmt.Sprint(i), func(d *notification.Draft) { d.Content.Category = "full" })
	}
	<-sent
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if len(w.sent) != 1 {
		t.Errorf("sent: %+v", w.sent)
	}
}

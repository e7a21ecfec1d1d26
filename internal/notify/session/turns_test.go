package session

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// heavy is a mailbox whose reads of app "hostile" take a minute each.
type heavy struct{ *memory }

func (h heavy) Pending(ctx context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error) {
	for _, q := range qs {
		if q.App == "hostile" {
			time.Sleep(time.Minute)
			break
		}
	}
	return h.memory.Pending(ctx, qs)
}

// believer accepts all clients without a check.
type believer struct{}

func (believer) Known(c access.Claim) (access.Client, error) {
	return access.Client{App: c.App, Recipient: c.Recipient}, nil
}

func (b believer) Client(_ context.Context, c access.Claim) (access.Client, error) { return b.Known(c) }

func TestAnAppWithFullMailboxesHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mail := &memory{items: map[string][]mailbox.Item{}, seqs: map[string]uint64{}}
		w := &world{t: t, mail: mail}
		w.hub = NewHub(Config{Store: heavy{mail}, Mailbox: mail, Verifier: believer{}, Now: mailbox.Clock(), Log: slog.New(slog.DiscardHandler)})
		mail.hub = w.hub
		defer func() { _ = w.hub.Close() }()
		for i := range 4 * readBatch {
			w.connect(frame.Hello{App: "hostile", Recipient: fmt.Sprint("r", i)})
		}
		mail.lose("driver-1", "n1") // it waits in the store
		begun := time.Now()
		w.expect(w.connect(frame.Hello{App: "good", Recipient: "driver-1"}), "welcome", "notification n1")
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("a client of another app waited for %s", waited)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(w.hub.behind.apps) + w.hub.behind.running; n > 5 {
			t.Errorf("%d readers and apps are left", n)
		}
	})
}

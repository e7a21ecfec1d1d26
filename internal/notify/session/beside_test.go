package session

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// hangingStore is a mailbox whose reads of rows block until a channel is closed, and then fail.
type hangingStore struct {
	*memory
	guard sync.Mutex
	hangs chan struct{} // nil: reads succeed; closed: they fail at once
}

// hang replaces the channel; goroutines of the hub may be reading meanwhile.
func (h *hangingStore) hang(until chan struct{}) {
	h.guard.Lock()
	defer h.guard.Unlock()
	h.hangs = until
}

func (h *hangingStore) Pending(ctx context.Context, qs []mailbox.PendingQuery) ([]mailbox.PendingResult, error) {
	h.guard.Lock()
	until := h.hangs
	h.guard.Unlock()
	if until != nil {
		<-until
		return nil, errStore
	}
	return h.memory.Pending(ctx, qs)
}

// inClusterWorld is inWorld with other nodes, whose notifications arrive over the bus.
func inClusterWorld(t *testing.T, f func(w *world, store *hangingStore)) {
	synctest.Test(t, func(t *testing.T) {
		mail := &memory{items: map[string][]mailbox.Item{}, seqs: map[string]uint64{}}
		store := &hangingStore{memory: mail}
		w := &world{t: t, mail: mail, evs: &log{}}
		w.hub = NewHub(Config{
			Store: store, Mailbox: mail, Verifier: doors{time.Now}, Events: w.evs, Now: mailbox.Clock(), Log: slog.New(slog.DiscardHandler),
		})
		w.hub.several = true
		mail.hub = w.hub
		defer func() { _ = w.hub.Close() }()
		f(w, store)
		synctest.Wait()
	})
}

func TestTheBusIsDeliveredWhileTheStoreCannotBeRead(t *testing.T) {
	inClusterWorld(t, func(w *world, store *hangingStore) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome")
		w.publish("anna", "n1")
		w.expect(c, "notification n1")
		w.mail.lose("carl", "n0")
		back := make(chan struct{})
		store.hang(back)
		w.hub.RereadAll()
		synctest.Wait()
		w.publish("anna", "n2") // while the read hangs
		close(back)
		synctest.Wait()
		w.expect(c, "notification n2")
		w.publish("anna", "n3") // after it has failed
		w.expect(c, "notification n3")
		w.mail.lose("anna", "n4")
		w.publish("anna", "n5") // beyond a gap, which only a read can close
		w.publish("anna", "n6")
		synctest.Wait()
		w.expect(c)
		late := w.connect(frame.Hello{Recipient: "bert"})
		w.expect(late, "welcome")
		w.publish("bert", "first") // for a session that has read nothing so far and lacks nothing
		synctest.Wait()
		w.expect(late, "notification first")
		lacks := w.connect(frame.Hello{Recipient: "carl"})
		w.expect(lacks, "welcome")
		w.publish("carl", "second") // for a session that has read nothing so far, while the first notification waits in the store
		synctest.Wait()
		w.expect(lacks)

		c.ack("n1", "n2")
		store.hang(nil)
		time.Sleep(2 * readRetry)
		synctest.Wait()
		w.expect(c, "notification n4", "notification n5", "notification n6")
		w.publish("anna", "n7")
		w.expect(c, "notification n7")
		w.expect(late)
		w.expect(lacks, "notification n0", "notification second")
	})
}

func TestSessionsLeaveANodeThatCannotReachTheStoreAndComeBack(t *testing.T) {
	inWorld(t, func(w *world) {
		here := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(here, "welcome")
		ctx, back := context.WithCancel(context.Background())
		left := make(chan struct{})
		go func() { defer close(left); w.hub.Leave(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		w.expect(here, "goodbye store_away")
		here.mu.Lock()
		if g := here.closed; g.RetryAfter <= 0 || g.RetryAfter > 2*time.Second || g.Refusal {
			t.Errorf("it is to come back in %s, refusal %t", g.RetryAfter, g.Refusal)
		}
		here.mu.Unlock()
		w.expect(w.connect(frame.Hello{Recipient: "anna"}), "goodbye store_away")
		back()
		<-left
		w.expect(w.connect(frame.Hello{Recipient: "anna"}), "welcome")
	})
}

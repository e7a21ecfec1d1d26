package session

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// hanging verifies clients of app "good" at once, and others through a server, which does not answer in time for the app "hostile".
type hanging struct{ asked atomic.Int64 }

func (*hanging) Known(c access.Claim) (access.Client, error) {
	if c.App == "good" {
		return access.Client{App: c.App, Recipient: c.Recipient}, nil
	}
	return access.Client{}, &access.AskError{App: c.App}
}

func (h *hanging) Client(_ context.Context, c access.Claim) (access.Client, error) {
	if c.App == "hostile" {
		h.asked.Add(1)
		time.Sleep(5 * time.Second) // the longest wait for such a server
		return access.Client{}, access.ErrUnavailable
	}
	return access.Client{App: c.App, Recipient: c.Recipient}, nil
}

func inHangingWorld(t *testing.T, f func(w *world, v *hanging)) {
	synctest.Test(t, func(t *testing.T) {
		mail, v := &memory{items: map[string][]mailbox.Item{}, seqs: map[string]uint64{}}, &hanging{}
		w := &world{t: t, mail: mail}
		w.hub = NewHub(Config{Store: mail, Mailbox: mail, Verifier: v, Now: mailbox.Clock(), Log: slog.New(slog.DiscardHandler)})
		mail.hub = w.hub
		defer func() { _ = w.hub.Close() }()
		f(w, v)
	})
}

func TestAnAppWhoseServerHangsHoldsUpNoOther(t *testing.T) {
	inHangingWorld(t, func(w *world, v *hanging) {
		var stuck []*wire
		for i := range 1000 {
			stuck = append(stuck, w.connect(frame.Hello{App: "hostile", Recipient: fmt.Sprint("r", i)}))
		}
		begun := time.Now()
		for _, app := range []string{"good", "asked"} {
			w.expect(w.connect(frame.Hello{App: app, Recipient: "driver-1"}), "welcome")
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("clients of other apps waited for %s", waited)
		}
		// Now the limit is reached: no hello stays in the queue longer.
		time.Sleep(askPatience + 6*time.Second)
		synctest.Wait()
		for i, c := range stuck {
			if got := c.got(); len(got) != 1 || got[0] != "goodbye auth_unavailable" {
				t.Fatalf("client %d of the app that hangs got %v", i, got)
			}
			c.mu.Lock()
			if c.closed.RetryAfter < 5*time.Second || c.closed.Refusal {
				t.Errorf("it is to come back in %s, refusal %t", c.closed.RetryAfter, c.closed.Refusal)
			}
			c.mu.Unlock()
		}
		if n := v.asked.Load(); n > 3*askers/2 {
			t.Errorf("its server was asked %d times", n)
		}
	})
}

func TestHellosThatWaitForAnAppsServerAreBounded(t *testing.T) {
	inHangingWorld(t, func(w *world, _ *hanging) {
		for i := range askers/2 + askQueue {
			w.connect(frame.Hello{App: "hostile", Recipient: fmt.Sprint("r", i)})
		}
		w.expect(w.connect(frame.Hello{App: "hostile", Recipient: "late"}), "goodbye auth_unavailable")
		w.expect(w.connect(frame.Hello{App: "asked", Recipient: "driver-1"}), "welcome")
		time.Sleep(askPatience + 6*time.Second)
		synctest.Wait()
	})
}

// patientVerifier verifies clients of app "good" at once, and others after its channel is closed.
type patientVerifier struct{ answer chan struct{} }

func (patientVerifier) Known(c access.Claim) (access.Client, error) {
	if c.App == "good" {
		return access.Client{App: c.App, Recipient: c.Recipient}, nil
	}
	return access.Client{}, &access.AskError{App: c.App}
}

func (v patientVerifier) Client(_ context.Context, c access.Claim) (access.Client, error) {
	<-v.answer
	return access.Client{App: c.App, Recipient: c.Recipient}, nil
}

func TestClientVerifiedDuringDrainOrStopIsRefused(t *testing.T) {
	for name, leave := range map[string]func(*Hub) error{
		"drain": func(h *Hub) error { return h.Drain(context.Background()) },
		"stop":  func(h *Hub) error { return h.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mail, v := &memory{items: map[string][]mailbox.Item{}, seqs: map[string]uint64{}}, patientVerifier{make(chan struct{})}
				w := &world{t: t, mail: mail}
				w.hub = NewHub(Config{Store: mail, Mailbox: mail, Verifier: v, Now: mailbox.Clock(), Log: slog.New(slog.DiscardHandler)})
				mail.hub = w.hub
				defer func() { _ = w.hub.Close() }()
				here := w.connect(frame.Hello{App: "good", Recipient: "driver-1", Device: "phone"})
				w.expect(here, "welcome")
				asked := w.connect(frame.Hello{App: "asked", Recipient: "driver-3"})
				synctest.Wait()
				if err := leave(w.hub); err != nil {
					t.Error(err)
				}
				close(v.answer)
				w.expect(asked, "goodbye shutdown")
				w.expect(here, "goodbye shutdown")
				if n := w.hub.Live(); n != 0 {
					t.Errorf("%d sessions are left", n)
				}
			})
		})
	}
}

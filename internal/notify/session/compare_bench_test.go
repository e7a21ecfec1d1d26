//go:build unix

package session

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

// mute is a connection that accepts everything.
type mute struct{ wire }

func (*mute) Write(frame.ServerKind, []byte, []byte) bool { return true }

// events takes them.
type events struct{}

func (events) Emit([]event.Event) {}

// BenchmarkCompareIdle is one round in which 10,000 idle sessions compare themselves with a mailbox file. Half of their recipients have
// received a notification each, the others none.
func BenchmarkCompareIdle(b *testing.B) {
	const sessions = 10_000
	log := slog.New(slog.DiscardHandler)
	store, err := mailboxdb.Open(b.Context(), filepath.Join(b.TempDir(), "mailbox.db"), mailboxdb.Config{Log: log})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	box := mailbox.New(mailbox.Config{Store: store, Events: events{}, Log: log})
	hub := NewHub(Config{Store: store, Mailbox: box, Verifier: doors{time.Now}, Now: store.Clock(), Log: log, Reread: time.Hour})
	defer hub.Close()
	b.ReportAllocs()
	compareIdle(b, hub, store, sessions)
}

func compareIdle(b *testing.B, hub *Hub, store *mailboxdb.Store, sessions int) {
	all := make([]*Session, sessions)
	for i := range all {
		to := fmt.Sprint("r", i)
		if i%2 == 0 {
			n := &notification.Notification{App: "demo", ID: to, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
			if err := store.Append(b.Context(), []*mailbox.Append{{N: n, To: []string{to}}}); err != nil {
				b.Fatal(err)
			}
			if err := store.Settle(b.Context(), []*mailbox.Settle{{App: "demo", Recipient: to, ID: to, As: notification.Acked, At: time.Now()}}); err != nil {
				b.Fatal(err)
			}
		}
		all[i] = hub.Accept(&mute{}, Peer{})
		all[i].Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{Recipient: to, Heartbeat: 24 * time.Hour}})
	}
	settleDown(hub, func() bool { return hub.Live() == sessions })
	cpu := cpuTime()
	for b.Loop() {
		for _, s := range all {
			s.mu.Lock()
			s.rereadAt = 0
			s.mu.Unlock()
			s.tick()
		}
		settleDown(hub, func() bool { return true })
	}
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
}

// settleDown waits until no session reads.
func settleDown(h *Hub, ready func() bool) {
	for {
		h.behind.mu.Lock()
		idle := h.behind.running == 0
		h.behind.mu.Unlock()
		if idle && ready() {
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// cpuTime returns the CPU time that the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

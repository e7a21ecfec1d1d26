package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"

	"github.com/oklog/ulid/v2"
)

// acker acknowledges everything stored.
type acker struct{ c chan []*mailbox.Settle }

func (o *acker) Committed(batch *mailbox.Batch) {
	if len(batch.Stored) == 0 {
		return
	}
	settles := make([]*mailbox.Settle, len(batch.Stored))
	for i, it := range batch.Stored {
		settles[i] = &mailbox.Settle{
			App: it.N.App, Recipient: it.Recipient, ID: it.N.ID, Pos: it.Pos, As: notification.Acked, At: it.N.CreatedAt,
			DeliveredAt: it.N.CreatedAt, Attempts: 1,
		}
	}
	o.c <- settles
}

// Acknowledge acknowledges everything that the stores of one database store, through the first of them, as sessions do. Call stop once
// nothing more is stored.
func Acknowledge(stores ...mailbox.Store) (stop func()) {
	acks := &acker{c: make(chan []*mailbox.Settle, 1024)}
	for _, s := range stores {
		s.Observe(acks)
	}
	var acking sync.WaitGroup
	acking.Go(func() {
		for batch := range acks.c {
			stores[0].SettleLater(batch)
		}
	})
	return func() {
		close(acks.c)
		acking.Wait()
	}
}

// WarmUp creates 100,000 recipients, as on a server that has run for a while. Acknowledge must be running.
func WarmUp(b *testing.B, s mailbox.Store) {
	b.Helper()
	for i := range 100 {
		a := &mailbox.Append{N: &notification.Notification{App: "bench", ID: fmt.Sprint("warm", i), CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}, Fresh: true}
		for j := range 1000 {
			a.To = append(a.To, fmt.Sprintf("driver-%d", i*1000+j))
		}
		if err := s.Append(b.Context(), []*mailbox.Append{a}); err != nil {
			b.Fatal(err)
		}
	}
	NonePending(s)
}

// NonePending waits until everything is settled.
func NonePending(s mailbox.Store) {
	for s.Stats().Pending > 0 {
		time.Sleep(time.Millisecond)
	}
}

// PublishAll publishes b.N notifications of a size from many publishers at once and returns how long each took, sorted.
func PublishAll(b *testing.B, stores []mailbox.Store, size, publishers, recipients int, fresh bool) (latencies []time.Duration) {
	b.Helper()
	data := make([]byte, size)
	var left atomic.Int64
	left.Store(int64(b.N))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range publishers {
		wg.Go(func() {
			var mine []time.Duration
			for i := 0; left.Add(-1) >= 0; i++ {
				began := time.Now()
				n := &notification.Notification{
					App: "bench", ID: ulid.Make().String(), CreatedAt: began, ExpiresAt: began.Add(time.Hour),
					Content: notification.Content{Data: data, ContentType: "application/octet-stream"},
				}
				if !fresh {
					n.ID = fmt.Sprintf("n-%d-%d", g, i)
				}
				a := &mailbox.Append{N: n, To: []string{fmt.Sprintf("driver-%d", (g*7919+i*31)%recipients)}, Fresh: fresh}
				if err := stores[g%len(stores)].Append(b.Context(), []*mailbox.Append{a}); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			latencies = append(latencies, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	slices.Sort(latencies)
	return latencies
}

// ReportPublishes reports the rate of publishes under a name, and their latencies.
func ReportPublishes(b *testing.B, rate string, latencies []time.Duration) {
	b.Helper()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), rate)
	b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds()), "p99-µs")
}

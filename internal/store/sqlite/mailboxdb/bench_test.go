package mailboxdb_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

// BenchmarkPublishAndAck publishes to 100,000 recipients from 64 publishers and acknowledges everything through
// SettleLater, as sessions do. Every publish is on disk before it is answered.
func BenchmarkPublishAndAck(b *testing.B) {
	for _, size := range []int{200, 4096} {
		for _, fresh := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dB/fresh=%t", size, fresh), func(b *testing.B) { publishAndAck(b, size, 64, fresh) })
		}
	}
	b.Run("200B/one-publisher", func(b *testing.B) { publishAndAck(b, 200, 1, true) })
}

func publishAndAck(b *testing.B, size, publishers int, fresh bool) {
	acks := &acker{c: make(chan []*mailbox.Settle, 1024)}
	s, err := mailboxdb.Open(b.Context(), filepath.Join(b.TempDir(), "mailbox.db"), mailboxdb.Config{}, acks)
	if err != nil {
		b.Fatal(err)
	}
	var wg, acking sync.WaitGroup
	acking.Go(func() {
		for batch := range acks.c {
			s.SettleLater(batch)
		}
	})
	data := make([]byte, size)
	var left atomic.Int64
	left.Store(int64(b.N))
	var mu sync.Mutex
	var latencies []time.Duration
	b.ResetTimer()
	for g := range publishers {
		wg.Go(func() {
			var mine []time.Duration
			for i := 0; left.Add(-1) >= 0; i++ {
				began := time.Now()
				n := &notification.Notification{
					App: "bench", ID: fmt.Sprintf("n-%d-%d", g, i), CreatedAt: began, ExpiresAt: began.Add(time.Hour),
					Content: notification.Content{Data: data, ContentType: "application/octet-stream"},
				}
				a := &mailbox.Append{N: n, To: []string{fmt.Sprintf("driver-%d", (g*7919+i*31)%100_000)}, Fresh: fresh}
				if err := s.Append(b.Context(), []*mailbox.Append{a}); err != nil {
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
	for s.Stats().Pending > 0 {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	slices.Sort(latencies)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds()), "p99-µs")
	close(acks.c)
	acking.Wait()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

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

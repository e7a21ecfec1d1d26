package mailboxdb_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
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
	s, err := mailboxdb.Open(b.Context(), filepath.Join(b.TempDir(), "mailbox.db"), mailboxdb.Config{})
	if err != nil {
		b.Fatal(err)
	}
	s.Observe(acks)
	var wg, acking sync.WaitGroup
	acking.Go(func() {
		for batch := range acks.c {
			s.SettleLater(batch)
		}
	})
	warmUp(b, s)
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

// warmUp makes the recipients known, as they are on a server that has run for a while.
func warmUp(b *testing.B, s *mailboxdb.Store) {
	for i := range 100 {
		a := &mailbox.Append{N: &notification.Notification{App: "bench", ID: fmt.Sprint("warm", i), CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}, Fresh: true}
		for j := range 1000 {
			a.To = append(a.To, fmt.Sprintf("driver-%d", i*1000+j))
		}
		if err := s.Append(b.Context(), []*mailbox.Append{a}); err != nil {
			b.Fatal(err)
		}
	}
	for s.Stats().Pending > 0 {
		time.Sleep(time.Millisecond)
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

// BenchmarkOpenWithAMillionPending measures a start with 1,000,000 notifications waiting for 100,000 recipients.
func BenchmarkOpenWithAMillionPending(b *testing.B) {
	b.Run("lone", func(b *testing.B) { openWithAMillion(b, 1) })
	b.Run("of 100", func(b *testing.B) { openWithAMillion(b, 100) })
}

// openWithAMillion starts with notifications of publishes to so many.
func openWithAMillion(b *testing.B, copies int) {
	path := filepath.Join(b.TempDir(), "mailbox.db")
	s, err := mailboxdb.Open(b.Context(), path, mailboxdb.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		var batch []*mailbox.Append
		for j := range 100 {
			if j%copies == 0 {
				batch = append(batch, publishOf(fmt.Sprintf("n-%d-%d", i, j), 200))
			}
			a := batch[len(batch)-1]
			a.To, a.Fresh = append(a.To, fmt.Sprintf("driver-%d", (i*7919+j*31)%100_000)), true
		}
		if err := s.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := mailboxdb.Open(b.Context(), path, mailboxdb.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if n := s.Stats().Pending; n != 1_000_000 {
			b.Fatalf("%d pending", n)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkOpenEmpty measures the first start.
func BenchmarkOpenEmpty(b *testing.B) {
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		s, err := mailboxdb.Open(b.Context(), filepath.Join(dir, fmt.Sprint(i)), mailboxdb.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkSeen notes that recipients connected, each with its device, as when all reconnect.
func BenchmarkSeen(b *testing.B) {
	s, err := mailboxdb.Open(b.Context(), filepath.Join(b.TempDir(), "mailbox.db"), mailboxdb.Config{})
	if err != nil {
		b.Fatal(err)
	}
	const recipients = 10_000
	names := make([]string, recipients)
	for i := range names {
		names[i] = fmt.Sprintf("unit-%06d", i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		s.Seen([]mailbox.Seen{{App: "demo", Recipient: names[i%recipients], Device: "main", At: time.Unix(int64(i), 0)}})
		if i%recipients == recipients-1 || i == b.N-1 {
			if err := s.WriteNotes(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}

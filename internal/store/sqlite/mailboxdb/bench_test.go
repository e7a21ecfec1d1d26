package mailboxdb_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/storetest"
)

// BenchmarkPublishAndAck publishes to 100,000 recipients from 64 publishers and acknowledges everything through SettleLater, as sessions
// do. Each publish is on disk before its call returns.
func BenchmarkPublishAndAck(b *testing.B) {
	for _, size := range []int{200, 4096} {
		for _, fresh := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dB/fresh=%t", size, fresh), func(b *testing.B) { publishAndAck(b, size, 64, fresh) })
		}
	}
	b.Run("200B/one-publisher", func(b *testing.B) { publishAndAck(b, 200, 1, true) })
}

func publishAndAck(b *testing.B, size, publishers int, fresh bool) {
	s := openAt(b, filepath.Join(b.TempDir(), "mailbox.db"), mailboxdb.Config{})
	stop := storetest.Acknowledge(s)
	storetest.WarmUp(b, s)
	b.ResetTimer()
	latencies := storetest.PublishAll(b, []mailbox.Store{s}, size, publishers, 100_000, fresh)
	storetest.NonePending(s)
	b.StopTimer()
	storetest.ReportPublishes(b, "pairs/s", latencies)
	stop()
}

// BenchmarkOpenWithAMillionPending measures a start with 1,000,000 pending notifications of 100,000 recipients.
func BenchmarkOpenWithAMillionPending(b *testing.B) {
	b.Run("lone", func(b *testing.B) { openWithAMillion(b, 1) })
	b.Run("of 100", func(b *testing.B) { openWithAMillion(b, 100) })
}

// openWithAMillion starts with notifications whose publishes had that many copies each.
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

// BenchmarkSeen records that recipients connected, each with its device, as when all reconnect.
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

package mailboxdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/storetest"
)

// BenchmarkFanOutAndAck makes one publish to 3,000 recipients after the other, and acknowledges every copy; b.N counts copies.
func BenchmarkFanOutAndAck(b *testing.B) {
	path := filepath.Join(b.TempDir(), "mailbox.db")
	s, err := mailboxdb.Open(b.Context(), path, mailboxdb.Config{})
	if err != nil {
		b.Fatal(err)
	}
	stop := storetest.Acknowledge(s)
	to := make([]string, 3000)
	for i := range to {
		to[i] = fmt.Sprintf("driver-%d", i)
	}
	b.ResetTimer()
	for done := 0; done < b.N; done += len(to) {
		now := time.Now()
		n := &notification.Notification{App: "bench", ID: fmt.Sprint("n", done), CreatedAt: now, ExpiresAt: now.Add(time.Hour), Content: notification.Content{Data: make([]byte, 200)}}
		if err := s.Append(b.Context(), []*mailbox.Append{{N: n, To: to, Fresh: true}}); err != nil {
			b.Fatal(err)
		}
		for s.Stats().Pending > 30_000 {
			time.Sleep(time.Millisecond)
		}
	}
	storetest.NonePending(s)
	b.StopTimer()
	stop()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if info, err := os.Stat(path); err == nil {
		b.ReportMetric(float64(info.Size())/float64(b.N), "B/copy")
	}
}

package mailboxdb_test

import (
	"fmt"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// BenchmarkAppendKept stores publishes to one of many recipients each, with and without the inbox.
func BenchmarkAppendKept(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("inbox=%t", kept), func(b *testing.B) {
			cfg := config()
			cfg.MaxPending = 1 << 30
			s := openAt(b, b.TempDir()+"/mailbox.db", cfg)
			now := time.Now()
			const each = 100
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				batch := make([]*mailbox.Append, each)
				for j := range batch {
					n := &notification.Notification{
						App: "app", ID: fmt.Sprintf("n-%d-%d", i, j), CreatedAt: now, ExpiresAt: now.Add(time.Hour),
						Content: notification.Content{Title: "New ride", Body: string(make([]byte, 200)), Category: "C"},
					}
					if kept {
						n.Content.Inbox = &notification.Inbox{Keep: 24 * time.Hour}
					}
					batch[j] = &mailbox.Append{N: n, To: []string{fmt.Sprint("r", (i*each+j)*7919%2000)}, Fresh: true}
				}
				if err := s.Append(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

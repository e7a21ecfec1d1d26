package mailboxdb_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
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

// BenchmarkInboxFirstPage reads the first page, and the counts, of one of many inboxes with a hundred items each. GODWIT_BENCH_INBOXES says how
// many there are, GODWIT_BENCH_FILE where the file stays, to be measured.
func BenchmarkInboxFirstPage(b *testing.B) {
	inboxes := 1000
	if n, err := strconv.Atoi(os.Getenv("GODWIT_BENCH_INBOXES")); err == nil {
		inboxes = n
	}
	cfg := config()
	cfg.MaxPending = 1 << 30
	path := os.Getenv("GODWIT_BENCH_FILE")
	if path == "" {
		path = b.TempDir() + "/mailbox.db"
	}
	s := openAt(b, path, cfg)
	fillInboxes(b, s, inboxes)
	for name, read := range map[string]func(to string) error{
		"page": func(to string) error {
			page, err := s.Inbox(b.Context(), "app", to, inbox.Query{Limit: 20})
			if err == nil && len(page.Items) != 20 {
				err = fmt.Errorf("%d items", len(page.Items))
			}
			return err
		},
		"counts": func(to string) error {
			_, err := s.InboxCounts(b.Context(), "app", to)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				if err := read(fmt.Sprint("r", i*7919%inboxes)); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// fillInboxes keeps a hundred items of 200 bytes for each recipient, in rounds, as publishes over weeks would.
func fillInboxes(b *testing.B, s *mailboxdb.Store, inboxes int) {
	now := time.Now()
	body := strings.Repeat("x", 184)
	for round := range 100 {
		for from := 0; from < inboxes; from += 1000 {
			var batch []*mailbox.Append
			var ends []*mailbox.Settle
			for i := from; i < min(from+1000, inboxes); i++ {
				id := ulid.Make().String()
				n := &notification.Notification{
					App: "app", ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour), Ack: notification.AckNone,
					Content: notification.Content{Title: "Somebody wrote", Body: body, Category: "post", Inbox: &notification.Inbox{Keep: 30 * 24 * time.Hour}},
				}
				to := fmt.Sprint("r", (i*7919+round)%inboxes)
				batch = append(batch, &mailbox.Append{N: n, To: []string{to}, Fresh: true})
				ends = append(ends, &mailbox.Settle{App: "app", Recipient: to, ID: id, As: notification.Delivered, At: now})
			}
			if err := s.Append(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			if err := s.Settle(b.Context(), ends); err != nil {
				b.Fatal(err)
			}
		}
	}
}

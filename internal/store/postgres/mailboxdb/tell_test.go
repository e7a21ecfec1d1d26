package mailboxdb

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// hearer keeps the positions of each recipient. Its calls wait until all are under way.
type hearer struct {
	atOnce *sync.WaitGroup
	mu     sync.Mutex
	calls  int
	of     map[string][]int64 // positions
}

func (h *hearer) Committed(b *mailbox.Batch) {
	h.atOnce.Done()
	h.atOnce.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	for _, items := range [][]mailbox.Item{b.Stored, b.Due} {
		for i := range items {
			h.of[items[i].Recipient] = append(h.of[items[i].Recipient], items[i].Pos)
		}
	}
	for i := range b.Settled {
		h.of[b.Settled[i].Recipient] = append(h.of[b.Settled[i].Recipient], b.Settled[i].Pos)
	}
	for i := range b.Inboxes {
		h.of[b.Inboxes[i].Recipient] = append(h.of[b.Inboxes[i].Recipient], 0)
	}
}

// TestLargeCommitsAreToldInParts: the parts are told at the same time, or the hearer would never return. Each recipient's copies are in one part.
func TestLargeCommitsAreToldInParts(t *testing.T) {
	for _, c := range []struct{ recipients, tellers, calls int }{{1000, 4, 4}, {1000, 1, 1}, {fewTold / 8, 4, 1}, {2*fewTold/5 + 1, 4, 2}} {
		var b mailbox.Batch
		want := make(map[string][]int64)
		for i := range c.recipients {
			r := fmt.Sprint("r", i)
			for n := range int64(2) {
				b.Stored = append(b.Stored, mailbox.Item{Recipient: r, Pos: 2*int64(i) + n})
			}
			b.Due = append(b.Due, mailbox.Item{Recipient: r, Pos: 10_000 + int64(i)})
			b.Settled = append(b.Settled, mailbox.Settled{Recipient: r, Pos: 20_000 + int64(i)})
			b.Inboxes = append(b.Inboxes, inbox.Change{Recipient: r})
			want[r] = []int64{2 * int64(i), 2*int64(i) + 1, 10_000 + int64(i), 20_000 + int64(i), 0}
		}
		h := &hearer{atOnce: new(sync.WaitGroup), of: make(map[string][]int64)}
		synctest.Test(t, func(*testing.T) { // which fails if all wait
			h.atOnce.Add(c.calls)
			tellInParts(h, &b, c.tellers)
		})
		if h.calls != c.calls {
			t.Errorf("%+v: %d calls", c, h.calls)
		}
		for r, told := range want {
			if !slices.Equal(h.of[r], told) {
				t.Errorf("%+v: %s is told %v, want %v", c, r, h.of[r], told)
			}
		}
	}
}

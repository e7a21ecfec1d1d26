package sources

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// readers receive and acknowledge what recipients get, over one connection after the other.
type readers struct {
	nodes []*blackbox.Server
	parts chan struct{} // tells that a part of a large transaction has come, if anybody waits

	mu     sync.Mutex
	seqs   map[string]map[uint64]string // title by place in the mailbox, by recipient
	ids    map[string]string            // title by id
	n      int
	again  int // arrivals after the first
	faults []string
}

// startReaders connects all recipients, until the test ends.
func startReaders(t *testing.T, nodes ...*blackbox.Server) *readers {
	t.Helper()
	r := &readers{nodes: nodes, parts: make(chan struct{}), seqs: make(map[string]map[uint64]string), ids: make(map[string]string)}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { stop(); wg.Wait() })
	for i, to := range recipients() {
		r.seqs[to] = make(map[uint64]string)
		wg.Go(func() { r.listen(ctx, to, i) })
	}
	return r
}

func (r *readers) listen(ctx context.Context, to string, turn int) {
	for ; ctx.Err() == nil; turn++ {
		r.session(ctx, r.nodes[turn%len(r.nodes)], to)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// session receives until the connection ends.
func (r *readers) session(ctx context.Context, from *blackbox.Server, to string) {
	l, err := from.Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: to})
	if err != nil {
		return
	}
	defer l.Cut()
	for {
		n, err := blackbox.NextNotification(ctx, l)
		if err != nil {
			return
		}
		r.take(to, n)
		if l.Ack(ctx, n.ID) != nil {
			return
		}
	}
}

func (r *readers) take(to string, n *blackbox.Notification) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := to + " " + n.ID
	if title, known := r.ids[key]; known {
		if r.again++; title != n.Title {
			r.faults = append(r.faults, fmt.Sprintf("%s of %s was %q and is %q", n.ID, to, title, n.Title))
		}
		return
	}
	r.ids[key] = n.Title
	if other, taken := r.seqs[to][n.Seq]; taken {
		r.faults = append(r.faults, fmt.Sprintf("place %d of %s has %q and %q", n.Seq, to, other, n.Title))
	}
	r.seqs[to][n.Seq] = n.Title
	r.n++
	if strings.HasSuffix(n.Title, part) {
		tell(r.parts)
	}
}

func (r *readers) received() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// until waits for a condition for as long as changes keep arriving. A busy machine may need long.
func (r *readers) until(t *testing.T, what string, ok func() error) {
	t.Helper()
	for done := false; !done; {
		before := r.received()
		blackbox.Eventually(t, what, func() error {
			err := ok()
			if done = err == nil; r.received() > before {
				return nil
			}
			return err
		})
	}
}

// has returns the titles of a recipient in the order of its mailbox.
func (r *readers) has(to string) (titles []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, seq := range slices.Sorted(maps.Keys(r.seqs[to])) {
		titles = append(titles, r.seqs[to][seq])
	}
	return titles
}

// ended waits until every recipient has the last notification.
func (r *readers) ended(t *testing.T) {
	t.Helper()
	r.until(t, "the last change of every recipient arrives", func() error {
		for _, to := range recipients() {
			if got := r.has(to); !slices.Contains(got[max(0, len(got)-1):], "end") {
				return fmt.Errorf("%s has %d notifications and not the last one", to, len(got))
			}
		}
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fault := range r.faults {
		t.Error(fault)
	}
}

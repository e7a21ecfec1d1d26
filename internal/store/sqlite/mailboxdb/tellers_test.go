package mailboxdb_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// judge checks what it is told of each recipient.
type judge struct {
	t  *testing.T
	of map[string]*told // by recipient; fixed
	n  atomic.Int64     // copies stored
}

// told is what a judge knows of a recipient.
type told struct {
	busy atomic.Bool
	seq  uint64
	open map[string]bool // copies stored and not settled
}

func (j *judge) Committed(b *mailbox.Batch) {
	visited := make(map[*told]bool)
	enter := func(recipient string) *told {
		r := j.of[recipient]
		if !visited[r] {
			visited[r] = true
			if r.busy.Swap(true) {
				j.t.Errorf("%s is told of twice at the same time", recipient)
			}
		}
		return r
	}
	for i := range b.Stored {
		it := &b.Stored[i]
		r := enter(it.Recipient)
		if it.Seq != r.seq+1 {
			j.t.Errorf("%s: %d comes after %d", it.Recipient, it.Seq, r.seq)
		}
		r.seq = it.Seq
		r.open[it.N.ID] = true
	}
	j.n.Add(int64(len(b.Stored)))
	for i := range b.Settled {
		s := &b.Settled[i]
		r := enter(s.Recipient)
		if !r.open[s.ID] {
			j.t.Errorf("%s: the end of %s is told, and not once after it was stored", s.Recipient, s.ID)
		}
		delete(r.open, s.ID)
	}
	for r := range visited {
		r.busy.Store(false)
	}
}

// orderFor lets the order tests publish for a time in the place of a number of rounds: `go test -race -run KeepTheOrder -order-for 10m -timeout 40m`.
var orderFor = flag.Duration("order-for", 0, "how long each part of the tests of order publishes; 0: some rounds")

// inShards runs a test with 1, 2 and 8 tellers, and tells it until when each publisher goes on after its nth round.
func inShards(t *testing.T, few, all int, test func(t *testing.T, tellers int, more func(n int) bool)) {
	for _, tellers := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(tellers), func(t *testing.T) {
			t.Parallel()
			until := time.Now().Add(*orderFor)
			test(t, tellers, func(n int) bool {
				if *orderFor > 0 {
					return time.Now().Before(until)
				}
				return n < thorough.Rounds(few, all)
			})
		})
	}
}

// crowd is the number of recipients whose order is checked.
const crowd = 10_000

func crowdOf(prefix string) []string {
	all := make([]string, crowd)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}

// TestTellersKeepTheOrderOfEachRecipient: publishers and acknowledgements at the same time.
func TestTellersKeepTheOrderOfEachRecipient(t *testing.T) {
	inShards(t, 60, 2000, func(t *testing.T, tellers int, more func(int) bool) {
		cfg := config()
		cfg.Tellers = tellers
		s := openAt(t, filepath.Join(t.TempDir(), "m.db"), cfg)
		everybody := crowdOf("r")
		j := &judge{t: t, of: make(map[string]*told)}
		for _, r := range everybody {
			j.of[r] = &told{open: make(map[string]bool)}
		}
		s.Observe(j)
		var publishers sync.WaitGroup
		var copies atomic.Int64
		for p := range 8 {
			publishers.Go(func() {
				for n := 0; more(n); n++ {
					id := fmt.Sprint("n", p, "-", n)
					to := []string{everybody[rand.N(len(everybody))]}
					switch {
					case n%8 == 0: // a fan-out
						from := rand.N(len(everybody) - 100)
						to = everybody[from : from+100]
					case n%2 == 0: // the same few again and again
						to = everybody[:1+rand.N(3)]
					}
					copies.Add(int64(len(to)))
					if err := s.Append(t.Context(), []*mailbox.Append{publishOf(id, 10, to...)}); err != nil {
						t.Error(err)
					}
					var acks []*mailbox.Settle
					for _, recipient := range to {
						acks = append(acks, ackOf(publishOf(id, 0, recipient)))
					}
					if n%3 == 0 {
						s.SettleLater(acks)
					} else if err := s.Settle(t.Context(), acks); err != nil {
						t.Error(err)
					}
				}
			})
		}
		publishers.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if n, want := j.n.Load(), copies.Load(); n != want {
			t.Errorf("%d copies were told, %d were stored", n, want)
		}
		for recipient, r := range j.of {
			if len(r.open) > 0 {
				t.Errorf("%s: the end of %v is not told", recipient, r.open)
			}
		}
	})
}

// gate lets no commit of one recipient pass until it is opened.
type gate struct {
	recipient string
	entered   chan struct{}
	open      chan struct{}
}

func (g *gate) Committed(b *mailbox.Batch) {
	for i := range b.Stored {
		if b.Stored[i].Recipient == g.recipient {
			close(g.entered)
			<-g.open
		}
	}
}

func TestATellerThatWaitsHoldsUpItsOwnRecipientsAlone(t *testing.T) {
	cfg := config()
	cfg.Tellers = 8
	s := openAt(t, filepath.Join(t.TempDir(), "m.db"), cfg)
	var crowd []string
	for i := range 1000 {
		crowd = append(crowd, fmt.Sprint("r", i))
	}
	g := &gate{recipient: crowd[0], entered: make(chan struct{}), open: make(chan struct{})}
	s.Observe(g)
	var publishers sync.WaitGroup
	var answered atomic.Int64
	publish := func(id string, to ...string) {
		publishers.Go(func() {
			if err := s.Append(t.Context(), []*mailbox.Append{publishOf(id, 10, to...)}); err != nil {
				t.Error(err)
			}
			answered.Add(1)
		})
	}
	publish("all", crowd...)
	<-g.entered
	for i, recipient := range crowd[1:33] {
		publish(fmt.Sprint("n", i), recipient)
	}
	// An eighth of the 32 have the same teller. More than 20 of them: less likely than one in 10^12.
	eventually.True(t, "publishes to others are answered", func() bool { return answered.Load() >= 12 })
	close(g.open)
	publishers.Wait()
}

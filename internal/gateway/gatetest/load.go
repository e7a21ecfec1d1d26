package gatetest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// slowReader publishes far more than any queue can hold to a client that does not read.
func slowReader(t *testing.T, g *Gate, s *Server) {
	slow := g.unreading(t, s, Options{Recipient: "slow"})
	quick := g.welcomed(t, s, Options{Recipient: "quick"})
	const size = 100 << 10
	count := g.unread() / size
	data := fmt.Appendf(nil, "%q", bytes.Repeat([]byte("x"), size))
	for i := range count {
		d := draft("slow", fmt.Sprint("big-", i))
		d.Content.Data = data
		s.Send(t, d)
		if i%10 == 0 {
			id := fmt.Sprint("small-", i)
			s.Send(t, draft("quick", id))
			quick.note(id)
			quick.ack(id)
		}
	}
	queued := s.Reactor.Stats().Queued
	if g.Queued != nil {
		queued = g.Queued(s)
	}
	if queued > QueueBytes+2*size {
		t.Errorf("%d bytes are queued for a client that does not read, want at most about %d", queued, QueueBytes)
	}
	for next := 0; next < count; {
		f := slow.want("notification")
		slow.ack(f.ID)
		var i int
		if _, err := fmt.Sscanf(f.ID, "big-%d", &i); err != nil || i > next {
			t.Fatalf("got %s, want big-%d", f.ID, next)
		}
		if i == next { // an earlier notification is redelivered if its acknowledgement took longer than the redelivery interval
			next++
		}
	}
	s.Await(t, event.Acked, fmt.Sprint("big-", count-1))
}

func orderUnderLoad(t *testing.T, g *Gate, s *Server) {
	const publishers = 8
	each := thorough.Rounds(15, 50)
	c := g.welcomed(t, s, Options{Recipient: "driver-1", Window: 16})
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				if err := s.publish(draft("driver-1", fmt.Sprintf("p%d-%d", p, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	defer wg.Wait()
	last := make(map[string]int)
	for seq := uint64(1); seq <= uint64(publishers*each); seq++ {
		f := c.want("notification")
		for f.Attempt > 1 && f.Seq < seq { // redelivered, because its acknowledgement took longer than the redelivery interval
			f = c.want("notification")
		}
		if f.Seq != seq {
			t.Fatalf("got seq %d after %d", f.Seq, seq-1)
		}
		var i int
		p, number, _ := strings.Cut(f.ID, "-")
		if _, err := fmt.Sscan(number, &i); err != nil || i != last[p] {
			t.Fatalf("%s came after %d of %s", f.ID, last[p], p)
		}
		last[p]++
		c.ack(f.ID)
	}
	for p := range publishers {
		s.Await(t, event.Acked, fmt.Sprintf("p%d-%d", p, each-1))
	}
}

package gatetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/messaging/pubsub"
)

// Tell publishes JSON to a topic.
func (s *Server) Tell(t testing.TB, topic, data string) {
	t.Helper()
	must(t, s.tell(topic, []byte(data)))
}

func (s *Server) tell(topic string, data []byte) error { return s.far().tellHere(topic, data) }

// tellHere publishes at this node.
func (s *Server) tellHere(topic string, data []byte) error {
	return s.Topics.Publish(context.Background(), App, &pubsub.Message{Topic: topic, Data: data, ContentType: "application/json"})
}

// TopicsToken makes a client token with the right to subscribe to these patterns of topics.
func (s *Server) TopicsToken(t testing.TB, recipient string, topics ...string) string {
	t.Helper()
	text, _, err := s.Access.MintToken(App, access.TokenRequest{Recipient: recipient, TTL: time.Minute, Topics: topics})
	must(t, err)
	return text
}

// subscribed sends a subscribe frame, and returns once it is in effect.
func (c *conn) subscribed(queue string, topics ...string) {
	c.t.Helper()
	c.send(`{"subscribe":{"topics":%s,"queue":%q}}`, list(topics), queue)
	c.settled()
}

func list(names []string) []byte {
	b := []byte("[")
	for i, n := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%q", n)
	}
	return append(b, ']')
}

// message reads the next frame and checks that it is this message.
func (c *conn) message(topic, data string) {
	c.t.Helper()
	if f := c.want("message"); f.Topic != topic || string(f.Data) != data || f.Gap != 0 {
		c.t.Fatalf("got %s %s, gap %d; want %s %s", f.Topic, f.Data, f.Gap, topic, data)
	}
}

func subscriberGets(t *testing.T, g *Gate, s *Server) {
	a := g.welcomed(t, s, Options{Recipient: "driver-1"})
	b := g.welcomed(t, s, Options{Recipient: "driver-2"})
	a.subscribed("", "rides.*", "rides.>", "rides.oslo")
	b.subscribed("", "rides.oslo")
	s.Tell(t, "rides.oslo", `{"n":1}`)
	s.Tell(t, "rides.oslo.new", `{"n":2}`)
	s.Tell(t, "other", `{"n":3}`)
	s.Tell(t, "rides.bergen", `{"n":4}`)
	a.message("rides.oslo", `{"n":1}`) // once, although three patterns match
	a.message("rides.oslo.new", `{"n":2}`)
	a.message("rides.bergen", `{"n":4}`)
	b.message("rides.oslo", `{"n":1}`)
	s.Send(t, draft("driver-1", "ride-1"))
	a.note("ride-1")
	a.send(`{"unsubscribe":{"topics":["rides.*","rides.>","never"]}}`)
	a.send(`{"subscribe":{"topics":["rides.oslo"]}}`) // again
	a.settled()
	s.Tell(t, "rides.bergen", `{"n":5}`)
	s.Tell(t, "rides.oslo", `"text"`)
	a.message("rides.oslo", `"text"`)
	b.message("rides.oslo", `"text"`)
	g.leaves(t, b, "driver-2")
	g.leaves(t, a, "driver-1")
	s.Unsubscribed(t)
}

// Unsubscribed waits until no session has a subscription.
func (s *Server) Unsubscribed(t testing.TB) {
	t.Helper()
	late := time.Now().Add(Patience)
	for _, s := range s.each() {
		for ; s.Topics.Counts().Subscriptions > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%d subscriptions are left", s.Topics.Counts().Subscriptions)
			}
		}
	}
}

func membersShare(t *testing.T, g *Gate, s *Server) {
	const count = 100
	a := g.welcomed(t, s, Options{Recipient: "worker-1"})
	b := g.welcomed(t, s, Options{Recipient: "worker-2"})
	both := g.welcomed(t, s, Options{Recipient: "worker-3"})
	for _, member := range []*conn{a, b} {
		member.subscribed("q", "jobs.*")
		member.subscribed("", "end")
	}
	both.subscribed("", "jobs.*")
	nodes := s.each() // a message prefers a member on the node where it is published
	for k, n := range nodes {
		first, last := k*count/len(nodes), (k+1)*count/len(nodes)
		for i := first; i < last; i++ {
			must(t, n.tellHere("jobs.x", fmt.Append(nil, i)))
		}
		must(t, n.tellHere("end", []byte("1"))) // arrives after all of these: an app's messages keep their order
		for i := first; i < last; i++ {
			both.message("jobs.x", fmt.Sprint(i))
		}
	}
	seen := map[string]int{}
	share := func(c *conn) (n int) {
		for ends := 0; ends < len(nodes); {
			if f := c.want("message"); f.Topic == "end" {
				ends++
			} else {
				seen[string(f.Data)]++
				n++
			}
		}
		return n
	}
	n, m := share(a), share(b)
	if n+m != count || len(seen) != count || n < count/10 || m < count/10 {
		t.Errorf("the members got %d and %d, %d of %d different ones", n, m, len(seen), count)
	}
	a.send(`{"unsubscribe":{"topics":["jobs.*"],"queue":"q"}}`)
	a.settled()
	s.Tell(t, "jobs.x", `"last"`)
	b.message("jobs.x", `"last"`)
}

// any takes the next frame.
func (c *conn) any() Frame {
	c.t.Helper()
	f, err := c.next()
	must(c.t, err)
	return f
}

func subscriptionRefused(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "driver-1", Token: s.TopicsToken(t, "driver-1", "rides.*", "users.{sub}.>")})
	c.send(`{"subscribe":{"topics":["rides.>","rides.oslo","users.driver-1.inbox","users.driver-2.inbox",">"]}}`)
	want := []string{"rides.>", "users.driver-2.inbox", ">"}
	if f := c.want("error"); f.Code != "forbidden" || f.Field != "topics" || !slices.Equal(f.Refused, want) {
		t.Errorf("got %+v, want forbidden and %q", f, want)
	}
	c.at.reach(t)
	s.Tell(t, "rides.oslo.new", `1`)
	s.Tell(t, "users.driver-2.inbox", `2`)
	s.Tell(t, "users.driver-1.inbox", `3`)
	s.Tell(t, "rides.oslo", `4`)
	c.message("users.driver-1.inbox", `3`)
	c.message("rides.oslo", `4`)
	if !g.AnyName {
		c.send(`{"subscribe":{"topics":["a..b"]}}`)
		if f := c.want("error"); f.Code != "bad_field" || f.Field != "topics" {
			t.Errorf("answered with %+v, want bad_field of topics", f)
		}
	}
	none := g.welcomed(t, s, Options{Recipient: "driver-1", Token: s.Token(t, "driver-1", time.Minute)})
	none.send(`{"subscribe":{"topics":["rides.oslo"],"queue":"q"}}`)
	if f := none.want("error"); f.Code != "forbidden" || !slices.Equal(f.Refused, []string{"rides.oslo"}) {
		t.Errorf("without a claim: %+v, want forbidden", f)
	}
	all := g.welcomed(t, s, Options{Recipient: "driver-3"})
	names := make([]string, 128)
	for round := range 3 {
		for i := range names {
			names[i] = fmt.Sprintf("n%d.%d", round, i)
		}
		all.send(`{"subscribe":{"topics":%s}}`, list(names))
	}
	if f := all.want("error"); f.Code != "too_many_topics" || !slices.Equal(f.Refused, names) {
		t.Errorf("384 patterns: %+v, want the last 128 refused", f)
	}
	all.at.reach(t)
	s.Tell(t, "n2.0", `1`)
	s.Tell(t, "n1.127", `2`)
	all.message("n1.127", `2`)
}

func tokenEndsSubscriptions(t *testing.T, g *Gate, s *Server) {
	c := g.welcomed(t, s, Options{Recipient: "driver-1", Token: s.TopicsToken(t, "driver-1", "a.*", "b")})
	c.subscribed("", "a.*", "a.1", "b")
	c.send(`{"hello":{"token":%q}}`, s.TopicsToken(t, "driver-1", "a.1"))
	if f := c.want("error"); f.Code != "forbidden" || !slices.Equal(f.Refused, []string{"a.*", "b"}) {
		t.Errorf("got %+v, want what ended", f)
	}
	c.want("welcome")
	for _, topic := range []string{"a.2", "b", "a.1"} {
		s.Tell(t, topic, `1`)
	}
	c.message("a.1", `1`)
}

// slowSubscriber publishes far more than any queue can hold to a client that does not read, and a notification in between.
func slowSubscriber(t *testing.T, g *Gate, s *Server) {
	slow := g.unreading(t, s, Options{Recipient: "slow"})
	quick := g.welcomed(t, s, Options{Recipient: "quick"})
	slow.subscribed("", "storm")
	quick.subscribed("", "quiet")
	const size = 60 << 10
	count := g.unread() / size
	data := fmt.Appendf(nil, "%q", bytes.Repeat([]byte("x"), size))
	for i := range count {
		must(t, s.tell("storm", data))
		if i == count/2 {
			s.Send(t, draft("slow", "ride-1"))
			s.Tell(t, "quiet", `1`)
			quick.message("quiet", `1`)
		}
	}
	queued := s.Reactor.Stats().Queued
	if g.Queued != nil {
		queued = g.Queued(s)
	}
	if queued > QueueBytes+2*size {
		t.Errorf("%d bytes are queued for a client that does not read, want at most about %d", queued, QueueBytes)
	}
	messages, gaps, notified := 0, 0, false
	for messages+gaps < count || !notified {
		switch f := slow.any(); f.Name {
		case "message":
			gaps += f.Gap
			if f.Gap == 0 {
				messages++
			}
		case "notification":
			slow.ack(f.ID)
			notified = true
		default:
			t.Fatalf("got %+v", f)
		}
	}
	if messages+gaps != count || gaps == 0 || messages == 0 {
		t.Errorf("%d messages and gaps of %d, want %d together", messages, gaps, count)
	}
	s.Await(t, event.Acked, "ride-1")
	s.Tell(t, "storm", `1`)
	f := slow.any()
	for f.Name == "notification" && f.Attempt > 1 { // on a slow machine, reading all messages takes longer than the redelivery interval
		f = slow.any()
	}
	if f.Name != "message" || f.Topic != "storm" || string(f.Data) != `1` || f.Gap != 0 {
		t.Errorf("got %+v, want the message that follows the storm", f)
	}
}

func querySubscribes(t *testing.T, g *Gate) {
	s := g.start(t)
	c := g.welcomed(t, s, Options{Recipient: "driver-1", Topics: []string{"rides.*", "alerts.>"}})
	q := g.welcomed(t, s, Options{Recipient: "driver-1", Topics: []string{"rides.*"}, Queue: "q"})
	c.settled()
	q.settled()
	s.Tell(t, "rides.oslo", `1`)
	s.Tell(t, "alerts.a.b", `2`)
	c.message("rides.oslo", `1`)
	c.message("alerts.a.b", `2`)
	q.message("rides.oslo", `1`)
	g.wantRefusal(t, s, Options{Recipient: "driver-1", Topics: []string{"a..b"}}, 400, "")
	g.wantRefusal(t, s, Options{Recipient: "driver-1", Topics: []string{"a"}, Queue: "a b"}, 400, "")
	token := s.TopicsToken(t, "driver-1", "rides.oslo")
	c = g.welcomed(t, s, Options{Recipient: "driver-1", Token: token, Topics: []string{"rides.*", "rides.oslo"}})
	if f := c.want("error"); f.Code != "forbidden" || !slices.Equal(f.Refused, []string{"rides.*"}) {
		t.Errorf("got %+v, want forbidden", f)
	}
	c.at.reach(t)
	s.Tell(t, "rides.oslo", `3`)
	c.message("rides.oslo", `3`)
	var refused *Refused
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	if _, err := g.Dial(t, s, Options{Recipient: "driver-1", Topics: many}); !errors.As(err, &refused) || refused.Status != 400 {
		t.Errorf("257 topics: %v, want 400", err)
	}
}

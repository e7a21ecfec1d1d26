package bus_test

import (
	"strconv"
	"testing"

	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// TestLines checks that both ways to carry a line behave the same: between the servers of two nodes, and over a NATS that connects them.
func TestLines(t *testing.T) {
	for name, nodes := range map[string]func(t *testing.T) (one, other *bus.Bus){
		"routes": two,
		"external NATS": func(t *testing.T) (one, other *bus.Bus) {
			s, _ := elsewhere(t, -1)
			with := bus.External{URL: s.ClientURL(), Nodes: "x"}
			return startWith(t, with), startWith(t, with)
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, other := nodes(t)
			from, _, _ := line(t, one, bus.Mailboxes)
			to, got, lost := line(t, other, bus.Mailboxes)
			say := func(subject, data string) {
				t.Helper()
				if err := from.Publish(subject, []byte(data)); err != nil {
					t.Fatal(err)
				}
			}
			// known returns once the publishing node has learnt of a subscription.
			known := func(subject string) {
				t.Helper()
				eventually.True(t, subject+" is heard", func() bool { return from.Publish(subject, []byte("?")) == nil && len(got) > 0 })
				say(subject, "known")
				for m := range got {
					if m == subject+" known" {
						return
					}
				}
			}
			subscribe := func(subject string) interface{ End() } {
				t.Helper()
				of, err := to.Subscribe(subject)
				if err != nil {
					t.Fatal(err)
				}
				return of
			}
			stays, ends := subscribe("r.stays"), subscribe("r.ends")
			known("r.ends")
			known("r.stays")
			for i := range 1000 {
				say("r.stays", strconv.Itoa(i))
			}
			for i := range 1000 {
				if m := <-got; m != "r.stays "+strconv.Itoa(i) {
					t.Fatalf("message %d is %q", i, m)
				}
			}

			ends.End()
			if err := to.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			say("r.ends", "")
			say("r.stays", "after the end")
			if m := <-got; m != "r.stays after the end" {
				t.Errorf("after it has ended comes %q", m)
			}

			ends = subscribe("r.ends")
			for len(lost) > 0 {
				<-lost
			}
			to.Cut()
			ends.End()
			subscribe("r.later")
			<-lost // it is connected again
			known("r.later")
			known("r.stays")
			say("r.ends", "")
			say("r.stays", "again")
			if m := <-got; m != "r.stays again" {
				t.Errorf("after it was cut and another has ended comes %q", m)
			}
			stays.End()
		})
	}
}

func TestLinesCarryWhatTheLargestNotificationNeeds(t *testing.T) {
	one, other := two(t)
	from, _, _ := line(t, one, bus.Mailboxes)
	to, got, _ := line(t, other, bus.Mailboxes)
	if _, err := to.Subscribe("x"); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the line is heard", func() bool { return from.Publish("x", nil) == nil && len(got) > 0 })
	large := make([]byte, 2*bus.MaxPayload)
	if err := from.Publish("x", large); err != nil {
		t.Fatal(err)
	}
	for m := range got {
		if len(m) == len(large)+len("x ") {
			break
		}
	}
}

package session

import (
	"fmt"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
)

func TestRightsThatManyHaveAreNotKept(t *testing.T) {
	all := []string{">"}
	for _, c := range []struct {
		client  access.Client
		want    Rights
		special bool
	}{
		{access.Client{}, Rights{}, false},
		{access.Client{Topics: all, Serve: all}, Rights{Topics: all, Serve: all}, false},
		{access.Client{Topics: all}, Rights{Topics: all}, false},
		{access.Client{Serve: all}, Rights{Serve: all}, false},
		{access.Client{Topics: []string{"a.*"}}, Rights{Topics: []string{"a.*"}}, true},
		{access.Client{Topics: all, Serve: []string{"s"}}, Rights{Topics: all, Serve: []string{"s"}}, true},
		{access.Client{Objects: []string{}}, Rights{Objects: []string{}}, true},
		{access.Client{Topics: []string{}}, Rights{Topics: []string{}}, true},
	} {
		r, special := rights(c.client)
		if r == nil {
			r = &Rights{}
		}
		if fmt.Sprintf("%#v", *r) != fmt.Sprintf("%#v", c.want) || special != c.special {
			t.Errorf("%+v has %+v, special %t; want %+v, %t", c.client, *r, special, c.want, c.special)
		}
	}
}

func TestASessionWithoutSideKeepsItsGrants(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &topics{}
		w.hub.offer([]Capability{p})
		c := w.connect(frame.Hello{Recipient: "anna", Token: "topics"})
		w.expect(c, "welcome")
		if c.s.side != nil {
			t.Fatalf("it keeps %+v", c.s.side)
		}
		c.s.Frame(&frame.Client{Kind: frame.KindSubscribe})
		if r := c.s.side.who.Rights; fmt.Sprint(r.Topics, r.Serve) != "[>] []" {
			t.Errorf("it may subscribe to %v and serve %v", r.Topics, r.Serve)
		}
		c.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{Token: "one topic"}})
		w.expect(c, "welcome")
		if r := c.s.side.who.Rights; fmt.Sprint(r.Topics, r.Serve) != "[a] [>]" {
			t.Errorf("a new token allows topics %v and serving %v", r.Topics, r.Serve)
		}
	})
}

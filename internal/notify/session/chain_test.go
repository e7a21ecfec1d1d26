package session

import (
	"slices"
	"strconv"
	"testing"

	"godwit.dev/godwit/internal/notify/frame"
)

func TestBatchForOneRecipientIsWrittenOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		anna, phone := w.connect(frame.Hello{Recipient: "anna"}), w.connect(frame.Hello{Recipient: "anna", Device: "phone"})
		bob := w.connect(frame.Hello{Recipient: "bob", Window: 2})
		carl := w.connect(frame.Hello{Recipient: "carl"})
		for _, c := range []*wire{anna, phone, bob, carl} {
			w.expect(c, "welcome")
			c.left()
		}
		pieces := func(c *wire, want ...int) {
			t.Helper()
			if got := c.left(); !slices.Equal(got, want) {
				t.Errorf("frames left in pieces of %v, want %v", got, want)
			}
		}
		w.mail.publishAtOnce(copyOf{"anna", "a1"}, copyOf{"bob", "b1"}, copyOf{"bob", "b2"}, copyOf{"anna", "a2"}, copyOf{"carl", "c1"},
			copyOf{"nobody", "x"}, copyOf{"bob", "b3"}, copyOf{"anna", "a3"})
		for _, c := range []*wire{anna, phone} {
			w.expect(c, "notification a1", "notification a2", "notification a3")
			pieces(c, 3)
		}
		w.expect(bob, "notification b1", "notification b2") // as many as fit into the window
		pieces(bob, 2)
		w.expect(carl, "notification c1")
		pieces(carl, 1)
		bob.ack("b1", "b2")
		w.expect(bob, "notification b3")
	})
}

func TestABacklogLeavesInOnePiece(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 5 {
			w.publish("anna", "n"+strconv.Itoa(i))
		}
		c := w.connect(frame.Hello{Recipient: "anna"})
		w.expect(c, "welcome", "notification n0", "notification n1", "notification n2", "notification n3", "notification n4")
		if got, want := c.left(), []int{1, 5}; !slices.Equal(got, want) {
			t.Errorf("frames left in pieces of %v, want %v", got, want)
		}
	})
}

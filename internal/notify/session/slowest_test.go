package session

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/notify/frame"
)

// names tells lags apart.
func names(lags []Lag) string {
	var out []string
	for _, l := range lags {
		out = append(out, l.Recipient)
	}
	return strings.Join(out, " ")
}

// clogged is a connection with bytes in its queue.
type clogged struct {
	wire
	bytes int
}

func (c *clogged) Queued() int { return c.bytes }

func TestSlowestFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"anna", "bert", "carl", "dora"} {
			w.expect(w.connect(frame.Hello{Recipient: name}), "welcome")
		}
		w.publish("bert", "n1")
		w.publish("anna", "n2")
		w.publish("anna", "n3")
		w.publish("carl", "n4")
		full := &clogged{bytes: 5000}
		full.s = w.hub.Accept(full, Peer{})
		full.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{Recipient: "emil"}})
		full.got()
		slowest := func(app string, by Order, n int) []Lag {
			lags, partial, err := w.hub.Slowest(t.Context(), app, by, n)
			if partial || err != nil {
				t.Errorf("partial %t, %v", partial, err)
			}
			return lags
		}
		if got := names(slowest("demo", ByOldest, 10)); got != "bert anna carl emil" {
			t.Errorf("by the oldest: %s", got)
		}
		if got := slowest("demo", ByUnacked, 1); names(got) != "anna" || got[0].Unacked != 2 || got[0].Gateway != "test" {
			t.Errorf("by number: %+v", got)
		}
		if got := slowest("demo", ByQueued, 1); names(got) != "emil" || got[0].Queued != 5000 || got[0].Oldest != 0 {
			t.Errorf("by queue: %+v", got)
		}
		if got := slowest("other", ByOldest, 10); len(got) != 0 {
			t.Errorf("of another app: %+v", got)
		}
	})
}

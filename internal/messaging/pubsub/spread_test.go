package pubsub

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// spreading makes a service with so many spreaders, and sessions that subscribe to one topic.
func spreading(t *testing.T, spreaders, sessions int, f func(w *world, all []*client)) {
	synctest.Test(t, func(t *testing.T) {
		bus := &wires{}
		w := &world{t: t, bus: bus, svc: New(Config{Bus: bus, Spreaders: spreaders})}
		all := make([]*client, sessions)
		for i := range all {
			all[i] = w.connect()
			all[i].subscribe("rides.*")
		}
		f(w, all)
		if err := w.svc.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestManySessionsGetMessagesInTheirOrder(t *testing.T) {
	for _, spreaders := range []int{1, 2, 8} {
		for _, sessions := range []int{2*spreadFrom - 1, 2 * spreadFrom, 8*spreadFrom + 7} {
			spreading(t, spreaders, sessions, func(w *world, all []*client) {
				var names []string
				for n := range 40 {
					names = append(names, fmt.Sprint("rides.", n))
				}
				w.publish(names...)
				for i, c := range all {
					if got := c.take(); !slices.Equal(got, names) {
						t.Fatalf("%d spreaders, session %d of %d: got %d messages, not each in its order: %q", spreaders, i, sessions, len(got), got)
					}
				}
			})
		}
	}
}

// waits is a connection whose first write waits for that of another one.
type waits struct {
	*client
	before func()
}

func (w waits) Send(k frame.ServerKind, head, tail []byte) bool {
	w.before()
	return w.client.Send(k, head, tail)
}

// TestSpreadersWorkAtTheSameTime: the first session's message is written once the last one's is. One goroutine would wait for ever.
func TestSpreadersWorkAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, bus: &wires{}}
		w.svc = New(Config{Bus: w.bus, Spreaders: 2})
		written := make(chan struct{})
		all := make([]*client, 2*spreadFrom)
		for i := range all {
			all[i] = &client{t: t, format: frame.JSON}
			to := session.Sender(all[i])
			switch i {
			case 0:
				to = waits{all[i], func() { <-written }}
			case len(all) - 1:
				to = waits{all[i], func() { close(written) }}
			}
			all[i].part = w.svc.Open(t.Context(), to, session.Client{App: app, Rights: &session.Rights{Topics: []string{">"}}}, false)
			all[i].subscribe("rides")
		}
		w.publish("rides")
		for _, c := range all {
			c.want("rides")
		}
		if err := w.svc.Close(); err != nil {
			t.Error(err)
		}
	})
}

package rides

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// driver is one recipient's client: it connects, acknowledges its notifications, and reconnects when it was cut off.
type driver struct {
	name      string
	transport string
	server    *blackbox.Server
	rand      *rand.Rand
	witness   *witness
}

// run keeps the driver connected until ctx ends.
func (d *driver) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := d.session(ctx); err != nil && ctx.Err() == nil {
			d.pause(ctx)
		}
	}
}

// pause waits for a random time before the next attempt, so that a thousand drivers do not reconnect at the same instant.
func (d *driver) pause(ctx context.Context) {
	timer := time.NewTimer(time.Duration(20+d.rand.IntN(180)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

var errCut = errors.New("cut by the test")

// session runs one connection. One in ten is cut after some notifications, before the last is acknowledged.
func (d *driver) session(ctx context.Context) error {
	link, err := d.server.Dial(ctx, d.transport, blackbox.Hello{App: "demo", Recipient: d.name})
	if err != nil {
		return err
	}
	defer link.Cut()
	left := -1
	if d.rand.IntN(10) == 0 {
		left = d.rand.IntN(4)
		d.witness.cut()
	}
	for {
		f, err := link.Next(ctx)
		switch {
		case err != nil:
			return err
		case f.Goodbye != nil:
			return fmt.Errorf("goodbye: %s", f.Goodbye.Reason)
		case f.Error != nil:
			d.witness.complain("%s got an error frame: %+v", d.name, *f.Error)
			return errCut
		case f.Notification == nil:
			continue
		}
		d.witness.arrived(d.name, f.Notification, time.Now())
		if left == 0 {
			return errCut
		}
		left--
		if err := link.Ack(ctx, f.Notification.ID); err != nil {
			return err
		}
	}
}

// witness checks every arrival against the promises, and counts arrivals.
type witness struct {
	mu         sync.Mutex
	rides      map[string]*Ride // by id
	seen       map[string]bool  // by id, since a ride has one recipient
	last       map[string]uint64
	cuts       int
	arrivals   int
	complaints []string
}

func newWitness(rides []Ride) *witness {
	w := &witness{rides: map[string]*Ride{}, seen: map[string]bool{}, last: map[string]uint64{}}
	for i := range rides {
		w.rides[rides[i].ID] = &rides[i]
	}
	return w
}

// late is how long after its expiry a notification may arrive: it may have been under way.
const late = 5 * time.Second

func (w *witness) arrived(to string, n *blackbox.Notification, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrivals++
	ride := w.rides[n.ID]
	switch {
	case ride == nil:
		w.note("%s got %s, which was never published", to, n.ID)
		return
	case ride.To != to:
		w.note("%s got %s, which is for %s", to, n.ID, ride.To)
	case string(ride.Data) != string(n.Data) && !sameJSON(ride.Data, n.Data):
		w.note("%s arrived with other data", n.ID)
	case n.Priority != ride.Priority:
		w.note("%s arrived with priority %s, published with %s", n.ID, n.Priority, ride.Priority)
	case at.After(n.ExpiresAt.Add(late)):
		w.note("%s arrived %s after it expired", n.ID, at.Sub(n.ExpiresAt))
	}
	if w.seen[n.ID] {
		return
	}
	w.seen[n.ID] = true
	stream := to + " " + n.Priority
	if n.Seq <= w.last[stream] {
		w.note("%s of %s came first with seq %d, after seq %d", n.ID, stream, n.Seq, w.last[stream])
	}
	w.last[stream] = n.Seq
}

func (w *witness) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts++
}

func (w *witness) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(format, args...)
}

// note records a complaint. The caller holds w.mu.
func (w *witness) note(format string, args ...any) {
	const most = 20
	if len(w.complaints) < most {
		w.complaints = append(w.complaints, fmt.Sprintf(format, args...))
	}
}

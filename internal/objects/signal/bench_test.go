package signal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/store/sqlite/objectdb"
)

// counter is a peer that counts its frames.
type counter struct {
	objects, answers *atomic.Int64
	reached          chan struct{} // has room for one
	target           *atomic.Int64
}

func (c *counter) Format() frame.Format { return frame.Proto }

func (c *counter) Send(_ frame.ServerKind, head, _ []byte) bool {
	n := c.objects
	if head != nil {
		n = c.answers
	}
	if n.Add(1) == c.target.Load() {
		c.reached <- struct{}{}
	}
	return true
}

func (c *counter) Cork()   {}
func (c *counter) Uncork() {}

func (c *counter) Queued() int { return 0 }

func openBench(b *testing.B) *signal.Service {
	b.Helper()
	db, err := objectdb.Open(context.Background(), filepath.Join(b.TempDir(), "o.db"), objectdb.Config{MinFree: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	svc := signal.New(signal.Config{Store: db})
	b.Cleanup(func() {
		if err := errors.Join(svc.Close(), db.Close()); err != nil {
			b.Error(err)
		}
	})
	return svc
}

func joined(svc *signal.Service, i int, device string, p session.Sender) session.Part {
	s := svc.Open(context.Background(), p, session.Client{App: app, Recipient: fmt.Sprint("unit-", i), Group: "north", Device: device}, false)
	s.Join()
	s.Start()
	return s
}

// BenchmarkFanOut puts an object for which a thousand sessions are registered, and waits until all have its state.
func BenchmarkFanOut(b *testing.B) {
	const sessions = 1000
	svc := openBench(b)
	peer := &counter{objects: new(atomic.Int64), answers: new(atomic.Int64), target: new(atomic.Int64), reached: make(chan struct{}, 1)}
	peer.target.Store(sessions)
	f := &frame.Client{Kind: frame.KindRegister, Objects: [][]byte{[]byte("a")}}
	for i := range sessions {
		s := joined(svc, i, "", peer)
		s.Frame(f)
		defer s.Closed()
	}
	<-peer.reached // the answers,
	<-peer.reached // and the object's state
	b.ReportAllocs()
	for b.Loop() {
		peer.objects.Store(0)
		if _, _, err := svc.Put(context.Background(), app, object.Key{Group: "north", Object: "a"}, &object.Put{}); err != nil {
			b.Fatal(err)
		}
		<-peer.reached
	}
}

// BenchmarkResync lets a thousand devices register for fifty objects each, as after a total loss, and waits until all registrations are
// stored and answered.
func BenchmarkResync(b *testing.B) {
	const devices, each = 1000, 50
	f := &frame.Client{Kind: frame.KindRegister, Reset: true}
	for i := range each {
		f.Objects = append(f.Objects, fmt.Append(nil, "object-", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		svc := openBench(b)
		peer := &counter{objects: new(atomic.Int64), answers: new(atomic.Int64), target: new(atomic.Int64), reached: make(chan struct{}, 1)}
		peer.target.Store(devices)
		var sessions []session.Part
		for i := range devices {
			sessions = append(sessions, joined(svc, i, "main", peer))
		}
		b.StartTimer()
		for _, s := range sessions {
			s.Frame(f)
		}
		<-peer.reached
		b.StopTimer()
		for _, s := range sessions {
			s.Closed()
		}
		b.StartTimer()
	}
	b.ReportMetric(devices*each*float64(b.N)/b.Elapsed().Seconds(), "registrations/s")
}

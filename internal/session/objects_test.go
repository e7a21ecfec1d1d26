package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/frame"
)

// signals notes what sessions ask of objects. Devices whose name begins with "r" have registrations.
type signals struct {
	mu    sync.Mutex
	calls []string
	gate  chan struct{} // opening waits for it; nil: it does not
}

func (o *signals) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, fmt.Sprintf(format, args...))
}

func (o *signals) want(t *testing.T, calls ...string) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.calls, calls) {
		t.Errorf("objects were asked %q, want %q", o.calls, calls)
	}
	o.calls = nil
}

func (o *signals) Open(_ context.Context, _ ObjectPeer, who ObjectClient, load bool) ObjectSession {
	o.note("open %s load %t", who.Device, load)
	if o.gate != nil {
		<-o.gate
	}
	if load && who.Device[0] != 'r' {
		return nil
	}
	return &signalSession{o}
}

type signalSession struct{ o *signals }

func (s *signalSession) Join()                    { s.o.note("join") }
func (s *signalSession) Start()                   { s.o.note("start") }
func (s *signalSession) Digest() (string, int)    { return "00000000000000aa", 3 }
func (s *signalSession) Register(f *frame.Client) { s.o.note("register %s", f.Objects) }
func (s *signalSession) Ack(f *frame.Client)      { s.o.note("ack %s", f.Object) }
func (s *signalSession) Renew(who ObjectClient)   { s.o.note("renew") }
func (s *signalSession) Drained()                 { s.o.note("drained") }
func (s *signalSession) Closed()                  { s.o.note("closed") }
func register(objects ...string) (f *frame.Client) {
	f = &frame.Client{Kind: frame.KindRegister}
	for _, o := range objects {
		f.Objects = append(f.Objects, []byte(o))
	}
	return f
}

func TestIdleSessionKeepsNothingForObjects(t *testing.T) {
	inWorld(t, func(w *world) {
		o := &signals{}
		w.hub.cfg.Objects = o
		for _, device := range []string{"", "phone"} {
			c := w.connect(frame.Hello{Recipient: "anna", Device: device})
			w.expect(c, "welcome")
			if c.s.side != nil {
				t.Errorf("a session of device %q keeps %+v", device, c.s.side)
			}
		}
		o.want(t, "open phone load true") // what is registered, and nothing is
	})
}

func TestDeviceWithRegistrationsJoinsBeforeItsWelcome(t *testing.T) {
	inWorld(t, func(w *world) {
		o := &signals{}
		w.hub.cfg.Objects = o
		c := w.connect(frame.Hello{Recipient: "anna", Device: "radio"})
		w.expect(c, "welcome")
		o.want(t, "open radio load true", "join", "start")
		c.s.Frame(register("a"))
		c.s.Frame(&frame.Client{Kind: frame.KindObjectAck, Object: []byte("a"), Version: 1})
		c.s.Drained()
		o.want(t, "register [a]", "ack a", "drained")
		c.s.Closed()
		o.want(t, "closed")
		c.s.Drained()
		o.want(t)
	})
}

func TestFirstRegistrationOpensWithoutWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		o := &signals{}
		w.hub.cfg.Objects = o
		c := w.connect(frame.Hello{Recipient: "anna"})
		c.s.Frame(&frame.Client{Kind: frame.KindObjectAck, Object: []byte("a"), Version: 1}) // of what is no longer registered
		c.s.Frame(register("a"))
		c.s.Frame(register("b"))
		o.want(t, "open  load false", "join", "start", "register [a]", "register [b]")
		c.s.Closed()
		o.want(t, "closed")
	})
}

func TestClientThatLeavesWhileItsRegistrationsAreReadNeverJoins(t *testing.T) {
	inWorld(t, func(w *world) {
		o := &signals{gate: make(chan struct{})}
		w.hub.cfg.Objects = o
		c := w.connect(frame.Hello{Recipient: "anna", Device: "radio"})
		c.s.Closed()
		close(o.gate)
		o.want(t, "open radio load true", "closed")
		w.expect(c)
	})
}

func TestObjectsAreUnsupportedWithoutTheirPart(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect(frame.Hello{Recipient: "anna"})
		c.s.Frame(register("a"))
		w.expect(c, "welcome", "error unsupported")
		time.Sleep(time.Second)
		w.expect(c)
	})
}

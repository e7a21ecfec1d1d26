package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
)

// signals records the calls that sessions make to the objects capability. Devices whose name begins with "r" have registrations.
type signals struct {
	mu    sync.Mutex
	calls []string
	gate  chan struct{} // opening waits for this channel; nil: it does not wait
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

func (o *signals) Frames() (first, later []frame.Kind) {
	return []frame.Kind{frame.KindRegister, frame.KindUnregister}, []frame.Kind{frame.KindObjectAck}
}

func (o *signals) Open(_ context.Context, _ Sender, who Client, load bool) Part {
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

func (s *signalSession) Join()                 { s.o.note("join") }
func (s *signalSession) Start()                { s.o.note("start") }
func (s *signalSession) Digest() (string, int) { return "00000000000000aa", 3 }
func (s *signalSession) Renew(who Client)      { s.o.note("renew") }
func (s *signalSession) Drained()              { s.o.note("drained") }
func (s *signalSession) Closed()               { s.o.note("closed") }

func (s *signalSession) Frame(f *frame.Client) {
	if f.Kind == frame.KindObjectAck {
		s.o.note("ack %s", f.Object)
		return
	}
	s.o.note("register %s", f.Objects)
}

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
		w.hub.offer([]Capability{o, &topics{}})
		for _, device := range []string{"", "phone"} {
			c := w.connect(frame.Hello{Recipient: "anna", Device: device})
			w.expect(c, "welcome")
			if c.s.side != nil {
				t.Errorf("a session of device %q keeps %+v", device, c.s.side)
			}
		}
		o.want(t, "open phone load true") // reads the device's registrations, and finds none
	})
}

func TestDeviceWithRegistrationsJoinsBeforeItsWelcome(t *testing.T) {
	inWorld(t, func(w *world) {
		o := &signals{}
		w.hub.offer([]Capability{o})
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
		w.hub.offer([]Capability{o})
		c := w.connect(frame.Hello{Recipient: "anna"})
		c.s.Frame(&frame.Client{Kind: frame.KindObjectAck, Object: []byte("a"), Version: 1}) // acknowledges an object that is no longer registered
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
		w.hub.offer([]Capability{o})
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

// topics is a second capability; it stores nothing for devices.
type topics struct{ signals }

func (o *topics) Frames() (first, later []frame.Kind) {
	return []frame.Kind{frame.KindSubscribe}, []frame.Kind{frame.KindUnsubscribe}
}

func (o *topics) Open(_ context.Context, _ Sender, _ Client, load bool) Part {
	if load {
		return nil
	}
	o.note("open")
	return &signalSession{&o.signals}
}

func TestFramesFindTheirCapabilityByKind(t *testing.T) {
	inWorld(t, func(w *world) {
		o, p := &signals{}, &topics{}
		w.hub.offer([]Capability{o, p})
		c := w.connect(frame.Hello{Recipient: "anna"})
		c.s.Frame(&frame.Client{Kind: frame.KindUnsubscribe}) // of nothing
		c.s.Frame(register("a"))
		o.want(t, "open  load false", "join", "start", "register [a]")
		p.want(t)
		c.s.Frame(&frame.Client{Kind: frame.KindSubscribe})
		c.s.Frame(&frame.Client{Kind: frame.KindUnsubscribe})
		c.s.Frame(&frame.Client{Kind: frame.KindServe})
		p.want(t, "open", "join", "start", "register []", "register []")
		w.expect(c, "welcome", "error unsupported")
		c.s.Drained()
		c.s.Closed()
		o.want(t, "drained", "closed")
		p.want(t, "drained", "closed")
	})
}

func TestANewTokenReachesEveryCapabilityInUse(t *testing.T) {
	inWorld(t, func(w *world) {
		o, p := &signals{}, &topics{}
		w.hub.offer([]Capability{o, p})
		c := w.connect(frame.Hello{Recipient: "anna", Device: "radio"})
		c.s.Frame(&frame.Client{Kind: frame.KindSubscribe})
		o.want(t, "open radio load true", "join", "start")
		p.want(t, "open", "join", "start", "register []")
		c.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{Token: "1h"}})
		o.want(t, "renew")
		p.want(t, "renew")
		w.expect(c, "welcome", "welcome")
	})
}

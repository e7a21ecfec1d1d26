package mqttgate_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate"
	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store"
)

// kept is a server whose app lets the messages of kept.> wait for devices.
type kept struct {
	*gatetest.Server
	filters *filterdb.Store
	open    func() *filterdb.Store // as another node does
	stored  *filterdb.Sessions
	db      *heldDB // of stored
	metrics *prometheus.Registry
	gateway *mqttgate.Gateway
	ahead   atomic.Int64 // of the gateway's clock and that of the filters
}

// pass lets time pass for sessions and filters.
func (k *kept) pass(d time.Duration) {
	k.ahead.Add(int64(d))
	k.gateway.Sweep()
	stored := make(chan error, 1)
	k.filters.Keep(filterdb.Device{App: "other", Name: "last"}, []string{"x"}, time.Now().Add(24*time.Hour), func(err error) { stored <- err })
	<-stored // and what was asked for before
}

func keeping(t *testing.T, more ...func(*mqttgate.Config)) *kept {
	t.Helper()
	k := &kept{metrics: prometheus.NewPedanticRegistry()}
	now := func() time.Time { return time.Now().Add(time.Duration(k.ahead.Load())) }
	k.Server = gatetest.Start(t, func(s *gatetest.Server) {
		lite, pg := filterdb.Migrations()
		stores, err := store.Open(t.Context(), store.Config{Data: t.TempDir(), MinFree: 1 << 20, Tables: []store.Tables{{Module: "mqtt", SQLite: lite, Postgres: pg}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stores.Close() })
		k.db = &heldDB{Database: stores.Database("mqtt")}
		k.stored, err = filterdb.OpenSessions(t.Context(), filterdb.SessionsConfig{DB: k.db, Now: now, Log: s.Log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = k.stored.Close() })
		var asked mqttgate.Config
		for _, set := range more {
			set(&asked)
		}
		k.open = func() *filterdb.Store {
			filters, err := filterdb.Open(context.WithoutCancel(t.Context()), filterdb.Config{DB: stores.Database("mqtt"), Mailbox: s.Mailbox, Parse: mqttgate.ParseFilter, Several: asked.Several, Now: now, Log: s.Log})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = filters.Close() })
			return filters
		}
		k.filters = k.open()
		if err := s.Access.SetApp(t.Context(), gatetest.App, access.AppChange{MQTTKeep: &[]string{"kept.>"}}); err != nil {
			t.Fatal(err)
		}
		k.gateway = mountWith(t, s, func(c *mqttgate.Config) {
			c.QoS2, c.Filters, c.Sessions, c.Waiting, c.Now = true, k.filters, k.stored, s.Mailbox, now
			for _, set := range more {
				set(c)
			}
		})
		k.metrics.MustRegister(k.gateway)
	})
	return k
}

// metric returns the sum of a metric's values, with this value of a label if one is given.
func (k *kept) metric(t *testing.T, name, label string) (sum float64) {
	t.Helper()
	families, err := k.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == label })) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// boxes returns the mailboxes that a message of a topic goes to.
func (k *kept) boxes(name string) []string {
	list, _, _ := k.filters.Match(gatetest.App, name, func(string) bool { return false })
	return list
}

// TestFullMailboxOfADeviceStopsNobody: a device that stays away loses what its mailbox has no room for. The publisher is answered, and the
// others get everything.
func TestFullMailboxOfADeviceStopsNobody(t *testing.T) {
	s := keeping(t)
	const most, beyond = 1000, 5
	hello, props := lasting(wire.V5, "unit", "away")
	away := connect(t, s.Server, hello, props...)
	away.subscribed(1, "kept/#")
	_ = away.nc.Close()
	gone(t, s.Server)
	other, props := lasting(wire.V5, "unit", "here")
	here := connect(t, s.Server, other, props...)
	here.subscribed(1, "kept/#")
	p := connect(t, s.Server, hi(wire.V311, "ben", ""))
	const part = 48 // the one that is here keeps up, or its own mailbox would be full
	for first := 0; first < most+beyond; first += part {
		last := min(first+part, most+beyond)
		for i := first; i < last; i++ {
			p.publish(wire.Head{QoS: 1, ID: uint16(i + 1), Topic: "kept/x"}, strconv.Itoa(i))
		}
		for i := first; i < last; i++ {
			var a wire.Ack
			if err := a.Decode(p.v, p.want(wire.PUBACK)); err != nil || int(a.ID) != i+1 {
				t.Fatalf("answer %d is of packet %d: %v", i+1, a.ID, err)
			}
			m := here.message("kept/x", strconv.Itoa(i))
			here.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
		}
	}
	if n := s.metric(t, "godwit_mqtt_queue_dropped_total", ""); n != beyond {
		t.Errorf("%v messages were dropped, want %d", n, beyond)
	}
	away = connect(t, s.Server, hello, props...)
	for i := range most {
		m := away.message("kept/x", strconv.Itoa(i))
		away.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
	}
	away.ping()
}

// TestCleanStartEndsWhatWaits: whether the new session lasts or not, and whether the former connection is still open.
func TestCleanStartEndsWhatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		open  bool // the former connection is
		lasts bool
	}{"away": {false, true}, "away, for a moment": {false, false}, "open": {true, true}, "open, for a moment": {true, false}} {
		t.Run(name, func(t *testing.T) {
			s := keeping(t)
			hello, props := lasting(wire.V5, "unit", "phone")
			old := connect(t, s.Server, hello, props...)
			old.subscribed(1, "kept/#")
			if !c.open {
				_ = old.nc.Close()
				gone(t, s.Server)
			}
			p := connect(t, s.Server, hi(wire.V5, "ben", "publisher"))
			p.publish(wire.Head{QoS: 1, ID: 9, Topic: "kept/1"}, "waits in vain")
			p.acked(wire.PUBACK, wire.Success)
			hello.Clean = true
			if !c.lasts {
				props = nil
			}
			fresh := connect(t, s.Server, hello, props...)
			if fresh.ack.Present {
				t.Error("a clean start has a session")
			}
			until(t, "nothing waits for the device", func() bool { return len(s.boxes("kept.1")) == 0 })
			if c.open {
				until(t, "the former connection is gone", func() bool { return s.Hub.Live() == 2 })
			}
			if n := s.metric(t, "godwit_mqtt_sessions", "away"); n != 0 {
				t.Errorf("%v sessions are away, want none", n)
			}
			if got := fresh.subscribed(1, "kept/2"); c.lasts && got[0] != wire.GrantedQoS1 {
				t.Errorf("granted %v", got)
			}
			p.publish(wire.Head{QoS: 1, ID: 9, Topic: "kept/2"}, "two")
			p.acked(wire.PUBACK, wire.Success)
			fresh.message("kept/2", "two")
		})
	}
}

// heldTopics holds back the messages of topics until they are released.
type heldTopics struct {
	topics interface {
		Publish(ctx context.Context, app string, m *pubsub.Message) error
	}
	reached, release chan struct{}
}

func (h *heldTopics) Publish(ctx context.Context, app string, m *pubsub.Message) error {
	if m.Topic == "kept.held" {
		close(h.reached)
		<-h.release
	}
	return h.topics.Publish(ctx, app, m)
}

// TestPublishUnderWayAtACleanStartIsForTheFormerSession: it is stored after that session's messages were erased.
func TestPublishUnderWayAtACleanStartIsForTheFormerSession(t *testing.T) {
	held := &heldTopics{reached: make(chan struct{}), release: make(chan struct{})}
	s := keeping(t, func(c *mqttgate.Config) { held.topics, c.Topics = c.Topics, held })
	hello, props := lasting(wire.V5, "unit", "phone")
	old := connect(t, s.Server, hello, props...)
	old.subscribed(1, "kept/#")
	_ = old.nc.Close()
	gone(t, s.Server)
	p := connect(t, s.Server, hi(wire.V5, "ben", "publisher"))
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "kept/held"}, "for the former session")
	<-held.reached // its mailbox is known
	hello.Clean = true
	fresh := connect(t, s.Server, hello, props...)
	if got := fresh.subscribed(1, "kept/#"); got[0] != wire.GrantedQoS1 {
		t.Fatalf("granted %v", got)
	}
	close(held.release)
	p.acked(wire.PUBACK, wire.Success)
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "kept/next"}, "for the present one")
	p.acked(wire.PUBACK, wire.Success)
	m := fresh.message("kept/next", "for the present one")
	fresh.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
	until(t, "nothing waits for the device", func() bool {
		box := filterdb.Device{App: gatetest.App, Recipient: "unit", Name: "phone"}.Mailbox()
		info, err := s.Mailbox.Recipient(t.Context(), gatetest.App, box)
		return err == nil && info.Pending == 0
	})
}

// TestFiltersLastAsLongAsTheirDeviceIsConnected: and beyond its goodbye as long as its session does.
func TestFiltersLastAsLongAsTheirDeviceIsConnected(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone") // for a minute
	p := connect(t, s.Server, hello, props...)
	p.subscribed(1, "kept/#")
	for range 8 {
		s.pass(20 * time.Minute)
		if len(s.boxes("kept.1")) != 1 {
			t.Fatal("the filter of a connected device is over")
		}
		p.ping()
	}
	p.parts(s)
	until(t, "the client is away", func() bool { return s.metric(t, "godwit_mqtt_sessions", "away") == 1 })
	s.pass(59 * time.Second)
	if len(s.boxes("kept.1")) != 1 {
		t.Error("a filter ended before its session")
	}
	s.pass(2 * time.Second)
	until(t, "the filter is over", func() bool { return len(s.boxes("kept.1")) == 0 })
	if n := s.metric(t, "godwit_mqtt_sessions", "away"); n != 0 {
		t.Errorf("%v sessions are left after their time", n)
	}
	if p = connect(t, s.Server, hello, props...); p.ack.Present {
		t.Error("a session is there after its time")
	}
}

// TestFilterAtQoS0WaitsNoMore: a SUBSCRIBE replaces the subscription to the same filter, whatever its QoS was.
func TestFilterAtQoS0WaitsNoMore(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone")
	p := connect(t, s.Server, hello, props...)
	for _, qos := range []byte{1, 0, 1, 0} {
		if got := p.subscribed(qos, "kept/#"); byte(got[0]) != qos {
			t.Fatalf("granted %v, want %d", got, qos)
		}
		ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
		ben.told(1, "kept/1", "x")
		if m := p.heard(1)[0]; m.QoS != qos {
			t.Errorf("came at QoS %d, want %d", m.QoS, qos)
		}
		ben.told(0, "kept/2", "end") // until it comes, a copy of the first message may be on its way
		p.message("kept/2", "end")
	}
	if got := p.subscribed(1, "other/#", "keptnot/#", "#"); !slices.Equal(got, []wire.Reason{0, 0, 0}) {
		t.Errorf("granted %v although the app does not let these wait", got)
	}
	if boxes := s.boxes("kept.1"); len(boxes) > 0 {
		t.Errorf("messages wait in %v", boxes)
	}
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.Now().Add(gatetest.Patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// TestDeviceHasTheFiltersThatAnotherNodeStored: although this node does not know yet that the app lets messages wait.
func TestDeviceHasTheFiltersThatAnotherNodeStored(t *testing.T) {
	s := keeping(t, func(c *mqttgate.Config) { c.Several = true })
	if err := s.Access.SetApp(t.Context(), gatetest.App, access.AppChange{MQTTKeep: &[]string{}}); err != nil {
		t.Fatal(err)
	}
	stored := make(chan error, 1)
	of := filterdb.Device{App: gatetest.App, Recipient: "unit", Name: "phone"}
	s.open().Keep(of, []string{"kept/1"}, time.Now().Add(time.Hour), func(err error) { stored <- err })
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	hello, props := lasting(wire.V5, "unit", "phone")
	connect(t, s.Server, hello, props...).ping()
	if got := s.filters.Filters(of); len(got) != 1 {
		t.Errorf("the device is here with the filters %q", got)
	}
}

// TestMailboxOfADeviceIsThereOnceSomethingWaits: a device that follows topics makes no recipient, of which an erasure would leave the name.
func TestMailboxOfADeviceIsThereOnceSomethingWaits(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(1, "kept/#")
	box := filterdb.Device{App: gatetest.App, Recipient: "unit", Name: "phone"}.Mailbox()
	if info, err := s.Mailbox.Recipient(t.Context(), gatetest.App, box); !errors.Is(err, mailbox.ErrNotFound) {
		t.Errorf("the mailbox is there: %+v, %v", info, err)
	}
	p.parts(s)
	if info, err := s.Mailbox.Recipient(t.Context(), gatetest.App, box); !errors.Is(err, mailbox.ErrNotFound) {
		t.Errorf("the mailbox is there once the device has left: %+v, %v", info, err)
	}
}

package mqttgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

func draft(to, id string) notification.Draft {
	return notification.Draft{To: []string{to}, ID: id, Content: notification.Content{Title: "Ride"}}
}

// lasting is a CONNECT packet of a client whose session outlasts its connection.
func lasting(v wire.Version, recipient, client string) (*wire.Connect, []byte) {
	c := hi(v, recipient, client)
	c.Clean = false
	return c, wire.AppendNumber(nil, wire.SessionExpiry, 60)
}

func TestSecondConnectionOfADeviceTakesOver(t *testing.T) {
	s := start(t)
	for _, v := range []wire.Version{wire.V311, wire.V5} {
		c, props := lasting(v, "ann", "phone")
		old := connect(t, s, c, props...)
		if old.ack.Present && v == wire.V311 {
			t.Error("a session that never was is present")
		}
		old.subscribed(1, "inbox", "news/#")
		now := connect(t, s, c, props...)
		old.ended(wire.TakenOver)
		if !now.ack.Present {
			t.Error("the session was not taken over")
		}
		s.Tell(t, "news.oslo", `1`)
		now.message("news/oslo", "1")
		s.Send(t, draft("ann", fmt.Sprint("ride-", v)))
		m := now.note(fmt.Sprint("ride-", v))
		now.send(wire.AppendAck(nil, v, wire.PUBACK, m.ID, wire.Success, nil))
		s.Await(t, event.Acked, fmt.Sprint("ride-", v))
	}
}

func TestSessionOutlastsItsConnectionAsLongAsItWasAsked(t *testing.T) {
	s := start(t)
	c, props := lasting(wire.V5, "ann", "phone")
	p := connect(t, s, c, props...)
	p.subscribed(1, "inbox", "news/#", "$share/q/jobs")
	p.send(wire.AppendUnsubscribe(nil, wire.V5, 77, "$share/q/jobs"))
	p.suback(wire.UNSUBACK)
	p.send(wire.AppendDisconnect(nil, wire.V5, wire.Success, nil))
	gone(t, s)
	s.Send(t, draft("ann", "ride-1"))
	p = connect(t, s, c, props...)
	p.note("ride-1")
	s.Tell(t, "jobs", `1`)
	s.Tell(t, "news", `2`)
	p.message("news", "2")
	p.send(wire.AppendDisconnect(nil, wire.V5, wire.Success, wire.AppendNumber(nil, wire.SessionExpiry, 0))) // now it shall end
	gone(t, s)
	p = connect(t, s, c, props...)
	if p.ack.Present {
		t.Error("a session whose client ended it is present")
	}
	p.ping() // and no notification: the client has not subscribed
	c.Clean = true
	p.send(wire.AppendDisconnect(nil, wire.V5, wire.Success, nil))
	gone(t, s)
	if p = connect(t, s, c, props...); p.ack.Present {
		t.Error("a clean start has a session")
	}
}

// TestSubscriptionsAreThereBeforeCONNACK: a client whose session is present misses no message that is published once it knows.
func TestSubscriptionsAreThereBeforeCONNACK(t *testing.T) {
	s := start(t)
	c, props := lasting(wire.V5, "ann", "phone")
	p := connect(t, s, c, props...)
	for i := range 200 {
		p.subscribed(0, fmt.Sprintf("news/%d", i))
	}
	for i := range 20 {
		p.send(wire.AppendDisconnect(nil, wire.V5, wire.Success, nil))
		gone(t, s)
		if p = connect(t, s, c, props...); !p.ack.Present {
			t.Fatal("the session is gone")
		}
		s.Tell(t, "news.199", fmt.Sprint(i))
		p.message("news/199", fmt.Sprint(i))
	}
}

func TestCleanStartDiscardsRegistrations(t *testing.T) {
	s := start(t)
	s.Put(t, "config", object.Put{Version: 7, Payload: []byte(`1`), ContentType: "application/json"})
	c, props := lasting(wire.V5, "ann", "unit")
	p := connect(t, s, c, props...)
	if got := p.subscribed(1, "o/region-1/config"); got[0] != wire.GrantedQoS1 {
		t.Fatalf("granted %v", got)
	}
	m := p.message("o/region-1/config", "1")
	if v, _ := m.Properties.UserValue("version"); string(v) != "7" || !m.Retain || m.QoS != 1 {
		t.Errorf("came as %+v", m)
	}
	_ = p.nc.Close()
	gone(t, s)
	p = connect(t, s, c, props...) // it was not acknowledged
	m = p.message("o/region-1/config", "1")
	p.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
	p.ping()
	_ = p.nc.Close()
	gone(t, s)
	s.Put(t, "config", object.Put{Version: 8})
	c.Clean = true
	p = connect(t, s, c, props...)
	p.ping()
	s.Put(t, "config", object.Put{Version: 9})
	p.subscribed(0, "o/region-1/other")
	if m = p.message("o/region-1/other", ""); m.QoS != 0 {
		t.Errorf("came as %+v", m)
	}
	p.send(wire.AppendUnsubscribe(nil, wire.V5, 77, "o/region-1/other"))
	p.suback(wire.UNSUBACK)
	s.Put(t, "other", object.Put{Version: 1})
	p.subscribed(0, "o/region-1/third")
	p.message("o/region-1/third", "") // and neither of the others
}

// TestUnknownIsToldThoughTheLastStateIsNotAcknowledged: it has the version of that state.
func TestUnknownIsToldThoughTheLastStateIsNotAcknowledged(t *testing.T) {
	s := start(t)
	s.Put(t, "config", object.Put{Version: 7, Payload: []byte(`1`), ContentType: "application/json"})
	c, props := lasting(wire.V5, "ann", "unit")
	p := connect(t, s, c, props...)
	p.subscribed(1, "o/region-1/config")
	first := p.message("o/region-1/config", "1")
	s.Put(t, "config", object.Put{Unknown: true})
	m := p.message("o/region-1/config", "")
	if unknown, _ := m.Properties.UserValue("unknown"); string(unknown) != "true" {
		t.Errorf("came as %+v", m)
	}
	p.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, first.ID, wire.Success, nil)) // of the former state alone
	p.ping()
	_ = p.nc.Close()
	gone(t, s)
	p = connect(t, s, c, props...)
	m = p.message("o/region-1/config", "")
	if unknown, _ := m.Properties.UserValue("unknown"); string(unknown) != "true" {
		t.Errorf("came as %+v", m)
	}
	p.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
	p.ping()
}

func TestObjectsOver311(t *testing.T) {
	s := start(t)
	s.Put(t, "config", object.Put{Version: 7, Payload: []byte(`1`), ContentType: "application/json"})
	p := connect(t, s, hi(wire.V311, "ann", ""))
	for i, qos := range []byte{0, 1} {
		if got := p.subscribed(qos, "o/region-1/config"); byte(got[0]) != qos {
			t.Fatalf("granted %v", got)
		}
		want := fmt.Sprint(i + 1)
		m := p.message("o/region-1/config", want)
		if !m.Retain || m.QoS != qos {
			t.Errorf("came as %+v", m)
		}
		s.Put(t, "config", object.Put{Payload: []byte(fmt.Sprint(i + 2)), ContentType: "application/json"})
		if m = p.message("o/region-1/config", fmt.Sprint(i+2)); qos == 1 {
			p.send(wire.AppendAck(nil, wire.V311, wire.PUBACK, m.ID, wire.Success, nil))
		}
	}
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "o/region-1/config"}, `9`)
	for range 2 { // the answer, and the state
		switch packet, _ := p.any(); packet.Type() {
		case wire.PUBACK, wire.PUBLISH:
		default:
			t.Fatalf("got %s", packet.Type())
		}
	}
}

func TestForbiddenSubscriptionsAreRefused(t *testing.T) {
	s := start(t)
	p := connect(t, s, as(hi(wire.V5, "driver-1", ""), s.TopicsToken(t, "driver-1", "rides.>")))
	for filter, want := range map[string]wire.Reason{
		"rides/#": wire.GrantedQoS1, "rides/+": wire.GrantedQoS1, "$share/q/rides/oslo": wire.Success, "inbox": wire.GrantedQoS1, "inbox/recall": wire.Success,
		"#": wire.NotAuthorized, "other": wire.NotAuthorized, "to/driver-1": wire.NotAuthorized, "r/orders": wire.NotAuthorized,
		"rides/#/x": wire.InvalidFilter, "rides/a#": wire.InvalidFilter, "$share/q": wire.InvalidFilter, "$share//rides": wire.InvalidFilter,
		"$share/q/inbox": wire.SharedUnsupported, "$else/x": wire.InvalidFilter, "o/g/#": wire.WildcardUnsupported, "o/g": wire.InvalidFilter,
		"inbox/other": wire.InvalidFilter, "rides/" + strings.Repeat("a/", 16): wire.InvalidFilter,
	} {
		if got := p.subscribed(1, filter); got[0] != want {
			t.Errorf("%s is answered with %#x, want %#x", filter, byte(got[0]), byte(want))
		}
	}
	old := connect(t, s, as(hi(wire.V311, "driver-1", ""), s.TopicsToken(t, "driver-1", "rides.>")))
	if got := old.subscribed(1, "rides/#", "other", "r/orders"); !slices.Equal(got, []wire.Reason{1, 128, 128}) {
		t.Errorf("3.1.1 is answered with %v", got)
	}
}

func TestMailboxAtQoS0StaysPending(t *testing.T) {
	s := start(t)
	s.Send(t, draft("ann", "ride-1"))
	for range 2 {
		p := connect(t, s, hi(wire.V311, "ann", ""))
		if got := p.subscribed(0, "inbox"); got[0] != wire.Success {
			t.Fatalf("granted %v", got)
		}
		if m := p.note("ride-1"); m.QoS != 0 {
			t.Errorf("came as %+v", m)
		}
		p.ping()
	}
	beyond := connect(t, s, hi(wire.V5, "ben", ""), wire.AppendNumber(nil, wire.ReceiveMaximum, 2)...)
	beyond.subscribed(0, "inbox")
	for i := range 5 { // more than a window: none is acknowledged
		s.Send(t, draft("ben", fmt.Sprint("more-", i)))
		beyond.note(fmt.Sprint("more-", i))
	}
	p := connect(t, s, hi(wire.V5, "ann", ""))
	p.subscribed(1, "inbox")
	m := p.note("ride-1")
	p.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
	s.Await(t, event.Acked, "ride-1")
}

func TestClientThatDoesNotSubscribeGetsNothingAndMarksNothing(t *testing.T) {
	s := start(t)
	p := connect(t, s, hi(wire.V5, "ann", ""))
	s.Send(t, draft("ann", "ride-1"))
	p.ping()
	if st := s.Status(t, "ride-1", "ann"); st != notification.Stored {
		t.Errorf("status is %s, want stored", st)
	}
	p.subscribed(1, "inbox")
	p.note("ride-1")
	p.send(wire.AppendUnsubscribe(nil, wire.V5, 77, "inbox"))
	p.suback(wire.UNSUBACK)
	s.Send(t, draft("ann", "ride-2"))
	p.ping()
}

func TestPacketsLargerThanTheClientTakesAreNotSent(t *testing.T) {
	s := start(t)
	p := connect(t, s, hi(wire.V5, "ann", ""), wire.AppendNumber(nil, wire.MaximumPacket, 600)...)
	p.subscribed(1, "inbox", "a")
	d := draft("ann", "large")
	d.Content.Body = strings.Repeat("x", 600)
	s.Send(t, d)
	s.Send(t, draft("ann", "small"))
	p.note("small")
	s.Tell(t, "a", `"`+strings.Repeat("x", 600)+`"`)
	s.Tell(t, "a", `1`)
	p.message("a", "1")
}

func TestReceiveMaximumIsTheWindow(t *testing.T) {
	s := start(t)
	p := connect(t, s, hi(wire.V5, "ann", ""), wire.AppendNumber(nil, wire.ReceiveMaximum, 2)...)
	p.subscribed(1, "inbox", "o/region-1/config")
	first := p.message("o/region-1/config", "")
	for i := range 3 {
		s.Send(t, draft("ann", fmt.Sprint("ride-", i)))
	}
	note := p.note("ride-0")
	p.ping() // two are in flight: the object and a notification
	p.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, first.ID, wire.Success, nil))
	p.note("ride-1")
	p.ping()
	p.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, note.ID, wire.Success, nil))
	p.note("ride-2")
}

func TestClientWithoutIDGetsOne(t *testing.T) {
	s := start(t)
	p := connect(t, s, hi(wire.V5, "ann", ""), wire.AppendNumber(nil, wire.SessionExpiry, 60)...)
	id := string(p.ack.Properties.Text(wire.AssignedClientID))
	if id == "" {
		t.Fatal("no client id was assigned")
	}
	_ = p.nc.Close()
	gone(t, s)
	c, props := lasting(wire.V5, "ann", id)
	if p = connect(t, s, c, props...); !p.ack.Present {
		t.Error("the session of the assigned id is gone")
	}
}

func TestWillIsPublishedUnlessTheClientSaysGoodbye(t *testing.T) {
	s := start(t)
	watch := connect(t, s, hi(wire.V5, "watch", ""))
	watch.subscribed(0, "wills/+")
	for _, v := range []wire.Version{wire.V311, wire.V5} {
		with := func(client string) *peer {
			c := hi(v, "ben", client)
			c.HasWill, c.WillTopic, c.WillOf = true, []byte("wills/"+client), []byte("gone")
			return connect(t, s, c)
		}
		polite := with("polite")
		polite.send(wire.AppendDisconnect(nil, v, wire.Success, nil))
		if _, err := polite.any(); err == nil {
			t.Error("the connection stays")
		}
		_ = with("lost").nc.Close()
		watch.message("wills/lost", "gone")
		broken := with("broken")
		broken.send([]byte{0, 0})
		watch.message("wills/broken", "gone")
		if v == wire.V5 {
			with("leaving").send(wire.AppendDisconnect(nil, v, wire.WithWill, nil))
			watch.message("wills/leaving", "gone")
		}
	}
	c := hi(wire.V311, "ben", "mail")
	c.HasWill, c.WillQoS, c.WillTopic, c.WillOf = true, 1, []byte("to/watch"), []byte(`{"id":"will-1","title":"ben is gone"}`)
	_ = connect(t, s, c).nc.Close()
	s.Await(t, event.Stored, "will-1")
}

func TestDelayedWillIsWithdrawnIfTheClientComesBack(t *testing.T) {
	s := start(t)
	watch := connect(t, s, hi(wire.V5, "watch", ""))
	watch.subscribed(0, "wills/+")
	with := func(client string, delay uint32) *peer {
		c, props := lasting(wire.V5, "ben", client)
		c.HasWill, c.WillTopic, c.WillOf = true, []byte("wills/"+client), []byte("gone")
		p := connectWill(t, s, c, props, wire.AppendNumber(nil, wire.WillDelay, delay))
		if p.ack.Reason != wire.Success {
			t.Fatalf("refused with %#x", byte(p.ack.Reason))
		}
		return p
	}
	_ = with("back", 1).nc.Close()
	_ = with("away", 1).nc.Close()
	back := with("back", 30)
	watch.message("wills/away", "gone")
	back.send(wire.AppendDisconnect(nil, wire.V5, wire.WithWill, wire.AppendNumber(nil, wire.SessionExpiry, 0)))
	watch.message("wills/back", "gone") // at the end of the session
}

func TestNodeThatLeavesOthersSendsItsClientsThere(t *testing.T) {
	s := startWith(t, func(c *mqttgate.Config) { c.Several = true })
	p := connect(t, s, hi(wire.V5, "ann", ""))
	s.Stop(t)
	p.ended(wire.UseAnotherServer)
}

// TestClientsAreToldWhereToGo: whether they want reason strings or not.
func TestClientsAreToldWhereToGo(t *testing.T) {
	const there = "mqtt.example.org:1883"
	s := startWith(t, func(c *mqttgate.Config) { c.Elsewhere = there })
	old := connect(t, s, hi(wire.V311, "ben", ""))
	all := []*peer{connect(t, s, hi(wire.V5, "ann", "")), connect(t, s, hi(wire.V5, "ann", ""), wire.AppendNumber(nil, wire.RequestProblem, 0)...)}
	s.Stop(t)
	for _, p := range all {
		var d wire.Disconnect
		if err := d.Decode(p.v, p.want(wire.DISCONNECT)); err != nil || d.Reason != wire.UseAnotherServer || string(d.Properties.Text(wire.ServerReference)) != there {
			t.Errorf("DISCONNECT: %#x to %q, %v", byte(d.Reason), d.Properties.Text(wire.ServerReference), err)
		}
	}
	old.ended(wire.Success)
}

func TestDisconnectedByAnAdministrator(t *testing.T) {
	s := start(t)
	p := connect(t, s, hi(wire.V5, "ann", ""))
	if _, _, err := s.Hub.Disconnect(t.Context(), gatetest.App, "ann", "lost phone"); err != nil {
		t.Fatal(err)
	}
	p.ended(wire.Administrative)
}

func TestClientIDThatIsNoDeviceIsMadeOne(t *testing.T) {
	s := start(t)
	for _, id := range []string{"ESP32 / kitchen", "ESP32 / kitchen2", strings.Repeat("x", 300), "ünïcode", "..", "."} {
		c, props := lasting(wire.V5, "ann", id)
		if p := connect(t, s, c, props...); p.ack.Present {
			t.Errorf("%q has the session of another", id)
		}
	}
	all, _, err := s.Hub.Sessions(t.Context(), gatetest.App, []string{"ann"})
	if err != nil || len(all[0]) != 6 || all[0][0].Gateway != "mqtt" {
		t.Errorf("%+v, %v; want six sessions", all, err)
	}
}

func TestBadReplyIsToldToBothSides(t *testing.T) {
	s := start(t)
	p := connect(t, s, hi(wire.V5, "worker", ""))
	p.subscribed(0, "r/orders/#")
	ask := connect(t, s, hi(wire.V5, "ann", ""))
	request := func() *wire.Publish {
		props := wire.AppendText(wire.AppendText(nil, wire.ResponseTopic, "reply/mine"), wire.CorrelationData, "c-1")
		ask.publish(wire.Head{QoS: 1, ID: 9, Topic: "r/orders/get", Properties: props}, "17")
		ask.acked(wire.PUBACK, wire.Success)
		return p.message("r/orders/get", "17")
	}
	m := request()
	to := string(m.Properties.Text(wire.ResponseTopic))
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: to, Properties: wire.AppendUser(nil, "status", "99")}, "")
	p.acked(wire.PUBACK, wire.InvalidPayload)
	answer := ask.message("reply/mine", "")
	if status, _ := answer.Properties.UserValue("status"); string(status) != "502" || string(answer.Properties.Text(wire.CorrelationData)) != "c-1" {
		t.Errorf("the asker gets %+v", answer)
	}
	to = string(request().Properties.Text(wire.ResponseTopic))
	p.publish(wire.Head{Topic: to, Properties: wire.AppendText(nil, wire.ContentType, "text/plain")}, "done")
	if answer = ask.message("reply/mine", "done"); string(answer.Properties.Text(wire.ContentType)) != "text/plain" {
		t.Errorf("the asker gets %+v", answer)
	}
	ask.publish(wire.Head{QoS: 1, ID: 9, Topic: "r/orders/get"}, "17")
	ask.acked(wire.PUBACK, wire.InvalidTopic) // without a response topic
	ask.publish(wire.Head{QoS: 1, ID: 9, Topic: "r/nobody", Properties: wire.AppendText(nil, wire.ResponseTopic, "reply/mine")}, "17")
	ask.acked(wire.PUBACK, wire.Success)
	if status, _ := ask.message("reply/mine", "").Properties.UserValue("status"); string(status) != "503" {
		t.Errorf("nobody's answer has status %s", status)
	}
}

func TestFiguresOfTheApp(t *testing.T) {
	s := startWith(t, func(c *mqttgate.Config) { c.Version = "1.2.3" })
	p := connect(t, s, hi(wire.V5, "ann", ""))
	p.send(wire.AppendSubscribe(nil, wire.V5, 77, nil, wire.Filter{Name: []byte("$SYS/version")}))
	p.message("$SYS/version", "1.2.3")
	p.suback(wire.SUBACK)
	p.send(wire.AppendSubscribe(nil, wire.V5, 77, nil, wire.Filter{Name: []byte("$SYS/sessions/#")}))
	got := map[string]string{}
	for range 2 {
		m := p.anyMessage()
		got[string(m.Topic)] = string(m.Payload)
	}
	if p.suback(wire.SUBACK); got["$SYS/sessions"] != "1" || got["$SYS/sessions/mqtt"] != "1" {
		t.Errorf("the figures are %v", got)
	}
	p.send(wire.AppendUnsubscribe(nil, wire.V5, 77, "$SYS/version", "$SYS/other"))
	if got := p.suback(wire.UNSUBACK); got[0] != wire.Success || got[1] != wire.NoSubscription {
		t.Errorf("unsubscribed with %v", got)
	}
	none := connect(t, s, as(hi(wire.V5, "ben", ""), s.TopicsToken(t, "ben", "rides.>")))
	if got := none.subscribed(0, "$SYS/#"); got[0] != wire.NotAuthorized {
		t.Errorf("without the right it is answered with %#x", byte(got[0]))
	}
}

func TestTopicAliasesTowardsTheClient(t *testing.T) {
	s := start(t)
	p := connect(t, s, hi(wire.V5, "ann", ""), wire.AppendNumber(nil, wire.AliasMaximum, 2)...)
	p.subscribed(0, "a/+")
	for i, topic := range []string{"a/1", "a/2", "a/3", "a/1", "a/2", "a/3"} {
		s.Tell(t, strings.ReplaceAll(topic, "/", "."), fmt.Sprint(i))
		var m wire.Publish
		if err := m.Decode(wire.V5, p.want(wire.PUBLISH)); err != nil {
			t.Fatal(err)
		}
		alias, want := m.Properties.Number(wire.TopicAlias, 0), uint32(i%3+1)%3
		if name := string(m.Topic); alias != want || string(m.Payload) != fmt.Sprint(i) || (name == "") != (i > 2 && want > 0) {
			t.Errorf("%s came as %q with alias %d", topic, name, alias)
		}
	}
}

func TestOwnMessagesDoNotComeBackWithNoLocal(t *testing.T) {
	s := start(t)
	bridge := connect(t, s, hi(wire.V5, "bridge", ""))
	bridge.send(wire.AppendSubscribe(nil, wire.V5, 77, nil, wire.Filter{Name: []byte("a/#"), NoLocal: true}))
	bridge.suback(wire.SUBACK)
	other := connect(t, s, hi(wire.V5, "ann", ""))
	other.subscribed(0, "a/#")
	bridge.publish(wire.Head{QoS: 1, ID: 9, Topic: "a/1"}, "mine")
	bridge.acked(wire.PUBACK, wire.Success)
	other.message("a/1", "mine")
	other.publish(wire.Head{Topic: "a/1"}, "mine")
	other.publish(wire.Head{Topic: "a/2"}, "theirs")
	bridge.message("a/1", "mine") // of the other client
	bridge.message("a/2", "theirs")
}

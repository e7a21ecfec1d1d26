package pushgate_test

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"godwit.dev/godwit/internal/gateway/pushgate"
)

func TestDeviceThatIsNotKnownGetsANewUAID(t *testing.T) {
	w := start(t)
	d := w.device(t)
	first := d.uaid
	if d.disconnect(); d.connect().UAID == first {
		t.Error("a device without a channel kept its uaid, although nothing of it is stored")
	}
	d.register("")
	known := d.uaid
	if d.disconnect(); d.connect().UAID != known {
		t.Error("a device with a channel lost its uaid")
	}
	for _, strange := range []string{"0123456789abcdef0123456789abcdef", "x", strings.ToUpper(known), strings.Repeat("a", 5000)} {
		other := &device{t: t, w: w, at: w.URL, uaid: strange}
		if got := other.connect().UAID; got == strange || got == known {
			t.Errorf("uaid %.40s is answered with %s", strange, got)
		}
	}
}

func TestNewConnectionOfADeviceEndsTheFormerOne(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	const many = 1000 // connections at once with one uaid
	var all sync.WaitGroup
	others := make([]*device, many)
	for i := range others {
		all.Go(func() {
			o := &device{t: t, w: w, at: w.URL}
			o.open()
			others[i] = o
		})
	}
	all.Wait()
	for _, o := range others {
		o.send(map[string]any{"messageType": "hello", "uaid": d.uaid, "use_webpush": true})
	}
	for _, o := range others {
		if got := o.next().UAID; got != d.uaid {
			t.Fatalf("a connection got %s, want %s", got, d.uaid)
		}
	}
	last := &device{t: t, w: w, at: w.URL, uaid: d.uaid}
	last.connect()
	w.message(t, endpoint, "x", sealed("60"))
	for _, o := range append(others, d) {
		if code := o.closed(); code != websocket.StatusNormalClosure {
			t.Fatalf("a former connection was closed with %d, want 1000", code)
		}
	}
	last.ack(last.want("x"))
}

func TestChannelsAreRegisteredAndEnded(t *testing.T) {
	w := start(t)
	d := w.device(t)
	channel, endpoint := d.register("")
	if !strings.HasPrefix(endpoint, w.URL+"/wpush/v1/") {
		t.Errorf("endpoint %s, want one of %s", endpoint, w.URL)
	}
	if again := d.ask(map[string]any{"messageType": "register", "channelID": channel}); again.PushEndpoint != endpoint {
		t.Errorf("registered again, the endpoint is %s, want %s", again.PushEndpoint, endpoint)
	}
	k := newKey(t)
	bound := d.ask(map[string]any{"messageType": "register", "channelID": channel, "key": k.public + "="})
	if bound.Status != 200 || !strings.HasPrefix(bound.PushEndpoint, w.URL+"/wpush/v2/") {
		t.Errorf("registered with a key: %+v", bound)
	}
	if r := w.send(t, endpoint, post{header: sealed("60")}); r.status != 410 {
		t.Errorf("the former endpoint answers %d, want 410", r.status)
	}
	for _, code := range []int{0, 200, 201, 202, 999} {
		if a := d.ask(map[string]any{"messageType": "unregister", "channelID": channel, "code": code}); a.MessageType != "unregister" || a.Status != 200 || a.ChannelID != channel {
			t.Errorf("unregister is answered with %+v", a)
		}
	}
	r := w.send(t, bound.PushEndpoint, post{header: sealed("60", "Authorization", k.header(t, w.URL))})
	if r.status != 410 || r.errno != 106 || r.header.Get("Cache-Control") != "max-age=86400" {
		t.Errorf("an ended channel answers %d, errno %d, %v", r.status, r.errno, r.header)
	}
	renewed := d.ask(map[string]any{"messageType": "register", "channelID": channel})
	if renewed.PushEndpoint == endpoint {
		t.Error("an ended channel that is registered again has its former endpoint")
	}
	w.message(t, renewed.PushEndpoint, "renewed", sealed("60"))
	d.want("renewed")
}

func TestRegistrationsAreRefusedWithAStatus(t *testing.T) {
	w := start(t)
	d := w.device(t)
	for _, c := range []struct {
		channel, key string
		status       int
	}{
		{"x", "", 400},
		{strings.Repeat("a", 4000), "", 400},
		{"deadbeef-0000-4000-8000-0123456789a\"", "", 400},
		{newChannel(), "af1883%&!@#*(", 400},
		{newChannel(), "BAAA", 400},
		{newChannel(), "B" + strings.Repeat("A", 86), 400},
	} {
		if a := d.ask(map[string]any{"messageType": "register", "channelID": c.channel, "key": c.key}); a.Status != c.status || a.PushEndpoint != "" {
			t.Errorf("channel %.50s, key %s: %+v, want status %d", c.channel, c.key, a, c.status)
		}
	}
	for range 4 {
		d.register("")
	}
	if a := d.ask(map[string]any{"messageType": "register", "channelID": newChannel()}); a.Status != 409 {
		t.Errorf("the fifth of four channels: %+v, want status 409", a)
	}
}

// few allows a number of actions.
type few struct {
	mu   sync.Mutex
	left int
}

func (f *few) Allow(netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	return f.left >= 0
}

func TestRegistrationsOfAnAddressAreLimited(t *testing.T) {
	w := start(t, func(c *pushgate.Config) { c.Registers = &few{left: 1} })
	d := w.device(t)
	channel, _ := d.register("")
	if a := d.ask(map[string]any{"messageType": "register", "channelID": newChannel()}); a.Status != 429 {
		t.Errorf("%+v, want status 429", a)
	}
	if a := d.ask(map[string]any{"messageType": "unregister", "channelID": channel}); a.Status != 200 {
		t.Errorf("the end of a channel is limited too: %+v", a)
	}
}

func TestPingsAndBroadcastsAreAnswered(t *testing.T) {
	w := start(t)
	d := w.device(t)
	if text := d.ping(); text != "{}" {
		t.Errorf("a ping is answered with %s", text)
	}
	d.send(map[string]any{"messageType": "ping"})
	if text := d.text(); text != "{}" {
		t.Errorf("a named ping is answered with %s", text)
	}
	if a := d.ask(map[string]any{"messageType": "broadcast_subscribe", "broadcasts": map[string]string{"a/b": "v1"}}); a.MessageType != "broadcast" || a.Broadcasts == nil || len(a.Broadcasts) > 0 {
		t.Errorf("broadcast_subscribe is answered with %+v", a)
	}
	d.send(map[string]any{"messageType": "invented_later", "of": 1})
	if text := d.ping(); text != "{}" {
		t.Errorf("after an unknown message, a ping is answered with %s", text)
	}
}

func TestDeviceThatPingsWithoutAPauseIsClosed(t *testing.T) {
	w := start(t, func(c *pushgate.Config) { c.PingPause = time.Hour })
	d := w.device(t)
	if text := d.ping(); text != "{}" {
		t.Errorf("the first ping is answered with %s", text)
	}
	d.send(struct{}{})
	if code := d.closed(); code != 4774 {
		t.Errorf("the second ping is answered with code %d, want 4774", code)
	}
	w.device(t).ping() // another connection has its own pause
}

func TestConnectionThatBreaksTheProtocolIsClosed(t *testing.T) {
	w := start(t)
	for _, text := range []string{"bad-data", "[]", `{"messageType":"register","channelID":"` + newChannel() + `"}`, `{}`, `{"messageType":"hello","uaid":5}`} {
		d := &device{t: t, w: w, at: w.URL}
		d.open()
		if err := d.ws.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if code := d.closed(); code != websocket.StatusPolicyViolation {
			t.Errorf("%s is closed with %d, want 1008", text, code)
		}
	}
	d := w.device(t)
	d.send(map[string]any{"messageType": "hello", "uaid": d.uaid})
	if code := d.closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("a second hello is closed with %d, want 1008", code)
	}
	big := w.device(t)
	_ = big.ws.Write(t.Context(), websocket.MessageText, make([]byte, 70<<10)) // the server may close before all is sent
	if code := big.closed(); code != websocket.StatusMessageTooBig {
		t.Errorf("a long message is closed with %d, want 1009", code)
	}
}

func TestDeviceHasFiveSecondsForItsHello(t *testing.T) {
	t.Parallel()
	w := start(t)
	d := &device{t: t, w: w, at: w.URL}
	d.open()
	if code := d.closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d, want 1008", code)
	}
}

func TestHandshakeNeedsTheSubprotocol(t *testing.T) {
	w := start(t)
	for _, c := range []struct {
		offer []string
		ok    bool
	}{{nil, true}, {[]string{pushgate.Subprotocol}, true}, {[]string{"mqtt", pushgate.Subprotocol}, true}, {[]string{"mqtt"}, false}} {
		ws, resp, err := websocket.Dial(t.Context(), w.URL+"/push", &websocket.DialOptions{Subprotocols: c.offer, HTTPHeader: map[string][]string{"Origin": {"wss://push.example.org"}}})
		if (err == nil) != c.ok {
			t.Errorf("offer %v: %v", c.offer, err)
		}
		if err != nil && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("offer %v is answered with %d", c.offer, resp.StatusCode)
		}
		if ws != nil {
			_ = ws.CloseNow()
		}
	}
}

func TestDeviceThatStayedAwayForTooLongIsForgotten(t *testing.T) {
	w := start(t)
	d := w.device(t)
	_, endpoint := d.register("")
	d.disconnect()
	w.message(t, endpoint, "x", sealed("3600"))
	gone, more, err := w.channels.Sweep(t.Context(), w.channels.Now().Add(1))
	if err != nil || more || len(gone) != 1 {
		t.Fatalf("%v, %t, %v; want one device", gone, more, err)
	}
	if r := w.send(t, endpoint, post{header: sealed("60")}); r.status != 410 {
		t.Errorf("its endpoint answers %d, want 410", r.status)
	}
	former := d.uaid
	if d.connect().UAID == former {
		t.Error("it kept its uaid")
	}
}

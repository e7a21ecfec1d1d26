package foreign

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"godwit.dev/godwit/test/blackbox"
)

// device is a client of MQTT that nobody here wrote. It acknowledges a message when it is told to.
type device interface {
	Do(c command)
	Next(ctx context.Context) (happening, error)
}

// command is what a device is to do: connect, subscribe, unsubscribe, publish, ack, disconnect, or drop its connection without a word.
type command struct {
	Do       string `json:"do"`
	ID       string `json:"id,omitempty"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
	Clean    bool   `json:"clean"`
	Expiry   int    `json:"expiry,omitempty"` // of a session, in seconds; 0: an hour
	Will     string `json:"will,omitempty"`   // topic
	Filter   string `json:"filter,omitempty"`
	QoS      int    `json:"qos"`
	Topic    string `json:"topic,omitempty"`
	Payload  string `json:"payload,omitempty"`
	Ref      int    `json:"ref"` // of the message to acknowledge
}

// happening is what a device reports: connected, subscribed, unsubscribed, message, published or closed.
type happening struct {
	Event, Topic, Payload, Text string
	Present, Retain             bool
	Code, QoS, Ref              int
	Codes                       []int
}

// maker starts a device for a server's address.
type maker struct {
	name string
	five bool
	make func(t *testing.T, addr string) device
}

// makers are all the clients, each in the versions that it speaks.
func makers() []maker {
	inPython := func(version string) func(*testing.T, string) device {
		return func(t *testing.T, addr string) device {
			host, port, _ := net.SplitHostPort(addr)
			return startDevice(t, python(t), "clients/mqtt_client.py", host, port, version)
		}
	}
	inNode := func(version string) func(*testing.T, string) device {
		return func(t *testing.T, addr string) device { return startNode(t, "mqtt://"+addr, version) }
	}
	return []maker{
		{"paho-mqtt 3.1.1", false, inPython("4")},
		{"paho-mqtt 5", true, inPython("5")},
		{"mqtt.js 3.1.1", false, inNode("4")},
		{"mqtt.js 5", true, inNode("5")},
		{"paho.golang 5", true, func(_ *testing.T, addr string) device {
			return &goDevice{addr: addr, events: make(chan happening, 256)}
		}},
	}
}

func startNode(t *testing.T, url, version string) device {
	t.Helper()
	modules := filepath.Join(blackbox.Root(), ".bin", "node", "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "mqtt")); err != nil {
		blackbox.Skip(t, "npm's mqtt is not installed: run make test-tools")
	}
	t.Setenv("NODE_PATH", modules)
	return startDevice(t, blackbox.Tool(t, "node"), "clients/mqtt_client.cjs", url, version)
}

// program is a device in a process of its own.
type program struct {
	t      *testing.T
	in     io.Writer
	events chan happening
}

func startDevice(t *testing.T, name string, args ...string) device {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, in: in, events: make(chan happening, 256)}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var h happening
			if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
				t.Errorf("%s printed %q", name, lines.Text())
				continue
			}
			p.events <- h
		}
	})
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // it has nothing to lose
		reading.Wait()
		_ = cmd.Wait()
	})
	return p
}

func (p *program) Do(c command) {
	b, err := json.Marshal(c)
	if err == nil {
		_, err = p.in.Write(append(b, '\n'))
	}
	if err != nil {
		p.t.Errorf("%s: %v", c.Do, err)
	}
}

func (p *program) Next(ctx context.Context) (happening, error) { return nextOf(ctx, p.events) }

func nextOf(ctx context.Context, events <-chan happening) (h happening, err error) {
	select {
	case h = <-events:
		return h, nil
	case <-ctx.Done():
		return h, context.Cause(ctx)
	}
}

// goDevice is paho.golang.
type goDevice struct {
	addr   string
	events chan happening
	mu     sync.Mutex
	client *paho.Client
	nc     net.Conn
	number int // of the connection; "closed" has it as its Ref
	got    map[int]*paho.Publish
}

func (d *goDevice) Next(ctx context.Context) (happening, error) { return nextOf(ctx, d.events) }

func (d *goDevice) Do(c command) {
	ctx := context.Background()
	switch c.Do {
	case "connect":
		d.connect(ctx, c)
	case "subscribe":
		ack, err := d.client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: c.Filter, QoS: byte(c.QoS)}}})
		h := happening{Event: "subscribed", Text: fmt.Sprint(err)}
		if ack != nil {
			for _, r := range ack.Reasons {
				h.Codes = append(h.Codes, int(r))
			}
		}
		d.events <- h
	case "unsubscribe":
		_, err := d.client.Unsubscribe(ctx, &paho.Unsubscribe{Topics: []string{c.Filter}})
		d.events <- happening{Event: "unsubscribed", Text: fmt.Sprint(err)}
	case "publish":
		ack, err := d.client.Publish(ctx, &paho.Publish{Topic: c.Topic, QoS: byte(c.QoS), Payload: []byte(c.Payload)})
		h := happening{Event: "published", Text: fmt.Sprint(err)}
		if ack != nil {
			h.Code = int(ack.ReasonCode)
		}
		d.events <- h
	case "ack":
		d.mu.Lock()
		m := d.got[c.Ref]
		d.mu.Unlock()
		if m != nil { // else it came over a former connection
			_ = d.client.Ack(m) // a lost acknowledgement shows on the server
		}
	case "disconnect":
		_ = d.client.Disconnect(&paho.Disconnect{})
		<-d.client.Done()
		d.events <- happening{Event: "closed"}
	case "drop":
		_ = d.nc.Close()
	}
}

func (d *goDevice) connect(ctx context.Context, c command) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.addr)
	if err != nil {
		d.events <- happening{Event: "failed", Text: err.Error()}
		return
	}
	d.mu.Lock()
	d.nc, d.got = nc, make(map[int]*paho.Publish)
	d.mu.Unlock()
	d.number++
	number := d.number
	d.client = paho.NewClient(paho.ClientConfig{
		Conn: packets.NewThreadSafeConn(nc), EnableManualAcknowledgment: true,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(m paho.PublishReceived) (bool, error) {
			p := m.Packet
			d.mu.Lock()
			d.got[int(p.PacketID)] = p
			d.mu.Unlock()
			d.events <- happening{Event: "message", Topic: p.Topic, Payload: string(p.Payload), QoS: int(p.QoS), Retain: p.Retain, Ref: int(p.PacketID)}
			return true, nil
		}},
		OnClientError:      func(error) { d.events <- happening{Event: "closed", Ref: number} },
		OnServerDisconnect: func(p *paho.Disconnect) { d.events <- happening{Event: "closed", Code: int(p.ReasonCode), Ref: number} },
	})
	cp := &paho.Connect{
		ClientID: c.ID, KeepAlive: 20, CleanStart: c.Clean, Username: c.User, UsernameFlag: true,
		Password: []byte(c.Password), PasswordFlag: c.Password != "", Properties: &paho.ConnectProperties{},
	}
	if !c.Clean {
		expiry := uint32(cmp.Or(c.Expiry, 3600)) // the tests'
		cp.Properties.SessionExpiryInterval = &expiry
	}
	if c.Will != "" {
		cp.WillMessage = &paho.WillMessage{Topic: c.Will, QoS: 1, Payload: []byte(c.Payload)}
	}
	ack, err := d.client.Connect(ctx, cp)
	h := happening{Event: "connected", Text: fmt.Sprint(err)}
	if ack != nil {
		h.Present, h.Code = ack.SessionPresent, int(ack.ReasonCode)
	}
	d.events <- h
}

// hand operates a device.
type hand struct {
	t *testing.T
	device
	before []happening   // what nobody has waited for yet
	why    func() string // says more of what does not come; may be nil
}

// want waits for something that happens.
func (h *hand) want(event string) happening {
	h.t.Helper()
	if i := slices.IndexFunc(h.before, func(e happening) bool { return e.Event == event }); i >= 0 {
		e := h.before[i]
		h.before = slices.Delete(h.before, i, i+1)
		return e
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), blackbox.Patience)
	defer cancel()
	for {
		e, err := h.Next(ctx)
		if err != nil {
			h.t.Fatalf("%s does not come, but %+v: %v%s", event, h.before, err, h.because())
		}
		if e.Event == event {
			return e
		}
		h.before = append(h.before, e)
	}
}

func (h *hand) because() string {
	if h.why == nil {
		return ""
	}
	return "\n" + h.why()
}

func (h *hand) connect(c command) happening {
	h.t.Helper()
	c.Do = "connect"
	h.Do(c)
	e := h.want("connected")
	if e.Code != 0 {
		h.t.Fatalf("%s is refused: %+v", c.ID, e)
	}
	return e
}

func (h *hand) subscribe(filter string, qos, granted int) {
	h.t.Helper()
	h.Do(command{Do: "subscribe", Filter: filter, QoS: qos})
	if e := h.want("subscribed"); len(e.Codes) != 1 || e.Codes[0] != granted {
		h.t.Fatalf("a subscription to %s is answered %+v, want code %d", filter, e, granted)
	}
}

func (h *hand) publish(topic, payload string, qos int) {
	h.t.Helper()
	h.Do(command{Do: "publish", Topic: topic, Payload: payload, QoS: qos})
	h.published(topic)
}

func (h *hand) published(topic string) {
	h.t.Helper()
	if e := h.want("published"); e.Code != 0 && e.Code != 16 {
		h.t.Fatalf("a publish to %s is answered %+v", topic, e)
	}
}

// message waits for a message and acknowledges it.
func (h *hand) message(topic, payload string) happening {
	h.t.Helper()
	e := h.want("message")
	if e.Topic != topic || e.Payload != payload {
		h.t.Fatalf("got %+v, want %s at %s", e, payload, topic)
	}
	if e.QoS > 0 {
		h.Do(command{Do: "ack", Ref: e.Ref})
	}
	return e
}

// note waits for a notification, which is not acknowledged.
func (h *hand) note(id string) happening {
	h.t.Helper()
	e := h.want("message")
	var n struct{ ID string }
	if err := json.Unmarshal([]byte(e.Payload), &n); err != nil || e.Topic != "inbox" || e.QoS != 1 || n.ID != id {
		h.t.Fatalf("got %+v, want notification %s: %v%s", e, id, err, h.because())
	}
	return e
}

// mqttAddress returns a server's address for clients of MQTT.
func mqttAddress(t *testing.T, s *blackbox.Server) string {
	t.Helper()
	at, err := s.Addresses()
	if err != nil || at.MQTT == "" {
		t.Fatalf("addresses %+v: %v", at, err)
	}
	return at.MQTT
}

func numbered(name string, i int) string { return name + "-" + strconv.Itoa(i) }

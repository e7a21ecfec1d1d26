package mqttgate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

// raw is a client of MQTT that sends and reads packets.
type raw struct {
	nc net.Conn
	v  wire.Version
	in []byte
}

func dialRaw(t testing.TB, addr string, v wire.Version) *raw {
	t.Helper()
	nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &raw{nc: nc, v: v}
}

func (r *raw) write(b []byte) error { _, err := r.nc.Write(b); return err }

// next reads a packet. Its body is valid until the next call.
func (r *raw) next(ctx context.Context) (wire.Packet, error) {
	if at, ok := ctx.Deadline(); ok {
		_ = r.nc.SetReadDeadline(at)
	}
	for {
		p, n, err := wire.Next(r.in, wire.MaxRemaining)
		if err != nil || n > 0 {
			r.in = r.in[n:]
			return p, err
		}
		buf := make([]byte, 64<<10)
		m, err := r.nc.Read(buf)
		if m == 0 && err != nil {
			return p, err
		}
		r.in = append(r.in[:len(r.in):len(r.in)], buf[:m]...)
	}
}

// dialSocket connects over WebSocket.
func dialSocket(t testing.TB, s *gatetest.Server, v wire.Version) *raw {
	t.Helper()
	c, resp, err := websocket.Dial(t.Context(), s.URL+"/mqtt", &websocket.DialOptions{Subprotocols: []string{"mqtt"}, HTTPClient: s.HTTP.Client()})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &raw{nc: websocket.NetConn(context.WithoutCancel(t.Context()), c, websocket.MessageBinary), v: v}
}

// session is a client of the suite: it turns frames into packets and packets into frames.
type session struct {
	*raw
	o       gatetest.Options
	ready   []string           // frames that were made of packets already
	packet  uint16             // last packet id
	notes   map[string]uint16  // packet ids of notifications
	objects map[string]uint16  // of objects, by o/group/name
	asked   map[uint16]request // packets that wait for their answers
	bye     bool
}

// request is a SUBSCRIBE, UNSUBSCRIBE or PUBLISH packet of the client.
type request struct {
	names []string // as they are in the frame
	group string
	serve bool
	reply bool
}

const inLevels = "o/"

// dial connects a client of a version. A client with a device has a session that outlasts its connection.
func dial(v wire.Version) func(testing.TB, *gatetest.Server, gatetest.Options) (gatetest.Client, error) {
	return dialBy(v, func(t testing.TB, s *gatetest.Server) *raw { return dialRaw(t, addrOf(s), v) })
}

func dialBy(v wire.Version, open func(testing.TB, *gatetest.Server) *raw) func(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
	return func(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
		c := &session{raw: open(t, s), o: o, notes: map[string]uint16{}, objects: map[string]uint16{}, asked: map[uint16]request{}}
		hello := &wire.Connect{
			Version: v, Clean: o.Device == "", KeepAlive: 40, ClientID: []byte(o.Device), HasUser: true,
			User: []byte(gatetest.App + "/" + o.Recipient), HasPassword: o.Token != "", Password: []byte(o.Token),
		}
		var props []byte
		if o.Window > 0 {
			props = wire.AppendNumber(props, wire.ReceiveMaximum, uint32(o.Window))
		}
		if o.Device != "" {
			props = wire.AppendNumber(props, wire.SessionExpiry, 3600)
		}
		if o.Group != "" {
			props = wire.AppendUser(props, "group", o.Group)
		}
		for _, id := range o.Held {
			props = wire.AppendUser(props, "held", id)
		}
		if err := c.write(wire.AppendConnect(nil, hello, props, nil)); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(t.Context(), gatetest.Patience)
		defer cancel()
		return c, c.begin(ctx)
	}
}

// begin reads the answer to the CONNECT packet, and subscribes to what other protocols send without being asked.
func (c *session) begin(ctx context.Context) error {
	p, err := c.next(ctx)
	if err != nil {
		return err
	}
	var ack wire.Connack
	if err := ack.Decode(c.v, p); err != nil {
		return err
	}
	if ack.Reason != wire.Success {
		c.refused(&ack)
		return nil
	}
	fields := map[string]any{"heartbeat": "30s"}
	for _, u := range ack.Properties.User {
		fields[string(u.Name)] = string(u.Value)
	}
	if n, ok := fields["registrations"]; ok {
		fields["registrations"] = json.RawMessage(fmt.Sprint(n))
	} else {
		fields["digest"] = "0000000000000000"
	}
	c.frame("welcome", fields)
	filters := []wire.Filter{{Name: []byte("inbox"), QoS: 1}, {Name: []byte("inbox/recall")}, {Name: []byte("$SYS/gap")}}
	if c.v == wire.V5 {
		filters = append(filters, wire.Filter{Name: []byte("inbox/request")})
	}
	c.packet++
	c.asked[c.packet] = request{}
	if err := c.write(wire.AppendSubscribe(nil, c.v, c.packet, nil, filters...)); err != nil {
		return err
	}
	for len(c.asked) > 0 { // until the SUBACK, other packets become frames
		if err := c.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// refused makes the frames of a refusal. 3.1.1 says only its code.
func (c *session) refused(ack *wire.Connack) {
	c.bye = true
	reason := string(ack.Properties.Text(wire.ReasonString))
	if text, is := strings.CutPrefix(reason, "hello: "); is || c.v == wire.V311 && c.o.Recipient == "" {
		field, _, _ := strings.Cut(strings.Replace(text, ":", "", 1), " ")
		if c.v == wire.V311 {
			field = "recipient"
		}
		c.frame("error", map[string]any{"code": "bad_field", "field": field, "message": text})
		reason = "bad_hello"
	}
	c.frame("goodbye", map[string]any{"reason": reason})
}

func (c *session) frame(name string, fields any) {
	b, err := json.Marshal(map[string]any{name: fields})
	if err != nil {
		panic(err) // maps of texts always encode
	}
	c.ready = append(c.ready, string(b))
}

func (c *session) Close() { _ = c.nc.Close() }

func (c *session) SendBad(context.Context) error {
	return errors.New("MQTT has no bad frame that a connection survives")
}

// Next implements gatetest.Client.
func (c *session) Next(ctx context.Context) (string, error) {
	for len(c.ready) == 0 {
		if c.bye {
			_, err := c.next(ctx)
			return "", err
		}
		if err := c.read(ctx); err != nil {
			return "", err
		}
	}
	f := c.ready[0]
	c.ready = c.ready[1:]
	return f, nil
}

// read makes frames of a packet.
func (c *session) read(ctx context.Context) error {
	p, err := c.next(ctx)
	if errors.Is(err, io.EOF) && c.v == wire.V311 && !c.bye {
		c.bye = true
		c.frame("goodbye", map[string]any{})
		return nil
	}
	if err != nil {
		return err
	}
	switch p.Type() {
	case wire.PUBLISH:
		return c.published(p)
	case wire.PINGRESP:
		c.frame("pong", map[string]any{})
	case wire.SUBACK, wire.UNSUBACK:
		return c.subscribed(p)
	case wire.PUBACK:
		return c.acked(p)
	case wire.DISCONNECT:
		var d wire.Disconnect
		if err := d.Decode(c.v, p); err != nil {
			return err
		}
		c.bye = true
		after, _ := d.Properties.UserValue("retry_after")
		c.frame("goodbye", map[string]any{"reason": string(d.Properties.Text(wire.ReasonString)), "retry_after": string(after)})
	default:
		return fmt.Errorf("a client gets no %s", p.Type())
	}
	return nil
}

func (c *session) published(p wire.Packet) error {
	var m wire.Publish
	if err := m.Decode(c.v, p); err != nil {
		return err
	}
	name := string(m.Topic)
	user := func(name string) string {
		v, _ := m.Properties.UserValue(name)
		return string(v)
	}
	switch {
	case name == "inbox":
		var n struct {
			ID string
			gatetest.Note
		}
		if err := json.Unmarshal(m.Payload, &n); err != nil {
			return err
		}
		if c.v == wire.V5 && (user("id") != n.ID || user("seq") != fmt.Sprint(n.Seq) || user("attempt") != fmt.Sprint(n.Attempt)) {
			return fmt.Errorf("the user properties are not those of %s", m.Payload)
		}
		c.notes[n.ID] = m.ID
		c.frame("notification", json.RawMessage(m.Payload))
	case name == "inbox/recall":
		c.frame("recall", json.RawMessage(m.Payload))
	case name == "$SYS/gap":
		c.frame("message", json.RawMessage(m.Payload))
	case strings.HasPrefix(name, inLevels):
		return c.object(name, &m, user)
	case name == "inbox/request" || strings.HasPrefix(name, "r/"):
		c.question(name, &m)
	default:
		f := map[string]any{"topic": topicOf(name)}
		content(f, "data", m.Payload, string(m.Properties.Text(wire.ContentType)), c.v == wire.V311)
		c.frame("message", f)
	}
	return nil
}

// content sets data in the form that frames have.
func content(f map[string]any, name string, data []byte, contentType string, untyped bool) {
	switch {
	case len(data) == 0:
	case json.Valid(data) && (contentType == "application/json" || untyped):
		f[name] = json.RawMessage(data)
	case contentType == "text/plain":
		f[name] = string(data)
	default:
		f[name+"_base64"] = data
	}
	if contentType != "" {
		f["content_type"] = contentType
	}
}

func (c *session) object(name string, m *wire.Publish, user func(string) string) error {
	levels := strings.Split(name, "/")
	f := map[string]any{"group": levels[1], "object": levels[2], "unknown": user("unknown") == "true"}
	if v := user("version"); v != "" {
		f["version"] = v
	}
	if !m.Retain {
		return errors.New("the state of an object is no retained message")
	}
	content(f, "payload", m.Payload, string(m.Properties.Text(wire.ContentType)), c.v == wire.V311)
	if c.objects[name] = m.ID; m.ID > 0 && len(c.objects) > 32 { // a library acknowledges by itself, and the suite not always
		if err := c.write(wire.AppendAck(nil, c.v, wire.PUBACK, m.ID, wire.Success, nil)); err != nil {
			return err
		}
	}
	c.frame("object", f)
	return nil
}

func (c *session) question(name string, m *wire.Publish) {
	id := strings.TrimPrefix(string(m.Properties.Text(wire.ResponseTopic)), "reply/r/")
	f := map[string]any{"request_id": id}
	if subject, is := strings.CutPrefix(name, "r/"); is {
		f["subject"] = topicOf(subject)
	}
	headers := map[string]any{}
	for _, u := range m.Properties.User {
		name, value := string(u.Name), string(u.Value)
		if name != "header" {
			f[name] = value
			continue
		}
		name, value, _ = strings.Cut(value, ": ")
		switch had := headers[name].(type) {
		case nil:
			headers[name] = value
		case string:
			headers[name] = []any{had, value}
		}
	}
	f["headers"] = headers
	content(f, "data", m.Payload, string(m.Properties.Text(wire.ContentType)), false)
	c.frame("request", f)
}

// subscribed makes the frames that answer a subscription.
func (c *session) subscribed(p wire.Packet) error {
	var ack wire.Suback
	if err := ack.Decode(c.v, p); err != nil {
		return err
	}
	of, ok := c.asked[ack.ID]
	if !ok {
		return fmt.Errorf("%s of packet %d, which waits for none", p.Type(), ack.ID)
	}
	delete(c.asked, ack.ID)
	digest, _ := ack.Properties.UserValue("digest")
	refused := map[wire.Reason][]string{}
	for i, name := range of.names {
		if p.Type() == wire.SUBACK && ack.Reasons[i].Failed() {
			refused[ack.Reasons[i]] = append(refused[ack.Reasons[i]], name)
		}
	}
	if of.group != "" && len(refused) == 0 {
		f := map[string]any{"digest": string(digest), "group": of.group}
		if p.Type() == wire.SUBACK {
			f["objects"] = of.names
		}
		c.frame("registered", f)
		return nil
	}
	for reason, names := range refused {
		field, code := "topics", map[wire.Reason]string{wire.NotAuthorized: "forbidden", wire.QuotaExceeded: "too_many_topics"}[reason]
		if of.serve {
			field = "subjects"
		}
		if c.v == wire.V311 { // has one code for all
			code = "forbidden"
			if len(names) > 100 {
				code = "too_many_topics"
			}
		}
		if of.group != "" {
			field, code = "objects", "bad_field"
		}
		c.frame("error", map[string]any{"code": code, "field": field, "refused": names, "message": string(ack.Properties.Text(wire.ReasonString))})
	}
	return nil
}

// acked makes the error frame of a reply that was refused.
func (c *session) acked(p wire.Packet) error {
	var ack wire.Ack
	if err := ack.Decode(c.v, p); err != nil {
		return err
	}
	delete(c.asked, ack.ID)
	if ack.Reason.Failed() {
		why := string(ack.Properties.Text(wire.ReasonString))
		field, _, _ := strings.Cut(strings.TrimPrefix(why, "reply: "), " ")
		c.frame("error", map[string]any{"code": "bad_field", "field": strings.TrimSuffix(field, ":"), "message": why})
	}
	return nil
}

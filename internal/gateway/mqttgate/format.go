package mqttgate

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// A PUBLISH packet differs from one receiver to the next before its payload: packet id, properties, what is left of the expiry. So sessions
// of this gateway write frames in a form of its own, which holds what such a packet needs beside the shared payload. Encoder and unpacker
// are both here; only connections of this gateway see these bytes.

// format is the form of frames between a session and its connection.
var format = &frame.Codec{Name: "mqtt", Decode: noFrames, Head: appendDelivery, Encoder: packing{}}

func noFrames([]byte, *frame.Client) error {
	return errors.New("an MQTT client sends packets, not frames")
}

// appendDelivery appends what differs from one delivery of a notification to the next.
func appendDelivery(dst []byte, seq uint64, attempt uint32, _ int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(dst, seq), attempt)
}

// packing encodes frames as fields. A text has its length before it.
type packing struct{}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = appendString(dst, s)
	}
	return dst
}

func appendBool(dst []byte, is bool) []byte {
	if is {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// parts reads fields that packing has written.
type parts struct{ b []byte }

func (p *parts) number() uint64 {
	v, n := binary.Uvarint(p.b)
	p.b = p.b[n:]
	return v
}

func (p *parts) bytes() []byte {
	n := p.number()
	v := p.b[:n:n]
	p.b = p.b[n:]
	return v
}

func (p *parts) text() string { return string(p.bytes()) }

func (p *parts) texts() []string {
	list := make([]string, p.number())
	for i := range list {
		list[i] = p.text()
	}
	return list
}

func (p *parts) byte() byte {
	v := p.b[0]
	p.b = p.b[1:]
	return v
}

func (p *parts) bool() bool { return p.byte() == 1 }

// unpack returns the fields of a frame: those of one delivery, and those that all receivers share.
func unpack(head, tail []byte) (one, all parts) { return parts{head}, parts{tail} }

// either returns the fields of a frame that is all head or all tail.
func either(one, all parts) parts {
	if len(one.b) > 0 {
		return one
	}
	return all
}

// note is a notification on its way to a client.
type note struct {
	seq     uint64
	attempt uint32
	settled bool // needs no acknowledgement
	asks    bool // waits for a reply
	expires time.Time
	id      []byte
	// Of a message of a topic:
	topic, contentType string
	qos                byte     // of its publisher
	matched            int64    // the revision of the filters that it matched; 0: unknown
	shares             []string // the shared filters by which this client was chosen
	properties         []byte   // that travel with it, encoded
	payload            []byte

	members []byte // of its JSON object beside seq and attempt, and the end of the object
}

// NotificationTail implements frame.Encoder.
func (packing) NotificationTail(n *notification.Notification) []byte {
	if n.Content.Category == keptCategory && n.Content.Title != "" {
		return keptTail(n)
	}
	json := frame.JSON.NotificationTail(n)
	json = json[:len(json)-1] // without the end of the frame around the object
	dst := make([]byte, 0, len(json)+len(n.ID)+16)
	dst = appendBool(appendBool(dst, n.Ack == notification.AckNone), !n.ReplyBy.IsZero())
	dst = binary.AppendUvarint(dst, uint64(n.ExpiresAt.UnixMilli())) // after 1970
	return append(appendString(appendString(dst, n.ID), ""), json...)
}

// keptTail encodes a message of a topic that waits in a mailbox.
func keptTail(n *notification.Notification) []byte {
	c := &n.Content
	contentType, properties, shares := cutBody(c.Body)
	dst := make([]byte, 0, len(c.Title)+len(c.Body)+len(c.Data)+len(n.ID)+24)
	dst = appendBool(appendBool(dst, false), false)
	dst = binary.AppendUvarint(dst, uint64(n.ExpiresAt.UnixMilli())) // after 1970
	dst = appendString(appendString(appendString(dst, n.ID), c.Title), contentType)
	dst = binary.AppendUvarint(append(dst, qosOf(c.ContentType)), uint64(matchedOf(c.ContentType))) // not negative
	return append(appendString(appendStrings(dst, shares), properties), c.Data...)
}

// Parameters of a content type: a message was published at QoS 2, and at which revision of the filters it was matched.
const (
	atTwo   = "; qos=2"
	matched = "; matched="
)

func matchedAt(rev int64, qos byte) string {
	two := ""
	if qos == 2 {
		two = atTwo
	}
	return anyBytes + two + matched + strconv.FormatInt(rev, 10)
}

// qosOf returns the QoS at which a message that waits was published.
func qosOf(contentType string) byte {
	if strings.Contains(contentType, atTwo) {
		return 2
	}
	return 1
}

// matchedOf returns that revision; 0: the content type does not say it.
func matchedOf(contentType string) int64 {
	_, text, _ := strings.Cut(contentType, matched)
	rev, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(rev, 0)
}

// keptBody is the body of a notification that holds a message of a topic: its content type; on a second line, the properties that travel with it; and on
// a third the shared filters by which its recipient was chosen.
func keptBody(contentType string, properties []byte, shares []string) string {
	body := contentType
	if len(properties)+len(shares) > 0 {
		body += "\n" + base64.RawStdEncoding.EncodeToString(properties)
	}
	for i, s := range shares {
		body += []string{"\n", " "}[min(i, 1)] + url.PathEscape(s)
	}
	return body
}

func cutBody(body string) (contentType, properties string, shares []string) {
	contentType, rest, _ := strings.Cut(body, "\n")
	coded, list, _ := strings.Cut(rest, "\n")
	for _, text := range strings.Fields(list) {
		if s, err := url.PathUnescape(text); err == nil {
			shares = append(shares, s)
		}
	}
	b, err := base64.RawStdEncoding.DecodeString(coded)
	if err != nil {
		return contentType, "", shares
	}
	return contentType, forwardable(string(b)), shares
}

func readNote(one, all parts) (n note) {
	n.seq, n.attempt = binary.BigEndian.Uint64(one.b), binary.BigEndian.Uint32(one.b[8:])
	n.settled, n.asks = all.bool(), all.bool()
	n.expires = time.UnixMilli(int64(all.number())) // was written from one
	n.id = all.bytes()
	if n.topic = all.text(); n.topic == "" {
		n.members = all.b
		return n
	}
	n.contentType = all.text()
	n.qos = all.byte()
	n.matched = int64(all.number()) // was written from one
	n.shares = all.texts()
	n.properties, n.payload = all.bytes(), all.b
	return n
}

// message is a message of a topic, or a number of dropped ones.
type message struct {
	gap         uint64
	kept        bool   // it waits in mailboxes too
	qos         byte   // of its publisher
	topic       string // empty: no MQTT client can have it
	contentType string
	properties  []byte // that travel with it, encoded
	payload     []byte
}

// forwardable returns properties that came over the bus, where a NATS client may have written others: those are left out.
func forwardable(properties string) string {
	if properties == "" || !wire.CheckForwarded([]byte(properties)) {
		return ""
	}
	return properties
}

// Message implements frame.Encoder. Most clients get the same packet, so it is in the frame: its head for MQTT 5, and for 3.1.1 right before the payload.
func (packing) Message(m *frame.Message) []byte {
	name := fromTopic(m.Topic)
	contentType := m.ContentType
	if contentType == anyBytes {
		contentType = "" // which means the same
	}
	how := m.QoS << 1
	if m.Kept {
		how |= 1
	}
	props := forwardable(m.MQTT)
	old := wire.Head{Topic: name}
	h := wire.Head{Topic: name, Properties: messageProperties(nil, contentType, props)}
	fields := 3*binary.MaxVarintLen32 + len(name) + len(contentType) + len(props)
	heads := h.Size(wire.V5, len(m.Data)) + old.Size(wire.V311, len(m.Data)) + 2*binary.MaxVarintLen32
	dst := make([]byte, 2, 2+fields+heads-len(m.Data)) // no gap
	dst[1] = how
	dst = appendString(appendString(appendString(dst, name), contentType), props)
	dst = binary.AppendUvarint(dst, uint64(h.Size(wire.V5, len(m.Data))-len(m.Data))) // not negative
	dst = wire.AppendPublish(dst, wire.V5, &h, len(m.Data))
	dst = binary.AppendUvarint(dst, uint64(old.Size(wire.V311, len(m.Data))-len(m.Data))) // not negative
	return append(wire.AppendPublish(dst, wire.V311, &old, len(m.Data)), m.Data...)
}

// messageProperties appends the properties of a message of a topic.
func messageProperties[T string | []byte](dst []byte, contentType string, travelling T) []byte {
	if contentType != "" {
		dst = wire.AppendText(dst, wire.ContentType, contentType)
	}
	return append(dst, travelling...)
}

// how is what a message's frame says of it before everything else: whether it waits in mailboxes too, and the QoS of its publisher.
type how byte

func (h how) kept() bool { return h&1 != 0 }
func (h how) qos() byte  { return byte(h >> 1) }

// packet returns the head and the payload of the packet at QoS 0 in a message's frame. ok is false if it holds none.
func (p parts) packet(v wire.Version) (h how, head, payload []byte, ok bool) {
	if p.number() > 0 { // dropped messages
		return 0, nil, nil, false
	}
	h = how(p.byte())
	if len(p.bytes()) == 0 {
		return 0, nil, nil, false
	}
	p.bytes()
	p.bytes()
	if head = p.bytes(); v == wire.V5 {
		p.bytes()
		return h, head, p.b, true
	}
	p.number()
	return h, nil, p.b, true
}

const anyBytes = "application/octet-stream"

// Gap implements frame.Encoder.
func (packing) Gap(dst []byte, n uint32) []byte { return binary.AppendUvarint(dst, uint64(n)) }

func readMessage(p parts) (m message) {
	if m.gap = p.number(); m.gap > 0 {
		return m
	}
	h := how(p.byte())
	m.kept, m.qos = h.kept(), h.qos()
	m.topic, m.contentType, m.properties = p.text(), p.text(), p.bytes()
	p.bytes()
	p.bytes()
	m.payload = p.b
	return m
}

// state is the state of an object.
type state struct {
	version       uint64
	known         bool
	group, object string
	contentType   string
	payload       []byte
}

// Object implements frame.Encoder.
func (packing) Object(k object.Key, s *object.State) []byte {
	dst := make([]byte, 0, len(k.Group)+len(k.Object)+len(s.ContentType)+len(s.Payload)+24)
	dst = binary.AppendUvarint(dst, uint64(s.Version)) // not negative
	dst = appendBool(dst, s.Known)
	dst = appendString(appendString(appendString(dst, k.Group), k.Object), s.ContentType)
	return append(dst, s.Payload...)
}

func readState(p parts) state {
	return state{version: p.number(), known: p.bool(), group: p.text(), object: p.text(), contentType: p.text(), payload: p.b}
}

// Welcome implements frame.Encoder.
func (packing) Welcome(dst []byte, w frame.Welcome) []byte {
	dst = appendString(appendString(appendString(dst, w.Session), w.App), w.Recipient)
	dst = appendString(dst, w.Digest)
	dst = binary.AppendUvarint(dst, uint64(w.Heartbeat))             // not negative
	dst = binary.AppendUvarint(dst, uint64(max(w.Registrations, 0))) // not negative
	if dst = appendBool(dst, w.Inbox != nil); w.Inbox != nil {
		dst = binary.AppendUvarint(dst, uint64(w.Inbox.Unseen))  // not negative
		return binary.AppendUvarint(dst, uint64(w.Inbox.Unread)) // not negative
	}
	return dst
}

func readWelcome(p parts) frame.Welcome {
	w := frame.Welcome{Session: p.text(), App: p.text(), Recipient: p.text(), Digest: p.text(), Heartbeat: time.Duration(p.number()), Registrations: int(p.number())} // were written from such
	if p.bool() {
		w.Inbox = &frame.Inbox{Unseen: int(p.number()), Unread: int(p.number())} // were written from such
	}
	return w
}

// Recall implements frame.Encoder: the payload of its packet. Names need no escapes in JSON.
func (packing) Recall(dst []byte, ids []string) []byte {
	dst = append(dst, `{"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), id...), '"')
	}
	return append(dst, "]}"...)
}

// Inbox implements frame.Encoder: the payload of its packet.
func (packing) Inbox(dst []byte, in frame.Inbox) []byte {
	text := frame.JSON.Inbox(nil, in)
	return append(dst, text[len(inboxFrame):len(text)-1]...)
}

// inboxFrame is what frames of package frame have before the object.
const inboxFrame = `{"inbox":`

// Registered implements frame.Encoder.
func (packing) Registered(dst []byte, r frame.Registered) []byte {
	return appendString(appendStrings(appendString(dst, r.Group), r.Objects), r.Digest)
}

func readRegistered(p parts) frame.Registered {
	return frame.Registered{Group: p.text(), Objects: p.texts(), Digest: p.text()}
}

// RegistrationFailed implements frame.Encoder.
func (packing) RegistrationFailed(dst []byte, r frame.RegistrationFailed) []byte {
	return appendBool(appendString(appendStrings(appendString(dst, r.Group), r.Objects), r.Code), r.Transient)
}

func readFailed(p parts) frame.RegistrationFailed {
	return frame.RegistrationFailed{Group: p.text(), Objects: p.texts(), Code: p.text(), Transient: p.bool()}
}

// Pong implements frame.Encoder. Pings are answered without the session.
func (packing) Pong(dst []byte, _ string) []byte { return dst }

// Goodbye implements frame.Encoder. The connection gets the goodbye itself when it has to close.
func (packing) Goodbye(dst []byte, _ frame.Goodbye) []byte { return dst }

// Error implements frame.Encoder.
func (packing) Error(dst []byte, e frame.Error) []byte {
	return appendStrings(appendString(appendString(appendString(dst, e.Code), e.Message), e.Field), e.Refused)
}

func readError(p parts) frame.Error {
	return frame.Error{Code: p.text(), Message: p.text(), Field: p.text(), Refused: p.texts()}
}

// Request implements frame.Encoder.
func (packing) Request(dst []byte, r *frame.Request) []byte {
	dst = appendStrings(dst, []string{r.ID, r.Subject, r.Method, r.Path, r.Query, r.ContentType})
	dst = binary.AppendUvarint(dst, uint64(r.Deadline.UnixMilli())) // after 1970
	var pairs []string
	for name, values := range r.Headers {
		for _, v := range values {
			pairs = append(pairs, name, v)
		}
	}
	return append(appendStrings(dst, pairs), r.Data...)
}

// question is a request to this client.
type question struct {
	frame.Request
	headers []string // names and values in turn
}

func readRequest(p parts) (q question) {
	f := p.texts()
	q.ID, q.Subject, q.Method, q.Path, q.Query, q.ContentType = f[0], f[1], f[2], f[3], f[4], f[5]
	q.Deadline = time.UnixMilli(int64(p.number())) // was written from one
	q.headers, q.Data = p.texts(), p.b
	return q
}

package frame

import (
	"slices"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// Format is a wire format of frames.
type Format uint8

// Formats. A new one takes a number here, an entry in formats, and nothing anywhere else.
const (
	JSON    Format = iota // {"notification":{…}}
	Proto                 // godwit.v1.ServerFrame
	SSE                   // event: notification\nid: 7\ndata: {…}\n\n
	Payload               // notification_service.NotificationPayload, of nammayatri's notification-service: notifications alone
)

// formats is what each format brings.
var formats = [...]struct {
	name   string
	decode func(b []byte, into *Client) error // frames of clients; those of SSE are posted as JSON
	head   func(dst []byte, seq uint64, attempt uint32, tailLen int) []byte
	encoding
}{
	JSON:    {"json", DecodeJSON, jsonHead, textEncoding{}},
	Proto:   {"proto", DecodeProto, protoHead, protoEncoding{}},
	SSE:     {"sse", DecodeJSON, eventHead, textEncoding{events: true}},
	Payload: {"payload", DecodePayloadAck, payloadHead, payloadEncoding{}},
}

func (f Format) String() string { return formats[f].name }

// Decode decodes a client's frame. A returned error is an *Error.
func (f Format) Decode(b []byte, into *Client) error { return formats[f].decode(b, into) }

// encoding writes the server's frames, but for the head of a notification, which is made for every delivery. Arguments
// passed by value stay off the heap.
type encoding interface {
	notificationTail(n *notification.Notification) []byte
	object(k object.Key, s *object.State) []byte
	message(m *Message) []byte
	gap(dst []byte, n uint32) []byte
	welcome(dst []byte, w Welcome) []byte
	recall(dst []byte, ids []string) []byte
	registered(dst []byte, r Registered) []byte
	registrationFailed(dst []byte, r RegistrationFailed) []byte
	pong(dst []byte, digest string) []byte
	goodbye(dst []byte, g Goodbye) []byte
	error(dst []byte, e Error) []byte
	request(dst []byte, r *Request) []byte
}

// ServerKind tells which frame a server sends. Gateways get it with the encoded frame, so that none has to look inside.
type ServerKind uint8

// Server frames. The numbers are those of the fields of godwit.v1.ServerFrame.
const (
	ServerWelcome            ServerKind = 1
	ServerNotification       ServerKind = 2
	ServerRecall             ServerKind = 3
	ServerRegistered         ServerKind = 4
	ServerRegistrationFailed ServerKind = 5
	ServerObject             ServerKind = 6
	ServerMessage            ServerKind = 7
	ServerRequest            ServerKind = 8
	ServerPong               ServerKind = 9
	ServerGoodbye            ServerKind = 10
	ServerError              ServerKind = 11
)

// serverKinds names the server frames as the contract does.
var serverKinds = [...]string{
	ServerWelcome: "welcome", ServerNotification: "notification", ServerRecall: "recall", ServerRegistered: "registered",
	ServerRegistrationFailed: "registration_failed", ServerObject: "object", ServerPong: "pong", ServerGoodbye: "goodbye",
	ServerError: "error", ServerMessage: "message", ServerRequest: "request",
}

func (k ServerKind) String() string { return serverKinds[k] }

// Answers reports whether frames of this kind answer one of the client's and are never sent for another reason.
func (k ServerKind) Answers() bool { return k == ServerPong || k == ServerError }

// NotificationTail returns the shared part of n in format f.
func NotificationTail(n *notification.Notification, f Format) []byte {
	if b := n.Wire().Get(uint8(f)); b != nil {
		return b
	}
	return n.Wire().Add(uint8(f), formats[f].notificationTail(n))
}

// AppendNotificationHead appends what precedes the tail of a notification frame: what differs from one receiver to
// the next. tailLen is the length of the tail that will follow.
func AppendNotificationHead(dst []byte, f Format, seq uint64, attempt uint32, tailLen int) []byte {
	return formats[f].head(dst, seq, attempt, tailLen)
}

// Object makes an object frame. It is the same for every receiver: encode it once per format and share it.
func Object(f Format, k object.Key, s *object.State) []byte { return formats[f].object(k, s) }

// AppendWelcome appends a welcome frame.
func AppendWelcome(dst []byte, f Format, w *Welcome) []byte { return formats[f].welcome(dst, *w) }

// AppendRecall appends a recall frame of these notification ids.
func AppendRecall(dst []byte, f Format, ids []string) []byte { return formats[f].recall(dst, ids) }

// AppendRegistered appends a registered frame.
func AppendRegistered(dst []byte, f Format, r *Registered) []byte {
	return formats[f].registered(dst, *r)
}

// AppendRegistrationFailed appends a registration_failed frame.
func AppendRegistrationFailed(dst []byte, f Format, r *RegistrationFailed) []byte {
	return formats[f].registrationFailed(dst, *r)
}

// AppendPong appends a pong frame; digest may be empty.
func AppendPong(dst []byte, f Format, digest string) []byte { return formats[f].pong(dst, digest) }

// AppendGoodbye appends a goodbye frame.
func AppendGoodbye(dst []byte, f Format, g Goodbye) []byte { return formats[f].goodbye(dst, g) }

// AppendError appends an error frame.
func AppendError(dst []byte, f Format, e *Error) []byte { return formats[f].error(dst, *e) }

// AppendRequest appends a request frame.
func AppendRequest(dst []byte, f Format, r *Request) []byte {
	return formats[f].request(slices.Grow(dst, r.size()), r)
}

package frame

import (
	"slices"

	"godwit.dev/godwit/internal/notify/encoded"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// Format is a wire format of frames. Its address identifies it, so that a gateway may add one of its own.
type Format = *Codec

// The formats of the server's own gateways.
var (
	JSON    = &Codec{Name: "json", Decode: DecodeJSON, Head: jsonHead, Encoder: textEncoding{}}                // {"notification":{…}}
	Proto   = &Codec{Name: "proto", Decode: DecodeProto, Head: protoHead, Encoder: protoEncoding{}}            // godwit.v1.ServerFrame
	SSE     = &Codec{Name: "sse", Decode: DecodeJSON, Head: eventHead, Encoder: textEncoding{events: true}}    // event: notification\nid: 7\ndata: {…}\n\n; clients post JSON
	Payload = &Codec{Name: "payload", Decode: DecodePayloadAck, Head: payloadHead, Encoder: payloadEncoding{}} // notification_service.NotificationPayload, of nammayatri's notification-service: only notifications
)

// Codec holds the functions of a format.
type Codec struct {
	Name string
	// Decode decodes a client's frame. A returned error is an *Error.
	Decode func(b []byte, into *Client) error
	// Head appends the bytes before the tail of a notification, which differ from one receiver to the next.
	Head func(dst []byte, seq uint64, attempt uint32, tailLen int) []byte
	Encoder
	key encoded.Key
}

func (c *Codec) String() string { return c.Name }

// Key identifies encodings in this format.
func (c *Codec) Key() *encoded.Key { return &c.key }

// Encoder writes the server's frames, except for the head of a notification, which is made for every delivery. Methods with dst append to
// it. Arguments passed by value stay off the heap.
type Encoder interface {
	NotificationTail(n *notification.Notification) []byte
	Object(k object.Key, s *object.State) []byte
	Message(m *Message) []byte
	Gap(dst []byte, n uint32) []byte
	Welcome(dst []byte, w Welcome) []byte
	Recall(dst []byte, ids []string) []byte
	Registered(dst []byte, r Registered) []byte
	RegistrationFailed(dst []byte, r RegistrationFailed) []byte
	Pong(dst []byte, digest string) []byte
	Goodbye(dst []byte, g Goodbye) []byte
	Error(dst []byte, e Error) []byte
	Request(dst []byte, r *Request) []byte
	Inbox(dst []byte, in Inbox) []byte
}

// ServerKind identifies a kind of server frame. Gateways get it with the encoded frame, so that none has to parse the frame.
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
	ServerInbox              ServerKind = 12
)

// serverKinds are the names of server frames in the public contract.
var serverKinds = [...]string{
	ServerWelcome: "welcome", ServerNotification: "notification", ServerRecall: "recall", ServerRegistered: "registered",
	ServerRegistrationFailed: "registration_failed", ServerObject: "object", ServerPong: "pong", ServerGoodbye: "goodbye",
	ServerError: "error", ServerMessage: "message", ServerRequest: "request", ServerInbox: "inbox",
}

func (k ServerKind) String() string { return serverKinds[k] }

// Answers reports whether frames of this kind only answer a client's frame and are never sent for another reason.
func (k ServerKind) Answers() bool { return k == ServerPong || k == ServerError }

// NotificationTail returns the shared part of n in format f.
func NotificationTail(n *notification.Notification, f Format) []byte {
	if b := n.Wire().Get(&f.key); b != nil {
		return b
	}
	return n.Wire().Add(&f.key, f.NotificationTail(n))
}

// AppendNotificationHead appends the bytes before the tail of a notification frame, which differ from one receiver to the next. tailLen is
// the length of the tail that will follow.
func AppendNotificationHead(dst []byte, f Format, seq uint64, attempt uint32, tailLen int) []byte {
	return f.Head(dst, seq, attempt, tailLen)
}

// Object makes an object frame. It is the same for every receiver: encode it once per format and share it.
func Object(f Format, k object.Key, s *object.State) []byte { return f.Object(k, s) }

// AppendWelcome appends a welcome frame.
func AppendWelcome(dst []byte, f Format, w *Welcome) []byte { return f.Welcome(dst, *w) }

// AppendRecall appends a recall frame of these notification ids.
func AppendRecall(dst []byte, f Format, ids []string) []byte { return f.Recall(dst, ids) }

// AppendRegistered appends a registered frame.
func AppendRegistered(dst []byte, f Format, r *Registered) []byte {
	return f.Registered(dst, *r)
}

// AppendRegistrationFailed appends a registration_failed frame.
func AppendRegistrationFailed(dst []byte, f Format, r *RegistrationFailed) []byte {
	return f.RegistrationFailed(dst, *r)
}

// AppendPong appends a pong frame; digest may be empty.
func AppendPong(dst []byte, f Format, digest string) []byte { return f.Pong(dst, digest) }

// AppendGoodbye appends a goodbye frame.
func AppendGoodbye(dst []byte, f Format, g Goodbye) []byte { return f.Goodbye(dst, g) }

// AppendError appends an error frame.
func AppendError(dst []byte, f Format, e *Error) []byte { return f.Error(dst, *e) }

// AppendRequest appends a request frame.
func AppendRequest(dst []byte, f Format, r *Request) []byte {
	return f.Request(slices.Grow(dst, r.size()), r)
}

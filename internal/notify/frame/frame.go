// Package frame is the client protocol's codec: client frames in, server frames out, as JSON, as protobuf and as
// server-sent events. It knows nothing of connections; gateways put their own framing around it.
//
// A notification is encoded once per format into a tail that all its receivers share; AppendNotificationHead makes
// the few bytes that differ. Head and tail, written one after the other, are one complete frame.
package frame

import (
	"time"

	"godwit.dev/godwit/internal/objects/object"
)

// Kind identifies a kind of client frame.
type Kind uint8

// Client frames.
const (
	KindHello Kind = iota + 1
	KindAck
	KindNack
	KindRegister
	KindUnregister
	KindObjectAck
	KindSubscribe
	KindUnsubscribe
	KindServe
	KindUnserve
	KindReply
	KindPing
)

// Client is one frame from a client. Byte slices are borrowed from the decoder's input and valid until the decoder's caller reads on; code
// that needs them longer must copy them. A Client may be reused for any number of frames.
type Client struct {
	Kind Kind // 0: a frame that this version does not know (protobuf only), which the caller must ignore
	// Hello is set for a hello frame. The next decoded hello overwrites it.
	Hello *Hello
	// IDs of ack and nack, 1 to MaxIDs, each a valid name.
	IDs    [][]byte
	After  time.Duration // nack; 0: the usual backoff
	Reason []byte        // nack; free text for logs
	// Digest of ping; empty: none.
	Digest []byte
	// Objects of register and unregister, at most MaxObjects; Object and Version of object_ack; Group of all three. Names are valid; an
	// empty Group means the session's group.
	Objects       [][]byte
	Object, Group []byte
	Version       object.Version
	Reset, More   bool
	// Patterns are the topics of subscribe and unsubscribe, or the subjects of serve and unserve: 1 to MaxPatterns, each valid. An empty
	// Queue means no queue.
	Patterns [][]byte
	Queue    []byte
	// Reply is set for a reply frame.
	Reply *Reply
}

// Hello opens a session.
type Hello struct {
	App, Token, Recipient, Group, Device string
	Digest                               string
	Held                                 []string
	Window                               int           // 0: default
	Heartbeat                            time.Duration // 0: default
	// Observe: the session watches. It does not count as its recipient's presence, and no acknowledgement is expected of it; one that
	// comes counts.
	Observe bool
	// Once is set only by gateways, for clients that cannot acknowledge: notifications stay in the mailbox and are sent once to this
	// connection.
	Once bool
	// Quiet is set only by gateways whose protocol sends nothing twice on one connection: a notification comes again after a nack, or on the
	// next connection.
	Quiet bool
	// Fleeting is set only by gateways: registrations for objects end with the session although it has a device.
	Fleeting bool
	// Unseen is set only by gateways: the session is no sign of life of its recipient, whose mailbox is one of a device.
	Unseen bool
}

// Error describes a frame that cannot be accepted. It does not end the connection: the answer is an error frame.
type Error struct {
	Code    string // one of the codes below
	Message string
	Field   string // the wrong field, by its public name; empty: the frame as a whole
	// Refused are the patterns of Field that were refused while the other patterns of the frame were accepted; empty: the frame changed
	// nothing.
	Refused []string
	// Request is the id of the request that the frame tried to answer: its asker must not wait for another answer. Empty: the frame does
	// not answer a request.
	Request string
}

// Codes of an Error from the decoders. Sessions use further codes.
const (
	CodeBadFrame    = "bad_frame"   // not a frame, or an unknown frame or field
	CodeBadField    = "bad_field"   // a field's value breaks its rule
	CodeUnsupported = "unsupported" // well-formed, but not offered by this server
)

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Welcome is the first server frame of a session.
type Welcome struct {
	Session, App, Recipient string
	Heartbeat               time.Duration
	Digest                  string
	Registrations           int
	ServerTime              time.Time
	Inbox                   *Inbox // counts; nil: the recipient has no inbox
}

// Goodbye is the last one.
type Goodbye struct {
	Reason     string
	RetryAfter time.Duration // 0: at once
	Refusal    bool          // the client's fault: WebSocket 1008, gRPC UNAUTHENTICATED
	Error      *Error        // the error that the last error frame reported; nil: the reason says everything
}

// EmptyDigest is the digest of an empty set of registrations.
const EmptyDigest = "0000000000000000"

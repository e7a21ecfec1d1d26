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

// Kind tells which frame a Client is.
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

// Client is one frame from a client. Byte slices are borrowed from the decoder's input and valid until it returns
// to the reader; whoever keeps them copies them. A Client may be decoded into again and again.
type Client struct {
	Kind Kind // 0: nothing this version knows (protobuf only): ignore the frame
	// Hello is set if the frame is one. The next hello decoded overwrites it.
	Hello *Hello
	// IDs of ack and nack, 1 to MaxIDs, each a valid name.
	IDs    [][]byte
	After  time.Duration // nack; 0: the usual backoff
	Reason []byte        // nack; free text for logs
	// Digest of ping; empty: none.
	Digest []byte
	// Objects of register and unregister, at most MaxObjects; Object and Version of object_ack; Group of all three.
	// Names are valid; an empty Group is the session's.
	Objects       [][]byte
	Object, Group []byte
	Version       object.Version
	Reset, More   bool
	// Patterns are the topics of subscribe and unsubscribe, or the subjects of serve and unserve: 1 to MaxPatterns, each
	// valid. An empty Queue is none.
	Patterns [][]byte
	Queue    []byte
	// Reply is set if the frame is one.
	Reply *Reply
}

// Hello opens a session.
type Hello struct {
	App, Token, Recipient, Group, Device string
	Digest                               string
	Held                                 []string
	Window                               int           // 0: default
	Heartbeat                            time.Duration // 0: default
	// Once is set by gateways alone, for clients that cannot acknowledge: notifications stay in the mailbox and are sent once
	// to this connection.
	Once bool
}

// Error is a frame that cannot be accepted. The connection goes on: it is answered with an error frame.
type Error struct {
	Code    string // one of the codes below
	Message string
	Field   string // the field that is wrong, by its public name; empty: the frame as a whole
	// Refused are the patterns of Field that were refused while the others of the frame were taken; empty: the frame
	// changed nothing.
	Refused []string
	// Request is the id of the request that the frame tried to answer: its asker must not wait for another answer. Empty: the
	// frame is no reply to a request.
	Request string
}

// Codes of an Error that the decoders give. Sessions have more.
const (
	CodeBadFrame    = "bad_frame"   // not a frame, or with a name or field that does not exist
	CodeBadField    = "bad_field"   // a field's value breaks its rule
	CodeUnsupported = "unsupported" // well-formed, but this server does not offer it
)

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Welcome is the first server frame of a session.
type Welcome struct {
	Session, App, Recipient string
	Heartbeat               time.Duration
	Digest                  string
	Registrations           int
	ServerTime              time.Time
}

// Goodbye is the last one.
type Goodbye struct {
	Reason     string
	RetryAfter time.Duration // 0: at once
	Refusal    bool          // the client did wrong: WebSocket 1008, gRPC UNAUTHENTICATED
	Error      *Error        // what exactly, which an error frame has said before; nil: the reason says it
}

// EmptyDigest is the digest of no registrations.
const EmptyDigest = "0000000000000000"

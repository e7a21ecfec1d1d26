package frame

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of client frames. They are part of the public contract.
const (
	MaxIDs    = 1000 // most ids of one ack or nack: a window holds at most 1,024
	MaxHeld   = 1000 // most ids of notifications that a client still shows
	MaxWindow = 1024 // unacknowledged notifications in flight

	MaxObjects = 1000 // most objects of one register or unregister; larger sets need several frames
)

const (
	maxToken  = 8 << 10 // bytes that common proxies accept in a header
	maxReason = 1000    // bytes of free text, which may be logged
	digestLen = len(EmptyDigest)
)

// kinds are the names of client frames in the public contract.
var kinds = [...]string{
	KindHello: "hello", KindAck: "ack", KindNack: "nack", KindRegister: "register", KindUnregister: "unregister",
	KindObjectAck: "object_ack", KindSubscribe: "subscribe", KindUnsubscribe: "unsubscribe", KindServe: "serve",
	KindUnserve: "unserve", KindReply: "reply", KindPing: "ping",
}

func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return ""
}

// reset prepares a Client for the next frame and keeps the memory of its lists, hello and reply.
func (c *Client) reset(k Kind) {
	hello, reply := c.Hello, c.Reply
	*c = Client{Kind: k, IDs: c.IDs[:0], Objects: c.Objects[:0], Patterns: c.Patterns[:0], Hello: hello, Reply: reply}
	switch {
	case k == KindReply && reply == nil:
		c.Reply = new(Reply)
	case k == KindReply:
		*reply = Reply{}
	case k == KindHello && hello == nil:
		c.Hello = new(Hello)
	case k == KindHello:
		*hello = Hello{}
	}
}

// Check applies the rules of frames to one that a gateway has made itself. A returned error is an *Error.
func (c *Client) Check() error {
	if err := c.check(); err != nil {
		return c.toRequest(err, func() []byte { return c.Reply.RequestID })
	}
	return nil
}

// check applies the rules that both encodings share.
func (c *Client) check() error {
	switch c.Kind {
	case 0:
		return nil
	case KindHello:
		return c.Hello.Check()
	case KindAck, KindNack:
		return c.checkIDs()
	case KindPing:
		return checkDigest(c.Kind, string(c.Digest))
	case KindRegister, KindUnregister, KindObjectAck:
		return c.checkObjects()
	case KindSubscribe, KindUnsubscribe:
		return c.checkPatterns("topics")
	case KindServe, KindUnserve:
		return c.checkPatterns("subjects")
	case KindReply:
		return c.Reply.check()
	default:
		return &Error{Code: CodeUnsupported, Message: fmt.Sprintf("%s frames are not available on this server yet", c.Kind)}
	}
}

func (c *Client) checkIDs() error {
	if len(c.IDs) == 0 {
		return badField(c.Kind, "ids", "is required")
	}
	for _, id := range c.IDs {
		if !isName(id) {
			return nameError(c.Kind, "ids", string(id))
		}
	}
	if c.After < 0 || c.After > notification.MaxTTL {
		return badField(c.Kind, "after", "must be between 0 and 30 days")
	}
	if len(c.Reason) > maxReason || !utf8.Valid(c.Reason) {
		return badField(c.Kind, "reason", fmt.Sprintf("must be a text of at most %d bytes", maxReason))
	}
	return nil
}

// Check applies the rules of a hello frame. A returned error is an *Error.
func (h *Hello) Check() error {
	for _, f := range []struct{ name, value string }{
		{"app", h.App}, {"recipient", h.Recipient}, {"group", h.Group}, {"device", h.Device},
	} {
		if f.value == "" {
			continue
		}
		if notification.CheckName(f.name, f.value) != nil {
			return nameError(KindHello, f.name, f.value)
		}
	}
	for _, id := range h.Held {
		if notification.CheckName("held", id) != nil {
			return nameError(KindHello, "held", id)
		}
	}
	switch {
	case len(h.Token) > maxToken || !utf8.ValidString(h.Token):
		return badField(KindHello, "token", fmt.Sprintf("must be a text of at most %d bytes", maxToken))
	case h.Window < 0 || h.Window > MaxWindow:
		return badField(KindHello, "window", fmt.Sprintf("must be between 1 and %d", MaxWindow))
	case h.Heartbeat < 0:
		return badField(KindHello, "heartbeat", "must not be negative")
	}
	return checkDigest(KindHello, h.Digest)
}

func checkDigest(k Kind, digest string) error {
	if digest == "" {
		return nil
	}
	ok := len(digest) == digestLen
	for i := 0; ok && i < len(digest); i++ {
		c := digest[i]
		ok = c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
	}
	if !ok {
		return badField(k, "digest", "must be 16 hex digits in lower case")
	}
	return nil
}

// nameBytes are the bytes allowed in ids and other names.
var nameBytes = func() (t [256]bool) {
	for c := range t {
		t[c] = notification.CheckPart("", string([]byte{byte(c)})) == nil
	}
	return t
}()

// dots reports whether a text of such bytes is "." or "..", which are not valid names.
func dots(b []byte) bool { return len(b) <= 2 && (string(b) == "." || string(b) == "..") }

func isName(b []byte) bool {
	if len(b) == 0 || len(b) > notification.MaxNameBytes || dots(b) {
		return false
	}
	for _, c := range b {
		if !nameBytes[c] {
			return false
		}
	}
	return true
}

func nameError(k Kind, field, value string) error {
	var fe *notification.FieldError
	if errors.As(notification.CheckName(field, value), &fe) {
		return badField(k, field, fe.Problem)
	}
	return badField(k, field, "is not a valid name")
}

func badField(k Kind, field, problem string) error {
	return &Error{Code: CodeBadField, Message: fmt.Sprintf("%s: %s %s", k, field, problem), Field: field}
}

func frameError(format string, args ...any) error {
	return &Error{Code: CodeBadFrame, Message: fmt.Sprintf(format, args...)}
}

func tooMany(k Kind, field string, limit int) error {
	return badField(k, field, fmt.Sprintf("has more than %d entries", limit))
}

// millis turns a protobuf field of milliseconds into a duration, limited to the range of durations.
func millis(v uint64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(max(min(int64(v), most), -most)) * time.Millisecond
}

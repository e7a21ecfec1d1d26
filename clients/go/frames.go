package godwit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	pb "godwit.dev/godwit/api/godwitpb"
)

// Notification is one notification as a recipient gets it.
type Notification struct {
	ID          string
	Seq         uint64 // number among the recipient's notifications, from 1; gaps are normal
	Title       string
	Body        string
	Category    string
	Data        []byte // JSON, text or bytes, as ContentType says
	ContentType string
	Priority    string // high, normal or low
	CreatedAt   time.Time
	ExpiresAt   time.Time
	ReplyBy     time.Time // deadline for the answer; zero: no answer is requested
	Attempt     int       // 1 for the first delivery
}

// Welcome is the server's frame at the beginning of a session.
type Welcome struct {
	Session    string // secret: it authorises acknowledgements
	App        string
	Recipient  string
	Heartbeat  time.Duration
	ServerTime time.Time
	// Digest of the objects for which the server has this session or device registered.
	Digest        string
	Registrations int
	// Inbox has the counts of the recipient's inbox; nil: it never had anything.
	Inbox *InboxNews
}

// hello, nack and clientFrame are sent to the server; serverFrame is received.
type hello struct {
	App       string   `json:"app,omitempty"`
	Token     string   `json:"token,omitempty"`
	Recipient string   `json:"recipient,omitempty"`
	Group     string   `json:"group,omitempty"`
	Device    string   `json:"device,omitempty"`
	Digest    string   `json:"digest,omitempty"`
	Held      []string `json:"held,omitempty"`
	Window    int      `json:"window,omitempty"`
	Heartbeat wireTime `json:"heartbeat,omitempty"`
	Observe   bool     `json:"observe,omitempty"`
}

type ids struct {
	IDs []string `json:"ids"`
}

type nack struct {
	IDs    []string `json:"ids"`
	After  wireTime `json:"after,omitempty"`
	Reason string   `json:"reason,omitempty"`
}

type clientFrame struct {
	Hello       *hello     `json:"hello,omitempty"`
	Ack         *ids       `json:"ack,omitempty"`
	Nack        *nack      `json:"nack,omitempty"`
	Register    *register  `json:"register,omitempty"`
	Unregister  *register  `json:"unregister,omitempty"`
	ObjectAck   *objectAck `json:"object_ack,omitempty"`
	Subscribe   *subscribe `json:"subscribe,omitempty"`
	Unsubscribe *subscribe `json:"unsubscribe,omitempty"`
	Serve       *serve     `json:"serve,omitempty"`
	Unserve     *serve     `json:"unserve,omitempty"`
	Reply       *reply     `json:"reply,omitempty"`
	Ping        *ping      `json:"ping,omitempty"`
}

type serverFrame struct {
	Welcome            *Welcome
	Notification       *Notification
	Recall             []string
	Inbox              *InboxNews
	Registered         *registered
	RegistrationFailed *registrationFailed
	Object             *Signal
	Message            *message
	Request            *Request
	Pong               *ping
	Goodbye            *goodbye
	Err                *frameError
	Unread             *UndecodableError
	// All fields nil: a frame this client does not know.
}

type goodbye struct {
	Reason     string
	RetryAfter time.Duration
}

// frameError is the server's error about one frame; the session continues.
type frameError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field"`
	// Patterns in Field that the server refused; it accepted the frame's other patterns.
	Refused []string `json:"refused"`
}

func (e *frameError) Error() string { return "server refused a frame: " + e.Code + ": " + e.Message }

// wireTime is a duration in JSON frames: "30s", "7d", or whole seconds.
type wireTime time.Duration

// MarshalJSON implements json.Marshaler.
func (d wireTime) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *wireTime) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		*d = wireTime(time.Duration(n) * time.Second)
		return nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		*d = wireTime(n * 24 * float64(time.Hour))
		return err
	}
	v, err := time.ParseDuration(text)
	*d = wireTime(v)
	return err
}

// wireNotification is a notification in JSON frames.
type wireNotification struct {
	ID          string          `json:"id"`
	Seq         uint64          `json:"seq"`
	Title       string          `json:"title"`
	Body        string          `json:"body"`
	Category    string          `json:"category"`
	Data        json.RawMessage `json:"data"`
	DataBase64  []byte          `json:"data_base64"`
	ContentType string          `json:"content_type"`
	Priority    string          `json:"priority"`
	CreatedAt   time.Time       `json:"created_at"`
	ExpiresAt   time.Time       `json:"expires_at"`
	ReplyBy     time.Time       `json:"reply_by"`
	Attempt     int             `json:"attempt"`
}

// ReadNotification parses a notification in the JSON form of the server's frames.
func ReadNotification(text []byte) (*Notification, error) {
	var w wireNotification
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, fmt.Errorf("read a notification: %w", err)
	}
	return w.notification()
}

func (w *wireNotification) notification() (*Notification, error) {
	n := &Notification{
		ID: w.ID, Seq: w.Seq, Title: w.Title, Body: w.Body, Category: w.Category,
		Priority: w.Priority, CreatedAt: w.CreatedAt, ExpiresAt: w.ExpiresAt, ReplyBy: w.ReplyBy, Attempt: w.Attempt,
	}
	var err error
	if n.Data, n.ContentType, err = readData(w.Data, w.DataBase64, w.ContentType); err != nil {
		return nil, &memberError{"data", err.Error()}
	}
	if checkName("id", n.ID) != nil {
		return nil, &memberError{"id", "is not a name"}
	}
	if n.Priority != "high" && n.Priority != "low" {
		n.Priority = "normal" // also for priorities that only later servers know
	}
	return n, nil
}

func (w *wireNotification) frame() serverFrame {
	n, err := w.notification()
	if err != nil {
		return unread(err, w.ID, "", w.Attempt)
	}
	return serverFrame{Notification: n}
}

// readData decodes data from its form in JSON: JSON as it is, text as a string, anything else as base64.
func readData(data json.RawMessage, base64 []byte, contentType string) ([]byte, string, error) {
	switch {
	case base64 != nil:
		return base64, contentType, nil
	case len(data) == 0:
		return nil, contentType, nil
	case contentType == "": // the usual type is omitted
		return data, "application/json", nil
	case isJSON(contentType):
		return data, contentType, nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return nil, "", fmt.Errorf("is not text although its content type is %s", contentType)
	}
	return []byte(text), contentType, nil
}

// decodeJSON parses a frame: an object with one key. Unknown frames of a later server are ignored; an unreadable frame is returned with its
// error.
func decodeJSON(b []byte) (f serverFrame) {
	var w struct {
		Welcome *struct {
			Session       string     `json:"session"`
			App           string     `json:"app"`
			Recipient     string     `json:"recipient"`
			Heartbeat     wireTime   `json:"heartbeat"`
			ServerTime    time.Time  `json:"server_time"`
			Digest        string     `json:"digest"`
			Registrations int        `json:"registrations"`
			Inbox         *InboxNews `json:"inbox"`
		} `json:"welcome"`
		Inbox              *InboxNews          `json:"inbox"`
		Notification       *wireNotification   `json:"notification"`
		Recall             *ids                `json:"recall"`
		Registered         *registered         `json:"registered"`
		RegistrationFailed *registrationFailed `json:"registration_failed"`
		Object             *wireObject         `json:"object"`
		Message            *wireMessage        `json:"message"`
		Request            *wireRequest        `json:"request"`
		Pong               *ping               `json:"pong"`
		Goodbye            *struct {
			Reason     string   `json:"reason"`
			RetryAfter wireTime `json:"retry_after"`
		} `json:"goodbye"`
		Error *frameError `json:"error"`
	}
	if !utf8.Valid(b) {
		return salvage(b, errors.New("is not UTF-8"))
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return salvage(b, errors.New(whatIsWrong(err)))
	}
	switch {
	case w.Welcome != nil:
		v := w.Welcome
		f.Welcome = &Welcome{v.Session, v.App, v.Recipient, time.Duration(v.Heartbeat), v.ServerTime, v.Digest, v.Registrations, v.Inbox}
	case w.Notification != nil:
		return w.Notification.frame()
	case w.Inbox != nil:
		f.Inbox = w.Inbox
	case w.Recall != nil:
		f.Recall = w.Recall.IDs
	case w.Object != nil:
		return w.Object.frame()
	case w.Message != nil:
		return w.Message.frame()
	case w.Request != nil:
		return w.Request.frame()
	case w.Goodbye != nil:
		f.Goodbye = &goodbye{w.Goodbye.Reason, time.Duration(w.Goodbye.RetryAfter)}
	case w.Error != nil:
		f.Err = w.Error
	default:
		f.Registered, f.RegistrationFailed, f.Pong = w.Registered, w.RegistrationFailed, w.Pong
	}
	return f
}

func (f *clientFrame) proto() *pb.ClientFrame {
	switch {
	case f.Hello != nil:
		h := f.Hello
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Hello{Hello: &pb.Hello{
			App: h.App, Token: h.Token, Recipient: h.Recipient, Group: h.Group, Device: h.Device, Digest: h.Digest, Held: h.Held,
			Window: uint32(h.Window), HeartbeatMs: time.Duration(h.Heartbeat).Milliseconds(), Observe: h.Observe,
		}}}
	case f.Ack != nil:
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Ack{Ack: &pb.Ack{Ids: f.Ack.IDs}}}
	case f.Nack != nil:
		after := time.Duration(f.Nack.After).Milliseconds()
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Nack{Nack: &pb.Nack{Ids: f.Nack.IDs, AfterMs: after, Reason: f.Nack.Reason}}}
	}
	if p := f.objectProto(); p != nil {
		return p
	}
	if p := f.topicProto(); p != nil {
		return p
	}
	if p := f.requestProto(); p != nil {
		return p
	}
	return &pb.ClientFrame{Frame: &pb.ClientFrame_Ping{Ping: &pb.Ping{Digest: f.Ping.Digest}}}
}

var priorityNames = map[pb.Priority]string{pb.Priority_PRIORITY_HIGH: "high", pb.Priority_PRIORITY_LOW: "low"}

func fromProto(p *pb.ServerFrame) (f serverFrame) {
	switch v := p.GetFrame().(type) {
	case *pb.ServerFrame_Welcome:
		w := v.Welcome
		f.Welcome = &Welcome{
			w.Session, w.App, w.Recipient, millis(w.HeartbeatMs), time.UnixMilli(w.ServerTimeMs).UTC(), w.Digest, int(w.Registrations), inboxFromProto(w.Inbox),
		}
	case *pb.ServerFrame_Notification:
		return notificationFromProto(v.Notification)
	case *pb.ServerFrame_Inbox:
		f.Inbox = inboxFromProto(v.Inbox)
	case *pb.ServerFrame_Recall:
		f.Recall = v.Recall.Ids
	case *pb.ServerFrame_Goodbye:
		f.Goodbye = &goodbye{v.Goodbye.Reason, millis(v.Goodbye.RetryAfterMs)}
	case *pb.ServerFrame_Error:
		f.Err = &frameError{v.Error.Code, v.Error.Message, v.Error.Field, v.Error.Refused}
	case *pb.ServerFrame_Message:
		return messageFromProto(v.Message)
	case *pb.ServerFrame_Request:
		return requestFromProto(v.Request)
	default:
		return objectFromProto(p)
	}
	return f
}

func notificationFromProto(p *pb.Notification) serverFrame {
	n := &Notification{
		ID: p.Id, Seq: p.Seq, Title: p.Title, Body: p.Body, Category: p.Category, Data: p.Data,
		ContentType: p.ContentType, Priority: cmp.Or(priorityNames[p.Priority], "normal"), Attempt: int(p.Attempt),
	}
	err := inJSON("data", p.Data, p.ContentType)
	if err == nil && checkName("id", n.ID) != nil {
		err = &memberError{"id", "is not a name"}
	}
	if err == nil {
		n.CreatedAt, err = timeOf("created_at", p.CreatedAtMs)
	}
	if err == nil {
		n.ExpiresAt, err = timeOf("expires_at", p.ExpiresAtMs)
	}
	if err == nil && p.ReplyByMs != 0 {
		n.ReplyBy, err = timeOf("reply_by", p.ReplyByMs)
	}
	if err != nil {
		return unread(err, p.Id, "", n.Attempt)
	}
	return serverFrame{Notification: n}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

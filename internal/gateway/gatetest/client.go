package gatetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/notify/frame"
)

// Gate is a gateway under test.
type Gate struct {
	// Mount adds the gateway to a server.
	Mount func(t testing.TB, s *Server)
	// Dial connects and sends the hello. A refusal by an HTTP answer, instead of a goodbye frame, is a *Refused.
	Dial func(t testing.TB, s *Server, o Options) (Client, error)
	// Driver is the reactor's driver; empty: the best one available.
	Driver string
	two    bool // events for clients are published on a second node
	// Lacks has the cases for which the protocol has no words, with the reason: its gateway tests the rest of them itself.
	Lacks map[string]string
	// Mute: the protocol's welcome has no fields, and its goodbye no reason.
	Mute bool
	// NoDigest: a pong has no digest; nor has any frame of a Mute gateway.
	NoDigest bool
	// AnyName: any text can be the name of a topic.
	AnyName bool
	// LingersOn: a session outlives its client's connection for a while.
	LingersOn bool
	// Buffers is how many bytes a client takes from the kernel before its test reads them.
	Buffers int
	// Queued returns how many bytes wait for clients; nil: the bytes in the reactor's queues.
	Queued func(s *Server) int64
}

// Options are the fields of a client's hello. The app is App.
type Options struct {
	Recipient, Group, Device, Token string
	Window                          int // 0: not said
	Held                            []string
	Objects                         []string // registered by the query, for gateways whose clients can send no frame at first
	Topics                          []string // subscribed to by the query
	Queue                           string   // of these
}

// Hello returns the options as a hello frame.
func (o Options) Hello() frame.Hello {
	return frame.Hello{App: App, Recipient: o.Recipient, Group: o.Group, Device: o.Device, Token: o.Token, Window: o.Window, Held: o.Held}
}

// HelloJSON is the hello frame in JSON.
func (o Options) HelloJSON() string {
	h := map[string]any{"app": App, "recipient": o.Recipient, "group": o.Group, "device": o.Device, "token": o.Token, "held": o.Held}
	if o.Window > 0 {
		h["window"] = o.Window
	}
	b, err := json.Marshal(map[string]any{"hello": h})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return string(b)
}

// Client is a connected client.
type Client interface {
	// Send sends one client frame, given as JSON.
	Send(ctx context.Context, frame string) error
	// SendBad sends bytes that are no frame.
	SendBad(ctx context.Context) error
	// Next returns the next server frame, as JSON. io.EOF means that the server has ended the session properly.
	Next(ctx context.Context) (string, error)
	// Close cuts the connection without a goodbye.
	Close()
}

// Refused is an HTTP answer that Dial got instead of a session.
type Refused struct {
	Status int
	Detail string
}

func (e *Refused) Error() string { return fmt.Sprintf("refused with %d: %s", e.Status, e.Detail) }

// Frame is a parsed server frame.
type Frame struct {
	Name string
	Note
	Session    string
	Heartbeat  string
	App        string
	Recipient  string
	Reason     string
	RetryAfter string `json:"retry_after"`
	Code       string
	Message    string
	Field      string
	IDs        []string `json:"ids"`
	Obj
	Topic       string
	ContentType string `json:"content_type"`
	DataBase64  []byte `json:"data_base64"`
	Gap         int
	Refused     []string

	RequestID                    string `json:"request_id"`
	Subject, Method, Path, Query string
	Headers                      map[string]any
	Deadline                     string
}

// Obj holds the fields of object frames.
type Obj struct {
	Group, Object, Digest string
	Version               string
	Unknown               bool
	Payload               json.RawMessage
	Objects               []string
	Registrations         int
	Transient             bool
}

// Note is a notification.
type Note struct {
	ID       string
	Seq      uint64
	Attempt  int
	Title    string
	Body     string
	Category string
	Data     json.RawMessage
	Priority string
	ReplyBy  json.RawMessage `json:"reply_by"`
}

// conn wraps a client with checks that fail the test.
type conn struct {
	Client
	t     testing.TB
	gate  *Gate
	at    *Server    // the node of its session
	next1 chan Frame // the frame that the method coming waits for
}

func (g *Gate) connect(t testing.TB, s *Server, o Options) *conn {
	t.Helper()
	at := s.turn()
	c, err := g.Dial(t, at, o)
	must(t, err)
	t.Cleanup(c.Close)
	return &conn{Client: c, t: t, gate: g, at: at}
}

// welcomed connects and reads the welcome.
func (g *Gate) welcomed(t testing.TB, s *Server, o Options) *conn {
	t.Helper()
	c := g.connect(t, s, o)
	c.want("welcome")
	return c
}

func (c *conn) send(format string, args ...any) {
	c.t.Helper()
	ctx, cancel := patient(c.t)
	defer cancel()
	must(c.t, c.Send(ctx, fmt.Sprintf(format, args...)))
}

func (c *conn) ack(id string) {
	c.t.Helper()
	c.send(`{"ack":{"ids":[%q]}}`, id)
}

func (c *conn) next() (Frame, error) {
	c.t.Helper()
	return Next(c.t, c.Client)
}

// Next reads and parses a client's next frame.
func Next(t testing.TB, c Client) (Frame, error) {
	t.Helper()
	ctx, cancel := patient(t)
	defer cancel()
	text, err := c.Next(ctx)
	if err != nil {
		return Frame{}, err
	}
	return parse(t, text), nil
}

func parse(t testing.TB, text string) Frame {
	t.Helper()
	var named map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &named); err != nil || len(named) != 1 {
		t.Fatalf("%s is not one server frame: %v", text, err)
	}
	var f Frame
	for name, body := range named {
		must(t, json.Unmarshal(body, &f))
		f.Name = name
	}
	return f
}

// want reads the next frame and checks its name.
func (c *conn) want(name string) Frame {
	c.t.Helper()
	f, err := c.next()
	if err != nil {
		c.t.Fatalf("waiting for %s: %v", name, err)
	}
	if f.Name != name {
		c.t.Fatalf("got %+v, want %s", f, name)
	}
	return f
}

// note reads the next frame and checks that it is this notification.
func (c *conn) note(id string) Frame {
	c.t.Helper()
	f := c.want("notification")
	if f.ID != id {
		c.t.Fatalf("got notification %s, want %s", f.ID, id)
	}
	return f
}

// ended checks that the server has ended the session.
func (c *conn) ended() {
	c.t.Helper()
	if f, err := c.next(); !errors.Is(err, io.EOF) {
		c.t.Fatalf("got %+v, %v; want the end of the session", f, err)
	}
}

// wantRefusal checks that a client is refused in the gateway's own way.
func (g *Gate) wantRefusal(t testing.TB, s *Server, o Options, status int, reason string) {
	t.Helper()
	c, err := g.Dial(t, s, o)
	var refused *Refused
	if errors.As(err, &refused) {
		if refused.Status != status || !strings.Contains(refused.Detail, `"status":`) {
			t.Fatalf("%v, want status %d and a problem document", refused, status)
		}
		return
	}
	must(t, err)
	defer c.Close()
	cn := &conn{Client: c, t: t, gate: g}
	cn.goodbye(reason)
	cn.ended()
}

// goodbye reads the next frame and checks that it is a goodbye for this reason.
func (c *conn) goodbye(reason string) Frame {
	c.t.Helper()
	f := c.want("goodbye")
	if f.Reason != reason && !c.gate.Mute {
		c.t.Errorf("goodbye says %q, want %q", f.Reason, reason)
	}
	return f
}

func patient(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(t.Context(), Patience, fmt.Errorf("nothing came in %s", Patience))
}

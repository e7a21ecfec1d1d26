// Package pubsub implements topics: a message published to a topic goes to every session that subscribes to it, at most once. It stores
// nothing. Messages travel over a bus, which NATS clients share. DESIGN.md gives the reasons.
package pubsub

import (
	"context"
	"encoding/base64"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
)

// Bus carries messages between nodes and to NATS clients. A subscription made before a message was published over the
// same bus gets that message.
type Bus interface {
	// Publish passes a message to the subscribers. topic.ErrUnavailable: there is no bus now.
	Publish(ctx context.Context, app string, m topic.Message) error
	// Subscribe calls got with each message of a pattern, and lost with the number of messages dropped before the next one; neither may
	// block. Each message goes to one of the subscriptions with the same queue. stop waits for no callback.
	Subscribe(app, pattern, queue string, got func(topic.Message), lost func(n int)) (stop func(), err error)
}

// Limits. The description of the client protocol documents the limits that clients notice.
const (
	maxWaiting  = 1 << 20 // bytes of an app's messages that may wait for the fan; further messages are dropped and counted
	messageCost = 256     // bytes of memory of a waiting message in addition to its data
	// givenWay is how long a message waits while a publish to the mailbox is under way, which takes about as long.
	givenWay   = 200 * time.Microsecond
	queueShare = 128 << 10 // bytes up to which messages may fill a connection's queue; the rest is for the mailbox
)

// Headers of messages.
const (
	contentType = "Content-Type"
	kept        = "Godwit-Kept"
	mqtt        = "Godwit-Mqtt" // in base64
	qos         = "Godwit-Qos"
	traceparent = "traceparent" // NATS clients may write it in other letters
)

// Config are the parts and settings of a Service.
type Config struct {
	Bus    Bus
	Log    *slog.Logger
	Tracer Tracer // nil: nothing is traced
	// QueueShare is how many bytes may already wait in a session's connection when another message is added; 0: 128 KB.
	QueueShare int
	// Spreaders is how many goroutines at once pass messages to many sessions; 0: half as many as there are cores.
	Spreaders int
}

// Tracer follows messages of topics by the traceparent that travels with them.
type Tracer interface {
	// Sending begins the span of a publish. It returns the traceparent to send, and the function that ends the span.
	Sending(app, topic, traceparent string) (sent string, done func(error))
	// Spread adds the span of a message that was written to sessions.
	Spread(app, topic, traceparent string, begun time.Time, sessions int)
	Now() time.Time
}

// Service implements the topics of all apps on this node.
type Service struct {
	cfg  Config
	bus  Bus
	busy func() bool // nil: nothing goes first
	mu   sync.RWMutex
	apps map[string]*fan // apps that ever had a subscription on this node

	gaps    teller
	running sync.WaitGroup
	ctx     context.Context // ends with the service
	stop    context.CancelFunc
	counts  counts
}

var _ session.Capability = (*Service)(nil)

// New makes a Service. Close must be called.
func New(cfg Config) *Service {
	if cfg.QueueShare == 0 {
		cfg.QueueShare = queueShare
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Spreaders == 0 {
		cfg.Spreaders = runtime.GOMAXPROCS(0) / 2
	}
	s := &Service{cfg: cfg, bus: cfg.Bus, apps: make(map[string]*fan)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.gaps.svc = s
	return s
}

// GiveWayTo gives priority to other work while busy returns true. It must be called before the first publish. On few cores, delivering a
// message takes a core from the mailbox, and that delays the mailbox more than waiting delays the message.
func (s *Service) GiveWayTo(busy func() bool) { s.busy = busy }

// Close ends all subscriptions and returns when none of the service's goroutines runs. All sessions must have ended before.
func (s *Service) Close() error {
	s.stop()
	s.mu.Lock()
	apps := s.apps
	s.apps = nil
	s.mu.Unlock()
	for _, f := range apps {
		f.close()
	}
	s.gaps.close()
	s.running.Wait()
	return nil
}

// Message is what is published.
type Message struct {
	Topic       string
	ContentType string // empty: bytes of no type
	Traceparent string // W3C trace context, passed on to NATS clients; empty: none
	Data        []byte
	Kept        bool   // it waits in mailboxes too, for MQTT clients that may be away
	MQTT        string // properties that only MQTT clients get, encoded; empty: none
	QoS         byte   // of an MQTT publisher: 0 to 2
}

// Check applies the rules of messages. A returned error is a *notification.FieldError.
func (m *Message) Check() error {
	if err := topic.CheckName("topic", m.Topic); err != nil {
		return err
	}
	if len(m.ContentType) > notification.MaxNameBytes || !printable(m.ContentType) {
		return notification.BadField("content_type", "must be a media type of at most %d printable ASCII characters", notification.MaxNameBytes)
	}
	if len(m.Data) > topic.MaxData {
		return notification.BadField("data", "has %d bytes; at most %d are allowed", len(m.Data), topic.MaxData)
	}
	return nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Publish passes a message to the present subscribers of its topic. It does not report which subscribers it reached. Errors are a
// *notification.FieldError or topic.ErrUnavailable.
func (s *Service) Publish(ctx context.Context, app string, m *Message) error {
	if err := m.Check(); err != nil {
		return err
	}
	if s.cfg.Tracer == nil {
		return s.publish(ctx, app, m, m.Traceparent)
	}
	parent, done := s.cfg.Tracer.Sending(app, m.Topic, m.Traceparent)
	err := s.publish(ctx, app, m, parent)
	done(err)
	return err
}

func (s *Service) publish(ctx context.Context, app string, m *Message, parent string) error {
	out := topic.Message{Subject: topic.Topic(m.Topic), Data: m.Data}
	if m.ContentType != "" {
		out.Header = topic.Header{contentType: {m.ContentType}}
	}
	if m.Kept {
		if out.Header == nil {
			out.Header = topic.Header{}
		}
		out.Header[kept] = []string{"1"}
	}
	if m.MQTT != "" {
		if out.Header == nil {
			out.Header = topic.Header{}
		}
		out.Header[mqtt] = []string{base64.RawStdEncoding.EncodeToString([]byte(m.MQTT))}
	}
	if m.QoS > 0 {
		if out.Header == nil {
			out.Header = topic.Header{}
		}
		out.Header[qos] = []string{strconv.Itoa(int(m.QoS))}
	}
	if parent != "" && printable(parent) {
		if out.Header == nil {
			out.Header = topic.Header{}
		}
		out.Header[traceparent] = []string{parent}
	}
	if s.busy != nil && s.busy() {
		time.Sleep(givenWay)
	}
	runtime.Gosched() // the mailbox comes first: messages that wait here are not stored and may be dropped
	if err := s.bus.Publish(ctx, app, out); err != nil {
		return err
	}
	s.counts.published.Add(1)
	return nil
}

// Frames implements session.Capability.
func (s *Service) Frames() (first, later []frame.Kind) {
	return []frame.Kind{frame.KindSubscribe}, []frame.Kind{frame.KindUnsubscribe}
}

// Open implements session.Capability. Nothing is stored: subscriptions end with their session.
func (s *Service) Open(_ context.Context, to session.Sender, who session.Client, load bool) session.Part {
	if load {
		return nil
	}
	return &subscriber{fan: s.fan(who.App), to: to, rights: who.Rights, observer: who.Observer}
}

// fan returns the fan of an app, and makes it if necessary.
func (s *Service) fan(app string) *fan {
	s.mu.RLock()
	f := s.apps[app]
	s.mu.RUnlock()
	if f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.apps[app]; f == nil {
		f = &fan{svc: s, app: app, feeds: make(map[string]*feed), closed: s.apps == nil}
		if !f.closed {
			s.apps[app] = f
		}
	}
	return f
}

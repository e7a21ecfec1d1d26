package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Link is one client connection, made with a third-party client library. Next and Ack may be called from different goroutines.
type Link interface {
	// Next returns the next frame. An error means that the connection is over.
	Next(ctx context.Context) (*Frame, error)
	// Ack acknowledges notifications.
	Ack(ctx context.Context, ids ...string) error
	// Cut drops the connection without a goodbye.
	Cut()
}

// attended is a link that is read all the time.
type attended struct {
	Link
	frames chan *Frame
	err    error // set before frames is closed
}

// Attended returns the same link, read all the time: so the server's heartbeats are answered while a test does something else. It keeps up to
// a thousand frames.
func Attended(l Link) Link {
	a := &attended{Link: l, frames: make(chan *Frame, 1000)}
	go func() {
		defer close(a.frames)
		for {
			f, err := l.Next(context.Background())
			if err != nil {
				a.err = err
				return
			}
			a.frames <- f
		}
	}()
	return a
}

func (a *attended) Next(ctx context.Context) (*Frame, error) {
	select {
	case f, more := <-a.frames:
		if !more {
			return nil, a.err
		}
		return f, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Frame is a server frame of any transport. Exactly one pointer is set.
type Frame struct {
	Welcome      *Welcome      `json:"welcome"`
	Notification *Notification `json:"notification"`
	Recall       *struct{ IDs []string }
	Inbox        *Inbox
	Goodbye      *struct{ Reason string }
	Error        *struct{ Code, Message, Field string }
	Pong         *struct{}
}

// Welcome has the parts of the welcome frame that tests need.
type Welcome struct {
	Session, App, Recipient string
	Inbox                   *Inbox
}

// Inbox are the counts of the recipient's inbox, and what has changed.
type Inbox struct {
	Unseen, Unread int
	Changed        []string
	Marked         []InboxMark
}

// InboxMark is what an item of an inbox is.
type InboxMark struct {
	ID                           string
	Seen, Read, Archived, Pinned bool
	Answered                     string
}

// Notification is a received notification.
type Notification struct {
	ID, Title, Body, Category string
	Seq                       uint64
	Attempt                   uint32
	Priority                  string
	Data                      json.RawMessage
	ExpiresAt                 time.Time `json:"expires_at"`
}

// Hello says who connects.
type Hello struct {
	App, Recipient, Device, Token string
	Window                        int
}

// Transports are the names that Dial accepts.
var Transports = []string{"ws", "ws-proto", "grpc", "sse", "poll"}

// Dial connects over a transport and sends a hello. The first frame is the welcome.
func (s *Server) Dial(ctx context.Context, transport string, h Hello) (Link, error) {
	switch transport {
	case "ws":
		return dialWebSocket(ctx, s.HTTP, h, false)
	case "ws-proto":
		return dialWebSocket(ctx, s.HTTP, h, true)
	case "grpc":
		return dialGRPC(ctx, s.GRPC, h)
	case "sse":
		return dialSSE(ctx, s.HTTP, h)
	case "poll":
		return dialPoll(s.HTTP, h), nil
	}
	return nil, fmt.Errorf("no transport %q", transport)
}

// NextNotification returns the next notification and skips other frames.
func NextNotification(ctx context.Context, l Link) (*Notification, error) {
	for {
		f, err := l.Next(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case f.Notification != nil:
			return f.Notification, nil
		case f.Error != nil:
			return nil, fmt.Errorf("error frame: %+v", *f.Error)
		case f.Goodbye != nil:
			return nil, fmt.Errorf("goodbye: %s", f.Goodbye.Reason)
		}
	}
}

func ackFrame(ids []string) map[string]any {
	return map[string]any{"ack": map[string]any{"ids": ids}}
}

func helloFrame(h Hello) map[string]any {
	hello := map[string]any{"app": h.App, "recipient": h.Recipient}
	if h.Device != "" {
		hello["device"] = h.Device
	}
	if h.Token != "" {
		hello["token"] = h.Token
	}
	if h.Window != 0 {
		hello["window"] = h.Window
	}
	return map[string]any{"hello": hello}
}

package grpcgate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
)

// guests is a service whose streams are sessions: the token in a client's metadata is its recipient.
type guests struct {
	mu    sync.Mutex
	ended []string
}

func (x *guests) ends() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Join(x.ended, " ")
}

func (x *guests) method(g *grpcgate.SessionMethod, s *gatetest.Server, once bool) *grpcgate.SessionMethod {
	g.Hub, g.Format, g.Name, g.Deaf = s.Hub, frame.Payload, "guest", once
	g.Hello = func(md func(string) string) (*frame.Hello, access.Claim, error) {
		if md("token") == "" {
			return nil, access.Claim{}, status.Error(codes.InvalidArgument, "no token")
		}
		return &frame.Hello{Once: once}, access.Claim{App: gatetest.App, Recipient: md("token"), Device: "app"}, nil
	}
	g.Goodbye = func(bye frame.Goodbye) *status.Status {
		if bye.Refusal {
			return status.New(codes.Internal, bye.Reason)
		}
		return status.New(codes.OK, "")
	}
	g.Ended = func(took time.Duration, reason string) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if took <= 0 {
			reason = fmt.Sprint("took ", took)
		}
		x.ended = append(x.ended, "<"+reason+">")
	}
	return g
}

// eachGuestEngine runs a test with that service on both engines.
func eachGuestEngine(t *testing.T, run func(t *testing.T, g *gate, x *guests, c nammayatripb.NotificationClient)) {
	for _, engine := range []string{grpcgate.EngineReactor, grpcgate.EngineStd} {
		t.Run(engine, func(t *testing.T) {
			x := &guests{}
			var g *gate
			gatetest.Start(t, func(s *gatetest.Server) {
				g = start(t, s, nil, func(c *grpcgate.Config) { c.Engine = engine }, func(srv *grpcgate.Server) {
					srv.RegisterSessions(&nammayatripb.Notification_ServiceDesc, nammayatripb.UnimplementedNotificationServer{}, map[string]*grpcgate.SessionMethod{
						"StreamPayload":       x.method(&grpcgate.SessionMethod{}, s, false),
						"ServerStreamPayload": x.method(&grpcgate.SessionMethod{}, s, true),
					})
				})
			})
			run(t, g, x, nammayatripb.NewNotificationClient(g.conn(t)))
		})
	}
}

func withToken(t *testing.T, token string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "token", token)
}

func offer(to, id string) notification.Draft {
	return notification.Draft{To: []string{to}, ID: id, Content: notification.Content{
		Title: "Ride", ContentType: "application/json", Data: []byte(`{"show":"SHOW","entity":{"id":"e","type":"t","data":"{}"}}`),
	}}
}

func receive(t *testing.T, s interface {
	Recv() (*nammayatripb.NotificationPayload, error)
}, id string,
) {
	t.Helper()
	if m, err := s.Recv(); err != nil || m.GetId() != id || m.GetShow() != "SHOW" || m.GetEntity().GetType() != "t" {
		t.Fatalf("got %v, %v, want %s", m, err, id)
	}
}

func TestGuestsGetNotificationsAndAcknowledge(t *testing.T) {
	eachGuestEngine(t, func(t *testing.T, g *gate, x *guests, c nammayatripb.NotificationClient) {
		ctx, cancel := context.WithCancel(withToken(t, "driver-1"))
		defer cancel()
		s, err := c.StreamPayload(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Header(); err != nil { // nothing was sent yet
			t.Fatal(err)
		}
		for _, id := range []string{"", "not-mine"} { // an app's first message, and one with an unknown id
			if err := s.Send(&nammayatripb.NotificationAck{Id: id}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			id := fmt.Sprint("ride-", i)
			g.Send(t, offer("driver-1", id))
			receive(t, s, id)
			if err := s.Send(&nammayatripb.NotificationAck{Id: id}); err != nil {
				t.Fatal(err)
			}
			g.Await(t, event.Acked, id)
		}
		cancel()
		g.Gone(t)
		if _, err := s.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestASecondGuestEndsTheFirstWithOKAndGetsWhatWaits(t *testing.T) {
	eachGuestEngine(t, func(t *testing.T, g *gate, x *guests, c nammayatripb.NotificationClient) {
		g.Send(t, offer("driver-1", "ride-1"))
		var first grpc.BidiStreamingClient[nammayatripb.NotificationAck, nammayatripb.NotificationPayload]
		for i := range 3 {
			s, err := c.StreamPayload(withToken(t, "driver-1"))
			if err != nil {
				t.Fatal(err)
			}
			receive(t, s, "ride-1")
			if i > 0 {
				if _, err := first.Recv(); !errors.Is(err, io.EOF) {
					t.Fatalf("the one before ended with %v, want OK", err)
				}
			}
			first = s
		}
		g.Stop(t)
		if _, err := first.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("at the server's stop it ended with %v, want OK", err)
		}
		if got := g.Status(t, "ride-1", "driver-1"); got.Settled(notification.AckAny) {
			t.Errorf("ride-1 is %s", got)
		}
	})
}

func TestGuestsWithoutRightsAreToldTheServicesWay(t *testing.T) {
	eachGuestEngine(t, func(t *testing.T, _ *gate, _ *guests, c nammayatripb.NotificationClient) {
		for token, want := range map[string]codes.Code{"": codes.InvalidArgument, "not a name": codes.Internal} {
			s, err := c.StreamPayload(withToken(t, token))
			if err != nil {
				t.Fatal(err)
			}
			if m, err := s.Recv(); status.Code(err) != want {
				t.Errorf("token %q: got %v, %v, want %s", token, m, err, want)
			}
		}
	})
}

func TestAGuestThatEndsItsSideHasLeft(t *testing.T) {
	eachGuestEngine(t, func(t *testing.T, g *gate, _ *guests, c nammayatripb.NotificationClient) {
		g.Send(t, offer("driver-1", "ride-1"))
		s, err := c.StreamPayload(withToken(t, "driver-1"))
		if err != nil {
			t.Fatal(err)
		}
		receive(t, s, "ride-1")
		if err := s.Send(&nammayatripb.NotificationAck{Id: "ride-1"}); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("it ended with %v, want OK", err)
		}
		g.Await(t, event.Acked, "ride-1")
		g.Gone(t)
	})
}

func TestDeafGuestsGetEachOnce(t *testing.T) {
	eachGuestEngine(t, func(t *testing.T, g *gate, _ *guests, c nammayatripb.NotificationClient) {
		g.Send(t, offer("driver-1", "ride-1"))
		s, err := c.ServerStreamPayload(withToken(t, "driver-1"), &nammayatripb.NotificationAck{Id: "ride-1"})
		if err != nil {
			t.Fatal(err)
		}
		receive(t, s, "ride-1")
		g.Send(t, offer("driver-1", "ride-2"))
		receive(t, s, "ride-2")
		for _, id := range []string{"ride-1", "ride-2"} {
			if got := g.Status(t, id, "driver-1"); got == notification.Acked {
				t.Errorf("%s is %s", id, got)
			}
		}
	})
}

func TestTheEndOfAGuestIsToldOnce(t *testing.T) {
	eachGuestEngine(t, func(t *testing.T, g *gate, x *guests, c nammayatripb.NotificationClient) {
		g.Send(t, offer("driver-1", "ride-1"))
		ctx, cancel := context.WithCancel(withToken(t, "driver-1"))
		s, err := c.StreamPayload(ctx)
		if err != nil {
			t.Fatal(err)
		}
		receive(t, s, "ride-1")
		cancel()
		g.Gone(t)
		s, err = c.StreamPayload(withToken(t, "driver-1"))
		if err != nil {
			t.Fatal(err)
		}
		receive(t, s, "ride-1")
		g.Stop(t)
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		deadline := time.Now().Add(gatetest.Patience)
		for x.ends() != "<> <shutdown>" {
			if time.Now().After(deadline) {
				t.Fatalf("told %s", x.ends())
			}
			time.Sleep(time.Millisecond)
		}
	})
}

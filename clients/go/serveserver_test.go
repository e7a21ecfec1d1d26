package godwit_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
)

// serving starts a worker and returns once its subjects are served.
func serving(t *testing.T, c *godwit.Client, handle godwit.RequestHandler, subjects ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	inEffect, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- c.Serve(ctx, "worker-1", subjects, handle, godwit.OnServing(func() { close(inEffect) }))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve returned %v", err)
		}
	})
	select {
	case <-inEffect:
	case <-time.After(time.Minute):
		t.Fatal("nothing is served")
	}
}

func TestAskGetsWhatTheWorkerAnswered(t *testing.T) {
	transports(t, func(t *testing.T, _ *server, c *godwit.Client) {
		serving(t, c, func(_ context.Context, r *godwit.Request) (*godwit.Answer, error) {
			return &godwit.Answer{
				Status: http.StatusFound, Header: http.Header{"Location": {"/v1/elsewhere"}, "Set-Cookie": {"a=1", "b=2"}}, Data: r.Data, ContentType: r.ContentType,
			}, nil
		}, "orders.>")
		for _, tt := range []struct{ contentType, data string }{
			{"text/plain", "moved"},
			{"application/json", `{"a": [1,  2]}`},
			{"text/html", "<b>&</b>"},
			{"text/plain", string(bytes.Repeat([]byte{1}, 1<<20))}, // as a JSON string it would be six times as long
			{"text/html", string(bytes.Repeat([]byte("<"), 1<<20))},
			{"application/octet-stream", string(bytes.Repeat([]byte{0xff}, 1<<20))},
		} {
			a, err := c.Ask(t.Context(), "orders.get", []byte(tt.data), godwit.AskOptions{ContentType: tt.contentType, Timeout: time.Minute})
			if err != nil {
				t.Fatalf("%.20q: %v", tt.data, err)
			}
			if a.Status != http.StatusFound || a.Header.Get("Location") != "/v1/elsewhere" || !slices.Equal(a.Header["Set-Cookie"], []string{"a=1", "b=2"}) ||
				string(a.Data) != tt.data || a.ContentType != tt.contentType {
				t.Errorf("%.20q: got %d %s %v %.20q", tt.data, a.Status, a.ContentType, a.Header, a.Data)
			}
		}
	})
}

func TestAskTellsNobodyFromNoAnswer(t *testing.T) {
	transports(t, func(t *testing.T, _ *server, c *godwit.Client) {
		check := func(what string, err, want, other error) {
			t.Helper()
			var e *godwit.Error
			if !errors.Is(err, want) || errors.Is(err, other) || !errors.As(err, &e) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := c.Ask(t.Context(), "orders.get", nil, godwit.AskOptions{})
		check("nobody serves", err, godwit.ErrNobodyServes, godwit.ErrNoAnswer)
		_, err = c.AskRecipient(t.Context(), "driver-1", nil, godwit.AskOptions{})
		check("not connected", err, godwit.ErrNobodyServes, godwit.ErrNoAnswer)
		serving(t, c, func(ctx context.Context, _ *godwit.Request) (*godwit.Answer, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "orders.get")
		_, err = c.Ask(t.Context(), "orders.get", nil, godwit.AskOptions{Timeout: 100 * time.Millisecond})
		check("no answer", err, godwit.ErrNoAnswer, godwit.ErrNobodyServes)
	})
}

func TestListenerWithoutAnswersSaysSoToARequest(t *testing.T) {
	transports(t, func(t *testing.T, _ *server, c *godwit.Client) {
		connected := make(chan struct{})
		listen(t, c, "driver-1", newCollector().handle, godwit.OnConnect(func(godwit.Welcome) { close(connected) }))
		<-connected
		a, err := c.AskRecipient(t.Context(), "driver-1", nil, godwit.AskOptions{Timeout: time.Minute})
		if err != nil || a.Status != http.StatusNotImplemented {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}

// lossy is a connection to a real server. Once lose is set, it drops the next write and then breaks.
type lossy struct {
	net.Conn
	lose *atomic.Bool
}

func (c *lossy) Write(b []byte) (int, error) {
	if c.lose.CompareAndSwap(true, false) {
		_ = c.Close() // only the connection's end matters
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func TestReplyLostWithItsConnectionIsGivenAgain(t *testing.T) {
	s := run(t, nil)
	var lose atomic.Bool
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return &lossy{c, &lose}, err
	}
	defer transport.CloseIdleConnections()
	var handled atomic.Int32
	listen(t, client(t, s, godwit.WithHTTPClient(&http.Client{Transport: transport})), "driver-1", func(context.Context, *godwit.Notification) error {
		handled.Add(1)
		lose.Store(true)
		return godwit.Reply(godwit.Answer{Status: http.StatusAccepted, Data: []byte("yes"), ContentType: "text/plain"})
	})
	c := client(t, s)
	if _, err := c.Publish(t.Context(), godwit.Publication{To: "driver-1", ID: "ride-1", ReplyBy: time.Hour, Title: "Hi"}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Wait(t.Context(), "ride-1", "driver-1")
	if err != nil || got.Status != "replied" || handled.Load() != 1 {
		t.Errorf("it is %s after %d calls of the handler, %v", got.Status, handled.Load(), err)
	}
	if r := got.Reply; r == nil || r.Status != http.StatusAccepted || string(r.Data) != "yes" || r.ContentType != "text/plain" {
		t.Errorf("the answer is %+v", r)
	}
}

package nammayatri_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/internal/compat/nammayatri"
)

func TestStreamBringsWhatWaitsAndWhatComesAndTakesAcks(t *testing.T) {
	w := open(t, dev)
	w.redis.publish("driver-1", "ride-1")
	s, err := w.client.StreamPayload(w.as("driver-1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Header(); err != nil {
		t.Fatal(err)
	}
	w.receive(s, "ride-1")
	w.redis.publish("driver-1", "ride-2")
	w.receive(s, "ride-2")
	for _, id := range []string{"", "ride-2", "ride-2", "nobody's", "ride-1"} { // first, twice, foreign
		if err := s.Send(&nammayatripb.NotificationAck{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	w.until("acknowledged", func() bool {
		return slices.Equal(w.redis.acked, []string{"ride-2", "ride-2", "nobody's", "ride-1"}) && len(w.redis.items["driver-1"]) == 0
	})
	w.redis.publish("driver-1", "ride-3") // it goes on
	w.receive(s, "ride-3")
}

func TestSecondConnectionTakesOverAndGetsAllThatIsUnacked(t *testing.T) {
	w := open(t, dev)
	w.redis.publish("driver-1", "ride-1")
	first, err := w.client.StreamPayload(w.as("driver-1"))
	if err != nil {
		t.Fatal(err)
	}
	w.receive(first, "ride-1")
	second, err := w.client.ServerStreamPayload(w.as("driver-1"), &nammayatripb.NotificationAck{})
	if err != nil {
		t.Fatal(err)
	}
	w.receive(second, "ride-1")
	if _, err := first.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the first ended with %v, want OK", err)
	}
	w.redis.publish("driver-1", "ride-2")
	w.receive(second, "ride-2")
	w.until("here once", func() bool { return w.redis.here["driver-1"] == 1 })
}

func TestSessionsOfAClientEachGetEverything(t *testing.T) {
	w := open(t, dev)
	w.redis.publish("driver-1", "ride-1")
	var all []stream
	for _, id := range []string{"a", "b"} {
		s, err := w.client.ServerStreamPayload(w.as("driver-1", "session-id", id), &nammayatripb.NotificationAck{Id: "ride-1"})
		if err != nil {
			t.Fatal(err)
		}
		w.receive(s, "ride-1")
		all = append(all, s)
	}
	app, err := w.client.StreamPayload(w.as("driver-1", "session-id", "of no meaning here"))
	if err != nil {
		t.Fatal(err)
	}
	w.receive(app, "ride-1")
	w.redis.publish("driver-1", "ride-2")
	for _, s := range append(all, app) {
		w.receive(s, "ride-2")
	}
	again, err := w.client.ServerStreamPayload(w.as("driver-1", "session-id", "a"), &nammayatripb.NotificationAck{})
	if err != nil {
		t.Fatal(err)
	}
	w.receive(again, "ride-1", "ride-2")
	if _, err := all[0].Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the session that was opened again ended with %v, want OK", err)
	}
	w.redis.mu.Lock()
	defer w.redis.mu.Unlock()
	if len(w.redis.acked) > 0 {
		t.Errorf("%q were settled without an acknowledgement", w.redis.acked)
	}
}

func TestAnOverlongSessionIDIsRefused(t *testing.T) {
	w := open(t, dev)
	s, err := w.client.ServerStreamPayload(w.as("driver-1", "session-id", strings.Repeat("x", 200)), &nammayatripb.NotificationAck{})
	if err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v", err)
	}
}

func TestStreamsEndWithOKWhenTheServerStops(t *testing.T) {
	w := open(t, dev)
	w.redis.publish("driver-1", "ride-1")
	s, err := w.client.StreamPayload(w.as("driver-1"))
	if err != nil {
		t.Fatal(err)
	}
	w.receive(s, "ride-1")
	quotes, err := w.client.QuoteRespond(w.as("driver-1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := quotes.Header(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := w.service.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want OK", err)
	}
	if _, err := quotes.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the answers' stream ended with %v, want OK", err)
	}
	w.until("gone", func() bool { return w.redis.here["driver-1"] == 0 })
	w.until("left", func() bool { return len(w.redis.items["driver-1"]) == 1 })
}

func TestStreamsEndAfterTheirTimeIfThereIsOne(t *testing.T) {
	w := open(t, func(c *nammayatri.Config) { c.Dev, c.Timeout = true, 100*time.Millisecond })
	s, err := w.client.StreamPayload(w.as("driver-1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("it ended with %v, want OK", err)
	}
	w.has(`notification_client_connection_duration_count{status="TIMED_OUT"} 1`)
}

func TestHealth(t *testing.T) {
	w := open(t, dev)
	if code, body := w.get("/health"); code != 200 || body != "Notification Service Is Up!" {
		t.Errorf("%d %q", code, body)
	}
	health := nammayatripb.NewHealthClient(w.conn)
	if r, err := health.Check(w.Context(), &nammayatripb.HealthCheckRequest{}); err != nil || r.GetStatus() != nammayatripb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", r, err)
	}
	w.redis.change(func() { w.redis.away = true })
	if code, _ := w.get("/health"); code != 200 {
		t.Errorf("%d while Redis is away: a probe would have all connections ended", code)
	}
	w.redis.change(func() { w.redis.away = false })
	close(w.stopping)
	if code, _ := w.get("/health"); code != 503 {
		t.Errorf("%d while it stops", code)
	}
	if r, err := health.Check(w.Context(), &nammayatripb.HealthCheckRequest{}); err != nil || r.GetStatus() != nammayatripb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while it stops: %v, %v", r, err)
	}
}

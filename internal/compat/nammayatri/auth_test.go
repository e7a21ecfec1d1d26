package nammayatri_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/internal/compat/nammayatri"
)

// doorman is a server that verifies tokens.
type doorman struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func hire(t *testing.T) *doorman {
	d := &doorman{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.asked = append(d.asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("token")+" "+r.Header.Get("api-key"))
		d.mu.Unlock()
		switch r.Header.Get("token") {
		case "good":
			_, _ = io.WriteString(w, `{"driverId":"driver-1","merchant":"x"}`)
		case "rider":
			_, _ = io.WriteString(w, `{"riderId":"rider-1"}`)
		case "odd":
			_, _ = io.WriteString(w, `<html>`)
		case "broken":
			w.WriteHeader(http.StatusBadGateway)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *doorman) origins() map[string]nammayatri.Origin {
	return map[string]nammayatri.Origin{
		nammayatri.DriverApp: {URL: d.URL + "/driver", Key: "key-d", Expiry: time.Hour},
		nammayatri.RiderApp:  {URL: d.URL + "/rider", Key: "key-r", Expiry: time.Minute},
	}
}

func (d *doorman) questions() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// refused returns the status of a stream that is rejected.
func (w *world) refused(token string, more ...string) codes.Code {
	w.Helper()
	s, err := w.client.StreamPayload(w.as(token, more...))
	if err != nil {
		w.Fatal(err)
	}
	_, err = s.Recv()
	return status.Code(err)
}

// comes checks that a client is accepted.
func (w *world) comes(client, token string, more ...string) {
	w.Helper()
	if _, err := w.client.StreamPayload(w.as(token, more...)); err != nil {
		w.Fatal(err)
	}
	w.until(client+" here", func() bool { return w.redis.here[client] > 0 })
}

func TestTokensAreAskedAboutOnceAndKept(t *testing.T) {
	d := hire(t)
	w := open(t, func(c *nammayatri.Config) { c.Origins = d.origins() })
	w.redis.change(func() { w.redis.tokens["kept"] = "driver-9" }) // stored by the service that this one replaces
	w.comes("driver-9", "kept")
	w.comes("driver-1", "good", "token-origin", "Nowhere")
	w.comes("driver-1", "good")
	w.comes("rider-1", "rider", "token-origin", "RiderApp")
	want := []string{"GET /driver good key-d", "GET /rider rider key-r"}
	if got := d.questions(); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("asked %q, want %q", got, want)
	}
	w.until("kept", func() bool { return w.redis.expires["good"] == time.Hour && w.redis.expires["rider"] == time.Minute })
}

func TestFailedAuthenticationIsInternal(t *testing.T) {
	d := hire(t)
	w := open(t, func(c *nammayatri.Config) { c.Origins = d.origins() })
	for token, origin := range map[string]string{"bad": "", "odd": "", "broken": "", "rider": "DriverDashboard"} {
		if got := w.refused(token, "token-origin", origin); got != codes.Internal {
			t.Errorf("%s: %s", token, got)
		}
	}
	if got := w.refused(""); got != codes.InvalidArgument {
		t.Errorf("no token: %s", got)
	}
	for _, call := range []func() error{
		func() error {
			_, err := w.client.QuoteRespondWithId(w.as("bad"), &nammayatripb.QuoteRequest{})
			return err
		},
		func() error {
			s, err := w.client.QuoteRespond(w.as("bad"))
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.Internal {
			t.Errorf("an answer with a bad token: %v", err)
		}
	}
	if _, err := w.client.QuoteRespondWithId(t.Context(), &nammayatripb.QuoteRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an answer without a token: %v", err)
	}
	w.until("nothing kept", func() bool { return len(w.redis.tokens) == 0 })
	const path = `handler="/notification_service.Notification/StreamPayload"`
	w.has(
		`grpc_request_duration_seconds_count{code="INTERNAL_ERROR",`+path+`,method="POST",status_code="13",version="v7"} 4`,
		`grpc_request_duration_seconds_count{code="INVALID_REQUEST",`+path+`,method="POST",status_code="3",version="v7"} 1`,
	)
}

func TestFailedAuthenticationIsInternalAlsoWhereTheClientHasEndedItsSide(t *testing.T) {
	d := hire(t)
	w := open(t, func(c *nammayatri.Config) { c.Origins = d.origins() })
	for range 20 { // repeated because the end may be read before or after the answer about the token
		s, err := w.client.StreamPayload(w.as("bad"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.Internal {
			t.Fatalf("a stream with a bad token, closed on the client's side: %v", err)
		}
	}
}

func TestKnownTokensGoOnWhileTheirServerIsDown(t *testing.T) {
	d := hire(t)
	w := open(t, func(c *nammayatri.Config) { c.Origins = d.origins() })
	w.comes("driver-1", "good")
	d.Close()
	w.redis.change(func() { w.redis.tokens["kept"] = "driver-2" })
	w.comes("driver-2", "kept")
	if got := w.refused("other"); got != codes.Internal {
		t.Errorf("got %s", got)
	}
}

func TestTokensAreAskedAboutWhileRedisIsAway(t *testing.T) {
	d := hire(t)
	w := open(t, func(c *nammayatri.Config) { c.Origins = d.origins() })
	w.redis.change(func() { w.redis.away = true })
	w.comes("driver-1", "good")
}

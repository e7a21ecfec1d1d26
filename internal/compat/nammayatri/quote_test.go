package nammayatri_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/internal/compat/nammayatri"
)

// driverAPI opens a world with a driver API that answers with h.
func driverAPI(t *testing.T, h http.HandlerFunc) *world {
	api := httptest.NewServer(h)
	t.Cleanup(api.Close)
	return open(t, func(c *nammayatri.Config) { c.Dev, c.DriverAPI = true, api.URL+"/ui/" })
}

var offered = &nammayatripb.QuoteRequest{
	NotificationSource: "GRPC", RenderedAt: "a", RespondedAt: "b", SearchRequestId: "s-1", OfferedFare: 120.5, Response: "Accept", SlotNumber: 3,
}

func TestAnswersGoToTheDriverAPI(t *testing.T) {
	var body map[string]any
	var head http.Header
	var path string
	w := driverAPI(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body, head, path = nil, r.Header, r.Method+" "+r.URL.Path
		if err := json.Unmarshal(b, &body); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		_, _ = io.WriteString(w, `{"result":"Success!"}`)
	})
	ctx := metadata.AppendToOutgoingContext(w.as("driver-1"), "x-package", "p", "x-bundle-version", "1", "x-client-version", "2",
		"x-config-version", "3", "x-react-bundle-version", "4", "x-device", "d", "x-other", "no")
	got, err := w.client.QuoteRespondWithId(ctx, offered)
	if err != nil || got.GetStatus() != "Success!" || got.GetReason() != "Success" || got.GetSearchRequestId() != "s-1" {
		t.Fatalf("got %v, %v", got, err)
	}
	for name, want := range map[string]string{
		"token": "driver-1", "x-package": "p", "x-bundle-version": "1", "x-client-version": "2", "x-config-version": "3",
		"x-react-bundle-version": "4", "x-device": "d", "x-other": "", "content-type": "application/json",
	} {
		if v := head.Get(name); v != want {
			t.Errorf("header %s is %q, want %q", name, v, want)
		}
	}
	want := map[string]any{
		"notificationSource": "GRPC", "renderedAt": "a", "respondedAt": "b", "searchRequestId": "s-1", "offeredFare": 120.5, "response": "Accept", "slotNumber": 3.0,
	}
	if path != "POST /ui/driver/quote/respond" || len(body) != len(want) {
		t.Errorf("%s with %v", path, body)
	}
	for k, v := range want {
		if body[k] != v {
			t.Errorf("%s is %v, want %v", k, body[k], v)
		}
	}
	for name, change := range map[string]func(*nammayatripb.QuoteRequest){
		"no fare": func(r *nammayatripb.QuoteRequest) { r.OfferedFare = 0 }, "reject": func(r *nammayatripb.QuoteRequest) { r.Response = "Reject" },
	} {
		r := proto.CloneOf(offered)
		change(r)
		if _, err := w.client.QuoteRespondWithId(ctx, r); err != nil {
			t.Fatal(err)
		}
		if fare, ok := body["offeredFare"]; fare != nil || !ok {
			t.Errorf("%s: the fare is %v", name, fare)
		}
	}
	w.has(`grpc_request_duration_seconds_count{code="OK",handler="/notification_service.Notification/QuoteRespondWithId",method="POST",status_code="0",version="v7"} 3`)
}

func TestStreamsOfAnswersGoOnAfterOneFailed(t *testing.T) {
	w := driverAPI(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(b), "taken"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"errorCode":"QUOTE_TAKEN"}`)
		case strings.Contains(string(b), "odd"):
			_, _ = io.WriteString(w, `[]`)
		default:
			_, _ = io.WriteString(w, `{"result":"ok"}`)
		}
	})
	s, err := w.client.QuoteRespondStreamWithId(w.as("driver-1"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := w.client.QuoteRespond(w.as("driver-1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ search, status, reason string }{
		{"taken", "error", `{"errorCode":"QUOTE_TAKEN"}`}, {"odd", "error", "the driver API answered 200 OK without a result"}, {"s-2", "ok", "Success"},
	} {
		r := &nammayatripb.QuoteRequest{SearchRequestId: c.search}
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Recv(); err != nil || got.GetStatus() != c.status || got.GetReason() != c.reason || got.GetSearchRequestId() != c.search {
			t.Errorf("%s: got %v, %v", c.search, got, err)
		}
		if err := plain.Send(r); err != nil {
			t.Fatal(err)
		}
		if got, err := plain.Recv(); err != nil || got.GetStatus() != c.status || got.GetReason() != c.reason {
			t.Errorf("%s: got %v, %v", c.search, got, err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("it ended with %v, want OK", err)
	}
}

func TestAnswersFailWhereNoDriverAPIIs(t *testing.T) {
	w := open(t, dev)
	if got, err := w.client.QuoteRespondWithId(w.as("driver-1"), offered); err != nil || got.GetStatus() != "error" || got.GetReason() == "" {
		t.Errorf("not set up: %v, %v", got, err)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	w = open(t, func(c *nammayatri.Config) { c.Dev, c.DriverAPI = true, gone.URL })
	got, err := w.client.QuoteRespondWithId(w.as("driver-1"), offered)
	if err != nil || got.GetStatus() != "error" || !strings.HasPrefix(got.GetReason(), "connection error: ") || strings.Contains(got.GetReason(), "quote/respond") {
		t.Errorf("gone: %v, %v", got, err)
	}
}

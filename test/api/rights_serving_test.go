package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/test/blackbox"
)

// servers are the ways to serve. Each answers with a client's token until its test ends.
var servers = []struct {
	name  string
	serve func(w *rightsWorld, token string, patterns []string)
}{{"WebSocket", webSocketWorker}, {"gRPC", grpcWorker}, {"SSE", streamWorker}, {"poll", pollWorker}, {"NATS", natsWorker}}

// askers are the ways to make requests. They report whether the server permitted the request.
var askers = []struct {
	name string
	ask  func(w *rightsWorld, secret, name string) bool
}{{"HTTP", httpAsk}, {"gRPC", rpcAsk}, {"NATS", natsAsk}, {"the gateway", gatewayAsk}}

// TestServing: a client with a claim serves a pattern, and a request is made.
func TestServing(t *testing.T) {
	w := startRights(t)
	for _, c := range []struct {
		recipient string
		claim     []string
		pattern   string
		asked     string
		answers   bool
	}{
		{"r", []string{"orders.*"}, "orders.get", "orders.get", true},
		{"r", []string{"orders.*"}, "orders.*", "orders.get", true},
		{"r", []string{"orders.*"}, "orders.>", "orders.get", false},
		{"r", []string{"orders.*"}, "orders.>", "orders.get.1", false},
		{"r", []string{"orders.*"}, ">", "cars.get", false},
		{"r", []string{"orders.>"}, "orders.get.>", "orders.get.1", true},
		{"r", []string{"*.get"}, "orders.*", "orders.put", false},
		{"r", nil, "orders.get", "orders.get", false},
		{"d.42", []string{"cars.{sub}.>"}, "cars.d%2E42.open", "cars.d%2E42.open", true},
		{"d.42", []string{"cars.{sub}.>"}, "cars.d.42.open", "cars.d.42.open", false},
		{"d-42", []string{"cars.{sub}.>"}, "cars.*.open", "cars.d-43.open", false},
	} {
		token := w.token(c.recipient, nil, append(c.claim, fences+".>"))
		for _, way := range servers {
			t.Run(strings.Join([]string{c.pattern, "with", strings.Join(c.claim, ","), "by", way.name}, " "), func(t *testing.T) {
				w := w.in(t)
				ctx, cancel := w.patiently()
				defer cancel()
				unserved := func(name string) bool { return w.request("dev", name) == http.StatusServiceUnavailable }
				for !unserved(c.asked) { // until the worker of the previous test has left
					w.pause(ctx)
				}
				way.serve(w, token, []string{c.pattern, w.fence(">")})
				for unserved(w.fence("ready")) {
					w.pause(ctx)
				}
				if got := !unserved(c.asked); got != c.answers {
					t.Errorf("answered: %v", got)
				}
			})
		}
	}
}

// TestAsking: a holder of a key with roles may make requests; a holder of a client's token may not.
func TestAsking(t *testing.T) {
	w := startRights(t)
	all := []string{">"}
	natsWorker(w, w.token("r", nil, all), all)
	ctx, cancel := w.patiently()
	defer cancel()
	for w.request("dev", "orders.get") != http.StatusOK {
		w.pause(ctx)
	}
	for _, c := range []struct {
		who, secret string
		may         bool
	}{
		{"publish", w.key(`["publish"]`), true},
		{"admin", w.key(`["admin"]`), true},
		{"read", w.key(`["read"]`), false},
		{"worker", w.key(`["worker"]`), false},
		{"a client", w.token("r", all, all), false},
	} {
		for _, way := range askers {
			t.Run(c.who+" by "+way.name, func(t *testing.T) {
				if said := way.ask(w.in(t), c.secret, "orders.get"); said != c.may {
					t.Errorf("was told that it may: %v", said)
				}
			})
		}
	}
}

func (w *rightsWorld) pause(ctx context.Context) {
	w.Helper()
	select {
	case <-ctx.Done():
		w.Fatal(context.Cause(ctx))
	case <-time.After(20 * time.Millisecond):
	}
}

// request asks over HTTP.
func (w *rightsWorld) request(key, name string) (status int) {
	w.Helper()
	status, _ = w.do(w.Context(), "POST", "/v1/requests/"+strings.ReplaceAll(name, "%", "%25"), key, []byte("x"))
	return status
}

func httpAsk(w *rightsWorld, secret, name string) bool {
	return w.request(secret, name) == http.StatusOK
}

func rpcAsk(w *rightsWorld, secret, name string) bool {
	cc := w.dialRPC()
	defer cc.Close()
	got, err := godwitpb.NewPublisherClient(cc).Ask(withKey(w.Context(), secret), &godwitpb.AskRequest{Subject: name})
	return err == nil && got.GetStatus() == http.StatusOK
}

// gatewayAsk requests the root page of the service with which the name begins.
func gatewayAsk(w *rightsWorld, secret, name string) bool {
	service, _, _ := strings.Cut(name, ".")
	status, _ := w.do(w.Context(), http.MethodGet, "/gw/"+service+"/", secret, nil)
	return status == http.StatusOK
}

func natsAsk(w *rightsWorld, secret, name string) bool {
	w.Helper()
	nc, err := nats.Connect("nats://"+w.nats, nats.Token(secret), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		w.Fatal(err)
	}
	defer nc.Close()
	if errors.Join(nc.PublishRequest("godwit.demo.r."+name, nats.NewInbox(), nil), nc.FlushTimeout(blackbox.Patience)) != nil {
		return false
	}
	return nc.LastError() == nil
}

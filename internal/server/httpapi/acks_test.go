package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

type ackedJSON struct{ Acked int }

func TestAckCountsWhatItSettled(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.post("/v1/notifications", fmt.Sprintf(`{"to":"a","id":"n%d","title":"Hi"}`, i)).want(http.StatusCreated)
	}
	token := w.token("shop", "a")
	ack := func(ids string) int {
		return decode[ackedJSON](w.do(request{method: "POST", path: "/v1/acks", body: `{"ids":[` + ids + `]}`, key: token}).want(http.StatusOK)).Acked
	}
	if got := ack(`"n0","n1","unknown"`); got != 2 {
		t.Errorf("acked %d, want 2", got)
	}
	if got := ack(`"n1","n2"`); got != 1 {
		t.Errorf("acked %d, want 1", got)
	}
}

func TestAckTakesItsTokenFromTheQueryToo(t *testing.T) {
	w := newWorld(t)
	token := w.token("shop", "a")
	w.do(request{method: "POST", path: "/v1/acks?app=shop&recipient=a&token=" + token, body: `{"ids":["n"]}`, key: "-"}).want(http.StatusOK)
	if log := w.log.String(); strings.Contains(log, token) {
		t.Error("the token is in the log")
	} else if !strings.Contains(log, "token=%2A%2A%2A") {
		t.Error("the log does not show that there was a token")
	}
}

func TestAckNeedsTheRecipientsOwnToken(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/notifications", `{"to":"a","id":"n","title":"Hi"}`).want(http.StatusCreated)
	ack := func(query, key string) answer {
		return w.do(request{method: "POST", path: "/v1/acks" + query, body: `{"ids":["n"]}`, key: key})
	}
	ack("?app=shop&recipient=a", "-").problem(http.StatusUnauthorized, "unauthenticated", "")
	ack("?app=shop&recipient=a", "nonsense").problem(http.StatusUnauthorized, "unauthenticated", "")
	ack("?app=none", "nonsense").problem(http.StatusNotFound, "unknown-app", "")
	ack("?app=shop&recipient=a", w.token("shop", "b")).problem(http.StatusForbidden, "forbidden", "")
	ack("?app=shop&recipient=a", w.keys["read"]).problem(http.StatusForbidden, "forbidden", "")
	ack("?app=shop&recipient=a", w.keys["other"]).problem(http.StatusForbidden, "forbidden", "")
	if s := decode[statusJSON](w.get("/v1/notifications/n?to=a")); s.Status != "stored" {
		t.Errorf("status %s, want stored", s.Status)
	}
	if got := decode[ackedJSON](ack("?recipient=a", w.keys["publish"]).want(http.StatusOK)).Acked; got != 1 {
		t.Errorf("acked %d, want 1", got)
	}
}

func TestBadAckNamesTheField(t *testing.T) {
	w := newWorld(t)
	token := w.token("shop", "a")
	many := strings.TrimSuffix(strings.Repeat(`"a",`, 1001), ",")
	for _, c := range []struct{ query, body, field string }{
		{"", `{}`, "ids"},
		{"", `{"ids":[]}`, "ids"},
		{"", `{"ids":"a"}`, "ids"},
		{"", `{"ids":["a",7]}`, "ids[1]"},
		{"", `{"ids":["a b"]}`, "ids[0]"},
		{"", `{"ids":[` + many + `]}`, "ids"},
		{"", `{"id":["a"]}`, "id"},
		{"?device=a%20b", `{"ids":["a"]}`, "device"},
		{"?recipient=a%20b", `{"ids":["a"]}`, "recipient"},
		{"?x=1", `{"ids":["a"]}`, "x"},
	} {
		w.do(request{method: "POST", path: "/v1/acks" + c.query, body: c.body, key: token}).problem(http.StatusBadRequest, "bad-input", c.field)
	}
	w.do(request{method: "POST", path: "/v1/acks", body: `{"ids":`, key: token}).problem(http.StatusBadRequest, "bad-json", "")
	w.do(request{method: "POST", path: "/v1/acks", body: strings.Repeat(" ", 200_000), key: token}).problem(http.StatusRequestEntityTooLarge, "too-large", "")
}

func TestOnlyPagesOfTheAppsOriginsMayAck(t *testing.T) {
	w := newWorld(t)
	origins := []string{"https://shop.example"}
	if err := w.access.SetApp(t.Context(), "shop", access.AppChange{Origins: &origins}); err != nil {
		t.Fatal(err)
	}
	token := w.token("shop", "a")
	send := func(method, origin string) answer {
		r := request{method: method, path: "/v1/acks?app=shop", key: "-", header: map[string]string{"Origin": origin}}
		if method == "POST" {
			r.body, r.key = `{"ids":["n"]}`, token
		}
		return w.do(r)
	}
	for _, method := range []string{"OPTIONS", "POST"} {
		if got := send(method, "https://shop.example").header.Get("Access-Control-Allow-Origin"); got != "https://shop.example" {
			t.Errorf("%s: allowed origin %q", method, got)
		}
		if got := send(method, "https://evil.example").header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: allowed origin %q for another page", method, got)
		}
	}
	send("POST", "https://evil.example").problem(http.StatusForbidden, "forbidden", "")
	if got := w.do(request{method: "GET", path: "/v1/stats", header: map[string]string{"Origin": "https://shop.example"}}).header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("a back end's route lets pages of %q read it", got)
	}
}

// receipts accepts one token, for shop's clicks.
type receipts struct{ event *push.Reaction }

func (r *receipts) Acknowledge(_ context.Context, tokens []string, event *push.Reaction) (int, error) {
	r.event = event
	if !slices.Contains(tokens, "good") {
		return 0, sealed.ErrBad
	}
	return 1, nil
}

func TestATokenAcknowledgesFromAnyPageWithoutCredentials(t *testing.T) {
	r := &receipts{}
	w := newWorld(t, func(c *setup) { c.Receipts = r })
	send := func(method, query, body, key string) answer {
		return w.do(request{method: method, path: "/v1/acks" + query, body: body, key: key, header: map[string]string{"Origin": "https://any.example"}})
	}
	pre := send("OPTIONS", "", "", "-").header
	if pre.Get("Access-Control-Allow-Origin") != "*" || pre.Get("Access-Control-Allow-Methods") != "POST" || pre.Get("Access-Control-Allow-Headers") != "Content-Type" {
		t.Errorf("preflight: %v", pre)
	}
	for _, key := range []string{"-", "nonsense", w.keys["publish"]} {
		got := send("POST", "", `{"tokens":["good","bad"],"event":"clicked"}`, key).want(http.StatusOK)
		if decode[ackedJSON](got).Acked != 1 || got.header.Get("Access-Control-Allow-Origin") != "*" || r.event == nil || *r.event != push.Clicked {
			t.Errorf("with key %q: %v, %v", key, got, r.event)
		}
	}
	if got := send("POST", "", `{"tokens":["bad"]}`, "-"); got.header.Get("Access-Control-Allow-Origin") != "*" || r.event != nil {
		t.Errorf("a bad token: %v, %v", got.header, r.event)
	} else {
		got.problem(http.StatusUnauthorized, "unauthenticated", "")
	}
	send("POST", "", `{"ids":["n"]}`, "-").problem(http.StatusUnauthorized, "unauthenticated", "")
	send("POST", "", `{}`, "-").problem(http.StatusUnauthorized, "unauthenticated", "")
	send("POST", "", strings.Repeat(" ", 30_000), "-").problem(http.StatusRequestEntityTooLarge, "too-large", "")
	for body, field := range map[string]string{
		`{"tokens":[` + strings.Repeat(`"good",`, 100) + `"good"]}`: "tokens", `{"tokens":[]}`: "tokens", `{"tokens":["good"],"ids":["n"]}`: "tokens",
		`{"tokens":["good"],"event":"read"}`: "event", `{"tokens":["good",7]}`: "tokens[1]",
	} {
		send("POST", "", body, "-").problem(http.StatusBadRequest, "bad-input", field)
	}
	send("POST", "?app=shop", `{"ids":["n"],"event":"clicked"}`, w.token("shop", "a")).problem(http.StatusForbidden, "forbidden", "") // of that page
}

func TestStrangersAcknowledgeSoOften(t *testing.T) {
	w := newWorld(t, func(c *setup) { c.Receipts, c.AckLimit = &receipts{}, limit.NewAddrs(0.001, true) })
	send := func(key, body string) answer {
		return w.do(request{method: "POST", path: "/v1/acks", body: body, key: key})
	}
	send("-", `{"tokens":["bad"]}`).problem(http.StatusUnauthorized, "unauthenticated", "")
	send("-", `{"tokens":["good"]}`).problem(http.StatusTooManyRequests, "rate-limited", "")
	send("nonsense", `{"tokens":["good"]}`).problem(http.StatusTooManyRequests, "rate-limited", "")
	send(w.token("shop", "a"), `{"tokens":["good"]}`).want(http.StatusOK)
}

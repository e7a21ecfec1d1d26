package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/session"
)

type recipientView struct {
	ID       string
	Pending  int
	Online   bool
	LastSeen *time.Time `json:"last_seen"`
	Sessions []struct{ ID, Node, Device, Gateway string }
}

type pageOf[T any] struct {
	Items      []T
	NextCursor *string `json:"next_cursor"`
}

func TestRecipientsArePaged(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.post("/v1/notifications", fmt.Sprintf(`{"to":"r%d","title":"Hi"}`, i)).want(http.StatusCreated)
	}
	var names []string
	for path, pages := "/v1/recipients?limit=2", 0; path != ""; pages++ {
		p := decode[pageOf[recipientView]](w.get(path).want(http.StatusOK))
		for _, r := range p.Items {
			names = append(names, r.ID)
		}
		if path = ""; p.NextCursor != nil {
			path = "/v1/recipients?limit=2&cursor=" + *p.NextCursor
		}
	}
	if !slices.Equal(names, []string{"r0", "r1", "r2", "r3", "r4"}) {
		t.Errorf("recipients %v", names)
	}
	if other := decode[pageOf[recipientView]](w.do(request{method: "GET", path: "/v1/recipients", key: w.keys["other"]}).want(http.StatusOK)); len(other.Items) != 0 {
		t.Errorf("another app sees %+v", other.Items)
	}
}

func TestRecipientsAreFoundByTheBeginningOfTheirNames(t *testing.T) {
	w := newWorld(t)
	for _, to := range []string{"an", "ana", "anna", "bo", "a"} {
		w.post("/v1/notifications", fmt.Sprintf(`{"to":%q,"title":"Hi"}`, to)).want(http.StatusCreated)
	}
	for prefix, want := range map[string][]string{"an": {"an", "ana", "anna"}, "ann": {"anna"}, "b": {"bo"}, "c": nil, "anna": {"anna"}} {
		for limit := 1; limit <= 4; limit++ {
			var names []string
			for path := fmt.Sprintf("/v1/recipients?prefix=%s&limit=%d", prefix, limit); path != ""; {
				p := decode[pageOf[recipientView]](w.get(path).want(http.StatusOK))
				if len(p.Items) > limit {
					t.Fatalf("%d recipients of %d", len(p.Items), limit)
				}
				for _, r := range p.Items {
					names = append(names, r.ID)
				}
				if path = ""; p.NextCursor != nil {
					path = fmt.Sprintf("/v1/recipients?prefix=%s&limit=%d&cursor=%s", prefix, limit, *p.NextCursor)
				}
			}
			if !slices.Equal(names, want) {
				t.Errorf("%q, %d at a time: %q, want %q", prefix, limit, names, want)
			}
		}
	}
}

func TestRecipientShowsItsSessions(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.presence.connect("shop", "new", session.Info{ID: "s1", Device: "phone", Gateway: "ws", ConnectedAt: now, LastSeen: now})
	r := decode[recipientView](w.get("/v1/recipients/new").want(http.StatusOK))
	if r.ID != "new" || !r.Online || r.LastSeen == nil || len(r.Sessions) != 1 || r.Sessions[0].Node != "node-1" || r.Sessions[0].Device != "phone" {
		t.Errorf("recipient %+v", r)
	}
	w.post("/v1/notifications", `{"to":"a","title":"Hi"}`).want(http.StatusCreated)
	if r := decode[recipientView](w.get("/v1/recipients/a").want(http.StatusOK)); r.Pending != 1 || r.Online || r.LastSeen != nil {
		t.Errorf("recipient %+v", r)
	}
	w.get("/v1/recipients/nobody").problem(http.StatusNotFound, "not-found", "")
	w.do(request{method: "GET", path: "/v1/recipients/new", key: w.keys["other"]}).problem(http.StatusNotFound, "not-found", "")
}

func TestHistoryIsNewestFirstAndPaged(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.post("/v1/notifications", fmt.Sprintf(`{"to":"a","id":"n%d","title":"Hi"}`, i)).want(http.StatusCreated)
	}
	w.delete("/v1/notifications/n3").want(http.StatusOK)
	var ids []string
	for path := "/v1/recipients/a/notifications?limit=2"; path != ""; {
		p := decode[pageOf[statusJSON]](w.get(path).want(http.StatusOK))
		for _, s := range p.Items {
			ids = append(ids, s.ID)
		}
		if path = ""; p.NextCursor != nil {
			path = "/v1/recipients/a/notifications?limit=2&cursor=" + *p.NextCursor
		}
	}
	if !slices.Equal(ids, []string{"n4", "n3", "n2", "n1", "n0"}) {
		t.Errorf("history %v", ids)
	}
	p := decode[pageOf[statusJSON]](w.get("/v1/recipients/a/notifications?status=recalled").want(http.StatusOK))
	if len(p.Items) != 1 || p.Items[0].ID != "n3" || p.NextCursor != nil {
		t.Errorf("recalled %+v", p)
	}
}

func TestListsRefuseBadInput(t *testing.T) {
	w := newWorld(t)
	for path, field := range map[string]string{
		"/v1/recipients?limit=0":                     "limit",
		"/v1/recipients?limit=1001":                  "limit",
		"/v1/recipients?limit=x":                     "limit",
		"/v1/recipients?limit=1&limit=2":             "limit",
		"/v1/recipients?cursor=a%20b":                "cursor",
		"/v1/recipients?prefix=a%20b":                "prefix",
		"/v1/recipients?page=2":                      "page",
		"/v1/recipients/a%20b":                       "recipient",
		"/v1/recipients/a?x=1":                       "x",
		"/v1/recipients/a/notifications?status=gone": "status",
		"/v1/recipients/a/notifications?cursor=x":    "cursor",
		"/v1/recipients/a/notifications?cursor=-1":   "cursor",
		"/v1/recipients/a/notifications?limit=-1":    "limit",
		"/v1/stats?x=1":                              "x",
		"/v1/keys?x=1":                               "x",
		"/v1/events?x=1":                             "x",
		"/v1/events?types=stored,gone":               "types",
		"/v1/events?since=x":                         "since",
		"/v1/events?since=-1":                        "since",
	} {
		w.get(path).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.do(request{method: "GET", path: "/v1/events", header: map[string]string{"Accept": "text/event-stream", "Last-Event-ID": "x"}}).
		problem(http.StatusBadRequest, "bad-input", "Last-Event-ID")
	w.delete("/v1/recipients/a%20b").problem(http.StatusBadRequest, "bad-input", "recipient")
	w.delete("/v1/recipients/a%20b/sessions").problem(http.StatusBadRequest, "bad-input", "recipient")
	w.delete("/v1/keys/a%20b").problem(http.StatusBadRequest, "bad-input", "id")
}

func TestEraseForgetsAndSaysGoodbye(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/notifications", `{"to":"a","id":"n1","title":"Hi"}`).want(http.StatusCreated)
	w.presence.connect("shop", "a", session.Info{ID: "s1", Gateway: "ws"})
	w.presence.connect("other", "a", session.Info{ID: "s2", Gateway: "ws"})
	w.delete("/v1/recipients/a").want(http.StatusNoContent)
	w.get("/v1/notifications/n1").problem(http.StatusNotFound, "not-found", "")
	if !slices.Equal(w.presence.goodbyes, []string{"erased"}) {
		t.Errorf("goodbyes %v", w.presence.goodbyes)
	}
	w.delete("/v1/recipients/a").problem(http.StatusNotFound, "not-found", "")
	if !strings.Contains(w.log.String(), "recipient erased") {
		t.Error("the log does not say so")
	}
}

func TestDisconnectEndsTheSessionsOfOneApp(t *testing.T) {
	w := newWorld(t)
	w.presence.connect("shop", "a", session.Info{ID: "s1"})
	w.presence.connect("shop", "a", session.Info{ID: "s2"})
	w.presence.connect("other", "a", session.Info{ID: "s3"})
	for _, want := range []int{2, 0} {
		if got := decode[struct{ Disconnected int }](w.delete("/v1/recipients/a/sessions").want(http.StatusOK)).Disconnected; got != want {
			t.Errorf("disconnected %d, want %d", got, want)
		}
	}
}

func TestUnexpectedFailureIs500AndHidesItsCause(t *testing.T) {
	w := newWorld(t)
	w.mailbox.setFail(fmt.Errorf("open /secret/path: too bad"))
	for _, a := range []answer{
		w.get("/v1/notifications/n1"), w.delete("/v1/notifications/n1"), w.get("/v1/recipients"), w.get("/v1/recipients/a"),
		w.get("/v1/recipients/a/notifications"), w.delete("/v1/recipients/a"),
		w.do(request{method: "POST", path: "/v1/acks", body: `{"ids":["x"]}`, key: w.token("shop", "a")}),
	} {
		if a.problem(http.StatusInternalServerError, "internal", ""); strings.Contains(a.body, "secret") {
			t.Errorf("the answer tells of the server's inside: %s", a.body)
		}
	}
	w.mailbox.setFail(context.DeadlineExceeded)
	if a := w.get("/v1/recipients"); a.problem(http.StatusServiceUnavailable, "timeout", "").RetryAfter == 0 {
		t.Error("a timeout does not say when to retry")
	}
}

func TestAnswersSayThatPresenceIsPartialWhenItIs(t *testing.T) {
	w := newWorld(t)
	w.presence.connect("shop", "a", session.Info{ID: "s1", Gateway: "ws", ConnectedAt: time.Now(), LastSeen: time.Now()})
	paths := []string{"/v1/recipients/a", "/v1/stats?slowest=1"}
	for _, path := range paths {
		if body := w.get(path).want(http.StatusOK).body; strings.Contains(body, "presence") {
			t.Errorf("%s says of all nodes there are: %s", path, body)
		}
	}
	w.presence.partial = true
	for _, path := range paths {
		if body := w.get(path).want(http.StatusOK).body; !strings.Contains(body, `"presence":"partial"`) {
			t.Errorf("%s says %s", path, body)
		}
	}
	if body := w.delete("/v1/recipients/a/sessions").want(http.StatusOK).body; body != `{"disconnected":1,"presence":"partial"}`+"\n" {
		t.Errorf("disconnecting answers %s", body)
	}
}

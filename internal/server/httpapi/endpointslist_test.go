package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

func TestEndpointsAreListedCountedAndExported(t *testing.T) {
	w := newWorld(t)
	var registered, ids []string
	for n := range 5 {
		e := w.register(fmt.Sprintf(`{"channel":"telegram","address":{"chat_id":%d},"recipient":"r%d","tags":["t%d"],"attributes":{"n":%d,"note":"=1+1"}}`, n+1, n%2, n%3, n))
		registered = append(registered, e.ID)
	}
	registered = append(registered, w.register(`{"channel":"webpush","address":`+subscription(1)+`}`).ID)
	for path := "/v1/endpoints?limit=2"; path != ""; {
		p := decode[pageOf[endpointView]](w.get(path).want(http.StatusOK))
		for _, e := range p.Items {
			ids = append(ids, e.ID)
		}
		if path = ""; p.NextCursor != nil {
			path = "/v1/endpoints?limit=2&cursor=" + *p.NextCursor
		}
	}
	if !slices.Equal(ids, registered) {
		t.Errorf("listed %v, want them in the order of their registration: %v", ids, registered)
	}
	w.do(request{method: "PATCH", path: "/v1/endpoints/" + ids[0], body: `{"status":"disabled"}`}).want(http.StatusOK)
	for query, want := range map[string]int{
		"channel=webpush": 1, "recipient=r0": 3, "tag=t0": 2, "tag=t0&status=active": 1, "status=disabled": 1, "where=n+%3E%3D+3": 2,
		"status=disabled&where=n+%3E%3D+3": 0, "status=active": 5,
	} {
		if p := decode[pageOf[endpointView]](w.get("/v1/endpoints?" + query).want(http.StatusOK)); len(p.Items) != want {
			t.Errorf("%s lists %d, want %d", query, len(p.Items), want)
		}
	}
	for query, field := range map[string]string{
		"channel=pigeon": "channel", "recipient=a+b": "recipient", "tag=a,b": "tags_all[0]", "status=gone": "status", "where=n": "where", "cursor=x": "cursor", "x=1": "x",
	} {
		w.get("/v1/endpoints?"+query).problem(http.StatusBadRequest, "bad-input", field)
		if field != "cursor" {
			w.get("/v1/endpoints/export?"+query).problem(http.StatusBadRequest, "bad-input", field)
		}
	}
	for body, want := range map[string]string{
		`{}`:                        `{"channels":{"telegram":4,"webpush":1},"count":5}`,
		`{"channels":["telegram"]}`: `{"channels":{"telegram":4},"count":4}`,
		`{"endpoints":["` + ids[1] + `","` + ids[0] + `"]}`: `{"channels":{"telegram":1},"count":1}`,
		`{"where":"n >= 3","tags_all":null}`:                `{"channels":{"telegram":2},"count":2}`,
		`{"recipients":["r1"],"tags_any":["t1","t0"]}`:      `{"channels":{"telegram":2},"count":2}`,
	} {
		if a := w.post("/v1/audience/count", body).want(http.StatusOK); strings.TrimSpace(a.body) != want {
			t.Errorf("%s counts %s", body, a.body)
		}
	}
	p := w.post("/v1/audience/count", `{"where":"n >> 3"}`).problem(http.StatusBadRequest, "bad-input", "where")
	if !strings.Contains(p.Detail, "at character 4") {
		t.Errorf("detail %s", p.Detail)
	}
	w.post("/v1/audience/count", `{"endpoints":["x"]}`).problem(http.StatusBadRequest, "bad-input", "endpoints[0]")
	w.post("/v1/audience/count", `{"tags":["a"]}`).problem(http.StatusBadRequest, "bad-input", "tags")
	totals := w.get("/v1/audience").want(http.StatusOK).body
	if want := `{"active":{"telegram":4,"webpush":1},"attributes":["n","note"],"disabled":{"telegram":1},"tags":["t0","t1","t2"]}`; strings.TrimSpace(totals) != want {
		t.Errorf("totals %s", totals)
	}
	csv := w.get("/v1/endpoints/export?format=csv").want(http.StatusOK)
	lines := strings.Split(strings.TrimSpace(csv.body), "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[0], "id,channel,recipient,address,tags,") || !strings.HasSuffix(lines[0], ",attributes.n,attributes.note") ||
		!strings.HasSuffix(lines[1], ",0,'=1+1") || !strings.Contains(lines[1], ",disabled,") {
		t.Errorf("export:\n%s", csv.body)
	}
	for query, secret := range map[string]bool{"": true, "?addresses=true": true, "?addresses=false": false, "?addresses=false&format=csv": false} {
		if file := w.get("/v1/endpoints/export" + query).want(http.StatusOK).body; strings.Contains(file, "p256dh") != secret || !strings.Contains(file, ids[0]) {
			t.Errorf("export%s has secrets: %v:\n%s", query, !secret, file)
		}
	}
	w.get("/v1/endpoints/export?addresses=some").problem(http.StatusBadRequest, "bad-input", "addresses")
	if n := strings.Count(w.get("/v1/endpoints/export?status=active&where=n+%3E%3D+3").want(http.StatusOK).body, "\n"); n != 2 {
		t.Errorf("%d lines are exported", n)
	}
	if n := strings.Count(w.do(request{method: "GET", path: "/v1/endpoints/export", key: w.keys["other"]}).body, "\n"); n != 0 {
		t.Errorf("%d lines are exported to another app", n)
	}
}

var errDamaged = errors.New("a page is damaged")

// nameless is a store that cannot list tags and attributes.
type nameless struct{ endpoint.Store }

func (nameless) Names(context.Context, string, int) (tags, attributes []string, err error) {
	return nil, nil, errDamaged
}

// countless is a store that cannot count.
type countless struct{ endpoint.Store }

func (countless) EndpointCounts(context.Context, string) (active, disabled map[push.Channel]int64, err error) {
	return nil, nil, errDamaged
}

// broken is a store that fails after a number of pages.
type broken struct {
	endpoint.Store
	pages int
}

func (b *broken) ListEndpoints(context.Context, string, audience.Status, *audience.Selection, int64, int) (list []audience.Endpoint, next int64, more bool, err error) {
	if b.pages--; b.pages < 0 {
		return nil, 0, false, errDamaged
	}
	return make([]audience.Endpoint, 1), 1, true, nil
}

func TestAnExportThatFailsIsNotTakenForWhole(t *testing.T) {
	b := &broken{}
	w := newWorld(t, func(c *setup) { c.Endpoints = endpoint.New(endpoint.Config{Store: b, Now: time.Now}) })
	w.get("/v1/endpoints/export").problem(http.StatusInternalServerError, "internal", "")
	b.pages = 2
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/v1/endpoints/export", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || err == nil || bytes.Count(text, []byte("\n")) != 2 {
		t.Errorf("%s, %v, want it cut off after two lines: %s", resp.Status, err, text)
	}
}

func TestAnAudienceThatCannotBeReadIsNotShownEmpty(t *testing.T) {
	store := sqlitetest.Campaigns(t)
	over := func(s endpoint.Store) *world {
		return newWorld(t, func(c *setup) { c.Endpoints = endpoint.New(endpoint.Config{Store: s, Now: time.Now}) })
	}
	w := over(nameless{store})
	w.get("/v1/audience").problem(http.StatusInternalServerError, "internal", "")
	w.get("/v1/endpoints/export?format=csv").problem(http.StatusInternalServerError, "internal", "")
	over(countless{store}).get("/v1/audience").problem(http.StatusInternalServerError, "internal", "")
}

func TestRecipientShowsAndForgetsItsEndpoints(t *testing.T) {
	w := newWorld(t)
	made := w.register(`{"channel":"webpush","address":` + subscription(1) + `,"recipient":"ada"}`)
	a := w.get("/v1/recipients/ada").want(http.StatusOK)
	if !strings.Contains(a.body, made.ID) || strings.Contains(a.body, "push.example") {
		t.Errorf("recipient %s", a.body)
	}
	w.post("/v1/notifications", `{"to":"ada","id":"n1","title":"Hi"}`).want(http.StatusCreated)
	if a := w.get("/v1/recipients").want(http.StatusOK); !strings.Contains(a.body, made.ID) {
		t.Errorf("recipients %s", a.body)
	}
	w.delete("/v1/recipients/ada").want(http.StatusNoContent)
	w.get("/v1/endpoints/"+made.ID).problem(http.StatusNotFound, "not-found", "")
	w.register(`{"channel":"webpush","address":` + subscription(1) + `,"recipient":"ada"}`)
	w.delete("/v1/recipients/ada").want(http.StatusNoContent)
	w.delete("/v1/recipients/ada").problem(http.StatusNotFound, "not-found", "")
}

func TestGainedAndLostEndpointsAreCountedByDay(t *testing.T) {
	w := newWorld(t)
	old := w.register(`{"channel":"telegram","address":{"chat_id":1},"created_at":"2026-01-02T23:30:00Z","last_seen_at":"2026-02-01T00:00:00+02:00"}`)
	w.register(`{"channel":"webpush","address":` + subscription(1) + `,"created_at":null}`)
	w.do(request{method: "DELETE", path: "/v1/endpoints/" + old.ID}).want(http.StatusNoContent)
	if got := strings.TrimSpace(w.get("/v1/audience/days?from=2026-01-01&to=2026-01-31").want(http.StatusOK).body); got != `{"items":[{"day":"2026-01-02","gained":1,"lost":0}],"next_cursor":null}` {
		t.Errorf("January: %s", got)
	}
	now := time.Now().UTC() // around it: midnight may pass meanwhile
	around := "from=" + now.AddDate(0, 0, -1).Format(time.DateOnly) + "&to=" + now.AddDate(0, 0, 1).Format(time.DateOnly)
	for query, want := range map[string][2]int64{around: {1, 1}, around + "&channel=webpush": {1, 0}, around + "&channel=telegram": {0, 1}} {
		var got [2]int64
		for _, d := range decode[pageOf[struct{ Gained, Lost int64 }]](w.get("/v1/audience/days?" + query).want(http.StatusOK)).Items {
			got[0], got[1] = got[0]+d.Gained, got[1]+d.Lost
		}
		if got != want {
			t.Errorf("%s: %d gained and lost, want %d", query, got, want)
		}
	}
	for query, field := range map[string]string{"channel=pigeon": "channel", "from=2020-01-01&to=2026-01-01": "from", "to=x": "to", "day=1": "day"} {
		w.get("/v1/audience/days?"+query).problem(http.StatusBadRequest, "bad-input", field)
	}
	for _, field := range []string{"created_at", "last_seen_at"} {
		for _, value := range []string{"yesterday", "1969-12-31T23:59:59Z"} {
			w.post("/v1/endpoints", `{"channel":"telegram","address":{"chat_id":2},"`+field+`":"`+value+`"}`).problem(http.StatusBadRequest, "bad-input", field)
		}
	}
	w.allowAnonymous()
	w.visit("POST", "/v1/endpoints?app=shop", `{"channel":"webpush","address":`+subscription(3)+`,"created_at":"2026-01-02T00:00:00Z"}`, site).problem(http.StatusBadRequest, "bad-input", "created_at")
}

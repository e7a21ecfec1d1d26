package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/testkit/apispec"
)

// TestAppsNeverMeet walks the OpenAPI document. With the key and the token of one app it calls every operation on another app's things, and
// compares all data of the other app before and after. A new operation fails the test until meetings describes its call.
func TestAppsNeverMeet(t *testing.T) {
	doc := apispec.Document(t)
	for _, op := range operations(doc) {
		if _, ok := meetings[op.name]; !ok {
			t.Errorf("%s is in the document but not in meetings: say there how it is called with what another app has", op.name)
		}
	}
	if len(meetings) > len(operations(doc)) {
		t.Error("meetings has operations that are not in the document")
	}
	for _, red := range []string{"amber", "red"} { // amber sorts before blue in every order, red after it
		t.Run(red, func(t *testing.T) {
			t.Parallel()
			m := newMeeting(t, red, "blue")
			before := m.dump(m.blue)
			for _, op := range operations(doc) {
				for _, as := range []string{m.red.key, m.red.token} {
					h := meetings[op.name]
					m.attack(op, h, as)
					if h.body = h.also; h.body != "" {
						m.attack(op, h, as)
					}
				}
				if m.unchanged(op.name, before, m.dump(m.blue)); t.Failed() {
					return
				}
			}
			m.events(m.blue)
		})
	}
}

// operation is an operation of the document.
type operation struct {
	name, method, path string
	query              map[string]bool // and headers
}

// operations lists the document's operations except preflights, which carry no credential: first reading ones, then writing ones, and
// deleting ones last, so that things with the same name exist in both apps while they could be mixed up.
func operations(doc *openapi3.T) (list []operation) {
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			if method == http.MethodOptions {
				continue
			}
			op := operation{name: method + " " + path, method: method, path: path, query: map[string]bool{}}
			for _, p := range slices.Concat(item.Parameters, o.Parameters) {
				op.query[p.Value.Name] = p.Value.In != "path"
			}
			list = append(list, op)
		}
	}
	rank := func(o operation) int {
		return slices.Index([]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, o.method)
	}
	slices.SortFunc(list, func(a, b operation) int {
		if a, b := rank(a), rank(b); a != b {
			return a - b
		}
		return strings.Compare(a.name, b.name)
	})
	return list
}

// tenant is an app, with the ids that the server gave its things. Things with names chosen by the app have the same names in both apps.
type tenant struct {
	app, mark string            // mark occurs in every text of the app
	key       string            // may do everything
	token     string            // of the client ann
	session   string            // token of the client carl, who has a session and nothing to read
	ids       map[string]string // for $name in meetings
	last      string            // id of the latest notification
}

// meeting is a server with two apps.
type meeting struct {
	*testing.T
	url       string
	operator  string // the operator key
	client    *http.Client
	red, blue *tenant
	mu        sync.Mutex
	tracks    map[string]string // report tokens that the webhook's receiver got, by app
	acks      map[string]string // and to acknowledge with
	fences    int
}

func newMeeting(t *testing.T, red, blue string) *meeting {
	t.Helper()
	m := &meeting{T: t, tracks: map[string]string{}, acks: map[string]string{}, client: &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(m.client.CloseIdleConnections)
	receiver := httptest.NewServer(http.HandlerFunc(m.receive))
	t.Cleanup(receiver.Close)
	cfg := settings(t)
	cfg.Dev, cfg.AllowPrivateURLs = false, true
	m.red, m.blue = &tenant{app: red, mark: "of-" + red}, &tenant{app: blue, mark: "of-" + blue}
	apps, done, err := store.OpenApps(t.Context(), store.Config{Data: cfg.Data}, true)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := access.NewRegistry(t.Context(), apps.Access, access.Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*tenant{m.red, m.blue} {
		pages := []string{"https://" + x.app + ".example"}
		if err := keys.CreateApp(t.Context(), x.app, access.AppChange{AnonymousOrigins: &pages, Origins: &pages}); err != nil {
			t.Fatal(err)
		}
		if _, x.key, err = keys.CreateKey(t.Context(), x.app, x.mark, access.Admin); err != nil {
			t.Fatal(err)
		}
		for recipient, token := range map[string]*string{"ann": &x.token, "carl": &x.session} {
			if *token, _, err = keys.MintToken(x.app, access.TokenRequest{Recipient: recipient, TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys.Close()
	if err := done(); err != nil {
		t.Fatal(err)
	}
	server, err := app.Start(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler), Version: "test", OperatorKey: func(key string) { m.operator = key }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, server) })
	m.url = "http://" + server.Addresses().HTTP
	for _, x := range []*tenant{m.red, m.blue} {
		m.furnish(x, receiver.URL)
	}
	for _, x := range []*tenant{m.red, m.blue} {
		other := m.red
		if x == m.red {
			other = m.blue
		}
		_, sealed, _ := strings.Cut(m.tracks[x.app], "~")
		x.ids["forged"], x.ids["others"] = other.app+"~"+sealed, other.app
		_, sealed, _ = strings.Cut(m.acks[x.app], "~")
		x.ids["forged-ack"] = other.app + "~" + sealed
	}
	return m
}

// receive is where webhooks lead.
func (m *meeting) receive(_ http.ResponseWriter, r *http.Request) {
	var in struct {
		Data struct {
			App, Track string
			Ack        string `json:"godwit_ack"`
		}
	}
	b, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(b, &in) != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if in.Data.Track != "" {
		m.tracks[in.Data.App] = in.Data.Track
	}
	if in.Data.Ack != "" {
		m.acks[in.Data.App] = in.Data.Ack
	}
}

// furnish gives an app two things of each kind, so that lists have pages.
func (m *meeting) furnish(x *tenant, receiver string) {
	m.Helper()
	x.ids = map[string]string{}
	calls := map[string]int{}
	set := func(method, path, body string) map[string]any {
		m.Helper()
		calls[path]++
		a := m.do(method, path, x.key, strings.NewReplacer("MARK", x.mark, "RECEIVER", receiver).Replace(body), map[string]string{"Idempotency-Key": idempotent(path, calls[path])})
		if a.status >= 300 {
			m.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
		}
		var v map[string]any
		_ = json.Unmarshal([]byte(a.body), &v)
		return v
	}
	name := func(as string, v map[string]any, field string) {
		m.Helper()
		s, ok := v[field].(string)
		if !ok {
			m.Fatalf("no %s in %v", field, v)
		}
		x.ids[as] = s
	}
	for _, n := range []string{"same", "same-2"} {
		set("POST", "/v1/notifications", `{"to":["ann","bob"],"id":"`+n+`","title":"MARK","ttl":"1h"}`)
		set("PUT", "/v1/objects/north/"+n, `{"version":7,"payload":"MARK"}`)
		set("PUT", "/v1/sources/redisstream", `{"urls":["redis://MARK.example"],"enabled":false}`)
		set("PUT", "/v1/sinks/clickhouse", `{"url":"https://MARK.example","enabled":false}`)
		set("PUT", "/v1/templates/"+n, `{"content":{"title":"MARK"}}`)
		set("PUT", "/v1/segments/"+n, `{"where":"mark = \"MARK\""}`)
		set("PUT", "/v1/hooks/"+n, `{"url":"RECEIVER/MARK","enabled":false}`)
	}
	set("POST", "/v1/notifications", `{"to":"ann","title":"MARK","ttl":"1h"}`) // its id derives from the idempotency key
	set("PUT", "/v1/recipients/ann/preferences", `{"categories":{"MARK":{"channels":[]}}}`)
	set("PUT", "/v1/categories/same", `{"escalate_limit":"`+strconv.Itoa(len(x.app))+`/h"}`)
	set("PUT", "/v1/categories/gathers", `{"digest":{"window":"1h"}}`)
	for _, as := range []string{"digest", "digest-2"} {
		set("POST", "/v1/notifications", `{"to":"ann","id":"`+as+`","title":"MARK","category":"gathers","digest_key":"MARK `+as+`"}`)
		var waits struct{ Digest map[string]any }
		_ = json.Unmarshal([]byte(m.do("GET", "/v1/notifications/"+as+"?to=ann", x.key, "", nil).body), &waits)
		name(as, waits.Digest, "id")
	}
	for _, n := range []string{"kept", "kept-2"} {
		set("POST", "/v1/notifications", `{"to":"ann","id":"`+n+`","title":"MARK","ttl":"1h","inbox":true}`)
	}
	set("PUT", "/v1/batches/same", `{"batch":"`+strconv.Itoa(len(x.app))+`s"}`)
	set("PUT", "/v1/channels/webhook", `{"targets":["desk=RECEIVER/desk"]}`)
	set("POST", "/v1/notifications", `{"to":"bob","id":"pushed","title":"MARK","ttl":"1h","escalate":[{"channel":"webhook","to":"desk","after":"59m"}]}`)
	m.becomes(x, "/v1/notifications/pushed?to=bob", `"status":"accepted"`)
	set("PUT", "/v1/channels/webpush", `{"subject":"mailto:MARK@a.example"}`)
	name("key", set("POST", "/v1/keys", `{"roles":["read"],"name":"MARK"}`), "id")
	for i, as := range []string{"endpoint", "endpoint-2"} {
		name(as, set("POST", "/v1/endpoints", fmt.Sprintf(`{"channel":"webhook","address":{"url":"RECEIVER/%d"},"recipient":"ann","tags":["same"],"attributes":{"mark":"MARK"}}`, i)), "id")
	}
	page := map[string]string{"Origin": "https://" + x.app + ".example", "Content-Type": "application/json"}
	visitor := m.do("POST", "/v1/endpoints?app="+x.app, "", `{"channel":"webpush","address":`+subscription+`}`, page)
	var v map[string]any
	_ = json.Unmarshal([]byte(visitor.body), &v)
	name("visitor", v, "id")
	name("manage", v, "manage_token")
	for _, as := range []string{"campaign", "draft"} {
		c := set("POST", "/v1/campaigns", `{"name":"MARK `+as+`","content":{"title":"MARK"},"audience":{"channels":["webhook"],"segment":"same"}}`)
		if as == "campaign" && c["id"] == x.ids["campaign"] {
			m.Fatal("the same campaign again")
		}
		name(as, c, "id")
	}
	set("POST", "/v1/campaigns/"+x.ids["campaign"]+"/start", "")
	m.becomes(x, "/v1/campaigns/"+x.ids["campaign"], `"state":"completed"`)
	set("POST", "/v1/notifications", `{"to":"carl","id":"gone","title":"Hi"}`) // so that carl is known at once, and not only when his session is recorded
	set("DELETE", "/v1/notifications/gone", "")
	poll := m.do("GET", "/v1/poll?wait=0s&group=north&objects=same&app="+x.app, x.session, "", nil)
	_ = json.Unmarshal([]byte(poll.body), &v)
	name("session", v, "session")
	m.becomes(x, "/v1/objects/north/same/registrations", `"sent_version":"7"`)
	x.last = m.fence(x)
}

// becomes polls until an answer contains a text; it gives up at the end of the test.
func (m *meeting) becomes(x *tenant, path, text string) {
	m.Helper()
	for {
		a := m.do(http.MethodGet, path, x.key, "", nil)
		if strings.Contains(a.body, text) {
			return
		}
		if a.status != http.StatusOK {
			m.Fatal(a.body)
		}
		time.Sleep(time.Millisecond)
	}
}

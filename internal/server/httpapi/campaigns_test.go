package httpapi_test

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// outbox is a sender that records what it sends.
type outbox struct {
	mu  sync.Mutex
	got []push.Request
	now []push.Sent // as corrected

	chats bool // Telegram is set up too
}

// Correct records changes of messages that were sent to chats.
func (o *outbox) Correct(_ context.Context, s push.Sent) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = append(o.now, s)
	if string(s.Request.Address) == `{"chat_id":13}` {
		return &push.PermanentError{Reason: "=message to edit not found"}
	}
	return nil
}

func (o *outbox) Send(_ context.Context, r push.Request) (push.Receipt, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, r)
	if strings.Contains(string(r.Address), "gone") {
		return push.Receipt{}, &push.GoneError{Reason: "=410 gone"}
	}
	return push.Receipt{ExternalID: "x1"}, nil
}

func (o *outbox) Sender(_ context.Context, _ string, ch push.Channel) (push.Sender, error) {
	if ch != push.Webhook && (ch != push.Telegram || !o.chats) {
		return nil, fmt.Errorf("channel %s is not set up", ch)
	}
	return o, nil
}

// campaigns starts an API with campaigns on a real store, whose engine runs, and with endpoints of these URLs.
func campaigns(t *testing.T, urls ...string) (*world, *outbox, []string) {
	t.Helper()
	store := sqlitetest.Campaigns(t)
	out := &outbox{chats: strings.Contains(strings.Join(urls, " "), "chat:")}
	d, err := dispatch.New(dispatch.Config{Senders: out})
	if err != nil {
		t.Fatal(err)
	}
	svc := campaign.New(campaign.Config{Store: store, Dispatch: d})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = svc.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	w := newWorld(t, func(c *setup) { c.Campaigns = svc })
	ids := make([]string, len(urls))
	for i, u := range urls {
		e := audience.Endpoint{ID: audience.NewID(time.Now()), App: "shop", Channel: push.Webhook, Address: json.RawMessage(`{"url":"` + u + `"}`)}
		if chat, ok := strings.CutPrefix(u, "chat:"); ok {
			e.Channel, e.Address = push.Telegram, json.RawMessage(`{"chat_id":`+chat+`}`)
		}
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
		done, err := store.Register(t.Context(), "shop", []audience.Registration{{Endpoint: e, Trusted: true}})
		if err != nil || done[0].Err != nil {
			t.Fatal(err, done)
		}
		ids[i] = done[0].Endpoint.ID.String()
	}
	return w, out, ids
}

type campaignView struct {
	ID, State, Rate string
	RateLimit       string `json:"rate_limit"`
	Counts          map[string]int
	Total, Clicked  int
	Shown           int
	Duplicate       bool
	Content         map[string]any
}

func (w *world) ended(id string) campaignView {
	w.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		v := decode[campaignView](w.get("/v1/campaigns/" + id).want(http.StatusOK))
		if v.State == "completed" || v.State == "recalled" {
			return v
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatal("the campaign does not end")
	return campaignView{}
}

const newsCampaign = `{"name":"News","content":{"title":"Hi {{name|friend}}","url":"https://example.org/news","locales":{"fr":{"title":"Salut"}},
	"telegram":{"silent":true}},"audience":{"channels":["webhook"]},"rate":"100/s","ttl":"2h","priority":"high"}`

func TestACampaignIsMadeSentAndReported(t *testing.T) {
	w, out, ids := campaigns(t, "https://a.example/1", "https://a.example/gone")
	v := decode[campaignView](w.post("/v1/campaigns", newsCampaign).want(http.StatusCreated))
	if v.State != "draft" || v.RateLimit != "100/s" || v.Content["title"] != "Hi {{name|friend}}" || len(v.Counts) != 7 {
		t.Errorf("made: %+v", v)
	}
	at := "/v1/campaigns/" + v.ID
	pre := w.post(at+"/preview", `{"locale":"fr-CA"}`).want(http.StatusOK)
	if !strings.Contains(string(pre.body), `"Salut"`) || !strings.Contains(string(pre.body), `"total":2`) {
		t.Errorf("preview: %s", pre.body)
	}
	w.post(at+"/test", `{"endpoints":["`+ids[0]+`"]}`).want(http.StatusOK)
	w.post(at+"/start", "").want(http.StatusOK)
	v = w.ended(v.ID)
	if v.Counts["accepted"] != 1 || v.Counts["failed"] != 1 || v.Total != 2 || !strings.HasSuffix(v.Rate, "/s") {
		t.Errorf("ended: %+v", v)
	}
	lines := strings.Split(strings.TrimSpace(string(w.get(at+"/deliveries").want(http.StatusOK).body)), "\n")
	var d struct{ Endpoint, Outcome, Detail string }
	if len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &d) != nil || d.Endpoint != ids[1] || d.Outcome != "failed" || d.Detail != "=410 gone" {
		t.Errorf("report: %s", lines)
	}
	for _, limit := range []string{"0", "-1", "x"} {
		w.get(at+"/deliveries?limit="+limit).problem(http.StatusBadRequest, "bad-input", "limit")
	}
	table, err := csv.NewReader(strings.NewReader(string(w.get(at + "/deliveries?format=csv&outcome=failed").want(http.StatusOK).body))).ReadAll()
	if err != nil || len(table) != 2 || table[1][1] != ids[1] || table[1][5] != "'=410 gone" {
		t.Errorf("CSV: %q, %v", table, err)
	}
	out.mu.Lock()
	token := out.got[len(out.got)-1].Track
	out.mu.Unlock()
	for _, event := range []string{"shown", "clicked", "clicked"} {
		w.do(request{method: "POST", path: "/v1/track", key: "-", body: `{"token":"` + token + `","event":"` + event + `"}`, header: map[string]string{"Content-Type": "text/plain"}}).
			want(http.StatusNoContent)
	}
	if v := decode[campaignView](w.get(at)); v.Shown != 1 || v.Clicked != 1 {
		t.Errorf("%d shown, %d clicked", v.Shown, v.Clicked)
	}
	if b := w.get(at + "/days").want(http.StatusOK).body; !strings.Contains(string(b), `"accepted":1`) || !strings.Contains(string(b), `"clicked":1`) {
		t.Errorf("days: %s", b)
	}
	w.get("/v1/campaigns/days").want(http.StatusOK)
	w.get("/v1/campaigns/days?from=2030-01-01&to=2031-01-02").want(http.StatusOK)
	w.get("/v1/campaigns/days?from=2031-01-02&to=2031-01-02").want(http.StatusOK)
	w.get("/v1/campaigns/days?from=2030-01-01&to=2031-01-03").problem(http.StatusBadRequest, "bad-input", "from")
	w.get("/v1/campaigns/days?from=2031-01-02&to=2031-01-01").problem(http.StatusBadRequest, "bad-input", "from")
	w.post(at+"/recall", "").want(http.StatusOK)
	if v := w.ended(v.ID); v.State != "recalled" || v.Counts["accepted"] != 1 {
		t.Errorf("recalled over a channel that cannot: %+v", v)
	}
	if b := string(w.get(at + "/deliveries?outcome=accepted").body); !strings.Contains(b, "channel webhook cannot take messages back") {
		t.Errorf("why it was not taken back: %s", b)
	}
	eventually.True(t, "a campaign being deleted once it is wound up", func() bool { return w.delete(at).status == http.StatusNoContent })
	w.get(at).problem(http.StatusNotFound, "not-found", "")
}

func TestARetriedCreationMakesOneCampaign(t *testing.T) {
	w, _, _ := campaigns(t)
	make := func(body string) answer {
		return w.do(request{method: "POST", path: "/v1/campaigns", body: body, header: map[string]string{"Idempotency-Key": "k1"}})
	}
	first := decode[campaignView](make(newsCampaign).want(http.StatusCreated))
	again := decode[campaignView](make(newsCampaign).want(http.StatusOK))
	if first.ID != again.ID || first.Duplicate || !again.Duplicate {
		t.Errorf("%+v, then %+v", first, again)
	}
	make(`{"content":{"title":"other"}}`).problem(http.StatusUnprocessableEntity, "idempotency-mismatch", "")
	if l := decode[struct{ Items []campaignView }](w.get("/v1/campaigns")); len(l.Items) != 1 || l.Items[0].Content != nil {
		t.Errorf("%d campaigns: %+v", len(l.Items), l)
	}
}

func TestTwoWhoWriteOneDraftDoNotTakeBackEachOthersWords(t *testing.T) {
	w, _, _ := campaigns(t)
	tag := func(a answer) string { return a.header.Get("ETag") }
	made := w.post("/v1/campaigns", newsCampaign).want(http.StatusCreated)
	v := decode[campaignView](made)
	at := "/v1/campaigns/" + v.ID
	read := tag(w.get(at).want(http.StatusOK))
	if read == "" || read != tag(made) || !strings.Contains(string(made.body), `"revision":`+read) {
		t.Fatalf("made as %s, read as %s: %s", tag(made), read, made.body)
	}
	put := func(method, title, tag string) answer {
		r := request{method: method, path: at, header: map[string]string{"If-Match": tag}}
		if title != "" {
			r.body = `{"content":{"title":"` + title + `"}}`
		}
		return w.do(r)
	}
	now := tag(put("PUT", "Mine", read).want(http.StatusOK))
	if now == read || now == "" {
		t.Errorf("changed to %s", now)
	}
	put("PUT", "Theirs", read).problem(http.StatusPreconditionFailed, "revision-mismatch", "")
	put("PUT", "Mine", read).want(http.StatusOK) // the same once more: its first answer may have been lost
	put("PUT", "Theirs", `"`).problem(http.StatusBadRequest, "bad-input", "If-Match")
	put("DELETE", "", read).problem(http.StatusPreconditionFailed, "revision-mismatch", "")
	if got := decode[campaignView](w.get(at).want(http.StatusOK)); got.Content["title"] != "Mine" || got.State != "draft" {
		t.Errorf("it says %v and is %s", got.Content, got.State)
	}
	put("PUT", "Theirs", "*").want(http.StatusOK)
	put("DELETE", "", tag(w.get(at))).want(http.StatusNoContent)
	w.get(at).problem(http.StatusNotFound, "not-found", "")
}

func TestBadCampaignsNameTheirField(t *testing.T) {
	w, _, _ := campaigns(t)
	for body, field := range map[string]string{
		`{}`:                                                                                         "content.title",
		`{"content":{"title":"x"},"tile":1}`:                                                         "tile",
		`{"content":{"title":"x","bod":"y"}}`:                                                        "content.bod",
		`{"content":{"title":1}}`:                                                                    "content.title",
		`{"content":{"title":"x"},"rate":"fast"}`:                                                    "rate",
		`{"content":{"title":"x"},"spread":"soon"}`:                                                  "spread",
		`{"content":{"title":"x"},"send_at":"tomorrow"}`:                                             "send_at",
		`{"content":{"title":"x"},"audience":{"where":"age >"}}`:                                     "audience.where",
		`{"content":{"title":"x"},"audience":{"channels":["pigeon"]}}`:                               "audience.channels[0]",
		`{"content":{"title":"x"},"quiet_hours":{"from":"22:00","to":"8"}}`:                          "quiet_hours.to",
		`{"content":{"title":"x"},"name":"a","name":"b"}`:                                            "name",
		`{"content":{"title":"x","url":"javascript:alert(1)"},"audience":{}}`:                        "content.url",
		`{"content":{"title":"x","data":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}}`: "content.data",
		`{"content":{"title":"x","locales":{"fr":{"data":{"n":` + strings.Repeat("7", 1001) + `}}}},"audience":{}}`: "content.locales.fr.data",
		`{"content":{"title":"x"},"expires_at":"2001-01-01T00:00:00Z","priority":"x"}`:                              "expires_at",
	} {
		w.post("/v1/campaigns", body).problem(http.StatusBadRequest, "bad-input", field)
	}
	v := decode[campaignView](w.post("/v1/campaigns", `{"content":{"title":"x"},"audience":{"channels":["telegram"]}}`).want(http.StatusCreated))
	w.post("/v1/campaigns/"+v.ID+"/start", "").problem(http.StatusConflict, "channel-unable", "audience.channels")
	w.post("/v1/campaigns/"+v.ID+"/pause", "").problem(http.StatusConflict, "wrong-state", "")
	w.post("/v1/campaigns/none/start", "").problem(http.StatusNotFound, "not-found", "")
}

func TestADraftIsRevised(t *testing.T) {
	w, _, _ := campaigns(t)
	v := decode[campaignView](w.post("/v1/campaigns", newsCampaign).want(http.StatusCreated))
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	v = decode[campaignView](w.put("/v1/campaigns/"+v.ID, `{"content":{"title":"Later"},"audience":{"channels":["webhook"]},"send_at":"`+at+`"}`).want(http.StatusOK))
	if v.State != "scheduled" || v.Content["title"] != "Later" || v.RateLimit != "" {
		t.Errorf("revised: %+v", v)
	}
	w.post("/v1/campaigns/"+v.ID+"/cancel", "").want(http.StatusOK)
	w.put("/v1/campaigns/"+v.ID, newsCampaign).problem(http.StatusConflict, "wrong-state", "")
}

func TestProgressIsFollowedToTheEnd(t *testing.T) {
	w, _, _ := campaigns(t, "https://a.example/1", "https://a.example/2")
	v := decode[campaignView](w.post("/v1/campaigns", newsCampaign).want(http.StatusCreated))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/v1/campaigns/"+v.ID+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.keys["read"])
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var events []string
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			if events = append(events, name); len(events) == 1 {
				w.post("/v1/campaigns/"+v.ID+"/start", "").want(http.StatusOK)
			}
		}
	}
	if len(events) < 2 || events[0] != "progress" || events[len(events)-1] != "end" {
		t.Errorf("events: %v", events)
	}
	again := w.do(request{method: "GET", path: "/v1/campaigns/" + v.ID + "/events", header: map[string]string{"Last-Event-ID": "end"}})
	again.want(http.StatusNoContent)
}

func TestForgedReportsAndClicksAreRefused(t *testing.T) {
	w, _, _ := campaigns(t)
	for _, token := range []string{"", "x", "demo~AQEBAAAAAAAAAAAAAAAAAAAAAAA"} {
		a := w.do(request{method: "POST", path: "/v1/track", key: "-", body: `{"token":"` + token + `","event":"shown"}`})
		a.problem(http.StatusForbidden, "bad-token", "")
		if a.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Error("a page of another origin cannot read the answer")
		}
	}
	w.do(request{method: "GET", path: "/v1/click/demo~AQEBAAAAAAAAAAAAAAAAAAAAAAA?to=" + url.QueryEscape("https://evil.example/"), key: "-"}).
		problem(http.StatusForbidden, "bad-token", "")
	w.do(request{method: "POST", path: "/v1/track", key: "-", body: `{"token":"x","event":"eaten"}`}).problem(http.StatusBadRequest, "bad-input", "event")
}

func TestACloneIsADraftOfItsOwn(t *testing.T) {
	w, _, _ := campaigns(t)
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	v := decode[campaignView](w.post("/v1/campaigns", `{"name":"News","content":{"title":"x"},"audience":{"channels":["webhook"]},"rate":"5/s","send_at":"`+at+`"}`).want(http.StatusCreated))
	clone := func(body string, status int) campaignView {
		t.Helper()
		r := request{method: "POST", path: "/v1/campaigns/" + v.ID + "/clone", body: body, header: map[string]string{"Idempotency-Key": "k1"}}
		return decode[campaignView](w.do(r).want(status))
	}
	first := clone("", http.StatusCreated)
	if first.ID == v.ID || first.State != "draft" || first.RateLimit != "5/s" || first.Content["title"] != "x" {
		t.Errorf("the clone: %+v", first)
	}
	if again := clone("", http.StatusOK); again.ID != first.ID || !again.Duplicate {
		t.Errorf("a retry made %+v", again)
	}
	body := string(w.get("/v1/campaigns/" + first.ID).want(http.StatusOK).body)
	if !strings.Contains(body, `"name":"Copy of News"`) || !strings.Contains(body, `"send_at":null`) {
		t.Errorf("the clone: %s", body)
	}
	w.post("/v1/campaigns/"+v.ID+"/clone", `{"name":"`+strings.Repeat("x", 201)+`"}`).problem(http.StatusBadRequest, "bad-input", "name")
	w.post("/v1/campaigns/none/clone", "").problem(http.StatusNotFound, "not-found", "")
}

func TestVariantsAreReportedAndDecided(t *testing.T) {
	w, _, ids := campaigns(t, "https://a.example/1", "https://a.example/2", "https://a.example/3", "https://a.example/4")
	const body = `{"content":{"title":"A"},"variants":[{"share":1},{"share":1,"content":{"title":"B"}}],"metric":"shown","decide_after":"1h","audience":{"channels":["webhook"]}}`
	v := decode[campaignView](w.post("/v1/campaigns", body).want(http.StatusCreated))
	at := "/v1/campaigns/" + v.ID
	w.post(at+"/decide", `{"variant":"A"}`).problem(http.StatusConflict, "wrong-state", "")
	pre := string(w.post(at+"/preview", "").want(http.StatusOK).body)
	if !strings.Contains(pre, `"title":"A"`) || !strings.Contains(pre, `"second":{"title":"B"`) {
		t.Errorf("preview: %s", pre)
	}
	if tried := string(w.post(at+"/test", `{"endpoints":["`+ids[0]+`"]}`).want(http.StatusOK).body); !strings.Contains(tried, `"variant":"B"`) {
		t.Errorf("test: %s", tried)
	}
	w.post(at+"/start", "").want(http.StatusOK)
	w.post(at+"/decide", `{"variant":"C"}`).problem(http.StatusBadRequest, "bad-input", "variant")
	w.post(at+"/decide", `{"variant":"B"}`).want(http.StatusOK)
	w.post(at+"/decide", `{"variant":"A"}`).problem(http.StatusConflict, "wrong-state", "")
	w.ended(v.ID)
	type figures struct {
		Name, Title  string
		Share, Total int
		Content      map[string]any
	}
	got := decode[struct {
		Variants    []figures
		Rest        figures
		Metric      string
		DecideAfter string `json:"decide_after"`
		Decision    struct{ Variant, Reason string }
	}](w.get(at).want(http.StatusOK))
	if len(got.Variants) != 2 || got.Variants[1].Name != "B" || got.Variants[1].Title != "B" || got.Variants[1].Share != 1 || got.Variants[0].Content["title"] != "A" ||
		got.Variants[0].Total+got.Variants[1].Total+got.Rest.Total != 4 || got.Metric != "shown" || got.DecideAfter != "1h" || got.Decision.Variant != "B" {
		t.Errorf("%+v", got)
	}
	lines := strings.Split(strings.TrimSpace(string(w.get(at+"/deliveries").want(http.StatusOK).body)), "\n")
	for _, line := range lines {
		if !strings.Contains(line, `"variant":"`) {
			t.Errorf("a delivery without its variant: %s", line)
		}
	}
	if list := string(w.get("/v1/campaigns").want(http.StatusOK).body); !strings.Contains(list, `"share":1`) || strings.Contains(list, `"content"`) {
		t.Errorf("list: %s", list)
	}
	for field, bad := range map[string]string{
		"variants":                  `{"content":{"title":"A"},"variants":[{"share":50}]}`,
		"variants[1].content.title": `{"content":{"title":"A"},"variants":[{"share":50},{"share":50,"content":{"title":"{{"}}]}`,
		"local_time.at":             `{"content":{"title":"A"},"local_time":{"at":"tomorrow"}}`,
		"send_at":                   `{"content":{"title":"A"},"send_at":"2030-01-01T00:00:00Z","local_time":{"at":"2030-01-01T09:00"}}`,
	} {
		w.post("/v1/campaigns", bad).problem(http.StatusBadRequest, "bad-input", field)
	}
}

func TestALocalTimeSchedulesTheCampaign(t *testing.T) {
	w, _, _ := campaigns(t, "https://a.example/1")
	wall := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Minute)
	v := decode[campaignView](w.post("/v1/campaigns", `{"content":{"title":"A"},"local_time":{"at":"`+wall.Format("2006-01-02T15:04")+`"}}`).want(http.StatusCreated))
	body := string(w.get("/v1/campaigns/" + v.ID).want(http.StatusOK).body)
	if v.State != "scheduled" || !strings.Contains(body, `"send_at":"`+wall.Add(-14*time.Hour).Format("2006-01-02T15:04:05.000Z")) || !strings.Contains(body, `"local_time":{"at":"`) {
		t.Errorf("%s", body)
	}
	w.post("/v1/campaigns/"+v.ID+"/start", `{"send_at":"2030-01-01T00:00:00Z"}`).problem(http.StatusBadRequest, "bad-input", "send_at")
}

package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

type resultJSON struct {
	ID        string       `json:"id"`
	To        string       `json:"to"`
	Status    string       `json:"status"`
	Duplicate bool         `json:"duplicate"`
	ExpiresAt time.Time    `json:"expires_at"`
	Error     *problemJSON `json:"error"`
	Results   []resultJSON `json:"results"`
}

func TestPublishIsStoredAndAgainADuplicate(t *testing.T) {
	w := newWorld(t)
	const body = `{"to":"driver-42","id":"ride-9f3","title":"New ride","body":"2.1 km \"away\" é","category":"NEW_RIDE","data":{"fare":120},
	 "ttl":"30s","collapse_key":"ride","priority":"high","ack":"any","escalate":[{"channel":"live"}]}`
	begun := time.Now()
	r := decode[resultJSON](w.post("/v1/notifications", body).want(http.StatusCreated))
	if r.ID != "ride-9f3" || r.To != "driver-42" || r.Status != "stored" || r.Duplicate {
		t.Errorf("answer %+v", r)
	}
	if r.ExpiresAt.Before(begun.Add(29*time.Second)) || r.ExpiresAt.After(time.Now().Add(31*time.Second)) {
		t.Errorf("expires %s after it was published, want 30s", r.ExpiresAt.Sub(begun))
	}
	c, ok := w.mailbox.content("shop", "driver-42", "ride-9f3")
	if !ok || c.Title != "New ride" || c.Body != `2.1 km "away" é` || c.Category != "NEW_RIDE" || string(c.Data) != `{"fare":120}` || c.ContentType != "application/json" {
		t.Errorf("stored %+v", c)
	}
	if r := decode[resultJSON](w.post("/v1/notifications", body).want(http.StatusOK)); !r.Duplicate {
		t.Errorf("second answer %+v, want a duplicate", r)
	}
	other := strings.Replace(body, "New ride", "Old ride", 1)
	w.post("/v1/notifications", other).problem(http.StatusConflict, "id-conflict", "")
}

func TestPublishMakesAnID(t *testing.T) {
	w := newWorld(t)
	r := decode[resultJSON](w.post("/v1/notifications", `{"to":"a","title":"Hi"}`).want(http.StatusCreated))
	if len(r.ID) != 26 {
		t.Errorf("id %q is not a ULID", r.ID)
	}
	if left := time.Until(r.ExpiresAt); left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("expires in %s, want a day", left)
	}
}

func TestPublishToAListAnswersInOrder(t *testing.T) {
	w := newWorld(t)
	w.mailbox.full["full"] = true
	rs := decode[resultJSON](w.post("/v1/notifications", `{"to":["a","b b","full","c"],"id":"x","title":"Hi"}`).want(http.StatusOK)).Results
	if len(rs) != 4 {
		t.Fatalf("%d results, want 4", len(rs))
	}
	for i, to := range []string{"a", "b b", "full", "c"} {
		if rs[i].To != to || rs[i].ID != "x" {
			t.Errorf("result %d is of %s to %s, want x to %s", i, rs[i].ID, rs[i].To, to)
		}
	}
	if rs[0].Status != "stored" || rs[3].Status != "stored" {
		t.Errorf("good ones: %+v, %+v", rs[0], rs[3])
	}
	checkProblem(t, *rs[1].Error, 400, "bad-input", "to")
	checkProblem(t, *rs[2].Error, 429, "mailbox-full", "")
	if rs[2].Error.RetryAfter == 0 {
		t.Error("a full mailbox does not say when to retry")
	}
	if rs := decode[resultJSON](w.post("/v1/notifications", `{"to":["alone"],"title":"Hi"}`).want(http.StatusOK)).Results; len(rs) != 1 {
		t.Errorf("a list of one gets %d results", len(rs))
	}
}

func TestScheduledPublishSaysSo(t *testing.T) {
	w := newWorld(t)
	at := time.Now().Add(time.Hour).UTC()
	r := decode[resultJSON](w.post("/v1/notifications", fmt.Sprintf(`{"to":"a","title":"Hi","ttl":60,"send_at":%q}`, at.Format(time.RFC3339))).want(http.StatusCreated))
	if r.Status != "scheduled" || !r.ExpiresAt.Equal(at.Truncate(time.Second).Add(time.Minute)) {
		t.Errorf("answer %+v, want it scheduled and expiring a minute after %s", r, at)
	}
}

// TestBadPublishNamesTheField breaks every rule of the publish table.
func TestBadPublishNamesTheField(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 129)
	many := strings.TrimSuffix(strings.Repeat(`"a",`, 1001), ",")
	past := time.Now().Add(-time.Hour).Format(time.RFC3339)
	far := time.Now().Add(31 * 24 * time.Hour).Format(time.RFC3339)
	for _, c := range []struct{ body, field string }{
		{`{}`, "to"},
		{`{"to":"a"}`, "title"},
		{`{"to":["a","b"],"ttl":"1h","content_type":"text/plain","data":""}`, "title"},
		{`{"to":"a","title":"","body":"","category":"","data":null}`, "title"},
		{`{"to":"","title":"Hi"}`, "to"},
		{`{"to":[],"title":"Hi"}`, "to"},
		{`{"to":null}`, "to"},
		{`{"to":7}`, "to"},
		{`{"to":{}}`, "to"},
		{`{"to":["a",7],"title":"Hi"}`, "to[1]"},
		{`{"to":"a b","title":"Hi"}`, "to"},
		{`{"to":"` + long + `","title":"Hi"}`, "to"},
		{`{"to":[` + many + `],"title":"Hi"}`, "to"},
		{`{"to":"a","titel":"x"}`, "titel"},
		{`{"to":"a","title":7}`, "title"},
		{`{"to":"a","title":0}`, "title"},
		{`{"to":"a","title":-9}`, "title"},
		{`{"to":"a","title":"x","title":"y"}`, "title"},
		{`{"to":"a","body":["x"]}`, "body"},
		{`{"to":"a","category":true}`, "category"},
		{`{"to":"a","id":"a/b","title":"Hi"}`, "id"},
		{`{"to":"a","id":"","title":"Hi"}`, "id"},
		{`{"to":"a","id":12}`, "id"},
		{`{"to":"a","id":"` + long + `","title":"Hi"}`, "id"},
		{`{"to":"a","ttl":"soon","title":"Hi"}`, "ttl"},
		{`{"to":"a","ttl":0}`, "ttl"},
		{`{"to":"a","ttl":"0s","title":"Hi"}`, "ttl"},
		{`{"to":"a","ttl":-5}`, "ttl"},
		{`{"to":"a","ttl":1.5}`, "ttl"},
		{`{"to":"a","ttl":true}`, "ttl"},
		{`{"to":"a","ttl":"31d","title":"Hi"}`, "ttl"},
		{`{"to":"a","ttl":99999999999999999999}`, "ttl"},
		{`{"to":"a","ttl":"1h","expires_at":"` + far + `","title":"Hi"}`, "expires_at"},
		{`{"to":"a","expires_at":"` + past + `","title":"Hi"}`, "expires_at"},
		{`{"to":"a","expires_at":"` + far + `","title":"Hi"}`, "expires_at"},
		{`{"to":"a","expires_at":"tomorrow","title":"Hi"}`, "expires_at"},
		{`{"to":"a","expires_at":"0001-01-01T00:00:00Z","title":"Hi"}`, "expires_at"},
		{`{"to":"a","expires_at":1700000000}`, "expires_at"},
		{`{"to":"a","send_at":"` + far + `","title":"Hi"}`, "send_at"},
		{`{"to":"a","send_at":7}`, "send_at"},
		{`{"to":"a","collapse_key":"a b","title":"Hi"}`, "collapse_key"},
		{`{"to":"a","collapse_key":[]}`, "collapse_key"},
		{`{"to":"a","priority":"urgent","title":"Hi"}`, "priority"},
		{`{"to":"a","priority":1}`, "priority"},
		{`{"to":"a","ack":"some","title":"Hi"}`, "ack"},
		{`{"to":"a","ack":false}`, "ack"},
		{`{"to":"a","data":{"a":}}`, "data"},
		{`{"to":"a","data":[1 2]}`, "data"},
		{`{"to":"a","data":{"a":1]}`, "data"},
		{`{"to":"a","data":tru}`, "data"},
		{`{"to":"a","data":1,"data_base64":"AA=="}`, "data_base64"},
		{`{"to":"a","data_base64":"!"}`, "data_base64"},
		{`{"to":"a","data_base64":7}`, "data_base64"},
		{`{"to":"a","content_type":"text/plain","data":{"a":1}}`, "data"},
		{`{"to":"a","content_type":7}`, "content_type"},
		{`{"to":"a","content_type":"text/pläin","data":"x"}`, "content_type"},
		{`{"to":"a","content_type":"application/json","data_base64":"ew=="}`, "data"},
		{`{"to":"a","escalate":{}}`, "escalate"},
		{`{"to":"a","escalate":["live"]}`, "escalate[0]"},
		{`{"to":"a","escalate":[{"channel":7}]}`, "escalate[0].channel"},
		{`{"to":"a","escalate":[{"after":"5s"}]}`, "escalate[0].channel"},
		{`{"to":"a","escalate":[{"channel":"live"},{"channel":"live","after":"x"}]}`, "escalate[1].after"},
		{`{"to":"a","escalate":[{"channel":"live","when":1}]}`, "escalate[0].when"},
		{`{"to":"a","title":"Hi","escalate":[{"channel":"live"},{"channel":"fcm","after":"5s"}]}`, "escalate[1].channel"},
		{`{"to":"a","escalate":[{"channel":"fcm","after":"-5s"}]}`, "escalate[0].after"},
		{`{"to":"a","escalate":[{"channel":"fcm","after":"5s"},{"channel":"telegram","after":"4s"}]}`, "escalate[1].after"},
		{`{"to":"a","escalate":[{"channel":"fcm","after":"5s"},{"channel":"live","after":"6s"}]}`, "escalate[1].channel"},
		{`{"to":"a","title":"Hi","ttl":"5s","escalate":[{"channel":"live"},{"channel":"fcm","after":"5s"}]}`, "escalate[1].after"},
		{`{"to":"a","ack":"none","escalate":[{"channel":"live"},{"channel":"fcm","after":"5s"}]}`, "escalate"},
		{`{"to":"a","escalate":[` + strings.TrimSuffix(strings.Repeat(`{"channel":"fcm"},`, 9), ",") + `]}`, "escalate"},
		{`{"to":"a","escalate":[{"channel":"live"},{"channel":"fcm","settle":"clicked"}]}`, "escalate[1].settle"},
		{`{"to":"a","escalate":[{"channel":"live"},{"channel":"fcm","settle":true}]}`, "escalate[1].settle"},
		{`{"to":"a","escalate":[{"channel":"live","settle":"shown"}]}`, "escalate[0].settle"},
		{`{"to":"a","escalate":[{"channel":"fcm","withdraw":"no"}]}`, "escalate[0].withdraw"},
		{`{"to":"a","escalate":[{"channel":"live","withdraw":false}]}`, "escalate[0].withdraw"},
		{`{"to":"a","escalate":[{"channel":"fcm","to":"sms"}]}`, "escalate[0].to"},
		{`{"to":"a","escalate":[{"channel":"webhook","to":""}]}`, "escalate[0].to"},
		{`{"to":"a","escalate":[{"channel":"webhook","to":"s/ms"}]}`, "escalate[0].to"},
		{`{"to":"a","reply_by":"31d","title":"Hi"}`, "reply_by"},
		{`{"to":"a","reply_by":"72h","ack":"none","title":"Hi"}`, "reply_by"},
		{`{"to":"a","reply_by":[]}`, "reply_by"},
	} {
		p := w.post("/v1/notifications", c.body).problem(http.StatusBadRequest, "bad-input", c.field)
		if !strings.HasPrefix(p.Detail, c.field+": ") {
			t.Errorf("%.60s: detail %q does not begin with the field", c.body, p.Detail)
		}
	}
	if p := w.post("/v1/notifications", `{"to":"a","title":"Hi","escalate":[{"channel":"fcm"}]}`).problem(http.StatusBadRequest, "bad-input", "escalate[0].channel"); !strings.Contains(p.Detail, "channel fcm is not configured") {
		t.Errorf("detail %q", p.Detail)
	}
	if n := w.mailbox.commits(); len(n) != 0 {
		t.Errorf("%v copies were stored", n)
	}
}

func TestMalformedJSONIsRefusedWithItsPlace(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{
		"", " ", "null", "[]", `"a"`, "{", `{"to"`, `{"to":`, `{"to":"a"`, `{"to":"a",}`, `{"to":"a","title":"Hi"} x`, `{"to":"a","title":"Hi"}{}`, `{to:"a"}`,
		`{"to":"a" "id":"b"}`, `{"to":["a",],"title":"Hi"}`, `{"to":["a" "b"],"title":"Hi"}`, "{\"to\":\"a\nb\",\"title\":\"Hi\"}", `{"to":"\x","title":"Hi"}`, `{"to":"\u12","title":"Hi"}`, "{\"to\":\"\xff\",\"title\":\"Hi\"}",
		"{\"to\":\"a\",\"data\":\"x\ny\"}", `{"to":"a","data":"x`, `{"to":"a","data":}`, `{"to":"a","title":nul}`, "{\"to\":\"a\",\"title\":\"Hi\"}\x00",
	} {
		if p := w.post("/v1/notifications", body).problem(http.StatusBadRequest, "bad-json", ""); p.Detail == "" {
			t.Errorf("%q: no detail", body)
		}
	}
}

func TestDataComesInEveryForm(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct{ fields, data, contentType string }{
		{`"data":{"a":[1,2.5,"x",null,true]}`, `{"a":[1,2.5,"x",null,true]}`, "application/json"},
		{`"data":"text"`, `"text"`, "application/json"},
		{"\"data\":{\"a\":\n\r\t 1}", "{\"a\":\n\r\t 1}", "application/json"},
		{`"data":null`, "", ""},
		{`"data":{"a":1},"content_type":"application/geo+json"`, `{"a":1}`, "application/geo+json"},
		{`"content_type":"text/plain","data":"line\nbreak é"`, "line\nbreak é", "text/plain"},
		{`"data_base64":"AP8="`, "\x00\xff", "application/octet-stream"},
		{`"data_base64":"eyJhIjoxfQ=="`, `{"a":1}`, "application/json"},
		{`"data_base64":"AP8=","content_type":"image/png"`, "\x00\xff", "image/png"},
	} {
		id := fmt.Sprintf("data-%d", i)
		w.post("/v1/notifications", `{"to":"a","title":"Hi","id":"`+id+`",`+c.fields+`}`).want(http.StatusCreated)
		if got, _ := w.mailbox.content("shop", "a", id); string(got.Data) != c.data || got.ContentType != c.contentType {
			t.Errorf("%s: stored %q as %q, want %q as %q", c.fields, got.Data, got.ContentType, c.data, c.contentType)
		}
	}
}

func TestNullCountsAsNotGiven(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/notifications", `{"to":"a","id":null,"title":null,"ttl":null,"expires_at":null,"send_at":null,"priority":null,"ack":null,
	 "escalate":null,"reply_by":null,"data":null,"data_base64":null,"content_type":null,"collapse_key":null,"body":"Hi","category":null}`).want(http.StatusCreated)
}

func TestRequestOver256KBIsRefused(t *testing.T) {
	w := newWorld(t)
	frame := len(`{"to":"a","body":""}`)
	fits := `{"to":"a","body":"` + strings.Repeat("x", 256<<10-frame) + `"}`
	w.post("/v1/notifications", fits).want(http.StatusCreated)
	over := strings.Replace(fits, "x", "xx", 1)
	w.post("/v1/notifications", over).problem(http.StatusRequestEntityTooLarge, "too-large", "")
	w.do(request{method: "POST", path: "/v1/notify/a", body: strings.Repeat("x", 256<<10+1)}).problem(http.StatusRequestEntityTooLarge, "too-large", "")
}

func TestCompressedBodyIsRefused(t *testing.T) {
	w := newWorld(t)
	w.do(request{method: "POST", path: "/v1/notifications", body: "x", header: map[string]string{"Content-Encoding": "gzip"}}).
		problem(http.StatusUnsupportedMediaType, "unsupported-encoding", "")
}

func TestIdempotencyKeyMakesARetryADuplicate(t *testing.T) {
	w := newWorld(t)
	send := func(key, body string) answer {
		return w.do(request{method: "POST", path: "/v1/notifications", body: body, header: map[string]string{"Idempotency-Key": key}})
	}
	first := decode[resultJSON](send("k1", `{"to":"a","title":"x"}`).want(http.StatusCreated))
	again := decode[resultJSON](send("k1", `{"to":"a","title":"x"}`).want(http.StatusOK))
	if !again.Duplicate || again.ID != first.ID {
		t.Errorf("retry %+v of %+v is no duplicate", again, first)
	}
	send("k1", `{"to":"a","title":"other"}`).problem(http.StatusConflict, "id-conflict", "")
	if r := decode[resultJSON](send("k2", `{"to":"a","title":"x"}`).want(http.StatusCreated)); r.ID == first.ID {
		t.Error("another key made the same id")
	}
	if r := decode[resultJSON](send("k1", `{"to":"a","id":"mine","title":"x"}`).want(http.StatusCreated)); r.ID != "mine" {
		t.Errorf("id %q, want the one that was given", r.ID)
	}
	if call.DerivedID("shop", "k", 0) == call.DerivedID("other", "k", 0) {
		t.Error("two apps share derived ids")
	}
	send(strings.Repeat("k", 256), `{"to":"a","title":"Hi"}`).problem(http.StatusBadRequest, "bad-input", "Idempotency-Key")
}

func TestStoreFailuresTellThePublisherToRetry(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		err    error
		status int
		slug   string
	}{
		{fmt.Errorf("append: %w", mailbox.ErrNoSpace), 503, "no-space"},
		{mailbox.ErrClosed, 503, "closing"},
		{fmt.Errorf("append: %w", mailbox.ErrAway), 503, "store-away"},
		{errors.New("disk on fire at /secret/path"), 503, "not-stored"},
	} {
		w.mailbox.setFail(c.err)
		for _, a := range []answer{w.post("/v1/notifications", `{"to":"a","title":"Hi"}`), w.post("/v1/notifications", `{"to":["a","b"],"title":"Hi"}`), w.post("/v1/notify/a", "x")} {
			p := a.problem(c.status, c.slug, "")
			if a.header.Get("Retry-After") == "" || p.RetryAfter == 0 {
				t.Errorf("%s: no Retry-After", c.slug)
			}
			if strings.Contains(a.body, "fire") {
				t.Errorf("the answer tells of the server's inside: %s", a.body)
			}
		}
	}
	if !strings.Contains(w.log.String(), "disk on fire") {
		t.Error("the cause is not in the log")
	}
	if strings.Contains(w.log.String(), mailbox.ErrNoSpace.Error()) {
		t.Error("each refusal of a full disk is logged")
	}
	w.mailbox.setFail(nil)
	w.mailbox.full["a"] = true
	if a := w.post("/v1/notifications", `{"to":"a","title":"Hi"}`); a.problem(429, "mailbox-full", "").Status == 429 && a.header.Get("Retry-After") == "" {
		t.Error("a full mailbox does not say when to retry")
	}
}

func TestPublishLimitAnswers429(t *testing.T) {
	w := newWorld(t, func(c *setup) {
		c.PublishLimit = func(string, int) time.Duration { return 1500 * time.Millisecond }
	})
	for _, a := range []answer{w.post("/v1/notifications", `{"to":"a","title":"Hi"}`), w.post("/v1/notify/a", "x")} {
		a.problem(http.StatusTooManyRequests, "rate-limited", "")
		if got := a.header.Get("Retry-After"); got != "2" {
			t.Errorf("Retry-After %q, want 2", got)
		}
	}
	r := decode[resultJSON](w.ndjson(`{"to":"a","title":"Hi"}`).want(http.StatusOK))
	checkProblem(t, *r.Error, 429, "rate-limited", "")
}

type statusJSON struct {
	ID, To, Status string
	CreatedAt      time.Time  `json:"created_at"`
	DeliveredAt    *time.Time `json:"delivered_at"`
	AckedAt        *time.Time `json:"acked_at"`
	LatencyMS      *int       `json:"latency_ms"`
	Attempts       int
	Channels       []struct {
		Channel, Status string
		At              time.Time
		Detail          *string
	}
}

func TestStatusShowsOneCopyOrAll(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/notifications", `{"to":["a","b"],"id":"n1","title":"Hi"}`).want(http.StatusOK)
	s := decode[statusJSON](w.get("/v1/notifications/n1?to=a").want(http.StatusOK))
	if s.ID != "n1" || s.To != "a" || s.Status != "stored" || s.AckedAt != nil || s.LatencyMS != nil || s.DeliveredAt != nil {
		t.Errorf("status %+v", s)
	}
	w.do(request{method: "POST", path: "/v1/acks", body: `{"ids":["n1"]}`, key: w.token("shop", "a")}).want(http.StatusOK)
	s = decode[statusJSON](w.get("/v1/notifications/n1?to=a").want(http.StatusOK))
	if s.Status != "acked" || s.AckedAt == nil || s.LatencyMS == nil || *s.LatencyMS != 1500 || s.Attempts != 1 {
		t.Errorf("status after the ack %+v", s)
	}
	if len(s.Channels) != 1 || s.Channels[0].Channel != "live" || s.Channels[0].Status != "acked" || *s.Channels[0].Detail != "sent once" {
		t.Errorf("channels %+v", s.Channels)
	}
	items := decode[struct{ Items []statusJSON }](w.get("/v1/notifications/n1").want(http.StatusOK)).Items
	if len(items) != 2 || items[0].To != "a" || items[1].To != "b" {
		t.Errorf("items %+v", items)
	}
	var raw map[string]json.RawMessage
	w.get("/v1/notifications/n1?to=b").into(&raw)
	for _, name := range []string{"delivered_at", "acked_at", "latency_ms", "reply"} {
		if string(raw[name]) != "null" {
			t.Errorf("%s is %s, want null", name, raw[name])
		}
	}
}

func TestStatusAndRecallRefuseBadInput(t *testing.T) {
	w := newWorld(t)
	for _, method := range []string{"GET", "DELETE"} {
		for path, field := range map[string]string{"/v1/notifications/a%20b": "id", "/v1/notifications/n?to=a%20b": "to", "/v1/notifications/n?to=": "to", "/v1/notifications/n?too=b": "too", "/v1/notifications/n?to=a&to=b": "to", "/v1/notifications/n?to=%zz": "query"} {
			w.do(request{method: method, path: path}).problem(http.StatusBadRequest, "bad-input", field)
		}
		w.do(request{method: method, path: "/v1/notifications/none"}).problem(http.StatusNotFound, "not-found", "")
		w.do(request{method: method, path: "/v1/notifications/none?to=a"}).problem(http.StatusNotFound, "not-found", "")
	}
}

func TestRecallWithdrawsWhatIsUnsettled(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/notifications", `{"to":["a","b","c"],"id":"n1","title":"Hi"}`).want(http.StatusOK)
	for _, c := range []struct {
		path string
		n    int
	}{{"/v1/notifications/n1?to=b", 1}, {"/v1/notifications/n1", 2}, {"/v1/notifications/n1", 0}} {
		if got := decode[struct{ Recalled int }](w.delete(c.path).want(http.StatusOK)).Recalled; got != c.n {
			t.Errorf("DELETE %s recalled %d, want %d", c.path, got, c.n)
		}
	}
	if s := decode[statusJSON](w.get("/v1/notifications/n1?to=a")); s.Status != "recalled" {
		t.Errorf("status %s, want recalled", s.Status)
	}
}

func TestNotifyTakesTextAndQuery(t *testing.T) {
	w := newWorld(t)
	r := decode[resultJSON](w.do(request{
		method: "POST", path: "/v1/notify/driver-42?title=Hi+there&ttl=1h&id=n1&priority=high&ack=all&category=C&collapse_key=k", body: "2.1 km away\n",
		header: map[string]string{"Content-Type": "text/plain"},
	}).want(http.StatusCreated))
	if r.ID != "n1" || r.To != "driver-42" {
		t.Errorf("answer %+v", r)
	}
	if c, _ := w.mailbox.content("shop", "driver-42", "n1"); c.Title != "Hi there" || c.Body != "2.1 km away" || c.Category != "C" {
		t.Errorf("stored %+v", c)
	}
	retry := request{method: "POST", path: "/v1/notify/a", body: "x", header: map[string]string{"Idempotency-Key": "k", "Content-Type": "text/plain"}}
	w.do(retry).want(http.StatusCreated)
	w.do(retry).want(http.StatusOK)
}

func TestBadNotifyNamesTheParameter(t *testing.T) {
	w := newWorld(t)
	for query, field := range map[string]string{
		"ttl=soon": "ttl", "ttl=0": "ttl", "expires_at=x": "expires_at", "send_at=x": "send_at", "priority=x": "priority", "ack=x": "ack",
		"titel=x": "titel", "id=a%20b": "id", "collapse_key=a%20b": "collapse_key", "title=%ff": "title", "ttl=1&ttl=2": "ttl",
	} {
		w.post("/v1/notify/a?"+query, "x").problem(http.StatusBadRequest, "bad-input", field)
	}
	w.post("/v1/notify/a%20b", "x").problem(http.StatusBadRequest, "bad-input", "to")
	w.post("/v1/notify/a", "\n").problem(http.StatusBadRequest, "bad-input", "title")
	w.post("/v1/notify/a", "\xff").problem(http.StatusBadRequest, "bad-input", "body")
}

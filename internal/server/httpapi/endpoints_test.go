package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/limit"
)

// subscription returns the nth browser's subscription.
func subscription(n int) string {
	return fmt.Sprintf(`{"endpoint":"https://push.example/%d","expirationTime":null,"keys":{"p256dh":"BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU","auth":"AAECAwQFBgcICQoLDA0ODw"}}`, n)
}

type registeredJSON struct {
	ID          string
	Created     bool
	ManageToken string `json:"manage_token"`
}

type endpointView struct {
	ID, Channel, Recipient, Locale, Timezone, Status string
	DisabledReason                                   string `json:"disabled_reason"`
	Address                                          map[string]any
	Tags                                             []string
	Attributes                                       map[string]any
}

const site = "https://site.example"

// allowAnonymous lets pages of site register with app shop.
func (w *world) allowAnonymous() {
	w.t.Helper()
	origins := []string{site}
	if err := w.access.SetApp(w.t.Context(), "shop", access.AppChange{AnonymousOrigins: &origins}); err != nil {
		w.t.Fatal(err)
	}
}

// visit sends a request from a page of an origin, without a key.
func (w *world) visit(method, path, body, origin string) answer {
	w.t.Helper()
	return w.do(request{method: method, path: path, body: body, key: "-", header: map[string]string{"Origin": origin}})
}

func (w *world) register(body string) registeredJSON {
	w.t.Helper()
	return decode[registeredJSON](w.post("/v1/endpoints", body).want(http.StatusCreated))
}

func TestBackEndRegistersChangesAndDeletesEndpoints(t *testing.T) {
	w := newWorld(t)
	made := w.register(`{"channel":"telegram","recipient":"ada","address":{"chat_id":"42"},"tags":["b","a","b"],"attributes":{"age":42,"city":"Oslo","vip":true},"locale":"nb-NO","timezone":"Europe/Oslo"}`)
	if !made.Created || made.ManageToken == "" {
		t.Errorf("made %+v", made)
	}
	path := "/v1/endpoints/" + made.ID
	e := decode[endpointView](w.get(path).want(http.StatusOK))
	if e.Channel != "telegram" || e.Recipient != "ada" || e.Address["chat_id"] != 42.0 || !slices.Equal(e.Tags, []string{"a", "b"}) || e.Attributes["vip"] != true || e.Status != "active" {
		t.Errorf("endpoint %+v", e)
	}
	again := decode[registeredJSON](w.post("/v1/endpoints", `{"channel":"telegram","address":{"chat_id":42},"locale":"fr"}`).want(http.StatusOK))
	if again.ID != made.ID || again.Created || again.ManageToken != "" {
		t.Errorf("renewed %+v", again)
	}
	patch := func(body string) answer { return w.do(request{method: "PATCH", path: path, body: body}) }
	e = decode[endpointView](patch(`{"add_tags":["c"],"remove_tags":["a"],"attributes":{"age":null,"city":"Bergen"},"recipient":null,"status":"disabled","disabled_reason":"asked"}`).want(http.StatusOK))
	if !slices.Equal(e.Tags, []string{"b", "c"}) || len(e.Attributes) != 2 || e.Attributes["city"] != "Bergen" || e.Recipient != "" || e.Status != "disabled" || e.DisabledReason != "asked" || e.Locale != "fr" {
		t.Errorf("changed %+v", e)
	}
	e = decode[endpointView](patch(`{"tags":[],"attributes":null,"status":"active"}`).want(http.StatusOK))
	if len(e.Tags)+len(e.Attributes) != 0 || e.Status != "active" || e.DisabledReason != "" {
		t.Errorf("changed %+v", e)
	}
	for body, field := range map[string]string{
		`{"tags":["a,b"]}`: "tags", `{"tags":"a"}`: "tags", `{"attributes":{"a":[]}}`: "attributes.a", `{"status":"gone"}`: "status",
		`{"timezone":"Mars"}`: "timezone", `{"address":{"chat_id":"x"}}`: "address.chat_id", `{"channel":"live"}`: "channel",
	} {
		patch(body).problem(http.StatusBadRequest, "bad-input", field)
	}
	other := w.register(`{"channel":"telegram","address":{"chat_id":43}}`)
	patch(`{"address":{"chat_id":43}}`).problem(http.StatusConflict, "address-taken", "")
	w.post("/v1/endpoints", `{"channel":"telegram","address":{"chat_id":44},"id":"`+other.ID+`"}`).problem(http.StatusConflict, "address-taken", "")
	w.delete(path).want(http.StatusNoContent)
	w.get(path).problem(http.StatusNotFound, "not-found", "")
	w.delete(path).problem(http.StatusNotFound, "not-found", "")
	w.get("/v1/endpoints/x").problem(http.StatusBadRequest, "bad-input", "id")
}

func TestUnknownLanguagesAndTimeZonesRefuseNoRegistration(t *testing.T) {
	w := newWorld(t)
	w.allowAnonymous()
	hints := `,"locale":"th-TH@calendar=buddhist","timezone":"GMT+05:30"`
	known := func(id, locale, timezone string) {
		t.Helper()
		if e := decode[endpointView](w.get("/v1/endpoints/" + id).want(http.StatusOK)); e.Locale != locale || e.Timezone != timezone {
			t.Errorf("locale %q, time zone %q; want %q, %q", e.Locale, e.Timezone, locale, timezone)
		}
	}
	for body, key := range map[string]string{
		`{"channel":"webpush","address":` + subscription(1) + hints + `}`:                       "-",
		`{"channel":"fcm","address":{"token":"` + strings.Repeat("t", 100) + `"}` + hints + `}`: w.keys["publish"],
	} {
		a := w.do(request{method: "POST", path: "/v1/endpoints?app=shop", body: body, key: key, header: map[string]string{"Origin": site}}).want(http.StatusCreated)
		if !strings.Contains(string(a.body), `"warnings":["timezone: \"GMT+05:30\"`) {
			t.Errorf("nothing says what was left out: %s", a.body)
		}
		made := decode[registeredJSON](a)
		known(made.ID, "th-TH", "")
		change := func(body string) { // change changes the endpoint as the holder of the manage token
			w.do(request{method: "PATCH", path: "/v1/endpoints/" + made.ID + "?app=shop", body: body, key: made.ManageToken}).want(http.StatusOK)
		}
		change(`{"timezone":"Asia/Kolkata","locale":"hi"}`)
		change(`{"timezone":":/etc/localtime","locale":"?"}`)
		known(made.ID, "hi", "Asia/Kolkata")
	}
	lines := w.do(request{method: "POST", path: "/v1/endpoints/batch", body: `{"channel":"telegram","address":{"chat_id":1},"timezone":"-28800"}` + "\n" +
		`{"channel":"telegram","address":{"chat_id":2},"timezone":"Mars"}` + "\n", header: map[string]string{"Content-Type": "application/x-ndjson"}}).want(http.StatusOK)
	first, second, _ := strings.Cut(string(lines.body), "\n")
	if strings.Contains(first, "warnings") || !strings.Contains(second, `"warnings":["timezone: \"Mars\"`) {
		t.Errorf("batch: %s", lines.body)
	}
}

func TestRegistrationsAreRefusedPrecisely(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{}`:                                   "channel",
		`{"channel":"pigeon","address":{}}`:    "channel",
		`{"channel":"telegram"}`:               "address",
		`{"channel":"telegram","address":[1]}`: "address",
		`{"channel":"webpush","address":{"endpoint":"x"}}`:                                                           "address.endpoint",
		`{"channel":"webpush","address":` + strings.Replace(subscription(1), "push.example", "127.0.0.1:1", 1) + `}`: "address.endpoint",
		`{"channel":"webhook","address":{"url":"http://hook.example/"}}`:                                             "address.url",
		`{"channel":"webhook","address":{"url":"https://169.254.169.254/"}}`:                                         "address.url",
		`{"channel":"live","address":{}}`:                                                                            "recipient",
		`{"channel":"telegram","address":{"chat_id":1},"recipient":"a b"}`:                                           "recipient",
		`{"channel":"telegram","address":{"chat_id":1},"tags":[1]}`:                                                  "tags[0]",
		`{"channel":"telegram","address":{"chat_id":1},"attributes":{"a":null}}`:                                     "attributes.a",
		`{"channel":"telegram","address":{"chat_id":1},"attributes":{"a":"\u0000"}}`:                                 "attributes.a",
		`{"channel":"telegram","address":{"chat_id":1},"id":"x"}`:                                                    "id",
		`{"channel":"telegram","address":{"chat_id":1},"city":"Oslo"}`:                                               "city",
		`{"channel":"telegram","address":{"chat_id":1},"tags":["` + strings.Repeat("x", 65) + `"]}`:                  "tags",
	} {
		w.post("/v1/endpoints", body).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.post("/v1/endpoints", `{"channel":`).problem(http.StatusBadRequest, "bad-json", "")
	w.do(request{method: "POST", path: "/v1/endpoints", body: `{"channel":"telegram","address":{"chat_id":1}}`, key: w.keys["read"]}).problem(http.StatusForbidden, "forbidden", "")
}

func TestVisitorsRegisterOnlyFromThePagesThatTheAppNames(t *testing.T) {
	w := newWorld(t)
	body := `{"channel":"webpush","address":` + subscription(1) + `,"tags":["news"]}`
	w.visit("POST", "/v1/endpoints?app=shop", body, site).problem(http.StatusForbidden, "forbidden", "")
	w.allowAnonymous()
	for _, origin := range []string{"", "https://evil.example", "http://site.example", "https://site.example.evil.example", "null"} {
		a := w.visit("POST", "/v1/endpoints?app=shop", body, origin)
		a.problem(http.StatusForbidden, "forbidden", "")
		if got := a.header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%q may read the answer: %s", origin, got)
		}
	}
	w.visit("POST", "/v1/endpoints?app=other", body, site).problem(http.StatusForbidden, "forbidden", "")
	w.visit("POST", "/v1/endpoints?app=none", body, site).problem(http.StatusNotFound, "unknown-app", "")
	a := w.visit("POST", "/v1/endpoints?app=shop", body, site).want(http.StatusCreated)
	if got := a.header.Get("Access-Control-Allow-Origin"); got != site {
		t.Errorf("the page may not read its answer: %q", got)
	}
	for body, field := range map[string]string{
		`{"channel":"webpush","address":` + subscription(2) + `,"recipient":"ada"}`:                 "recipient",
		`{"channel":"webpush","address":` + subscription(2) + `,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`: "id",
		`{"channel":"telegram","address":{"chat_id":1}}`:                                            "channel",
		`{"channel":"webhook","address":{"url":"https://x.example/"}}`:                              "channel",
	} {
		w.visit("POST", "/v1/endpoints?app=shop", body, site).problem(http.StatusBadRequest, "bad-input", field)
	}
	pre := w.visit("OPTIONS", "/v1/endpoints?app=shop", "", site).want(http.StatusNoContent)
	if pre.header.Get("Access-Control-Allow-Origin") != site || !strings.Contains(pre.header.Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("preflight %v", pre.header)
	}
	if pre := w.visit("OPTIONS", "/v1/endpoints?app=shop", "", "https://evil.example"); pre.header.Get("Access-Control-Allow-Methods") != "" {
		t.Errorf("preflight of a stranger %v", pre.header)
	}
}

func TestManageTokenOpensItsEndpointOnly(t *testing.T) {
	w := newWorld(t)
	w.allowAnonymous()
	var made [2]registeredJSON
	for i := range made {
		made[i] = decode[registeredJSON](w.visit("POST", "/v1/endpoints?app=shop", `{"channel":"webpush","address":`+subscription(i)+`}`, site).want(http.StatusCreated))
	}
	by := func(token, method, id, body string) answer {
		return w.do(request{method: method, path: "/v1/endpoints/" + id + "?app=shop", body: body, key: token, header: map[string]string{"Origin": site}})
	}
	a := by(made[0].ManageToken, "GET", made[0].ID, "").want(http.StatusOK)
	if a.header.Get("Access-Control-Allow-Origin") != site {
		t.Error("the page may not read its endpoint")
	}
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		by(made[0].ManageToken, method, made[1].ID, `{}`).problem(http.StatusNotFound, "not-found", "")
		by("gwm_wrong", method, made[0].ID, `{}`).problem(http.StatusNotFound, "not-found", "")
		by("-", method, made[0].ID, `{}`).problem(http.StatusUnauthorized, "unauthenticated", "")
		w.do(request{method: method, path: "/v1/endpoints/" + made[0].ID + "?app=other", body: `{}`, key: made[0].ManageToken}).problem(http.StatusNotFound, "not-found", "")
		w.do(request{method: method, path: "/v1/endpoints/" + made[0].ID, body: `{}`, key: w.keys["other"]}).problem(http.StatusNotFound, "not-found", "")
	}
	for _, field := range []string{`"recipient":"ada"`, `"status":"disabled"`, `"disabled_reason":"x"`} {
		by(made[0].ManageToken, "PATCH", made[0].ID, "{"+field+"}").problem(http.StatusForbidden, "forbidden", "")
	}
	by(made[0].ManageToken, "POST", "", "").want(http.StatusNotFound)
	w.do(request{method: "POST", path: "/v1/endpoints?app=shop", body: `{}`, key: made[0].ManageToken}).problem(http.StatusForbidden, "forbidden", "")
	e := decode[endpointView](by(made[0].ManageToken, "PATCH", made[0].ID, `{"tags":["news"],"address":`+subscription(5)+`}`).want(http.StatusOK))
	if !slices.Equal(e.Tags, []string{"news"}) || e.Address["endpoint"] != "https://push.example/5" {
		t.Errorf("changed %+v", e)
	}
	// The subscriber registers again, which ends the former token. A back end's renewal does not end it.
	again := decode[registeredJSON](w.visit("POST", "/v1/endpoints?app=shop", `{"channel":"webpush","address":`+subscription(5)+`}`, site).want(http.StatusOK))
	by(made[0].ManageToken, "GET", made[0].ID, "").problem(http.StatusNotFound, "not-found", "")
	w.post("/v1/endpoints", `{"channel":"webpush","address":`+subscription(5)+`,"recipient":"ada"}`).want(http.StatusOK)
	by(again.ManageToken, "DELETE", made[0].ID, "").want(http.StatusNoContent)
	w.get("/v1/endpoints/"+made[0].ID).problem(http.StatusNotFound, "not-found", "")
	// A read-only key may not change endpoints.
	w.do(request{method: "DELETE", path: "/v1/endpoints/" + made[1].ID, key: w.keys["read"]}).problem(http.StatusForbidden, "forbidden", "")
	w.do(request{method: "GET", path: "/v1/endpoints/" + made[1].ID, key: w.keys["read"]}).want(http.StatusOK)
}

func TestStrangersCannotTakeOverASubscription(t *testing.T) {
	w := newWorld(t)
	w.allowAnonymous()
	made := decode[registeredJSON](w.visit("POST", "/v1/endpoints?app=shop", `{"channel":"webpush","address":`+subscription(1)+`}`, site).want(http.StatusCreated))
	forged := strings.Replace(subscription(1), "AAECAw", "BBECAw", 1)
	w.visit("POST", "/v1/endpoints?app=shop", `{"channel":"webpush","address":`+forged+`}`, site).problem(http.StatusConflict, "address-taken", "")
	if e := decode[endpointView](w.get("/v1/endpoints/" + made.ID)); e.Address["keys"].(map[string]any)["auth"] != "AAECAwQFBgcICQoLDA0ODw" {
		t.Errorf("the keys are the stranger's: %v", e.Address)
	}
}

func TestClientsHaveTheirOwnEndpoints(t *testing.T) {
	w := newWorld(t)
	ada, bob := w.token("shop", "ada"), w.token("shop", "bob")
	made := decode[registeredJSON](w.do(request{method: "POST", path: "/v1/endpoints", body: `{"channel":"fcm","address":{"token":"abc"}}`, key: ada}).want(http.StatusCreated))
	if e := decode[endpointView](w.get("/v1/endpoints/" + made.ID)); e.Recipient != "ada" {
		t.Errorf("it belongs to %q", e.Recipient)
	}
	w.do(request{method: "GET", path: "/v1/endpoints/" + made.ID, key: ada}).want(http.StatusOK)
	w.do(request{method: "GET", path: "/v1/endpoints/" + made.ID, key: bob}).problem(http.StatusNotFound, "not-found", "")
	w.do(request{method: "POST", path: "/v1/endpoints", body: `{"channel":"fcm","address":{"token":"abd"},"recipient":"bob"}`, key: ada}).problem(http.StatusForbidden, "forbidden", "")
	w.do(request{method: "POST", path: "/v1/endpoints", body: `{"channel":"fcm","address":{"token":"abd"}}`, key: "wrong"}).problem(http.StatusUnauthorized, "unauthenticated", "")
	w.do(request{method: "POST", path: "/v1/endpoints", body: `{"channel":"telegram","address":{"chat_id":1}}`, key: ada}).problem(http.StatusBadRequest, "bad-input", "channel")
	// A recipient that signs in on the same device takes over its endpoint.
	w.do(request{method: "POST", path: "/v1/endpoints", body: `{"channel":"fcm","address":{"token":"abc"}}`, key: bob}).want(http.StatusOK)
	w.do(request{method: "DELETE", path: "/v1/endpoints/" + made.ID, key: ada}).problem(http.StatusNotFound, "not-found", "")
	w.do(request{method: "DELETE", path: "/v1/endpoints/" + made.ID, key: bob}).want(http.StatusNoContent)
}

func TestRegistrationsFromOneAddressAreLimited(t *testing.T) {
	w := newWorld(t, func(c *setup) { c.Signups = limit.NewAddrs(0.001, true) })
	w.allowAnonymous()
	w.visit("POST", "/v1/endpoints?app=shop", `{"channel":"webpush","address":`+subscription(1)+`}`, site).want(http.StatusCreated)
	a := w.visit("POST", "/v1/endpoints?app=shop", `{"channel":"webpush","address":`+subscription(2)+`}`, site)
	if a.problem(http.StatusTooManyRequests, "rate-limited", ""); a.header.Get("Retry-After") == "" {
		t.Error("it does not say when to come back")
	}
	w.visit("POST", "/compat/perfecty/shop/v1/push/users", `{"user":`+subscription(3)+`}`, site).problem(http.StatusTooManyRequests, "rate-limited", "")
	w.register(`{"channel":"telegram","address":{"chat_id":1}}`) // back ends are not
}

func TestBatchRegistersLineByLine(t *testing.T) {
	w := newWorld(t)
	var lines []string
	for n := range 1200 {
		lines = append(lines, fmt.Sprintf(`{"channel":"telegram","address":{"chat_id":%d},"tags":["all"]}`, n+1))
	}
	lines[700] = `{"channel":"telegram","address":{"chat_id":0}}`
	lines[701] = `nonsense`
	lines[702] = lines[0]
	a := w.do(request{method: "POST", path: "/v1/endpoints/batch", body: strings.Join(lines, "\n"), header: map[string]string{"Content-Type": "application/x-ndjson"}}).want(http.StatusOK)
	got := strings.Split(strings.TrimSpace(a.body), "\n")
	if len(got) != len(lines) {
		t.Fatalf("%d results of %d lines", len(got), len(lines))
	}
	for i, line := range got {
		want := `"created":true`
		switch i {
		case 700:
			want = `"field":"address.chat_id"`
		case 701:
			want = `/problems/bad-json`
		case 702:
			want = `"created":false`
		}
		if !strings.Contains(line, want) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	var count struct{ Count int }
	w.post("/v1/audience/count", `{"tags_any":["all"]}`).want(http.StatusOK).into(&count)
	if count.Count != 1197 {
		t.Errorf("%d are there", count.Count)
	}
}

// TestPerfectysBrowserSDKFindsItsServer makes the calls of the SDK as its pages do.
func TestPerfectysBrowserSDKFindsItsServer(t *testing.T) {
	w := newWorld(t)
	const users = "/compat/perfecty/shop/v1/push/users"
	page := func(method, path, body string) answer { return w.visit(method, path, body, site) }
	page("POST", users, `{"user":`+subscription(1)+`}`).problem(http.StatusForbidden, "forbidden", "")
	w.allowAnonymous()
	pre := w.do(request{method: "OPTIONS", path: users, key: "-", header: map[string]string{"Origin": site, "Access-Control-Request-Headers": "content-type,x-wp-nonce"}}).want(http.StatusNoContent)
	if pre.header.Get("Access-Control-Allow-Origin") != site || pre.header.Get("Access-Control-Allow-Headers") != "content-type,x-wp-nonce" {
		t.Errorf("preflight %v", pre.header)
	}
	type user struct{ UUID string }
	made := decode[user](page("POST", users, `{"user":`+subscription(1)+`,"user_id":null,"first_time":true}`).want(http.StatusCreated))
	if len(made.UUID) != 36 || made.UUID[14] != '4' {
		t.Errorf("uuid %q", made.UUID)
	}
	if got := decode[user](page("GET", users+"/"+made.UUID, "").want(http.StatusOK)); got != made {
		t.Errorf("it is %v, was %v", got, made)
	}
	same := decode[user](page("POST", users, `{"user":`+subscription(1)+`,"user_id":"`+made.UUID+`","first_time":false}`).want(http.StatusOK))
	moved := decode[user](page("POST", users, `{"user":`+subscription(2)+`,"user_id":"`+made.UUID+`","first_time":false}`).want(http.StatusOK))
	if same != made || moved != made {
		t.Errorf("%v, %v, %v", made, same, moved)
	}
	if e := decode[endpointView](w.get("/v1/endpoints/" + made.UUID).want(http.StatusOK)); e.Address["endpoint"] != "https://push.example/2" || e.Recipient != "" {
		t.Errorf("endpoint %+v", e)
	}
	unknown := decode[user](page("POST", users, `{"user":`+subscription(3)+`,"user_id":"123e4567-e89b-42d3-a456-426614174000"}`).want(http.StatusCreated))
	if unknown.UUID == made.UUID || unknown.UUID == "" {
		t.Errorf("unknown user %v", unknown)
	}
	// A visitor cannot change a back end's endpoint, even with its id.
	hers := w.register(`{"channel":"webpush","address":` + subscription(9) + `,"recipient":"ada","id":"123e4567-e89b-42d3-a456-426614174009"}`)
	if got := decode[user](page("GET", users+"/123e4567-e89b-42d3-a456-426614174009", "").want(http.StatusOK)); got.UUID != "" {
		t.Errorf("found %v", got)
	}
	page("POST", users+"/123e4567-e89b-42d3-a456-426614174009/unregister", `{}`).want(http.StatusOK)
	w.get("/v1/endpoints/" + hers.ID).want(http.StatusOK)
	// Its own browser, to which it seems unknown, registers again and stays what it is: an import may have given it a recipient.
	again := decode[user](page("POST", users, `{"user":`+subscription(9)+`,"user_id":"123e4567-e89b-42d3-a456-426614174009"}`).want(http.StatusOK))
	if e := decode[endpointView](w.get("/v1/endpoints/" + hers.ID).want(http.StatusOK)); again.UUID != "123e4567-e89b-42d3-a456-426614174009" || e.Recipient != "ada" {
		t.Errorf("registered again: %v, %+v", again, e)
	}
	w.visit("POST", users+"/"+made.UUID+"/unregister", `{}`, "https://evil.example").problem(http.StatusForbidden, "forbidden", "")
	for range 2 {
		if a := page("POST", users+"/"+made.UUID+"/unregister", `{"user_id":"`+made.UUID+`"}`).want(http.StatusOK); !strings.Contains(a.body, `"result":true`) {
			t.Errorf("unregister %s", a.body)
		}
	}
	if got := decode[user](page("GET", users+"/"+made.UUID, "").want(http.StatusOK)); got.UUID != "" {
		t.Errorf("after unregister %v", got)
	}
	w.do(request{method: "GET", path: users + "/" + unknown.UUID, key: "-"}).want(http.StatusOK) // a page behind the same proxy
	w.do(request{method: "POST", path: users + "/" + unknown.UUID + "/unregister", body: `{}`, key: "-"}).problem(http.StatusForbidden, "forbidden", "")
	w.do(request{method: "GET", path: strings.Replace(users, "shop", "other", 1) + "/" + unknown.UUID, key: "-"}).problem(http.StatusForbidden, "forbidden", "")
	page("GET", users+"/x", "").problem(http.StatusBadRequest, "bad-input", "uuid")
	page("POST", users, `{"user":{}}`).problem(http.StatusBadRequest, "bad-input", "address.endpoint")
	page("POST", users, `{"user":`+strings.Replace(subscription(6), "push.example", "10.0.0.1", 1)+`}`).problem(http.StatusBadRequest, "bad-input", "address.endpoint")
	page("POST", users, `[]`).problem(http.StatusBadRequest, "bad-json", "")
	page("POST", users, `{"user":`+subscription(4)+`,"user_id":"x"}`).problem(http.StatusBadRequest, "bad-input", "user_id")
	w.visit("GET", "/compat/perfecty/none/v1/push/users/"+made.UUID, "", site).problem(http.StatusNotFound, "unknown-app", "")
}

func TestAnIdempotencyKeyRegistersOneThing(t *testing.T) {
	w := newWorld(t)
	register := func(idem string, n int) answer {
		return w.do(request{
			method: "POST", path: "/v1/endpoints", key: w.newKey("shop", access.Publish), header: map[string]string{"Idempotency-Key": idem},
			body: fmt.Sprintf(`{"channel":"webpush","address":%s}`, subscription(n)),
		})
	}
	first := decode[registeredJSON](register("k", 1).want(http.StatusCreated))
	if again := decode[registeredJSON](register("k", 1).want(http.StatusOK)); again.ID != first.ID {
		t.Errorf("a retry registered %s, want %s", again.ID, first.ID)
	}
	register("k", 2).problem(http.StatusUnprocessableEntity, "idempotency-mismatch", "")
	register("l", 2).want(http.StatusCreated)
	bad := request{method: "POST", path: "/v1/endpoints", body: `{"channel":"pigeon"}`, header: map[string]string{"Idempotency-Key": "m"}}
	w.do(bad).want(http.StatusBadRequest)
	register("m", 3).want(http.StatusCreated) // the refused request did not count
}

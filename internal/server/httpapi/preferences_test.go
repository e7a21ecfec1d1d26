package httpapi_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
)

const (
	adas     = "/v1/recipients/ada/preferences"
	unsaid   = `{"categories":{},"quiet_hours":null,"timezone":null}` + "\n"
	adasSaid = `{"categories":{"*":{"channels":["fcm"]},"promo":{"channels":[]},"rides":{}},"quiet_hours":{"from":"22:00","to":"08:00"},"timezone":"Europe/Oslo"}` + "\n"
)

func TestPreferencesAreThoseThatWereSaidLast(t *testing.T) {
	w := newWorld(t)
	is := func(want string) {
		t.Helper()
		if a := w.get(adas).want(http.StatusOK); a.body != want {
			t.Errorf("preferences %s; want %s", a.body, want)
		}
	}
	is(unsaid)
	if a := w.put(adas, adasSaid).want(http.StatusOK); a.body != adasSaid {
		t.Errorf("answered %s", a.body)
	}
	is(adasSaid)
	w.put(adas, w.get(adas).body).want(http.StatusOK) // preferences can be sent back as they are shown
	is(adasSaid)
	w.put(adas, `{"categories":{"promo":{"channels":[]}},"quiet_hours":null}`).want(http.StatusOK)
	is(`{"categories":{"promo":{"channels":[]}},"quiet_hours":null,"timezone":null}` + "\n")
	w.delete(adas).want(http.StatusNoContent)
	w.delete(adas).want(http.StatusNoContent)
	is(unsaid)
	w.put(adas, adasSaid).want(http.StatusOK)
	w.delete("/v1/recipients/ada").want(http.StatusNoContent) // she has no other data
	is(unsaid)
}

func TestWrongPreferencesAreRefusedByName(t *testing.T) {
	w := newWorld(t)
	w.put(adas, adasSaid).want(http.StatusOK)
	for body, field := range map[string]string{
		`{"category":{}}`:                                                       "category",
		`{"categories":[]}`:                                                     "categories",
		`{"categories":{"a b":{}}}`:                                             "categories",
		`{"categories":{"promo":[]}}`:                                           "categories.promo",
		`{"categories":{"promo":null}}`:                                         "categories.promo",
		`{"categories":{"promo":{},"promo":{}}}`:                                "categories.promo",
		`{"categories":{"promo":{"channel":[]}}}`:                               "categories.promo.channel",
		`{"categories":{"promo":{"channels":null}}}`:                            "categories.promo.channels",
		`{"categories":{"promo":{"channels":"fcm"}}}`:                           "categories.promo.channels",
		`{"categories":{"promo":{"channels":[1]}}}`:                             "categories.promo.channels[0]",
		`{"categories":{"promo":{"channels":["fcm","live"]}}}`:                  "categories.promo.channels[1]",
		`{"categories":{"promo":{"channels":["pigeon"]}}}`:                      "categories.promo.channels[0]",
		`{"categories":{` + strings.Repeat(`"a":{},`, 64) + `"b":{}}}`:          "categories.a",
		`{"quiet_hours":{"from":"22:00","to":"08:00"}}`:                         "timezone",
		`{"quiet_hours":{"from":"22:00","to":"24:00"},"timezone":"UTC"}`:        "quiet_hours.to",
		`{"quiet_hours":{"from":"22:00","til":"08:00"},"timezone":"UTC"}`:       "quiet_hours.til",
		`{"quiet_hours":"22:00-08:00","timezone":"UTC"}`:                        "quiet_hours",
		`{"quiet_hours":{"from":"22:00","to":"08:00"},"timezone":"Mars/Olymp"}`: "timezone",
		`{"timezone":1}`: "timezone",
	} {
		w.put(adas, body).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.put(adas, `[]`).problem(http.StatusBadRequest, "bad-json", "")
	w.put(adas, `{"timezone":"`+strings.Repeat("x", 33<<10)+`"}`).problem(http.StatusRequestEntityTooLarge, "too-large", "")
	w.put("/v1/recipients/a%20b/preferences", `{}`).problem(http.StatusBadRequest, "bad-input", "recipient")
	if a := w.get(adas); a.body != adasSaid {
		t.Errorf("what was refused has changed preferences: %s", a.body)
	}
}

func TestRightsToSetPreferences(t *testing.T) {
	w := newWorld(t)
	manage := w.register(`{"channel":"telegram","recipient":"ada","address":{"chat_id":1}}`).ManageToken
	for who, c := range map[string]struct {
		key        string
		read, said int
	}{
		"a back end that publishes":    {w.keys["publish"], 200, 200},
		"a back end that reads":        {w.keys["read"], 200, 403},
		"a worker":                     {w.keys["worker"], 403, 403},
		"ada":                          {w.token("shop", "ada"), 200, 200},
		"bob":                          {w.token("shop", "bob"), 403, 403},
		"ada of another app":           {w.token("other", "ada"), 200, 200}, // her own, there
		"who may manage her endpoint":  {manage, 401, 401},
		"nobody":                       {"-", 401, 401},
		"somebody with a wrong secret": {"nonsense", 401, 401},
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} { // the preferences are gone
			want := c.said
			if method == "GET" {
				want = c.read
			}
			r := request{method: method, path: adas, key: c.key}
			if c.key == manage {
				r.path += "?app=shop" // a manage token does not name its app
			}
			if method == "PUT" {
				r.body = adasSaid
			}
			if method == "DELETE" && want == 200 {
				want = http.StatusNoContent
			}
			if a := w.do(r); a.status != want {
				t.Errorf("%s: %s answers %d %s; want %d", who, method, a.status, a.body, want)
			}
		}
	}
	w.put(adas, adasSaid).want(http.StatusOK)
	if a := w.do(request{method: "GET", path: adas, key: w.token("other", "ada")}).want(http.StatusOK); a.body != unsaid {
		t.Errorf("another app's ada has said %s", a.body)
	}
	w.do(request{method: "GET", path: adas + "?app=shop", key: w.keys["other"]}).problem(http.StatusForbidden, "forbidden", "app")
}

func TestPagesAskForPreferences(t *testing.T) {
	w := newWorld(t)
	origins := []string{site}
	if err := w.access.SetApp(t.Context(), "shop", access.AppChange{Origins: &origins}); err != nil {
		t.Fatal(err)
	}
	for origin, allowed := range map[string]string{site: site, "https://other.example": ""} {
		header := map[string]string{"Origin": origin}
		a := w.do(request{method: "OPTIONS", path: adas + "?app=shop", key: "-", header: header}).want(http.StatusNoContent)
		if got := a.header.Get("Access-Control-Allow-Origin"); got != allowed || strings.Contains(a.header.Get("Access-Control-Allow-Methods"), "PUT") != (allowed != "") {
			t.Errorf("%s: %v", origin, a.header)
		}
		a = w.do(request{method: "PUT", path: adas + "?app=shop", key: w.token("shop", "ada"), body: `{}`, header: header})
		if got := a.header.Get("Access-Control-Allow-Origin"); got != allowed || (a.status == http.StatusOK) != (allowed != "") {
			t.Errorf("%s: %d %v", origin, a.status, a.header)
		}
	}
}

// unrevised is an answer without revisions.
func unrevised(body string) string {
	return regexp.MustCompile(`,"revision":"[0-9a-f]+"`).ReplaceAllString(body, "")
}

func TestBatchingIntervalsAreSetByGroup(t *testing.T) {
	w := newWorld(t)
	path := "/v1/batches/region-1"
	w.get(path).problem(http.StatusNotFound, "not-found", "")
	w.delete(path).problem(http.StatusNotFound, "not-found", "")
	const own, rest = `{"group":"region-1","batch":"1m0s"}`, `{"group":"*","batch":"500ms"}`
	if a := w.put(path, `{"batch":"60s"}`).want(http.StatusOK); unrevised(a.body) != own+"\n" {
		t.Errorf("answered %s", a.body)
	}
	w.put("/v1/batches/*", `{"batch":"500ms"}`).want(http.StatusOK)
	if a := w.get("/v1/batches").want(http.StatusOK); unrevised(a.body) != `{"items":[`+rest+`,`+own+`],"next_cursor":null}`+"\n" {
		t.Errorf("listed %s", a.body)
	}
	for group, want := range map[string]time.Duration{"region-1": time.Minute, "region-2": 500 * time.Millisecond} {
		if got := w.access.Batch("shop", group); got != want {
			t.Errorf("group %s has %s, want %s", group, got, want)
		}
	}
	for _, body := range []string{`{}`, `{"batch":"99ms"}`, `{"batch":"3601s"}`, `{"batch":"soon"}`, `{"batch":true}`, `{"batch":null}`} {
		w.put(path, body).problem(http.StatusBadRequest, "bad-input", "batch")
	}
	w.put(path, `{"interval":"1s"}`).problem(http.StatusBadRequest, "bad-input", "interval")
	w.put("/v1/batches/a%20b", `{"batch":"1s"}`).problem(http.StatusBadRequest, "bad-input", "group")
	w.do(request{method: "PUT", path: path, body: `{"batch":"1s"}`, key: w.keys["publish"]}).problem(http.StatusForbidden, "forbidden", "")
	if a := w.get(path).want(http.StatusOK); unrevised(a.body) != own+"\n" {
		t.Errorf("what was refused has changed it: %s", a.body)
	}
	w.put(path, `{"batch":0}`).want(http.StatusOK) // none, whatever the rest has
	if got := w.access.Batch("shop", "region-1"); got != 0 {
		t.Errorf("without an interval the group has %s", got)
	}
	for i := range 62 {
		w.put(fmt.Sprintf("/v1/batches/g%d", i), `{"batch":1}`).want(http.StatusOK)
	}
	w.put("/v1/batches/more", `{"batch":"1s"}`).problem(http.StatusBadRequest, "bad-input", "group")
	w.delete(path).want(http.StatusNoContent)
	w.get(path).problem(http.StatusNotFound, "not-found", "")
}

func TestCategoriesAreWhatTheAppSaysOfThem(t *testing.T) {
	w := newWorld(t)
	path := "/v1/categories/promo"
	w.get(path).problem(http.StatusNotFound, "not-found", "")
	w.delete(path).problem(http.StatusNotFound, "not-found", "")
	const promo = `{"category":"promo","critical":false,"escalate_limit":"10/h"}`
	if a := w.put(path, `{"escalate_limit":"10/h"}`).want(http.StatusOK); unrevised(a.body) != promo+"\n" {
		t.Errorf("answered %s", a.body)
	}
	w.put("/v1/categories/*", `{"critical":true,"escalate_limit":null}`).want(http.StatusOK)
	if a := w.get("/v1/categories").want(http.StatusOK); unrevised(a.body) != `{"items":[{"category":"*","critical":true,"escalate_limit":null},`+promo+`],"next_cursor":null}`+"\n" {
		t.Errorf("listed %s", a.body)
	}
	if a := w.do(request{method: "GET", path: "/v1/categories", key: w.keys["other"]}).want(http.StatusOK); a.body != `{"items":[],"next_cursor":null}`+"\n" {
		t.Errorf("another app has %s", a.body)
	}
	for body, field := range map[string]string{
		`{"limit":"10/h"}`: "limit", `{"critical":1}`: "critical", `{"escalate_limit":"10"}`: "escalate_limit", `{"escalate_limit":"0/h"}`: "escalate_limit", `{"escalate_limit":10}`: "escalate_limit",
	} {
		w.put(path, body).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.put("/v1/categories/a%20b", `{}`).problem(http.StatusBadRequest, "bad-input", "category")
	w.do(request{method: "PUT", path: path, body: `{}`, key: w.keys["publish"]}).problem(http.StatusForbidden, "forbidden", "")
	if a := w.get(path).want(http.StatusOK); unrevised(a.body) != promo+"\n" {
		t.Errorf("what was refused has changed it: %s", a.body)
	}
	w.delete(path).want(http.StatusNoContent)
	w.get(path).problem(http.StatusNotFound, "not-found", "")
}

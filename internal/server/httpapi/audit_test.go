package httpapi_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// entry is an entry of the audit log.
type entry struct{ ID, By, Way, Address, Deed, Object, Outcome string }

// audit reads the audit log, oldest first.
func (w *world) audit(query string) (list []entry, next string) {
	w.t.Helper()
	a := w.get("/v1/audit" + query)
	a.want(http.StatusOK)
	var page struct {
		Items []entry
		Next  string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(a.body), &page); err != nil {
		w.t.Fatal(err)
	}
	for i := len(page.Items) - 1; i >= 0; i-- {
		list = append(list, page.Items[i])
	}
	return list, page.Next
}

func TestChangesOverTheAPIAreAudited(t *testing.T) {
	w := newWorld(t)
	a := w.post("/v1/keys", `{"roles":["read"],"name":"ci"}`)
	a.want(http.StatusCreated)
	var key struct{ ID, Key string }
	if err := json.Unmarshal([]byte(a.body), &key); err != nil {
		t.Fatal(err)
	}
	w.do(request{method: "PUT", path: "/v1/objects/eu/camera", body: `{"version":"1"}`}).want(http.StatusOK) // puts of objects are not in the audit log: they are too frequent
	w.do(request{method: "DELETE", path: "/v1/objects/eu/camera"}).want(http.StatusOK)
	w.do(request{method: "PUT", path: "/v1/templates/t", body: `{"content":{"title":"AAExample"}}`}).want(http.StatusCreated)
	w.do(request{method: "DELETE", path: "/v1/keys/none"}).want(http.StatusNotFound)
	w.do(request{method: "PUT", path: "/v1/hooks/h", body: `{"nonsense":1}`}).want(http.StatusBadRequest)
	for range 2 {
		w.do(request{method: "DELETE", path: "/v1/keys/" + key.ID, key: w.keys["publish"]}).want(http.StatusForbidden)
	}
	w.do(request{method: "DELETE", path: "/v1/keys/" + key.ID, key: "gw_nobody"}).want(http.StatusUnauthorized)
	w.do(request{method: "DELETE", path: "/v1/keys/" + key.ID}).want(http.StatusNoContent)

	list, _ := w.audit("")
	want := []string{"key.create " + key.ID + " done", "object.delete eu/camera done", "template.set t done", "key.delete " + key.ID + " refused", "key.delete " + key.ID + " done"}
	var got []string
	for _, d := range list {
		got = append(got, d.Deed+" "+d.Object+" "+d.Outcome)
		if d.By == "" || d.Way != "api" || d.Address != "127.0.0.1" {
			t.Errorf("%+v", d)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("remembered:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, secret := range []string{key.Key, w.key, "AAExample"} {
		if strings.Contains(w.get("/v1/audit").body, secret) {
			t.Errorf("the audit log tells the secret %.12s…", secret)
		}
	}
	if theirs := w.do(request{method: "GET", path: "/v1/audit", key: w.keys["other"]}); strings.Contains(theirs.body, "camera") {
		t.Errorf("another app sees %s", theirs.body)
	}
}

func TestTheAuditLogIsReadByPages(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.do(request{method: "PUT", path: "/v1/categories/" + name, body: `{"critical":true}`}).want(http.StatusOK)
	}
	w.do(request{method: "DELETE", path: "/v1/categories/a"}).want(http.StatusNoContent)
	first, next := w.audit("?limit=2")
	second, _ := w.audit("?limit=2&cursor=" + next)
	if len(first) != 2 || first[1].Deed != "category.delete" || len(second) != 2 || second[0].Object != "a" {
		t.Errorf("%+v, %+v", first, second)
	}
	if list, _ := w.audit("?deed=category.set&by=" + first[0].By); len(list) != 3 {
		t.Errorf("set: %+v", list)
	}
	for _, query := range []string{"?deed=none", "?by=none", "?until=2001-01-01T00:00:00Z", "?since=2100-01-01T00:00:00Z"} {
		if list, _ := w.audit(query); len(list) != 0 {
			t.Errorf("%s: %+v", query, list)
		}
	}
	for query, field := range map[string]string{"?since=yesterday": "since", "?until=0": "until", "?cursor=x": "cursor", "?cursor=-1": "cursor", "?limit=0": "limit", "?what=x": "what"} {
		w.get("/v1/audit"+query).problem(http.StatusBadRequest, "bad-input", field)
	}
}

// untold lists calls that the audit log omits: frequent calls of back ends, and posts that change nothing.
var untold = []string{
	"POST /v1/notifications", "POST /v1/notifications/batch", "POST /v1/notify/{recipient}", "DELETE /v1/notifications/{id}",
	"PUT /v1/objects/{group}/{object}", "POST /v1/objects/{group}/{object}", "POST /v1/topics/{topic}", "POST /v1/requests/{subject}", "POST /v1/recipients/{id}/requests",
	"POST /v1/audience/count", "POST /v1/campaigns/{id}/preview", "POST /v1/templates/{name}/preview",
}

func TestEveryChangeOnThePageHasAnAuditName(t *testing.T) {
	name := regexp.MustCompile(`^[a-z-]+\.[a-z-]+$`)
	for _, rt := range routes() {
		if rt.Role == 0 {
			continue
		}
		pattern, action := rt.Pattern, rt.Action
		known := slices.Contains(untold, pattern)
		if changes := !strings.HasPrefix(pattern, "GET "); changes && action == "" && !known {
			t.Errorf("%s changes something and has no name", pattern)
		}
		if action != "" && (!name.MatchString(action) || known) {
			t.Errorf("%s is called %q", pattern, action)
		}
	}
}

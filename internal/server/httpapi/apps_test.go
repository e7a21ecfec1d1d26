package httpapi_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/limit"
)

type appView struct {
	Name, Revision string
	Origins        []string
	Credentials    []string
	Key            *keyView
	Duplicate      bool
}

// as makes a request with the operator key.
func (w *world) as(method, path, body string) answer {
	w.t.Helper()
	return w.do(request{method: method, path: path, body: body, key: w.operator})
}

func TestOperatorMakesChangesAndDeletesApps(t *testing.T) {
	w := newWorld(t)
	made := decode[appView](w.as("POST", "/v1/apps", `{"name":"rides","origins":["https://Rides.example:443"],"introspect_url":"https://login.example/check","introspect_secret":"sekret"}`).want(http.StatusCreated))
	if made.Key == nil || made.Key.Key == nil || len(made.Origins) != 1 || made.Origins[0] != "https://rides.example" || strings.Join(made.Credentials, "") != "introspect_secret" {
		t.Fatalf("made %+v", made)
	}
	w.do(request{method: "GET", path: "/v1/recipients", key: *made.Key.Key}).want(http.StatusOK)
	w.as("POST", "/v1/apps", `{"name":"rides"}`).problem(http.StatusConflict, "exists", "")
	w.as("PATCH", "/v1/apps/rides", `{"issuer":"https://login.example","introspect_url":null,"introspect_secret":null}`).want(http.StatusOK)
	a := w.as("GET", "/v1/apps/rides", "").want(http.StatusOK)
	if !strings.Contains(a.body, `"issuer":"https://login.example"`) || !strings.Contains(a.body, `"introspect_url":null`) || !strings.Contains(a.body, `"credentials":[]`) {
		t.Errorf("after the change %s", a.body)
	}
	list := w.as("GET", "/v1/apps", "").want(http.StatusOK)
	if strings.Count(list.body, `"revision"`) != 3 || strings.Contains(list.body, "sekret") || strings.Contains(list.body, *made.Key.Key) {
		t.Errorf("list %s: want three apps without secrets", list.body)
	}
	w.as("DELETE", "/v1/apps/rides", "").want(http.StatusNoContent)
	w.as("DELETE", "/v1/apps/rides", "").problem(http.StatusNotFound, "unknown-app", "")
	w.do(request{method: "GET", path: "/v1/recipients", key: *made.Key.Key}).problem(http.StatusUnauthorized, "unauthenticated", "")
	for _, secret := range []string{w.operator, *made.Key.Key, "sekret"} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
	deeds := w.as("GET", "/v1/audit", "").want(http.StatusOK).body
	for _, deed := range []string{"app.create", "app.set", "app.delete"} {
		if !strings.Contains(deeds, `"deed":"`+deed+`"`) || !strings.Contains(deeds, `"object":"rides"`) || !strings.Contains(deeds, `"by":"operator-`) {
			t.Errorf("the server's audit log has no %s of rides: %s", deed, deeds)
		}
	}
	if strings.Contains(w.get("/v1/audit").body, "app.create") {
		t.Error("an app reads what operators did to others")
	}
}

func TestOfTwoOperatorsTheLaterIsTold(t *testing.T) {
	w := newWorld(t)
	at := func(method, body, tag string) answer {
		return w.do(request{method: method, path: "/v1/apps/shop", body: body, key: w.operator, header: map[string]string{"If-Match": tag}})
	}
	tag := w.as("GET", "/v1/apps/shop", "").header.Get("ETag")
	now := at("PATCH", `{"audience":"one"}`, tag).want(http.StatusOK).header.Get("ETag")
	if now == tag || now == "" {
		t.Errorf("the tag is %s before and %s after a change", tag, now)
	}
	at("PATCH", `{"audience":"two"}`, tag).problem(http.StatusPreconditionFailed, "revision-mismatch", "")
	at("DELETE", "", tag).problem(http.StatusPreconditionFailed, "revision-mismatch", "")
	at("PATCH", `{"audience":"two"}`, "3").problem(http.StatusBadRequest, "bad-input", "If-Match")
	if app := w.as("GET", "/v1/apps/shop", "").body; !strings.Contains(app, `"audience":"one"`) {
		t.Errorf("a refused change changed it: %s", app)
	}
	at("PATCH", `{"audience":"three"}`, "*").want(http.StatusOK)

	// Of several changes to one revision, one succeeds.
	tag = w.as("GET", "/v1/apps/shop", "").header.Get("ETag")
	won := make([]int, 8)
	var wg sync.WaitGroup
	for i := range won {
		wg.Go(func() { won[i] = at("PATCH", fmt.Sprintf(`{"audience":"racer-%d"}`, i), tag).status })
	}
	wg.Wait()
	wins := 0
	for _, status := range won {
		if status == http.StatusOK {
			wins++
		} else if status != http.StatusPreconditionFailed {
			t.Errorf("a racer got %d", status)
		}
	}
	if wins != 1 {
		t.Errorf("%d racers changed one revision", wins)
	}
}

func TestBadAppNamesTheField(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{}`: "name", `{"name":"no spaces"}`: "name", `{"name":"a","origin":[]}`: "origin", `{"name":"a","origins":"x"}`: "origins",
		`{"name":"a","jwks_url":"http://10.0.0.1/keys"}`: "jwks_url", `{"name":"a","jwt_keys":["short"]}`: "jwt_keys",
		`{"name":"a","new_token_key":true}`: "new_token_key", `{"name":"a","introspect_secret":7}`: "introspect_secret",
	} {
		w.as("POST", "/v1/apps", body).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.as("PATCH", "/v1/apps/shop", `{"name":"x"}`).problem(http.StatusBadRequest, "bad-input", "name")
	w.as("GET", "/v1/apps?app=shop", "").problem(http.StatusBadRequest, "bad-input", "app")
	w.as("GET", "/v1/apps/none", "").problem(http.StatusNotFound, "unknown-app", "")
}

func TestRetriedAppCreationMakesOneApp(t *testing.T) {
	w := newWorld(t)
	create := func(body string) answer {
		return w.do(request{method: "POST", path: "/v1/apps", body: body, key: w.operator, header: map[string]string{"Idempotency-Key": "k"}})
	}
	first := decode[appView](create(`{"name":"rides"}`).want(http.StatusCreated))
	again := decode[appView](create(`{"name":"rides"}`).want(http.StatusOK))
	if again.Key != nil || !again.Duplicate || again.Revision != first.Revision {
		t.Errorf("retry %+v of %+v", again, first)
	}
	create(`{"name":"food"}`).problem(http.StatusUnprocessableEntity, "idempotency-mismatch", "")
}

func TestOperatorManagesTheSettingsOfTheNamedApp(t *testing.T) {
	w := newWorld(t)
	w.as("POST", "/v1/keys", `{"roles":["read"]}`).problem(http.StatusBadRequest, "bad-input", "app")
	w.as("POST", "/v1/keys?app=none", `{"roles":["read"]}`).problem(http.StatusNotFound, "unknown-app", "")
	k := decode[keyView](w.as("POST", "/v1/keys?app=other", `{"roles":["read"]}`).want(http.StatusCreated))
	if !strings.Contains(w.as("GET", "/v1/keys?app=other", "").body, k.ID) || strings.Contains(w.as("GET", "/v1/keys?app=shop", "").body, k.ID) {
		t.Error("the key is not in the app that was named")
	}
	w.as("PUT", "/v1/categories/alarm?app=other", `{"critical":true}`).want(http.StatusOK)
	w.as("GET", "/v1/channels?app=other", "").want(http.StatusOK)
	w.as("POST", "/v1/tokens?app=shop", `{"recipient":"ann","ttl":"1h"}`).want(http.StatusCreated)
	w.as("POST", "/v1/tokens?app=shop", `{"ttl":"1h"}`).problem(http.StatusBadRequest, "bad-input", "recipient")
	if deeds := w.do(request{method: "GET", path: "/v1/audit", key: w.keys["other"]}).body; !strings.Contains(deeds, `"by":"operator-`) || !strings.Contains(deeds, "category.set") {
		t.Errorf("the app's audit log does not name the operator: %s", deeds)
	}
}

func TestOperatorKeyAndAppKeysOpenOnlyTheirOwnDoors(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1/recipients?app=shop", "/v1/notifications?app=shop", "/v1/events?app=shop", "/v1/endpoints?app=shop", "/v1/stats"} {
		w.as("GET", path, "").problem(http.StatusForbidden, "forbidden", "")
	}
	w.as("POST", "/v1/notifications?app=shop", `{"to":"ann","title":"x"}`).problem(http.StatusForbidden, "forbidden", "")
	for _, key := range w.keys {
		w.do(request{method: "GET", path: "/v1/apps", key: key}).problem(http.StatusForbidden, "forbidden", "")
		w.do(request{method: "POST", path: "/v1/operator/rotate", key: key}).problem(http.StatusForbidden, "forbidden", "")
	}
	for _, key := range []string{"-", "wrong", "gwo_", "gwo_aaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", w.operator + "x", w.operator[:len(w.operator)-1]} {
		w.do(request{method: "GET", path: "/v1/apps", key: key}).problem(http.StatusUnauthorized, "unauthenticated", "")
	}
}

func TestAReplacedOperatorKeyEndsAtOnce(t *testing.T) {
	w := newWorld(t)
	var made struct {
		Key   string
		Saved bool
	}
	w.as("POST", "/v1/operator/rotate", "").want(http.StatusOK).into(&made)
	p := w.as("GET", "/v1/apps", "").problem(http.StatusUnauthorized, "unauthenticated", "")
	if !strings.Contains(p.Detail, "operator.key of the data folder") {
		t.Errorf("who has the former key reads %q, want where the present one is", p.Detail)
	}
	w.do(request{method: "GET", path: "/v1/apps", key: made.Key}).want(http.StatusOK)
	file := filepath.Join(w.folder, access.OperatorFile)
	if kept, err := access.ReadOperatorKey(file); err != nil || kept != made.Key || !made.Saved {
		t.Errorf("the folder has %q, %v; want the new key", kept, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
	if strings.Contains(w.log.String(), made.Key) {
		t.Error("the new key is in the log")
	}
}

func TestCallsWithAnOperatorKeyAreLimitedByAddress(t *testing.T) {
	w := newWorld(t, func(s *setup) { s.Limit = limit.NewAddrs(0.001, true) })
	w.as("GET", "/v1/apps", "").want(http.StatusOK)
	w.do(request{method: "GET", path: "/v1/apps", key: "gwo_guess_aaaaaaaaaaaaaaaaaaaaaaaaaaa"}).problem(http.StatusTooManyRequests, "rate-limited", "")
	w.get("/v1/keys").want(http.StatusOK) // other keys have their own limits
}

package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

type keyView struct {
	ID, Name, Prefix string
	Roles            []string
	Key              *string
	Duplicate        bool
}

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	w := newWorld(t)
	k := decode[keyView](w.post("/v1/keys", `{"roles":["read"],"name":"dashboard"}`).want(http.StatusCreated))
	if k.Key == nil || k.Name != "dashboard" || len(k.Roles) != 1 || k.Roles[0] != "read" {
		t.Fatalf("key %+v", k)
	}
	w.do(request{method: "GET", path: "/v1/recipients", key: *k.Key}).want(http.StatusOK)
	list := w.get("/v1/keys").want(http.StatusOK)
	if !strings.Contains(list.body, `"`+k.ID+`"`) || strings.Contains(list.body, *k.Key) {
		t.Errorf("list %s, want the id without the secret", list.body)
	}
	for _, k := range decode[pageOf[keyView]](w.do(request{method: "GET", path: "/v1/keys", key: w.keys["other"]}).want(http.StatusOK)).Items {
		if k.Name == "dashboard" {
			t.Error("another app sees the key")
		}
	}
	w.do(request{method: "DELETE", path: "/v1/keys/" + k.ID, key: w.keys["other"]}).problem(http.StatusNotFound, "not-found", "")
	w.delete("/v1/keys/" + k.ID).want(http.StatusNoContent)
	w.do(request{method: "GET", path: "/v1/recipients", key: *k.Key}).problem(http.StatusUnauthorized, "unauthenticated", "")
	w.delete("/v1/keys/"+k.ID).problem(http.StatusNotFound, "not-found", "")
	if strings.Contains(w.log.String(), *k.Key) {
		t.Error("the secret is in the log")
	}
}

func TestBadKeyNamesTheField(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{}`: "roles", `{"roles":[]}`: "roles", `{"roles":"read"}`: "roles", `{"roles":["root"]}`: "roles", `{"roles":[7]}`: "roles[0]",
		`{"role":["read"]}`: "role", `{"roles":["read"],"name":7}`: "name", `{"roles":["read"],"name":"` + strings.Repeat("x", 200) + `"}`: "name",
	} {
		w.post("/v1/keys", body).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.post("/v1/keys", `{"roles"`).problem(http.StatusBadRequest, "bad-json", "")
	w.post("/v1/keys", strings.Repeat(" ", 5000)).problem(http.StatusRequestEntityTooLarge, "too-large", "")
}

func TestRetriedKeyCreationMakesOneKey(t *testing.T) {
	w := newWorld(t)
	create := func(body string) answer {
		return w.do(request{method: "POST", path: "/v1/keys", body: body, header: map[string]string{"Idempotency-Key": "k"}})
	}
	create(`{"roles":["root"]}`).problem(http.StatusBadRequest, "bad-input", "roles")
	first := decode[keyView](create(`{"roles":["read"]}`).want(http.StatusCreated))
	again := decode[keyView](create(`{"roles":["read"]}`).want(http.StatusOK))
	if again.ID != first.ID || again.Key != nil || !again.Duplicate {
		t.Errorf("retry %+v of %+v", again, first)
	}
	create(`{"roles":["publish"]}`).problem(http.StatusUnprocessableEntity, "idempotency-mismatch", "")
	w.delete("/v1/keys/" + first.ID).want(http.StatusNoContent)
	create(`{"roles":["read"]}`).problem(http.StatusNotFound, "not-found", "")
}

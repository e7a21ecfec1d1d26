package httpapi_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

type serviceView struct {
	Service, Access, Timeout string
	Split                    map[string]int
	Cookies                  bool
}

func (v *serviceView) is(o serviceView) bool {
	return v.Service == o.Service && v.Access == o.Access && v.Timeout == o.Timeout && v.Cookies == o.Cookies && maps.Equal(v.Split, o.Split)
}

func TestAServiceIsSetAndShownAsItIs(t *testing.T) {
	w := newWorld(t)
	const path = "/v1/gateway/orders"
	shows := func(a answer, want serviceView) {
		t.Helper()
		if v := decode[serviceView](a.want(http.StatusOK)); !v.is(want) {
			t.Errorf("shows %+v, want %+v", v, want)
		}
	}
	plain := serviceView{Service: "orders", Access: "key", Timeout: "10s"}
	shows(w.get(path), plain)
	for body, want := range map[string]serviceView{
		`{"access":"client","timeout":"2s","split":{"orders":95,"orders@2":5},"cookies":true}`: {"orders", "client", "2s", map[string]int{"orders": 95, "orders@2": 5}, true},
		`{"access":"public","timeout":3}`: {Service: "orders", Access: "public", Timeout: "3s"},
		`{}`:                              plain, // an absent member gets the default, not the former value
	} {
		shows(w.put(path, body), want)
		shows(w.get(path), want)
	}
	w.put(path, `{"access":"client"}`).want(http.StatusOK)
	if list := w.get("/v1/gateway").want(http.StatusOK); !strings.Contains(list.body, `"access":"client"`) {
		t.Errorf("the list is %s", list.body)
	}
	if other := w.do(request{method: "GET", path: "/v1/gateway", key: w.keys["other"]}).want(http.StatusOK); strings.Contains(other.body, "orders") {
		t.Errorf("another app's list is %s", other.body)
	}
	w.delete(path).want(http.StatusNoContent)
	w.delete(path).problem(http.StatusNotFound, "not-found", "")
	shows(w.get(path), plain)
}

func TestBadServicesNameTheirFieldAndChangeNothing(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{"access":"all"}`: "access", `{"access":1}`: "access", `{"timeout":"long"}`: "timeout", `{"timeout":"2m"}`: "timeout", `{"timeout":[]}`: "timeout",
		`{"split":{"orders":0}}`: "split", `{"split":{"":1}}`: "split", `{"cookies":"yes"}`: "cookies", `{"price":1}`: "price",
	} {
		w.put("/v1/gateway/orders", body).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.put("/v1/gateway/orders?access=public", `{}`).problem(http.StatusBadRequest, "bad-input", "access")
	w.put("/v1/gateway/o%20%01", `{}`).problem(http.StatusBadRequest, "bad-input", "service")
	w.put("/v1/gateway/orders", `{"access":"client"`+strings.Repeat(" ", 16<<10)+`}`).problem(http.StatusRequestEntityTooLarge, "too-large", "")
	w.delete("/v1/gateway/orders?access=public").problem(http.StatusBadRequest, "bad-input", "access")
	w.get("/v1/gateway/orders?access=public").problem(http.StatusBadRequest, "bad-input", "access")
	if list := w.get("/v1/gateway").want(http.StatusOK); strings.Contains(list.body, "access") {
		t.Errorf("something was set: %s", list.body)
	}
	w.do(request{method: "PUT", path: "/v1/gateway/orders", body: `{}`, key: w.keys["publish"]}).want(http.StatusForbidden)
}

package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

type segmentView struct {
	Name, Where, Description, Revision string
}

func TestASegmentIsStoredCountedListedAndDeleted(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{
		`{"channel":"telegram","address":{"chat_id":1},"recipient":"ann","attributes":{"n":1}}`,
		`{"channel":"telegram","address":{"chat_id":2},"recipient":"bob","attributes":{"n":2}}`,
		`{"channel":"webpush","address":` + subscription(1) + `,"recipient":"ann","attributes":{"n":3}}`,
	} {
		w.register(body)
	}
	made := decode[segmentView](w.put("/v1/segments/few", `{"where":"n >= 2","description":"Who has \"two\""}`).want(http.StatusCreated))
	if made.Name != "few" || made.Where != "n >= 2" || made.Description != `Who has "two"` || made.Revision == "" {
		t.Errorf("made as %+v", made)
	}
	if changed := decode[segmentView](w.put("/v1/segments/few", `{"where":"n >= 2","description":null}`).want(http.StatusOK)); changed.Description != "" {
		t.Errorf("changed to %+v", changed)
	}
	w.put("/v1/segments/all", `{"where":"exists n"}`).want(http.StatusCreated)
	if p := decode[pageOf[segmentView]](w.get("/v1/segments").want(http.StatusOK)); len(p.Items) != 2 || p.Items[0].Name != "all" || p.Items[1].Where != "n >= 2" || p.NextCursor != nil {
		t.Errorf("listed are %+v", p)
	}
	for path, want := range map[string]string{
		"/v1/segments/few/count": `{"channels":{"telegram":1,"webpush":1},"count":2}`,
		"/v1/segments/all/count": `{"channels":{"telegram":2,"webpush":1},"count":3}`,
	} {
		if a := w.get(path).want(http.StatusOK); strings.TrimSpace(a.body) != want {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	if a := w.post("/v1/audience/count", `{"segment":"few","where":"n < 3 or n > 9","channels":["telegram"]}`).want(http.StatusOK); strings.TrimSpace(a.body) != `{"channels":{"telegram":1},"count":1}` {
		t.Errorf("within the segment: %s", a.body)
	}
	for query, want := range map[string]int{"segment=few": 2, "segment=few&channel=webpush": 1, "segment=few&where=n+%3D+2": 1, "segment=few&where=n+%3D+1": 0} {
		if p := decode[pageOf[endpointView]](w.get("/v1/endpoints?" + query).want(http.StatusOK)); len(p.Items) != want {
			t.Errorf("%s lists %d, want %d", query, len(p.Items), want)
		}
		if a := w.get("/v1/endpoints/export?" + query).want(http.StatusOK); strings.Count(a.body, "\n") != want {
			t.Errorf("%s exports %q, want %d lines", query, a.body, want)
		}
	}
	w.delete("/v1/segments/few").want(http.StatusNoContent)
	w.delete("/v1/segments/few").problem(http.StatusNotFound, "not-found", "")
	for _, path := range []string{"/v1/segments/few", "/v1/segments/few/count"} {
		w.get(path).problem(http.StatusNotFound, "not-found", "")
	}
	for _, path := range []string{"/v1/endpoints?segment=few", "/v1/endpoints/export?segment=few", "/v1/endpoints?segment=a%20b"} {
		w.get(path).problem(http.StatusBadRequest, "bad-input", "segment")
	}
	w.post("/v1/audience/count", `{"segment":"few"}`).problem(http.StatusBadRequest, "bad-input", "segment")
}

func TestBadSegmentsAreRefusedByTheirField(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{}`: "where", `{"where":""}`: "where", `{"where":"n >> 1"}`: "where", `{"where":1}`: "where", `{"where":"in segment \"few\""}`: "where", `{"where":"n = 1","x":1}`: "x",
		`{"where":"n = 1","description":"` + strings.Repeat("x", 501) + `"}`: "description",
	} {
		w.put("/v1/segments/few", body).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.put("/v1/segments/a%20b", `{"where":"n = 1"}`).problem(http.StatusBadRequest, "bad-input", "name")
	w.get("/v1/segments/few").problem(http.StatusNotFound, "not-found", "")
}

func TestSegmentsAreTheAppsOwnAndOfThoseWhoPublish(t *testing.T) {
	w := newWorld(t)
	w.put("/v1/segments/few", `{"where":"n = 1"}`).want(http.StatusCreated)
	for _, path := range []string{"/v1/segments/few", "/v1/segments/few/count"} {
		w.do(request{method: "GET", path: path, key: w.keys["other"]}).problem(http.StatusNotFound, "not-found", "")
		w.do(request{method: "GET", path: path, key: w.keys["read"]}).want(http.StatusOK)
	}
	w.do(request{method: "POST", path: "/v1/audience/count", body: `{"segment":"few"}`, key: w.keys["other"]}).problem(http.StatusBadRequest, "bad-input", "segment")
	for _, r := range []request{{method: "PUT", path: "/v1/segments/few", body: `{"where":"n = 2"}`}, {method: "DELETE", path: "/v1/segments/few"}} {
		r.key = w.keys["read"]
		w.do(r).want(http.StatusForbidden)
		r.key = w.keys["publish"]
		w.do(r)
	}
	w.get("/v1/segments/few").problem(http.StatusNotFound, "not-found", "")
}

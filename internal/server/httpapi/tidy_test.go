package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// refuses requests a path outside the specification, and checks that the server refuses it because of this field.
func (w *world) refuses(method, path, field string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.srv.URL+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var p struct{ Field string }
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || resp.StatusCode != http.StatusBadRequest || p.Field != field {
		w.t.Errorf("%s %s: %d by field %q, %v; want 400 by %q", method, path, resp.StatusCode, p.Field, err, field)
	}
}

func TestDotNamesAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{".", ".."} {
		for _, c := range []struct{ path, body, field string }{
			{"/v1/notifications", `{"to":"%","title":"T"}`, "to"},
			{"/v1/notifications", `{"to":"ann","id":"%","title":"Hi"}`, "id"},
			{"/v1/notifications", `{"to":"ann","collapse_key":"%","title":"Hi"}`, "collapse_key"},
			{"/v1/notifications", `{"to":"ann","escalate":[{"channel":"webhook","to":"%"}]}`, "escalate[0].to"},
			{"/v1/acks?app=shop&recipient=ann", `{"ids":["%"]}`, "ids[0]"},
		} {
			w.post(c.path, strings.ReplaceAll(c.body, "%", name)).problem(http.StatusBadRequest, "bad-input", c.field)
		}
		escaped := strings.ReplaceAll(name, ".", "%2e")
		for _, path := range []string{
			"/v1/recipients/%", "/v1/recipients/%/preferences", "/v1/notifications/%", "/v1/objects/%/o", "/v1/objects/g/%", "/v1/hooks/%", "/v1/sinks/%",
			"/v1/sources/%", "/v1/categories/%", "/v1/templates/%", "/v1/gateway/%", "/v1/channels/%", "/v1/campaigns/%", "/v1/keys/%",
		} {
			for _, method := range []string{"GET", "PUT", "DELETE"} {
				w.refuses(method, strings.ReplaceAll(path, "%", escaped), "path")
			}
		}
		for query, field := range map[string]string{
			"/v1/notifications/x?to=%": "to", "/v1/preferences?recipient=%": "", "/v1/objects/g?prefix=%": "", "/v1/recipients?prefix=%": "",
		} {
			a := w.get(strings.ReplaceAll(query, "%", name))
			if field != "" {
				a.problem(http.StatusBadRequest, "bad-input", field)
			} else if a.status >= http.StatusInternalServerError {
				t.Errorf("%s: %d %s", query, a.status, a.body)
			}
		}
	}
	w.post("/v1/notifications", `{"to":"...","id":".a","title":"T"}`).want(http.StatusCreated)
	w.get("/v1/recipients/...").want(http.StatusOK)
}

// net/http would redirect the client to the path without the empty name: from an unnamed recipient's sessions to a recipient named
// "sessions".
func TestEmptyNamesInPathsAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		"/v1/recipients//sessions", "/v1/recipients//preferences", "/v1/recipients//", "/v1//recipients/ann", "/v1/notifications//timeline", "/v1/objects//o", "/v1/objects/g//registrations",
		"/v1/campaigns//start", "/v1/channels//test", "/v1/templates//preview", "/v1/hooks//replay", "/v1/recipients/ann%2F%2Fsessions",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			w.refuses(method, path, "path")
		}
	}
}

// Some stores cannot hold NUL and bytes that are not UTF-8; the others would find nothing.
func TestTextThatCannotBeStoredIsRefusedInEveryPathAndQuery(t *testing.T) {
	w := newWorld(t)
	for _, bad := range []string{"%00", "a%00b", "%ff", "a%c3", "%ed%a0%80"} {
		for path, field := range map[string]string{
			"/v1/audit?by=#": "by", "/v1/audit?deed=#": "deed", "/v1/audit?cursor=#": "cursor", "/v1/notifications?to=#": "to", "/v1/notifications/x?to=#": "to",
			"/v1/events?types=#": "types", "/v1/recipients?prefix=#": "prefix", "/v1/campaigns?cursor=#": "cursor", "/v1/stream?recipient=#": "recipient", "/v1/nothing?#=1": "query",
		} {
			w.refuses("GET", strings.ReplaceAll(path, "#", bad), field)
		}
		for _, path := range []string{
			"/v1/campaigns/#", "/v1/campaigns/#/start", "/v1/campaigns/#/deliveries", "/v1/campaigns/#/days", "/v1/recipients/#", "/v1/objects/#/#", "/v1/hooks/#",
			"/v1/templates/#", "/v1/categories/#", "/v1/topics/#", "/v1/click/#", "/v1/keys/#", "/compat/perfecty/#/v1/push/users", "/sdk/#", "/nothing/#",
		} {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
				w.refuses(method, strings.ReplaceAll(path, "#", bad), "path")
			}
		}
	}
	w.do(request{method: "POST", path: "/v1/notifications", body: `{"to":"ann","title":"T"}`, header: map[string]string{"Idempotency-Key": "\xff"}}).
		problem(http.StatusBadRequest, "bad-input", "Idempotency-Key")
	w.get("/v1/recipients?prefix=%C3%A9").want(http.StatusBadRequest) // é is valid text, but no name begins with it
}

// opens makes a request as a browser does, of a path that is none of the API's.
func (w *world) opens(method, path string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.srv.URL+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
}

// A person who follows a broken link reads a page; programs get a problem document.
func TestUnreadablePathsOfPagesLeadToTheirOwnMissingPage(t *testing.T) {
	var asked []string
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	})
	w := newWorld(t, func(c *setup) { c.Mount = map[string]http.Handler{"/ui/": page, "/docs/": page} })
	for path, want := range map[string]string{
		"/ui/%00": "/ui/unreadable", "/ui/recipients/a%ff": "/ui/unreadable", "/ui/campaigns?q=%00": "/ui/unreadable", "/?x=%ff": "/ui/unreadable",
		"/docs/%00": "/docs/unreadable", "/docs?q=%00": "/docs/unreadable",
	} {
		for method, as := range map[string]string{"GET": "GET", "HEAD": "HEAD", "POST": "GET"} {
			asked = nil
			if w.opens(method, path); len(asked) != 1 || asked[0] != as+" "+want {
				t.Errorf("%s %s asks for %q", method, path, asked)
			}
		}
	}
	for _, path := range []string{"/uix/%00", "/ui%00", "/docsx/%ff"} {
		w.refuses("GET", path, "path")
	}
}

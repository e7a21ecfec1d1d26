package admin_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
)

// roleKeys holds the roles of the keys with which people of each role sign in.
var roleKeys = map[signin.Role]access.Role{signin.View: access.Read | access.Worker, signin.Send: access.Publish, signin.Admin: access.Admin}

// as signs in with a key of a role.
func (w *world) as(role signin.Role) *browser {
	w.Helper()
	b := w.browser()
	if status, page := b.post("/ui/sign-in", url.Values{"key": {w.newKey("shop", roleKeys[role])}}); status != http.StatusOK {
		w.Fatalf("signing in as %s ends with %d:\n%s", role, status, page)
	}
	return b
}

// filled replaces the wildcards of a pattern.
func filled(pattern string) (method, path string) {
	method, path, _ = strings.Cut(strings.TrimSuffix(pattern, "{$}"), " ")
	return method, regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(path, "nobody")
}

func TestEveryPageIsOpenToItsRolesAlone(t *testing.T) {
	w := newWorld(t, (&post{}).serve)
	for pattern, needs := range admin.Routes() {
		if needs == 0 {
			t.Errorf("%s: nobody may", pattern)
		}
	}
	for role := signin.View; role <= signin.Admin; role++ {
		b := w.as(role)
		b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for pattern, needs := range admin.Routes() {
			method, path := filled(pattern)
			ask := func() (int, string) { return b.get(path) }
			if method == http.MethodPost {
				ask = func() (int, string) { return b.post(path, url.Values{"title": {"x"}}) }
			}
			status, page := ask()
			if refused := status == http.StatusForbidden; refused == role.May(needs) {
				t.Errorf("%s by somebody who may %s: %d, it needs %s", pattern, role, status, needs)
			}
			if status == http.StatusForbidden {
				wants(t, page, "it needs the role "+needs.String()+", and yours is "+role.String())
			}
		}
	}
}

func TestStrangersGetNoPage(t *testing.T) {
	b := newWorld(t, (&post{}).serve).browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for pattern := range admin.Routes() {
		method, path := filled(pattern)
		status, _ := b.get(path)
		want := http.StatusSeeOther
		if method == http.MethodPost {
			status, _ = b.post(path, nil)
			want = http.StatusUnauthorized
		}
		if status != want {
			t.Errorf("%s: %d", pattern, status)
		}
	}
}

// leads returns the requests that a page's links, buttons and forms make, like "POST /ui/campaigns".
func leads(t *testing.T, page string) (found []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		attrs := make(map[string]string)
		for _, a := range n.Attr {
			attrs[a.Key] = a.Val
		}
		for name, method := range map[string]string{
			"href": http.MethodGet, "hx-get": http.MethodGet, "hx-post": http.MethodPost, "formaction": http.MethodPost, "action": strings.ToUpper(attrs["method"]),
		} {
			if path := attrs[name]; strings.HasPrefix(path, "/ui/") && !strings.HasPrefix(path, "/ui/assets/") && path != "/ui/sign-out" && path != "/ui/language" {
				path, _, _ = strings.Cut(path, "#")
				found = append(found, method+" "+path)
			}
		}
	}
	return found
}

func TestPagesHideActionsBeyondTheRole(t *testing.T) {
	w := newWorld(t, (&post{}).serve)
	needs, mux := admin.Routes(), http.NewServeMux()
	for pattern := range needs {
		mux.Handle(pattern, http.NotFoundHandler())
	}
	endpoint := w.register(push.FCM, `{"token":"t"}`, audience.Endpoint{Recipient: "anna"})
	b := w.as(signin.Send)
	id := b.create(url.Values{"title": {"Draft"}, "key": {"k"}})
	drawn := make(map[signin.Role]int) // leads that change something
	for role := signin.View; role <= signin.Admin; role++ {
		b := w.as(role)
		for _, path := range []string{"/ui/campaigns", "/ui/campaigns/" + id, "/ui/campaigns/" + id + "/progress", "/ui/recipients", "/ui/recipients/anna", "/ui/notifications/ride-1", "/ui/notifications/news", "/ui/audience", "/ui/audience/" + endpoint.ID.String(), "/ui/integrations", "/ui/hooks/orders", "/ui/sources/redisstream", "/ui/categories", "/ui/services", "/ui/batches"} {
			status, page := b.get(path)
			if status != http.StatusOK {
				t.Errorf("%s for %s: %d", path, role, status)
			}
			for _, lead := range leads(t, page) {
				method, to, _ := strings.Cut(lead, " ")
				_, pattern := mux.Handler(httptest.NewRequestWithContext(t.Context(), method, to, nil))
				if need, ok := needs[pattern]; !ok || !role.May(need) {
					t.Errorf("%s draws %s for who may %s", path, lead, role)
				}
				if needs[pattern] != signin.View {
					drawn[role]++
				}
			}
		}
	}
	if drawn[signin.Send] < 8 || drawn[signin.Admin] < drawn[signin.Send] {
		t.Errorf("the test looks past what is drawn: %v", drawn)
	}
}

func TestAKeyThatNeitherReadsNorPublishesOpensNothing(t *testing.T) {
	w := newWorld(t)
	status, page := w.browser().post("/ui/sign-in", url.Values{"key": {w.newKey("shop", access.Worker)}})
	if wants(t, page, "its only role is worker", "Sign in"); status != http.StatusForbidden {
		t.Errorf("answered %d", status)
	}
}

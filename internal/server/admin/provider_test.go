package admin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/signin/provider"
	"godwit.dev/godwit/internal/access/signin/providertest"
	"godwit.dev/godwit/internal/server/admin"
)

// vouched is a world whose people can also sign in through a provider.
type vouched struct {
	*world
	at  *providertest.Server
	cfg admin.Config
}

func newVouched(t *testing.T, rules string) *vouched {
	t.Helper()
	v := &vouched{at: providertest.Start(t)}
	v.world = newWorld(t, keep(&v.cfg))
	v.ruled(rules)
	return v
}

// ruled serves the pages again with other rules.
func (v *vouched) ruled(text string) {
	v.Helper()
	rules, err := signin.ParseRules(text)
	must(v.T, err)
	redirect := v.srv.URL + "/ui/oidc/callback"
	v.cfg.Provider = provider.New(provider.Config{
		Issuer: v.at.URL, ClientID: providertest.ClientID, Secret: providertest.Secret, Scopes: []string{"openid"}, Rules: rules, Now: time.Now, Redirect: redirect,
	})
	v.Cleanup(func() { must(v.T, v.cfg.Provider.Close()) })
	h, err := admin.New(v.cfg)
	must(v.T, err)
	v.srv.Config.Handler = h
}

func TestPeopleSignInByAProvider(t *testing.T) {
	v := newVouched(t, "view shop groups=support; send other groups=boss")
	v.at.Says(map[string]any{"sub": "s-1", "email": "anna" + hostile + "@example.org", "groups": []string{"support"}})
	b := v.browser()
	_, page := b.get("/")
	wants(t, page, "Sign in with localhost", `href="/ui/oidc/start"`)
	status, page := b.get("/ui/oidc/start")
	if wants(t, page, "You are signed in"); status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	_, page = b.get("/ui/signed-in")
	if wants(t, page, "anna", "view", "this one"); strings.Contains(page, "New campaign") {
		t.Error("somebody who may view may send")
	}
	checkHarmless(t, "signed in", page)
	if status, _ := b.get("/ui/campaigns/new"); status != http.StatusForbidden {
		t.Errorf("composing: %d", status)
	}
	list, err := v.cfg.Logins.Of(t.Context(), "shop")
	if err != nil || len(list) != 1 || list[0].Subject != "s-1" || list[0].Key != "" || list[0].Role != signin.View {
		t.Errorf("%+v, %v", list, err)
	}
	v.ruled("send shop groups=support")
	_, page = b.get("/ui/campaigns")
	wants(t, page, "Sign in with") // with other rules they have to sign in again
}

func TestPersonWithoutMatchingRuleIsRefused(t *testing.T) {
	v := newVouched(t, "view shop groups=support; send other groups=boss; admin gone groups=ghost")
	for group, want := range map[string]string{"none": "no rule of this server lets you in", "ghost": "The app gone does not exist"} {
		v.at.Says(map[string]any{"sub": "s", "groups": []string{group}})
		status, page := v.browser().get("/ui/oidc/start")
		if wants(t, page, want, "Sign in"); status != http.StatusForbidden {
			t.Errorf("%s: %d", group, status)
		}
	}
	v.at.Says(map[string]any{"sub": "s", "groups": []string{"boss", "support"}})
	b := v.browser()
	_, page := b.get("/ui/oidc/start")
	wants(t, page, `href="/ui/oidc/start?app=shop"`, `href="/ui/oidc/start?app=other"`)
	b.get("/ui/oidc/start?app=other")
	_, page = b.get("/ui/signed-in")
	wants(t, page, ">other</a>", "send")
	status, page := b.get("/ui/oidc/start?app=elsewhere")
	if wants(t, page, "lets you in to elsewhere"); status != http.StatusForbidden {
		t.Errorf("%d", status)
	}
	if status, _ = b.get("/ui/oidc/start?app=" + url.QueryEscape(hostile)); status != http.StatusBadRequest {
		t.Errorf("an app of no name: %d", status)
	}
}

func TestASignInIsNotRepeated(t *testing.T) {
	v := newVouched(t, "view shop groups=support")
	v.at.Says(map[string]any{"sub": "s", "groups": []string{"support"}})
	b := v.browser()
	var back string
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.Path, "/ui/oidc/callback") {
			back = r.URL.RequestURI()
		}
		return nil
	}
	b.get("/ui/oidc/start")
	for _, thief := range []*browser{b, v.browser()} {
		status, page := thief.get(back)
		if wants(t, page, "not begun in this browser"); status != http.StatusForbidden {
			t.Errorf("%d", status)
		}
	}
	for _, path := range []string{"/ui/oidc/callback", "/ui/oidc/callback?" + url.Values{"state": {hostile}, "error": {hostile}}.Encode()} {
		_, page := b.get(path)
		checkHarmless(t, path, page)
	}
}

func TestWithoutTheProviderKeysStillOpen(t *testing.T) {
	v := newVouched(t, "view shop groups=support")
	v.at.GoesAway(true)
	status, page := v.browser().get("/ui/oidc/start")
	if wants(t, page, "cannot be asked just now. Sign in with a key", `name="key"`); status != http.StatusForbidden {
		t.Errorf("%d", status)
	}
	v.signedIn()
}

func TestTheWayCookieIsGuarded(t *testing.T) {
	v := newVouched(t, "view shop groups=support")
	v.cfg.TLS = true
	v.ruled("view shop groups=support")
	b := v.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.srv.URL+"/ui/oidc/start", nil)
	must(t, err)
	resp, _ := b.do(req)
	wants(t, resp.Header.Get("Set-Cookie"), "__Host-godwit-way=", "HttpOnly", "Secure", "SameSite=Lax", "Max-Age=600")
}

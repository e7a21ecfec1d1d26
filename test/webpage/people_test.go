package webpage

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/internal/access/signin/providertest"
	"godwit.dev/godwit/test/blackbox"
)

// givesKey opens the console and signs in with a key.
func (p *person) givesKey(key string) {
	p.Helper()
	p.opens("/")
	p.sees("#key")
	p.types("#key", key)
	p.clicks("main button")
}

// signIn signs in with a key, and waits for the list of campaigns.
func (p *person) signIn(key string) {
	p.Helper()
	p.givesKey(key)
	p.sees(".who")
	p.opens("/ui/campaigns")
	p.sees("#campaigns")
}

// leaves signs out.
func (p *person) leaves() {
	p.Helper()
	p.clicks(".who button")
	p.sees("#key")
}

// newKey creates a key with a role.
func newKey(t *testing.T, server *blackbox.Server, role, name string) string {
	t.Helper()
	var made struct {
		Key string `json:"key"`
	}
	server.API().Call(t, http.MethodPost, "/v1/keys", map[string]any{"roles": []string{role}, "name": name}, &made)
	return made.Key
}

func TestPeopleSeeWhatTheirRoleMayDo(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	p := newPerson(t, "http://"+server.HTTP)
	p.signIn(newKey(t, server, "read", "Anna, support"))
	p.misses(`a[href="/ui/campaigns/new"]`)
	p.opens("/ui/campaigns/new")
	p.reads("main", "it needs the role send, and yours is view")
	p.leaves()

	p.signIn(newKey(t, server, "publish", "Bo, marketing"))
	p.sees(`a[href="/ui/campaigns/new"]`)
	p.clicks(".who a")
	p.reads("#stays", "Bo, marketing")
	p.leaves()

	p.signIn(newKey(t, server, "admin", "The <b>night</b> shift"))
	another := newPerson(t, "http://"+server.HTTP)
	another.signIn("dev")
	p.opens("/ui/signed-in")
	p.reads("#stays", "The <b>night</b> shift")
	p.makesAKey(server)
	p.looksAtEveryPage([]sight{{"keys", "/ui/keys", "#keylist", nil}, {"signed-in", "/ui/signed-in", "#stays form", nil}, {"audit", "/ui/audit", "#deeds", nil}})
	p.reads("#deeds", "sign-in")
	p.opens("/ui/signed-in")
	p.presses(`button.danger`, "#stays:not(:has(form))")
	another.opens("/ui/campaigns")
	another.sees("#key")
}

// makesAKey creates a key, reads its secret once, and deletes it.
func (p *person) makesAKey(server *blackbox.Server) {
	p.Helper()
	p.opens("/ui/keys")
	p.types("#name", "Orders <b>service</b>")
	p.clicks("#make button")
	p.sees("#secret")
	p.reads("#keylist", "Orders <b>service</b>")
	var secret string
	p.does("read the secret", chromedp.Text("#secret", &secret, chromedp.ByQuery))
	a, err := server.API(secret).Do(p.Context(), http.MethodGet, "/v1/recipients", nil)
	if err != nil || a.Status != http.StatusOK {
		p.Errorf("the key that was made opens nothing: %v %+v", err, a)
	}
	p.opens("/ui/keys")
	p.misses("#secret")
	p.clicks(`button[aria-label="Delete Orders <b>service</b>"]`)
	p.misses(`button[aria-label="Delete Orders <b>service</b>"]`)
}

func TestPeopleSignInByAProviderOfAnotherSite(t *testing.T) {
	blackbox.Long(t)
	provider, addr := providertest.Start(t), blackbox.Free(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Env("GODWIT_OIDC_CLIENT_SECRET="+providertest.Secret), blackbox.Args(
		"--http-addr", addr, "--public-url", "http://"+addr, "--oidc-issuer", provider.URL, "--oidc-client-id", providertest.ClientID,
		"--oidc-allow", "send demo groups=Marketing & Co; view demo groups=support",
	))
	provider.Says(map[string]any{"sub": "anna-1", "email": "anna@example.org", "groups": []string{"Marketing & Co"}})
	p := newPerson(t, "http://"+server.HTTP)
	p.looksAtEveryPage([]sight{{"sign-in-provider", "/", "#provider", nil}})
	p.clicks("#provider")
	p.sees(".who a")
	p.opens("/ui/campaigns")
	p.sees(`a[href="/ui/campaigns/new"]`)
	p.clicks(".who a")
	p.reads("#stays", "anna@example.org")
	p.looksAtEveryPage([]sight{{"signed-in-by-provider", "/ui/signed-in", "#stays", nil}})
	p.leaves()

	provider.Says(map[string]any{"sub": "eve", "groups": []string{"visitors"}})
	p.clicks("#provider")
	p.reads("main", "no rule of this server lets you in")
	provider.GoesAway(true)
	p.signIn("dev")
}

// isSignedInTo signs in with a key in another tab, so to say: the cookie is that of all tabs.
func (p *person) isSignedInTo(key string) {
	p.Helper()
	signIn := fmt.Sprintf(`fetch("/ui/sign-out", {method: "POST"}).then(() => fetch("/ui/sign-in", {method: "POST", body: new URLSearchParams({key: %q})})).then(r => r.status)`, key)
	err := blackbox.Poll(p.ctx, blackbox.Patience, func() error { // the server checks for new keys each second
		var status int
		err := chromedp.Run(p.ctx, chromedp.Evaluate(signIn, &status, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("signing in is answered %d", status)
		}
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
}

// A person who signs in to another app in another tab does nothing there by what the first tab still shows.
func TestATabActsOnlyInItsApp(t *testing.T) {
	blackbox.Long(t)
	s := newStage(t)
	s.call(http.MethodPut, "/v1/categories/promo", map[string]any{"campaign_limit": "3/d"})
	other := s.server.CreateApp(s, "other")
	const refused = "This page is of “demo”, and you have signed in to “other” since it was opened. Nothing was done."
	s.signIn("dev")
	s.opens("/ui/categories/promo")
	s.sees("#delete")
	s.isSignedInTo(other)
	s.clicks("#delete button") // which posts a form without htmx
	s.reads("main", refused)
	s.call(http.MethodGet, "/v1/categories/promo", nil)

	s.isSignedInTo("dev")
	s.opens("/ui/campaigns/new")
	s.types("#title", "For readers of demo")
	s.isSignedInTo(other)
	s.presses(`.beside button[value="draft"]`, "#notice .notice")
	s.reads("#notice", refused)
	s.isSignedInTo("dev")
	s.clicks(`.beside button[value="draft"]`)
	s.sees("#try")
	s.reads("main h1", "For readers of demo")
}

package provider_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/signin/provider"
	"godwit.dev/godwit/internal/access/signin/providertest"
	"godwit.dev/godwit/internal/access/urlguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world has a provider, a server that uses it, and a browser.
type world struct {
	*testing.T
	at   *providertest.Server
	p    *provider.Provider
	late time.Duration // of the server's clock
}

func newWorld(t *testing.T, change ...func(*provider.Config)) *world {
	t.Helper()
	w := &world{T: t, at: providertest.Start(t)}
	rules, err := signin.ParseRules("view shop groups=support; admin shop groups=boss; send blog groups=boss")
	must(t, err)
	cfg := provider.Config{
		Issuer: w.at.URL, ClientID: providertest.ClientID, Secret: providertest.Secret, Scopes: []string{"openid", "email"}, Rules: rules,
		Redirect: "https://push.example.org/ui/oidc/callback", Now: func() time.Time { return time.Now().Add(w.late) },
	}
	for _, c := range change {
		c(&cfg)
	}
	w.p = provider.New(cfg)
	t.Cleanup(func() { must(t, w.p.Close()) })
	w.at.Says(map[string]any{"sub": "anna-1", "email": "anna@example.org", "email_verified": true, "groups": []string{"boss", "support"}})
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// goes begins a sign-in. It returns the cookie and the query with which the provider redirects the browser back.
func (w *world) goes(app string) (cookie string, back url.Values) {
	w.Helper()
	to, cookie, err := w.p.Begin(w.Context(), app)
	must(w.T, err)
	return cookie, w.follows(to)
}

// follows sends the browser to the provider.
func (w *world) follows(to string) url.Values {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, to, nil)
	must(w.T, err)
	resp, err := http.DefaultTransport.RoundTrip(req)
	must(w.T, err)
	must(w.T, resp.Body.Close())
	at, err := resp.Location()
	if err != nil || at.Host != "push.example.org" {
		w.Fatalf("the provider sends on to %v, %v: %d", at, err, resp.StatusCode)
	}
	return at.Query()
}

// refused checks that the sign-in fails, and that the sentence contains the reason and no secret.
func (w *world) refused(what, want, cookie string, back url.Values) {
	w.Helper()
	list, _, err := w.p.Finish(w.Context(), cookie, back)
	var no *provider.Refusal
	if len(list) > 0 || !errors.As(err, &no) || !strings.Contains(no.Text, want) {
		w.Errorf("%s: %+v, %v; want a refusal that says %q", what, list, err, want)
		return
	}
	for _, secret := range []string{providertest.Secret, back.Get("code"), "leaked", cookie} {
		if secret != "" && strings.Contains(err.Error(), secret) {
			w.Errorf("%s: the error tells a secret: %v", what, err)
		}
	}
}

func TestTheProvidersPeopleComeInWithTheirRoles(t *testing.T) {
	w := newWorld(t)
	cookie, back := w.goes("blog")
	list, app, err := w.p.Finish(t.Context(), cookie, back)
	must(t, err)
	want := []signin.Person{
		{App: "blog", Subject: "anna-1", Email: "anna@example.org", Rules: w.p.Rules(), Role: signin.Send},
		{App: "shop", Subject: "anna-1", Email: "anna@example.org", Rules: w.p.Rules(), Role: signin.Admin},
	}
	if app != "blog" || len(list) != 2 || list[0] != want[0] || list[1] != want[1] {
		t.Errorf("to %s: %+v, want %+v", app, list, want)
	}
	w.at.Says(map[string]any{"sub": "eve", "groups": []string{"other"}})
	cookie, back = w.goes("")
	if list, _, err := w.p.Finish(t.Context(), cookie, back); err != nil || len(list) != 0 {
		t.Errorf("somebody of no group: %+v, %v", list, err)
	}
	for _, asked := range w.at.Asked() {
		if asked.Get("nonce") == "" || asked.Get("code_challenge") == "" || asked.Get("scope") != "openid email" {
			t.Errorf("asked with %v", asked)
		}
	}
}

func TestTokensThatCannotBeTrustedAreRefused(t *testing.T) {
	set := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c[name] = value }
	}
	for what, twist := range map[string]func(map[string]any){
		"wrong nonce":               set("nonce", "of-another"),
		"no nonce":                  func(c map[string]any) { delete(c, "nonce") },
		"wrong audience":            set("aud", "another-client"),
		"wrong issuer":              set("iss", "https://evil.example"),
		"expired":                   set("exp", time.Now().Add(-time.Minute).Unix()),
		"not yet":                   set("nbf", time.Now().Add(time.Hour).Unix()),
		"for another party":         set("azp", "another-client"),
		"for several, of nobody":    set("aud", []string{providertest.ClientID, "another-client"}),
		"a subject that is no text": set("sub", 7),
	} {
		w := newWorld(t)
		w.at.Twists(twist)
		cookie, back := w.goes("")
		w.refused(what, "cannot be trusted", cookie, back)
	}
	for what, sign := range map[string]func(*providertest.Server) func(map[string]any) string{
		"unsigned":       func(s *providertest.Server) func(map[string]any) string { return s.Unsigned },
		"by another key": func(s *providertest.Server) func(map[string]any) string { return s.SignedByAnother },
		"by a secret":    func(s *providertest.Server) func(map[string]any) string { return s.SignedWithSecret },
		"no token": func(*providertest.Server) func(map[string]any) string {
			return func(map[string]any) string { return "" }
		},
		"something else": func(*providertest.Server) func(map[string]any) string {
			return func(map[string]any) string { return "a.b.c" }
		},
		"of a length of 2 MB": func(*providertest.Server) func(map[string]any) string {
			return func(map[string]any) string { return strings.Repeat("x", 2<<20) }
		},
	} {
		w := newWorld(t)
		w.at.Signs(sign(w.at))
		cookie, back := w.goes("")
		want := "cannot be trusted"
		if strings.Contains(what, "MB") {
			want = "cannot be asked just now"
		}
		w.refused(what, want, cookie, back)
	}
	w := newWorld(t)
	w.at.Says(map[string]any{"sub": ""})
	cookie, back := w.goes("")
	w.refused("no subject", "did not say who you are", cookie, back)
}

func TestOnlyTheBrowserThatBeganASignInEndsIt(t *testing.T) {
	w := newWorld(t)
	const notHere = "not begun in this browser"
	cookie, back := w.goes("")
	other, otherBack := w.goes("")
	w.refused("another browser's state", notHere, cookie, otherBack)
	w.refused("no cookie", notHere, "", back)
	w.refused("a cookie of nonsense", notHere, "..", back)
	w.refused("no state", notHere, cookie, url.Values{"code": back["code"]})
	w.refused("a cookie for another app", notHere, cookie+"shop", back)
	w.refused("another's code, with another verifier of PKCE", "did not accept the answer", cookie, url.Values{"code": otherBack["code"], "state": back["state"]})
	w.refused("no code", "did not accept the answer", other, url.Values{"state": otherBack["state"]})
	w.refused("another provider's answer", "another provider", cookie, url.Values{"code": back["code"], "state": back["state"], "iss": {"https://evil.example"}})
	w.refused("a refusal", "did not sign you in: access_denied", cookie, url.Values{"state": back["state"], "error": {"access_denied"}})

	_, _, err := w.p.Finish(t.Context(), cookie, back)
	must(t, err)
	w.refused("the same once more", "did not accept the answer", cookie, back)

	cookie, back = w.goes("")
	w.late = provider.MaxWait + time.Minute
	w.refused("too late", "more than 10 minutes", cookie, back)
}

func TestPKCECannotBeLeftOut(t *testing.T) {
	w := newWorld(t)
	to, cookie, err := w.p.Begin(t.Context(), "")
	must(t, err)
	u, err := url.Parse(to)
	must(t, err)
	q := u.Query()
	q.Set("code_challenge", "of-somebody-who-waits-for-the-code-in-between-1")
	u.RawQuery = q.Encode()
	w.refused("a code for another's challenge", "did not accept the answer", cookie, w.follows(u.String()))
}

func TestAProviderThatIsAwayIsSaid(t *testing.T) {
	w := newWorld(t)
	w.at.GoesAway(true)
	_, _, err := w.p.Begin(t.Context(), "")
	var no *provider.Refusal
	if !errors.As(err, &no) || !strings.Contains(no.Text, "cannot be asked just now. Sign in with a key") {
		t.Errorf("discovery: %v", err)
	}
	w.at.GoesAway(false)
	cookie, back := w.goes("")
	w.at.GoesAway(true)
	w.refused("on the way back", "cannot be asked just now", cookie, back)
}

func TestASecretDoesNotTravelInTheOpen(t *testing.T) {
	for issuer, ok := range map[string]bool{
		"https://login.example.org": true, "https://10.0.0.7/realms/a": true, "http://localhost:8080": true, "http://127.0.0.1": true, "http://[::1]:1": true,
		"http://login.example.org": false, "http://10.0.0.7": false, "login.example.org": false, "https://u:p@login.example.org": false, "https://a.example?x": false,
		"ftp://localhost": false, "": false, "https://169.254.169.254/latest": false, "https://localhost.evil.example": true, "http://localhost.evil.example": false,
	} {
		if err := provider.CheckIssuer(issuer, urlguard.Targets{}); (err == nil) != ok {
			t.Errorf("%q: %v", issuer, err)
		}
	}
}

package admin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// enter signs in on the page that a request without a login leads to, and returns the page that follows.
func (w *world) enter(b *browser) (page string) {
	_, page = b.post("/ui/sign-in", url.Values{"key": {w.key}})
	return page
}

func TestAPersonComesBackToThePageThatTheyWantedToSee(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	_, page := b.get("/ui/audience?tag=news")
	wants(t, page, "Sign in")
	wants(t, w.enter(b), "<title>Audience")
	wants(t, w.enter(b), "<title>Overview") // it is wanted once

	b = w.browser()
	if status, _ := b.get("/ui/campaigns/x/progress", "HX-Request", "true", "HX-Current-URL", b.srv.URL+"/ui/audience"); status != http.StatusUnauthorized {
		t.Errorf("a part of a page: %d", status)
	}
	wants(t, w.enter(b), "<title>Audience")
	b.get("/ui/audience")
	b.post("/ui/sign-out", nil)
	wants(t, w.enter(b), "<title>Overview")
}

func TestNobodyIsLedToAnotherSite(t *testing.T) {
	w := newWorld(t)
	at, err := url.Parse(w.srv.URL)
	must(t, err)
	for _, to := range []string{
		"https://evil.example/ui/", "//evil.example/ui/", `/\evil.example/ui/`, "/ui/../../evil", "/v1/keys", "javascript:alert(1)", "/ui/" + strings.Repeat("x", 1000), "%zz",
	} {
		b := w.browser()
		b.client.Jar.SetCookies(at, []*http.Cookie{{Name: "godwit-to", Value: url.QueryEscape(to), Path: "/"}})
		wants(t, w.enter(b), "<title>Overview")
	}
	for _, script := range []string{"https://evil.example/elsewhere", ":", "https://evil.example/v1/keys"} {
		b := w.browser()
		b.get("/ui/campaigns", "HX-Request", "true", "HX-Current-URL", script)
		wants(t, w.enter(b), "<title>Overview")
	}
}

// A browser sends no strict cookie with a link from another site, not even when it is redirected.
func TestALinkOnAnotherSiteOpensForThoseWhoAreSignedIn(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	follow := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	status, page := b.get("/ui/audience?tag=a%22b", follow...)
	if wants(t, page, "One moment", `href="/ui/audience?tag=a%22b"`); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	_, page = b.get("/ui/audience?tag=a%22b", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	wants(t, page, "Sign in") // nobody is
}

package admin_test

import (
	"net/http"
	"net/url"
	"testing"
)

// plant sets a cookie with the console's name, as a page on another port of its host can: for a longer path, so that browsers send it
// first.
func (b *browser) plant(value string) {
	b.Helper()
	at, err := url.Parse(b.srv.URL)
	must(b.T, err)
	b.client.Jar.SetCookies(at, []*http.Cookie{{Name: "godwit", Value: value, Path: "/ui"}})
}

func TestAForgedCookieSignsNobodyOut(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	b.plant("forged")
	_, page := b.get("/ui/campaigns")
	wants(t, page, "Sign out")
}

package access_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/urlguard"
)

func jwksWorld(t *testing.T) (*world, *issuer) {
	w, i := newWorld(t, access.Config{Targets: urlguard.All}, "shop"), newIssuer(t)
	url := i.URL + "/jwks.json?key=sekret"
	w.set(t, "shop", access.AppChange{JWKSURL: &url})
	return w, i
}

func (w *world) try(t *testing.T, token string) error {
	_, err := w.Client(t.Context(), access.Claim{Token: token})
	return err
}

func TestKeySetIsFetchedOnceAndRotationIsNoticed(t *testing.T) {
	w, i := jwksWorld(t)
	a, b, c := ecSigner(), rsaSigner(), edSigner()
	i.serveKeys(a.jwk("a"), b.jwk("b"))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 5 {
				if err := w.try(t, a.token("a", good(nil))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := w.try(t, b.token("b", good(nil))); err != nil {
		t.Error(err)
	}
	if n := i.hits.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
	i.serveKeys(b.jwk("b"), c.jwk("c"))
	if err := w.try(t, c.token("c", good(nil))); err != nil {
		t.Errorf("the new key: %v", err)
	}
	wantErr(t, w.try(t, a.token("a", good(nil))), access.ErrUnauthenticated)
}

func TestInventedKeyIDsDoNotHammerTheIssuer(t *testing.T) {
	w, i := jwksWorld(t)
	a := ecSigner()
	i.serveKeys(a.jwk("a"))
	for n := range 200 {
		wantErr(t, w.try(t, ecSigner().token("no"+strings.Repeat("x", n), good(nil))), access.ErrUnauthenticated)
	}
	if n := i.hits.Load(); n > 4 {
		t.Errorf("%d fetches for invented key ids, want at most 4", n)
	}
	if err := w.try(t, a.token("a", good(nil))); err != nil {
		t.Errorf("a good token meanwhile: %v", err)
	}
}

func TestKeySetWithoutAnswerIsUnavailableNotWrong(t *testing.T) {
	w, i := jwksWorld(t)
	a := ecSigner()
	for name, h := range map[string]http.HandlerFunc{
		"500":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		t.Run(name, func(t *testing.T) {
			i.answer(h)
			wantErr(t, w.try(t, a.token("a", good(nil))), access.ErrUnavailable)
		})
	}
}

func TestKeySetIsBounded(t *testing.T) {
	a := ecSigner()
	var many []jose.JSONWebKey
	for range 65 {
		many = append(many, a.jwk("a"))
	}
	for name, body := range map[string][]byte{
		"too large":     append(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{a.jwk("a")}})), strings.Repeat(" ", 300<<10)...),
		"too many keys": must(json.Marshal(jose.JSONWebKeySet{Keys: many})),
	} {
		t.Run(name, func(t *testing.T) {
			w, i := jwksWorld(t)
			i.answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
			wantErr(t, w.try(t, a.token("a", good(nil))), access.ErrUnavailable)
		})
	}
}

func TestPublishedSecretVerifiesNothing(t *testing.T) {
	w, i := jwksWorld(t)
	s := hmacSigner(hmacSecret)
	i.serveKeys(s.jwk("s"))
	wantErr(t, w.try(t, s.token("s", good(nil))), access.ErrUnauthenticated)
}

func TestIssuersKeysAreNotSharedBetweenApps(t *testing.T) {
	w, mine := jwksWorld(t)
	if err := w.CreateApp(t.Context(), "other", access.AppChange{}); err != nil {
		t.Fatal(err)
	}
	theirs := newIssuer(t)
	w.set(t, "other", access.AppChange{JWKSURL: &theirs.URL})
	a, b := ecSigner(), ecSigner()
	mine.serveKeys(a.jwk("same"))
	theirs.serveKeys(b.jwk("same"))
	for app, s := range map[string]signer{"shop": a, "other": b} {
		if _, err := w.Client(t.Context(), access.Claim{Token: s.token("same", good(claims{"app": app}))}); err != nil {
			t.Errorf("%s: %v", app, err)
		}
	}
	wantErr(t, w.try(t, b.token("same", good(claims{"app": "shop"}))), access.ErrUnauthenticated)
	wantErr(t, w.try(t, a.token("same", good(claims{"app": "other"}))), access.ErrUnauthenticated)
}

func TestIssuersTokenMustSayItIsMeantForTheApp(t *testing.T) {
	w, i := jwksWorld(t)
	a := ecSigner()
	i.serveKeys(a.jwk("a"))
	wantErr(t, w.try(t, a.token("a", good(claims{"app": nil}))), access.ErrUnauthenticated)
	aud := "godwit-shop"
	w.set(t, "shop", access.AppChange{Audience: &aud})
	if err := w.try(t, a.token("a", good(claims{"app": nil, "aud": aud}))); err != nil {
		t.Errorf("with the app's audience: %v", err)
	}
}

func TestPrivateURLsAreNotAsked(t *testing.T) {
	w, i := jwksWorld(t)
	i.serveKeys(ecSigner().jwk("a"))
	_ = w.store.Close()
	w.open(t, access.Config{}) // reopened without private URLs, after the app was configured with one
	wantErr(t, w.try(t, ecSigner().token("a", good(nil))), access.ErrUnavailable)
	if i.hits.Load() != 0 {
		t.Error("a private address was asked")
	}
	for _, url := range []string{"http://example.org/", "https://127.0.0.1/", "https://user:pass@example.org/", "https://[::ffff:10.0.0.1]/", "ftp://example.org", "https://"} {
		if err := w.SetApp(t.Context(), "shop", access.AppChange{JWKSURL: &url}); err == nil || !strings.Contains(err.Error(), "jwks_url") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestAnIssuerIsAskedOnlyAboutTokensThatItMayHaveSigned(t *testing.T) {
	w, i := jwksWorld(t)
	theirs, own := ecSigner(), ecSigner()
	i.serveKeys(theirs.jwk("theirs"))
	w.trust(t, "shop", own.pem())
	if err := w.try(t, own.token("own", good(nil))); err != nil {
		t.Errorf("a token by the app's own key: %v", err)
	}
	wantErr(t, w.try(t, hmacSigner(hmacSecret).token("s", good(nil))), access.ErrUnauthenticated)
	if n := i.hits.Load(); n != 0 {
		t.Errorf("the issuer was asked %d times about tokens that are not its", n)
	}
}

package access_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/urlguard"
)

func introWorld(t *testing.T) (*world, *issuer) {
	w, i := newWorld(t, access.Config{Targets: urlguard.All}, "shop"), newIssuer(t)
	id, secret := "god:wit", access.Secret("p@ss wörd")
	w.set(t, "shop", access.AppChange{IntrospectURL: &i.URL, IntrospectID: &id, IntrospectSecret: &secret})
	return w, i
}

func says(c claims) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(must(json.Marshal(c))) }
}

func TestOpaqueTokenIsAskedAboutOnceAsRFC7662Says(t *testing.T) {
	w, i := introWorld(t)
	exp := time.Now().Add(time.Hour).Unix()
	i.answer(func(rw http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || r.FormValue("token") != "opaque+/=" || id != url.QueryEscape("god:wit") || secret != url.QueryEscape("p@ss wörd") {
			t.Errorf("asked %s with token %q as %q", r.Method, r.FormValue("token"), id)
		}
		says(claims{"active": true, "sub": "driver-42", "exp": exp, "grp": "north", "topics": []string{"a"}})(rw, r)
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			got, err := w.Client(t.Context(), access.Claim{App: "shop", Token: "opaque+/="})
			want := access.Client{App: "shop", Recipient: "driver-42", Group: "north", GroupBound: true, Topics: []string{"a"}, Expires: time.Unix(exp, 0)}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
	wg.Wait()
	if n := i.hits.Load(); n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
	_, err := w.Client(t.Context(), access.Claim{App: "shop", Token: "opaque+/=", Recipient: "driver-43"})
	wantErr(t, err, access.ErrForbidden)
}

func TestAnswersAboutTokensAreJudgedLikeTokens(t *testing.T) {
	w, i := introWorld(t)
	for n, c := range []struct {
		answer claims
		want   error
	}{
		{claims{"active": false}, access.ErrUnauthenticated},
		{claims{"active": false, "sub": "driver-42"}, access.ErrUnauthenticated},
		{claims{}, access.ErrUnauthenticated},
		{claims{"active": true}, access.ErrUnauthenticated},
		{claims{"active": true, "sub": "a b"}, access.ErrUnauthenticated},
		{claims{"active": true, "sub": "driver-42", "app": "other"}, access.ErrUnauthenticated},
		{claims{"active": true, "sub": "driver-42", "exp": time.Now().Unix() - 1}, access.ErrUnauthenticated},
		{claims{"active": "yes"}, access.ErrUnavailable},
		{claims{"active": true, "sub": "driver-42"}, nil},
	} {
		i.answer(says(c.answer))
		err := w.try(t, fmt.Sprint("token-", n))
		if c.want == nil && err != nil {
			t.Errorf("%v: %v", c.answer, err)
		} else if c.want != nil {
			wantErr(t, err, c.want)
		}
	}
}

func TestRefusalIsRememberedAndFailureIsNot(t *testing.T) {
	w, i := introWorld(t)
	i.answer(says(claims{"active": false}))
	for range 5 {
		wantErr(t, w.try(t, "bad"), access.ErrUnauthenticated)
	}
	if n := i.hits.Load(); n != 1 {
		t.Errorf("%d questions about a refused token, want 1", n)
	}
	i.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	wantErr(t, w.try(t, "good"), access.ErrUnavailable)
	i.answer(says(claims{"active": true, "sub": "driver-42"}))
	if err := w.try(t, "good"); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
}

func TestChangedSettingsHoldForRememberedTokensToo(t *testing.T) {
	w, i := introWorld(t)
	i.answer(says(claims{"active": true, "sub": "driver-42", "iss": "https://id.example"}))
	if err := w.try(t, "tok"); err != nil {
		t.Fatal(err)
	}
	iss := "https://new.example"
	w.set(t, "shop", access.AppChange{Issuer: &iss})
	wantErr(t, w.try(t, "tok"), access.ErrUnauthenticated)
}

func TestJWTThatNoKeyFitsIsIntrospectedAndAForgedOneIsNot(t *testing.T) {
	w, i := introWorld(t)
	i.answer(says(claims{"active": true, "sub": "driver-42"}))
	w.trust(t, "shop", hmacSecret, rsaSigner().pem())
	for _, kid := range []string{"their-own", ""} {
		if err := w.try(t, ecSigner().token(kid, good(nil))); err != nil {
			t.Errorf("a JWT of the issuer's, signed with an algorithm no key here is for: %v", err)
		}
	}
	before := i.hits.Load()
	wantErr(t, w.try(t, hmacSigner(make([]byte, 32)).token("", good(nil))), access.ErrUnauthenticated)
	if i.hits.Load() != before {
		t.Error("a forged token was introspected")
	}
}

func TestCachedTokenNeedsNoIntrospection(t *testing.T) {
	w, i := introWorld(t)
	i.answer(says(claims{"active": true, "sub": "driver-42"}))
	claim := access.Claim{App: "shop", Token: "opaque"}
	_, err := w.Known(claim)
	if ask, ok := errors.AsType[*access.AskError](err); !ok || ask.App != "shop" || i.hits.Load() != 0 {
		t.Fatalf("got %v after %d questions, want that the server of shop must be asked", err, i.hits.Load())
	}
	if _, err := w.Client(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if c, err := w.Known(claim); err != nil || c.Recipient != "driver-42" {
		t.Errorf("of a token that was asked about: %+v, %v", c, err)
	}
}

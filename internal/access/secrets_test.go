package access_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/urlguard"
)

// No failure writes a secret into an error, a log line, a print or JSON; and the database file contains no key.
func TestSecretsNeverShow(t *testing.T) {
	w, i := newWorld(t, access.Config{Targets: urlguard.All}, "shop"), newIssuer(t)
	i.answer(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte("answer-body"))
	})
	hmac, clientSecret := strings.Repeat("hmac-secret!", 4), access.Secret("client-secret-1")
	keys := must(access.ParseJWTKeys([]byte(hmac)))
	jwks, intro, id := i.URL+"/jwks?code=url-secret", i.URL+"/intro?code=url-secret", "me"
	w.set(t, "shop", access.AppChange{JWTKeys: &keys, JWKSURL: &jwks, IntrospectURL: &intro, IntrospectID: &id, IntrospectSecret: &clientSecret})
	apiKey := w.key(t, "shop", access.Worker)
	minted, _, err := w.MintToken("shop", access.TokenRequest{Recipient: "driver-42", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	forged, foreign := minted[:len(minted)-4]+"AAAA", ecSigner().token("kid-unknown", good(nil))
	secrets := []string{apiKey, minted, forged, foreign, hmac, string(clientSecret), "url-secret", "answer-body", "opaque-token-1"}
	for _, s := range []string{minted, forged, foreign} {
		secrets = append(secrets, s[strings.LastIndex(s, ".")+1:])
	}

	seen := &strings.Builder{}
	note := func(vs ...any) {
		for _, v := range vs {
			_, _ = fmt.Fprintf(seen, "%v %+v %#v %s %q\n", v, v, v, v, v)
		}
	}
	for _, token := range []string{apiKey, apiKey + "x", forged, foreign, "opaque-token-1", minted} {
		_, err1 := w.Key(t.Context(), token)
		_, err2 := w.Client(t.Context(), access.Claim{Token: token})
		_, err3 := w.Client(t.Context(), access.Claim{Token: token, App: "nowhere", Recipient: "x"})
		_, err4 := w.Client(t.Context(), access.Claim{Token: token, Recipient: "x", Origin: "https://evil.example"})
		note(err1, err2, err3, err4)
	}
	i.Close()
	for _, token := range []string{foreign, "opaque-token-1"} {
		_, err := w.Client(t.Context(), access.Claim{Token: token})
		wantErr(t, err, access.ErrUnavailable)
		note(err)
	}
	for _, file := range []string{hmac[:20], `{"kty":"oct","k":"` + hmac + `","alg":"RS256"}`, `{"kty":"oct","k":{"` + hmac + `":1}}`, "-----BEGIN " + hmac + "-----"} {
		_, err := access.ParseJWTKeys([]byte(file))
		note(err)
	}
	apps := w.Apps()
	apps[0].JWKSURL, apps[0].IntrospectURL = "", "" // excluded: the operator may read these settings
	note(apps, w.Keys("shop"), clientSecret, keys)
	note(string(must(json.Marshal(apps))), string(must(json.Marshal(w.Keys("shop")))), string(must(json.Marshal(clientSecret))))
	seen.WriteString(w.log.String())

	if !strings.Contains(seen.String(), "JWKS could not be fetched") {
		t.Error("the test does not reach the log")
	}
	for _, s := range append(secrets, hmac[:20]) {
		if at := strings.Index(seen.String(), s); at >= 0 {
			t.Errorf("secret %q shows in: %.200s", s, seen.String()[max(0, at-80):])
		}
	}
	_ = w.store.Close()
	if strings.Contains(string(must(os.ReadFile(w.path))), apiKey) {
		t.Error("the API key stands in the file")
	}
	if mode := must(os.Stat(w.path)).Mode().Perm(); mode != 0o600 {
		t.Errorf("the file has mode %o", mode)
	}
}

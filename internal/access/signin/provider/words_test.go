package provider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/signin/provider"
)

// TestErrorsRepeatNothingThatAProviderSaid uses a provider that repeats the received secret wherever it can.
func TestErrorsRepeatNothingThatAProviderSaid(t *testing.T) {
	const secret = "tell-nobody-4711"
	var say http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { say(w, r) }))
	defer server.Close()
	document := func(issuer, token string) string {
		return fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["ES256"]}`,
			issuer, server.URL+"/authorize", token, server.URL+"/keys")
	}
	answer := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("X-Secret", secret)
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, body)
		}
	}
	// jwt is a token whose claims and key id contain the secret; it has no valid signature.
	const jwt = "eyJhbGciOiJFUzI1NiIsImtpZCI6InRlbGwtbm9ib2R5LTQ3MTEifQ.eyJpc3MiOiJ0ZWxsLW5vYm9keS00NzExIiwiYXVkIjoidGVsbC1ub2JvZHktNDcxMSJ9.AA"
	for name, c := range map[string]struct{ discovery, token, keys http.HandlerFunc }{
		"discovery: an error":        {discovery: answer(500, "text/plain", secret)},
		"discovery: a page":          {discovery: answer(200, "text/"+secret, secret)},
		"discovery: no JSON":         {discovery: answer(200, "application/json", secret)},
		"discovery: another issuer":  {discovery: answer(200, "application/json", document("https://"+secret, server.URL+"/token"))},
		"discovery: an open address": {discovery: answer(200, "application/json", document(server.URL, "http://"+secret+"/"))},
		"token: an error":            {token: answer(500, "text/plain", secret)},
		"token: an error in JSON":    {token: answer(400, "application/json", `{"error":"`+secret+`","error_description":"`+secret+`"}`)},
		"token: a page":              {token: answer(200, "text/html", secret)},
		"token: no JSON":             {token: answer(200, "application/json", secret)},
		"token: one that is none":    {token: answer(200, "application/json", `{"access_token":"a","token_type":"Bearer","id_token":"`+secret+`"}`)},
		"token: another issuer's":    {token: answer(200, "application/json", `{"access_token":"a","token_type":"Bearer","id_token":"`+jwt+`"}`)},
		"keys: an error":             {keys: answer(500, "text/plain", secret), token: answer(200, "application/json", `{"access_token":"a","token_type":"Bearer","id_token":"`+jwt+`"}`)},
		"keys: no JSON":              {keys: answer(200, "application/json", secret), token: answer(200, "application/json", `{"access_token":"a","token_type":"Bearer","id_token":"`+jwt+`"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			say = func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/openid-configuration") && c.discovery != nil:
					c.discovery(w, r)
				case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
					answer(200, "application/json", document(server.URL, server.URL+"/token"))(w, r)
				case r.URL.Path == "/token" && c.token != nil:
					c.token(w, r)
				case r.URL.Path == "/keys" && c.keys != nil:
					c.keys(w, r)
				default:
					answer(200, "application/json", `{"keys":[]}`)(w, r)
				}
			}
			rules, err := signin.ParseRules("view shop groups=support")
			must(t, err)
			p := provider.New(provider.Config{Issuer: server.URL, ClientID: "c", Secret: secret, Scopes: []string{"openid"}, Rules: rules, Redirect: "https://x.example/", Now: time.Now})
			defer p.Close()
			to, cookie, err := p.Begin(t.Context(), "")
			if err == nil {
				u, parseErr := url.Parse(to)
				must(t, parseErr)
				_, _, err = p.Finish(t.Context(), cookie, url.Values{"state": {u.Query().Get("state")}, "code": {"1"}})
			}
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("%v", err)
			}
		})
	}
}

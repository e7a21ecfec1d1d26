// Package providertest is an OpenID Connect provider for tests. It signs everybody in as the user that the test sets, and gives wrong
// answers if the test asks for them.
package providertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// ClientID and Secret are the credentials of the provider's only client.
const (
	ClientID = "godwit"
	Secret   = "a-client-secret"
)

// Server is a provider.
type Server struct {
	URL string // the issuer

	mu     sync.Mutex
	claims map[string]any
	twist  func(claims map[string]any)
	sign   func(claims map[string]any) string
	away   bool
	codes  map[string]request
	keys   [2]*ecdsa.PrivateKey // the second key is not published
	seen   []url.Values         // what people were sent with
}

// request is the sign-in request for which a code was issued.
type request struct{ challenge, nonce, redirect string }

// Start starts a provider at localhost, which is a different site from 127.0.0.1.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{codes: make(map[string]request)}
	for i := range s.keys {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		s.keys[i] = key
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", s.describe)
	mux.HandleFunc("GET /keys", s.publish)
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		away := s.away
		s.mu.Unlock()
		if away {
			http.Error(w, "token=leaked", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.URL = strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	return s
}

// Says has everybody be somebody.
func (s *Server) Says(claims map[string]any) { s.set(func() { s.claims = claims }) }

// Twists changes the claims right before they are signed; nil: no changes.
func (s *Server) Twists(twist func(claims map[string]any)) { s.set(func() { s.twist = twist }) }

// Signs replaces the function that makes tokens; nil: the correct one.
func (s *Server) Signs(sign func(claims map[string]any) string) { s.set(func() { s.sign = sign }) }

// GoesAway sets whether the provider answers only with errors.
func (s *Server) GoesAway(away bool) { s.set(func() { s.away = away }) }

func (s *Server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Asked returns the queries of people's sign-in requests.
func (s *Server) Asked() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the error means that the client has disconnected
}

func (s *Server) describe(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "jwks_uri": s.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
	})
}

func (s *Server) publish(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.keys[0].Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" {
		http.Error(w, "this client asks as none should", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	s.set(func() {
		s.codes[code] = request{q.Get("code_challenge"), q.Get("nonce"), q.Get("redirect_uri")}
		s.seen = append(s.seen, q)
	})
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	if id != ClientID || secret != Secret {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	given, ok := s.codes[r.PostFormValue("code")]
	delete(s.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || given.redirect != r.PostFormValue("redirect_uri") || given.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": "<b>no</b>"})
		return
	}
	claims := map[string]any{
		"iss": s.URL, "aud": ClientID, "sub": "anna", "nonce": given.nonce, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, s.claims)
	if s.twist != nil {
		s.twist(claims)
	}
	sign := s.sign
	if sign == nil {
		sign = s.Signed
	}
	answer(w, http.StatusOK, map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 60, "id_token": sign(claims)})
}

// Signed returns a correct token.
func (s *Server) Signed(claims map[string]any) string { return signed(s.keys[0], jose.ES256, claims) }

// SignedByAnother returns a token signed with a key that the provider does not publish.
func (s *Server) SignedByAnother(claims map[string]any) string {
	return signed(s.keys[1], jose.ES256, claims)
}

// SignedWithSecret returns a token signed with the client's secret, which is not only the provider's.
func (s *Server) SignedWithSecret(claims map[string]any) string {
	return signed([]byte(strings.Repeat(Secret, 3)), jose.HS256, claims)
}

// Unsigned returns a token without a signature.
func (s *Server) Unsigned(claims map[string]any) string {
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(body) + "."
}

func signed(key any, alg jose.SignatureAlgorithm, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		panic(err) // a test's own mistake
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err) // the same
	}
	return text
}

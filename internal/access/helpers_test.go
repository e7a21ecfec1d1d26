package access_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a registry on a real database file.
type world struct {
	*access.Registry
	store *appdb.Store
	path  string
	log   *bytes.Buffer
}

func newWorld(t *testing.T, cfg access.Config, apps ...string) *world {
	t.Helper()
	w := &world{path: sqlitetest.AppsFile(t), log: &bytes.Buffer{}}
	w.open(t, cfg)
	for _, app := range apps {
		if err := w.CreateApp(t.Context(), app, access.AppChange{}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) open(t *testing.T, cfg access.Config) {
	t.Helper()
	var err error
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if w.store, err = appdb.Open(t.Context(), w.path, log); err != nil {
		t.Fatal(err)
	}
	store := w.store
	t.Cleanup(func() { _ = store.Close() })
	if w.Registry, err = access.NewRegistry(t.Context(), w.store, cfg, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
}

// set changes an app, and fails the test on an error.
func (w *world) set(t *testing.T, app string, c access.AppChange) {
	t.Helper()
	if err := w.SetApp(t.Context(), app, c); err != nil {
		t.Fatal(err)
	}
}

func (w *world) trust(t *testing.T, app string, files ...[]byte) {
	t.Helper()
	var keys []access.JWTKey
	for _, f := range files {
		ks, err := access.ParseJWTKeys(f)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, ks...)
	}
	w.set(t, app, access.AppChange{JWTKeys: &keys})
}

func (w *world) key(t *testing.T, app string, roles access.Role) string {
	t.Helper()
	_, secret, err := w.CreateKey(t.Context(), app, "", roles)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// signer holds a key of each kind. They are made once, because RSA keys are slow to make.
type signer struct {
	alg     jose.SignatureAlgorithm
	private any
}

var (
	rsaSigner = sync.OnceValue(func() signer {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		return signer{jose.RS256, must(k, err)}
	})
	hmacSecret = bytes.Repeat([]byte("0123456789abcdef"), 2)
)

func ecSigner() signer {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return signer{jose.ES256, must(k, err)}
}

func edSigner() signer {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	return signer{jose.EdDSA, must(k, err)}
}

func hmacSigner(secret []byte) signer { return signer{jose.HS256, secret} }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// pem returns the public key in the form that an operator configures.
func (s signer) pem() []byte {
	if b, ok := s.private.([]byte); ok {
		return b
	}
	der := must(x509.MarshalPKIXPublicKey(s.publicKey()))
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func (s signer) publicKey() any {
	k := jose.JSONWebKey{Key: s.private}
	public := k.Public()
	return public.Key
}

func (s signer) jwk(kid string) jose.JSONWebKey {
	if b, ok := s.private.([]byte); ok {
		return jose.JSONWebKey{Key: b, KeyID: kid}
	}
	return jose.JSONWebKey{Key: s.publicKey(), KeyID: kid, Algorithm: string(s.alg), Use: "sig"}
}

type claims map[string]any

// good returns claims that pass; change overrides some of them, nil removes one.
func good(change claims) claims {
	c := claims{"sub": "driver-42", "app": "shop", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func (s signer) token(kid string, c claims) string {
	opts := &jose.SignerOptions{}
	if kid != "" {
		opts = opts.WithHeader("kid", kid)
	}
	sg := must(jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: s.private}, opts))
	return must(must(sg.Sign(must(json.Marshal(c)))).CompactSerialize())
}

// issuer is a real server for key sets and introspection.
type issuer struct {
	*httptest.Server
	hits   atomic.Int64
	handle atomic.Pointer[http.HandlerFunc]
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.hits.Add(1)
		(*i.handle.Load())(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) answer(h http.HandlerFunc) { i.handle.Store(&h) }

func (i *issuer) serveKeys(keys ...jose.JSONWebKey) {
	body := must(json.Marshal(jose.JSONWebKeySet{Keys: keys}))
	i.answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

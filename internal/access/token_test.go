package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"godwit.dev/godwit/internal/access"
)

func TestTokensOfEveryAlgorithmAreVerifiedByTheAppsKeys(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop")
	for name, s := range map[string]signer{"HS256": hmacSigner(hmacSecret), "RS256": rsaSigner(), "ES256": ecSigner(), "EdDSA": edSigner()} {
		t.Run(name, func(t *testing.T) {
			for how, file := range map[string][]byte{"file": s.pem(), "JWK": must(json.Marshal(s.jwk(""))), "JWK set": must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.jwk("k1")}}))} {
				w.trust(t, "shop", file)
				exp := time.Now().Add(time.Hour)
				got, err := w.Client(t.Context(), access.Claim{Token: s.token("k1", good(claims{"exp": exp.Unix(), "grp": "north", "dev": "phone", "topics": []string{"u.{sub}.>"}, "objects": []string{}}))})
				want := access.Client{
					App: "shop", Recipient: "driver-42", Group: "north", GroupBound: true, Device: "phone",
					Topics: []string{"u.driver-42.>"}, Objects: []string{}, Expires: time.Unix(exp.Unix(), 0),
				}
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: got %+v, %v; want %+v", how, got, err, want)
				}
			}
		})
	}
}

func TestTokensThatProveNothingAreRefused(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop", "other")
	trusted, rsaKey := hmacSigner(hmacSecret), rsaSigner()
	w.trust(t, "shop", trusted.pem(), rsaKey.pem())
	now := time.Now()
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(must(json.Marshal(good(nil)))) + "."
	fresh := trusted.token("", good(nil))
	for name, token := range map[string]string{
		"another secret":                hmacSigner([]byte(strings.Repeat("x", 32))).token("", good(nil)),
		"alg none":                      unsigned,
		"alg none with signature":       unsigned + "AAAA",
		"HS256 with the RSA public key": hmacSigner(rsaKey.pem()).token("", good(nil)),
		"RS512 with the right key":      signer{jose.RS512, rsaKey.private}.token("", good(nil)),
		"PS256 with the right key":      signer{jose.PS256, rsaKey.private}.token("", good(nil)),
		"expired":                       trusted.token("", good(claims{"exp": now.Add(-2 * time.Second).Unix()})),
		"without exp":                   trusted.token("", good(claims{"exp": nil})),
		"exp is no number":              trusted.token("", good(claims{"exp": "tomorrow"})),
		"not valid yet":                 trusted.token("", good(claims{"nbf": now.Add(5 * time.Minute).Unix()})),
		"issued in the future":          trusted.token("", good(claims{"iat": now.Add(5 * time.Minute).Unix()})),
		"without sub":                   trusted.token("", good(claims{"sub": nil})),
		"sub with a line break":         trusted.token("", good(claims{"sub": "a\r\nb"})),
		"sub in capitals":               trusted.token("", good(claims{"sub": nil, "SUB": "driver-42"})),
		"pattern with a line break":     trusted.token("", good(claims{"topics": []string{"a\nb"}})),
		"for another app":               trusted.token("", good(claims{"app": "other"})),
		"signed by another app's mint":  must2(w.MintToken("other", access.TokenRequest{Recipient: "driver-42", TTL: time.Hour})),
		"changed payload":               strings.Split(fresh, ".")[0] + "." + strings.Split(trusted.token("", good(claims{"sub": "boss"})), ".")[1] + "." + strings.Split(fresh, ".")[2],
		"whitespace around":             " " + fresh,
		"not a token":                   "hello",
		"three dots":                    "a.b.c.d",
		"huge":                          strings.Repeat("a", 20_000),
		"empty parts":                   "..",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Client(t.Context(), access.Claim{App: "shop", Token: token})
			wantErr(t, err, access.ErrUnauthenticated)
		})
	}
	if _, err := w.Client(t.Context(), access.Claim{App: "shop", Token: fresh}); err != nil {
		t.Errorf("the token they are made from: %v", err)
	}
}

func must2[T, U any](v T, _ U, err error) T { return must(v, err) }

func TestKeyOfOneAppNeverVouchesForAnother(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop", "other")
	s := hmacSigner(hmacSecret)
	w.trust(t, "other", s.pem())
	for _, c := range []access.Claim{
		{App: "shop", Token: s.token("", good(claims{"app": "shop"}))},
		{App: "shop", Token: s.token("", good(claims{"app": nil}))},
		{Token: s.token("", good(claims{"app": "shop"}))},
		{App: "shop", Token: s.token("", good(claims{"app": "other"}))},
	} {
		_, err := w.Client(t.Context(), c)
		wantErr(t, err, access.ErrUnauthenticated)
	}
	if c, err := w.Client(t.Context(), access.Claim{Token: s.token("", good(claims{"app": "other"}))}); err != nil || c.App != "other" {
		t.Errorf("in its own app: %+v, %v", c, err)
	}
}

func TestKeyIDChoosesTheKey(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop")
	a, b := ecSigner(), ecSigner()
	w.trust(t, "shop", must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{a.jwk("a"), b.jwk("b")}})))
	for name, c := range map[string]struct {
		token string
		ok    bool
	}{
		"right id":   {b.token("b", good(nil)), true},
		"no id":      {b.token("", good(nil)), true},
		"other's id": {b.token("a", good(nil)), false},
		"unknown id": {b.token("c", good(nil)), false},
	} {
		if _, err := w.Client(t.Context(), access.Claim{Token: c.token}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIssuerAndAudienceAreCheckedWhenConfigured(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop")
	s := hmacSigner(hmacSecret)
	w.trust(t, "shop", s.pem())
	iss, aud := "https://id.example", "godwit"
	w.set(t, "shop", access.AppChange{Issuer: &iss, Audience: &aud})
	for name, c := range map[string]struct {
		change claims
		ok     bool
	}{
		"both":         {claims{"iss": iss, "aud": aud}, true},
		"one of many":  {claims{"iss": iss, "aud": []string{"x", aud}}, true},
		"no issuer":    {claims{"aud": aud}, false},
		"other issuer": {claims{"iss": "https://evil.example", "aud": aud}, false},
		"no audience":  {claims{"iss": iss}, false},
		"other's":      {claims{"iss": iss, "aud": "x"}, false},
	} {
		if _, err := w.Client(t.Context(), access.Claim{Token: s.token("", good(c.change))}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	token := must2(w.MintToken("shop", access.TokenRequest{Recipient: "driver-42", TTL: time.Hour}))
	if _, err := w.Client(t.Context(), access.Claim{Token: token}); err != nil {
		t.Errorf("a minted token does not pass: %v", err)
	}
}

func TestClaimMustNotContradictTheToken(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop", "other")
	s := hmacSigner(hmacSecret)
	w.trust(t, "shop", s.pem())
	bound, open := s.token("", good(claims{"grp": "north", "dev": "phone"})), s.token("", good(nil))
	for name, c := range map[string]struct {
		claim access.Claim
		want  error
	}{
		"same":            {access.Claim{App: "shop", Token: bound, Recipient: "driver-42", Group: "north", Device: "phone"}, nil},
		"other recipient": {access.Claim{Token: bound, Recipient: "driver-43"}, access.ErrForbidden},
		"other group":     {access.Claim{Token: bound, Group: "south"}, access.ErrForbidden},
		"other device":    {access.Claim{Token: bound, Device: "tablet"}, access.ErrForbidden},
		"free group":      {access.Claim{Token: open, Group: "south", Device: "tablet"}, nil},
		"other app":       {access.Claim{App: "other", Token: bound}, access.ErrUnauthenticated},
		"app that is not": {access.Claim{App: "nowhere", Token: bound}, access.ErrUnknownApp},
		"no token":        {access.Claim{App: "shop", Recipient: "driver-42"}, access.ErrUnauthenticated},
		"foreign origin":  {access.Claim{Token: open, Origin: "https://evil.example", Host: "godwit.example"}, access.ErrForbidden},
		"same origin":     {access.Claim{Token: open, Origin: "https://godwit.example", Host: "godwit.example"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := w.Client(t.Context(), c.claim)
			if c.want != nil {
				wantErr(t, err, c.want)
				return
			}
			if err != nil || got.Recipient != "driver-42" || got.Group != c.claim.Group || got.Device != c.claim.Device {
				if c.claim.Group != "" || err != nil {
					t.Errorf("got %+v, %v", got, err)
				}
			}
		})
	}
	if _, err := w.Client(t.Context(), access.Claim{Token: open, Device: "a b"}); err == nil || !strings.Contains(err.Error(), "device") {
		t.Errorf("a device with a space: %v", err)
	}
}

func TestMintedTokenSaysWhatWasAskedAndEndsWithItsKey(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop")
	token, expires, err := w.MintToken("", access.TokenRequest{Recipient: "driver-42", Group: "north", Topics: []string{"rides.{sub}"}, TTL: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Client(t.Context(), access.Claim{Token: token})
	want := access.Client{App: "shop", Recipient: "driver-42", Group: "north", GroupBound: true, Topics: []string{"rides.driver-42"}, Expires: expires}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	w.trust(t, "shop", hmacSecret) // other keys come besides
	if _, err := w.Client(t.Context(), access.Claim{Token: token}); err != nil {
		t.Errorf("after setting other keys: %v", err)
	}
	w.set(t, "shop", access.AppChange{NewMintKey: true})
	_, err = w.Client(t.Context(), access.Claim{Token: token})
	wantErr(t, err, access.ErrUnauthenticated)
	for _, bad := range []access.TokenRequest{
		{Recipient: "a b", TTL: time.Hour},
		{Recipient: "a"},
		{Recipient: "a", TTL: -time.Hour},
		{Recipient: "a", TTL: 1 << 62},
		{TTL: time.Hour},
		{Recipient: "a", Group: "\n", TTL: time.Hour},
		{Recipient: "a", Topics: []string{""}, TTL: time.Hour},
		{Recipient: "a", TTL: time.Second - 1},
		{Recipient: "a", TTL: access.MaxTokenTTL + 1},
	} {
		if _, _, err := w.MintToken("shop", bad); err == nil {
			t.Errorf("a token was made for %+v", bad)
		}
	}
	for _, ttl := range []time.Duration{time.Second, access.MaxTokenTTL} {
		if _, _, err := w.MintToken("shop", access.TokenRequest{Recipient: "a", TTL: ttl}); err != nil {
			t.Errorf("for %s: %v", ttl, err)
		}
	}
}

func TestKeysAreReadFromEveryKindOfPEM(t *testing.T) {
	ec, rs := ecSigner(), rsaSigner()
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	ecKey, rsaKey := ec.private.(*ecdsa.PrivateKey), rs.private.(*rsa.PrivateKey)
	for kind, c := range map[string]struct {
		signer
		der []byte
	}{
		"PUBLIC KEY":      {ec, must(x509.MarshalPKIXPublicKey(ec.publicKey()))},
		"RSA PUBLIC KEY":  {rs, x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey)},
		"PRIVATE KEY":     {ec, must(x509.MarshalPKCS8PrivateKey(ecKey))},
		"RSA PRIVATE KEY": {rs, x509.MarshalPKCS1PrivateKey(rsaKey)},
		"EC PRIVATE KEY":  {ec, must(x509.MarshalECPrivateKey(ecKey))},
		"CERTIFICATE":     {ec, must(x509.CreateCertificate(rand.Reader, template, template, ec.publicKey(), ecKey))},
	} {
		w := newWorld(t, access.Config{}, "shop")
		w.trust(t, "shop", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: c.der}))
		if _, err := w.Client(t.Context(), access.Claim{Token: c.token("", good(nil))}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := access.ParseJWTKeys(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: c.der[1:]})); err == nil {
			t.Errorf("%s that is cut is taken", kind)
		}
		text := string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: c.der}))
		want := must(access.ParseJWTKeys([]byte(text)))
		for _, form := range []string{"\ufeff" + text, strings.ReplaceAll(text, "\n", `\n`), base64.StdEncoding.EncodeToString(c.der)} {
			if got, err := access.ParseJWTKeys([]byte(form)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s as %.30q…: %v", kind, form, err)
			}
		}
	}
}

func TestKeyFilesThatAreNoGoodAreRefused(t *testing.T) {
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	for name, file := range map[string][]byte{
		"empty":              nil,
		"short secret":       []byte("secret"),
		"newline is no key":  []byte(strings.Repeat("a", 31) + "\n"),
		"short RSA":          signer{jose.RS256, small}.pem(),
		"P-384":              signer{jose.ES384, p384}.pem(),
		"key for encryption": must(json.Marshal(jose.JSONWebKey{Key: rsaSigner().publicKey(), Use: "enc"})),
		"RS512":              must(json.Marshal(jose.JSONWebKey{Key: rsaSigner().publicKey(), Algorithm: "RS512"})),
		"empty set":          []byte(`{"keys":[]}`),
		"not a JWK":          []byte(`{"a":1}`),
		"broken PEM":         []byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
		"cut PEM":            []byte("-----BEGIN PUBLIC KEY-----\nAAAA"),
		"other PEM":          []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"),
	} {
		if keys, err := access.ParseJWTKeys(file); err == nil {
			t.Errorf("%s: got %v", name, keys)
		}
	}
	withBreak, err := access.ParseJWTKeys(append([]byte(strings.Repeat("a", 32)), "\r\n"...))
	if err != nil {
		t.Fatal(err)
	}
	without := must(access.ParseJWTKeys([]byte(strings.Repeat("a", 32))))
	if !reflect.DeepEqual(withBreak, without) {
		t.Error("the line break at the end of a secret file became part of the secret")
	}
}

func FuzzParseJWTKeys(f *testing.F) {
	for _, s := range []signer{hmacSigner(hmacSecret), ecSigner(), edSigner()} {
		f.Add(s.pem())
		f.Add(must(json.Marshal(s.jwk("k"))))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		keys, err := access.ParseJWTKeys(file)
		if err != nil {
			return
		}
		again, err := access.DecodeJWTKeys(must(access.EncodeJWTKeys(keys)))
		if err != nil || len(again) != len(keys) {
			t.Errorf("keys do not survive being stored: %v", err)
		}
	})
}

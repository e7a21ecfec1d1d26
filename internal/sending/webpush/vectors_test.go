package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
)

func unbase64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The example of RFC 8291, section 5 and appendix A.
const (
	rfcPlain   = "When I grow up, I want to be a watermelon"
	rfcUAKey   = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
	rfcUAPub   = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	rfcAuth    = "BTBZMqHH6r4Tts7J_aSIgg"
	rfcASKey   = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
	rfcSalt    = "DGv6ra1nlYgDCS1FRnbzlw"
	rfcMessage = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_" +
		"yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)

func rfcSubscription(t testing.TB) *subscription {
	t.Helper()
	s, err := new(Sender).parseAddress([]byte(`{"endpoint":"https://push.example/p/1","keys":{"p256dh":"` + rfcUAPub + `","auth":"` + rfcAuth + `"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestVectorsOfRFC8291(t *testing.T) {
	key, err := ecdh.P256().NewPrivateKey(unbase64(t, rfcASKey))
	if err != nil {
		t.Fatal(err)
	}
	body, err := seal(rfcSubscription(t), []byte(rfcPlain), key, [16]byte(unbase64(t, rfcSalt)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := base64.RawURLEncoding.EncodeToString(body); got != rfcMessage {
		t.Errorf("got\n%s, want\n%s", got, rfcMessage)
	}
	ua, err := ecdh.P256().NewPrivateKey(unbase64(t, rfcUAKey))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := pushserver.Decrypt(unbase64(t, rfcMessage), ua, unbase64(t, rfcAuth))
	if string(plain) != rfcPlain || err != nil {
		t.Errorf("decrypted %q, %v", plain, err)
	}
}

// The example of RFC 8292, section 2.4.
const (
	rfcToken = "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAiOjE0NTM1MjM3NjgsInN1YiI6Im1h" +
		"aWx0bzpwdXNoQGV4YW1wbGUuY29tIn0.i3CYb7t4xfxCDquptFOepC9GAu_HLGkMlMuCGSK2rpiUfnK9ojFwDXb1JrErtmysazNjjvW2L9OkSSHzvoD1oA"
	rfcVAPID = "BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs"
)

func TestVectorsOfRFC8292(t *testing.T) {
	input, err := signingInput("https://push.example.net", "mailto:push@example.com", time.Unix(1453523768, 0))
	if err != nil {
		t.Fatal(err)
	}
	if want := rfcToken[:strings.LastIndexByte(rfcToken, '.')]; input != want {
		t.Errorf("what is signed\n%s, want\n%s", input, want)
	}
	if c, err := pushserver.VerifyToken(rfcToken, rfcVAPID); err != nil || c.Subject != "mailto:push@example.com" {
		t.Errorf("the RFC's own token: %+v, %v", c, err)
	}
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := newSigner(key, "mailto:a@b.example").token("https://x.example", time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := pushserver.VerifyToken(token, key.Public()); err != nil || c.Audience != "https://x.example" || c.Expires != 1e9 {
		t.Errorf("our token: %+v, %v", c, err)
	}
	if _, err := pushserver.VerifyToken(token, rfcVAPID); err == nil {
		t.Error("another key verifies our token")
	}
}

func TestMessagesShareNeitherKeyNorSalt(t *testing.T) {
	s, seen := rfcSubscription(t), map[string]bool{}
	for range 20 {
		body, err := encrypt(s, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		seen[string(body[:16])], seen[string(body[21:86])] = true, true
	}
	if len(seen) != 40 {
		t.Errorf("%d different salts and keys of 40", len(seen))
	}
}

func TestKeysAreReadAsToolsWriteThem(t *testing.T) {
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.pem")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ParseKey(b)
		if err != nil || want.Private() == "" {
			t.Fatalf("%s: %v", f, err)
		}
		if filepath.Base(f) != "pkcs8.pem" {
			continue
		}
		for _, form := range sendertest.KeyForms(string(b)) {
			if got, err := ParseKey([]byte(form)); err != nil || got.Private() != want.Private() {
				t.Errorf("%q: %v", form, err)
			}
		}
	}
	for _, text := range []string{
		k.Private(), "  " + k.Private() + "=\n", `{"publicKey":"` + k.Public() + `","privateKey":"` + k.Private() + `"}`,
		`{"private_key":"` + k.Private() + `"}`,
	} {
		if got, err := ParseKey([]byte(text)); err != nil || got.Public() != k.Public() {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "x", k.Public(), "{}", "{", `{"publicKey":"` + other.Public() + `","privateKey":"` + k.Private() + `"}`, `{"privateKey":"{}"}`,
		`{"privateKey":"{\"privateKey\":\"` + k.Private() + `\"}"}`,
		"-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----", base64.RawURLEncoding.EncodeToString(make([]byte, 32)),
	} {
		if got, err := ParseKey([]byte(text)); err == nil {
			t.Errorf("%q was read as %s", text, got)
		} else if strings.Contains(err.Error(), k.Private()) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	if s := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); strings.Contains(s, k.Private()) {
		t.Errorf("printing shows the key: %s", s)
	}
}

func BenchmarkEncrypt(b *testing.B) {
	s, plain := rfcSubscription(b), make([]byte, 300)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encrypt(s, plain); err != nil {
			b.Fatal(err)
		}
	}
}

// A subscriber names its push service, so anybody could have tokens signed for any number of services.
func TestTokensOfInventedPushServicesAreNotKeptForEver(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, now := newSigner(key, "mailto:a@b.example"), time.Now()
	for i := range maxOrigins + 10 {
		header, err := s.authorization(fmt.Sprintf("https://%d.example", i), now)
		if err != nil || header == "" {
			t.Fatal(header, err)
		}
		if len(s.cached) > maxOrigins {
			t.Fatalf("%d tokens are kept, want at most %d", len(s.cached), maxOrigins)
		}
	}
	before := len(s.cached)
	if _, err := s.authorization(fmt.Sprintf("https://%d.example", maxOrigins+9), now); err != nil || len(s.cached) != before || before == 0 {
		t.Errorf("%d are kept, then %d, %v", before, len(s.cached), err)
	}
}

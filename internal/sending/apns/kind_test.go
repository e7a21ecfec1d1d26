package apns_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/apns"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/sendertest"
)

func settings(t *testing.T) channel.Values {
	t.Helper()
	_, text := newKey(t)
	return channel.Values{"private_key": text, "key_id": keyID, "team_id": teamID, "topic": topic}
}

func TestBadSettingsSayWhatIsWrong(t *testing.T) {
	good := settings(t)
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(good["private_key"], "\n")
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	for _, c := range []struct{ field, value, says string }{
		{"private_key", "", "is required"},
		{"private_key", "MIGTAgEAMBMGByqGSM49AgEG", "must begin with -----BEGIN PRIVATE KEY-----"},
		{"private_key", strings.Join(lines[:2], "\n"), "is a damaged .p8 file: lines are missing"},
		{"private_key", block("PRIVATE KEY", []byte("nothing")), "no private key in the form PKCS #8"},
		{"private_key", block("CERTIFICATE", []byte("x")), "is a certificate: what is needed is the .p8 file"},
		{"private_key", p8(t, other), "not on the curve P-256"},
		{"private_key", p8(t, long), "not on the curve P-256"},
		{"key_id", "", "is required"},
		{"key_id", "abc123defg", "is not 10 capital letters"},
		{"key_id", good["private_key"], "is not 10 capital letters"},
		{"team_id", "", "is required"},
		{"team_id", "TEAM", "is not 10 capital letters"},
		{"topic", "", "is required"},
		{"topic", "org.example/x", "is not a bundle id"},
		{"environment", "test", "is none of production, sandbox"},
		{"base_url", "https://127.0.0.1:1", "not public"},
		{"base_url", "http://apns.example", "https://"},
		{"base_url", "https://apns.example/path", "a host alone"},
	} {
		v := maps.Clone(good)
		v[c.field] = c.value
		_, err := apns.Kind{}.Complete(v)
		var f *notification.FieldError
		if !errors.As(err, &f) || f.Field != c.field || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %.30q: %v, want %q", c.field, c.value, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), lines[1]) {
			t.Errorf("%s: the error shows the key: %v", c.field, err)
		}
	}
	for _, environment := range []string{"", apns.Sandbox, apns.Production} {
		good["environment"] = environment
		if made, err := (apns.Kind{}).Complete(good); err != nil || len(made) != 0 {
			t.Errorf("%q: %v", environment, err)
		}
	}
	if _, err := (apns.Kind{Targets: urlguard.All}).Complete(channel.Values{"base_url": "http://127.0.0.1:1", "private_key": good["private_key"], "key_id": keyID, "team_id": teamID, "topic": topic}); err == nil {
		t.Error("without TLS")
	}
}

func TestKeysAreReadInTheFormsThatPeopleHave(t *testing.T) {
	_, text := newKey(t)
	for _, form := range sendertest.KeyForms(text) {
		if _, err := apns.ParseKey(form); err != nil {
			t.Errorf("%.30q…: %v", form, err)
		}
	}
}

func TestAKeyPrintsAsNothing(t *testing.T) {
	private, text := newKey(t)
	key, err := apns.ParseKey("\n" + text + "\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(key), fmt.Sprintf("%+v %#v %s", key, key, key), fmt.Sprintf("%+v", apns.Config{Key: key})} {
		if strings.Contains(shown, private.D.String()) || !strings.Contains(shown, "[redacted]") { //nolint:staticcheck // to look for it
			t.Errorf("shown: %s", shown)
		}
	}
	var shown []string
	for _, f := range (apns.Kind{}).Fields() {
		if !f.Secret {
			shown = append(shown, f.Name)
		}
	}
	if strings.Join(shown, " ") != "key_id team_id topic environment base_url badge" {
		t.Errorf("shown are %v", shown)
	}
}

func TestOpenMakesASenderForEachEnvironment(t *testing.T) {
	v := settings(t)
	for _, v["environment"] = range []string{"", apns.Sandbox, apns.Production} {
		s, err := apns.Kind{}.Open("shop", v)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.(*apns.Sender).Close(); err != nil {
			t.Error(err)
		}
	}
	v["private_key"] = "x"
	if _, err := (apns.Kind{}).Open("shop", v); err == nil || strings.Contains(err.Error(), "PRIVATE KEY-----\nM") {
		t.Error(err)
	}
}

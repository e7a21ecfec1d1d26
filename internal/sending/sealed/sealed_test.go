package sealed_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/sending/sealed"
)

// secrets derives an app's secret from its name.
type secrets struct{}

func (secrets) TrackKey(_ context.Context, app string) ([]byte, error) {
	return []byte("the secret of " + app), nil
}

func tokens() *sealed.Tokens {
	return sealed.New(secrets{}, func(app string) bool { return app == "shop" || app == "other" })
}

func seal(t *testing.T, s *sealed.Tokens, app string, p sealed.Purpose, says, bound string) string {
	t.Helper()
	k, err := s.Key(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	return k.Seal(p, []byte(says), bound)
}

func TestATokenSaysWhatItWasMadeWithOnAnyServerOfTheDatabase(t *testing.T) {
	app := strings.Repeat("a", 128)
	says := bytes.Repeat([]byte{0xff}, 60)
	k, err := sealed.New(secrets{}, nil).Key(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	token := k.Seal(sealed.Acknowledge, says, "")
	if len(token) > sealed.MaxToken {
		t.Errorf("the longest token has %d bytes", len(token))
	}
	gotApp, got, err := sealed.New(secrets{}, nil).Open(t.Context(), token, sealed.Acknowledge, "")
	if gotApp != app || !bytes.Equal(got, says) || err != nil {
		t.Errorf("opened %s, %x, %v", gotApp, got, err)
	}
}

// A token's signed bytes can be read in one way only: no byte can move between its content and the link to which it is bound.
func TestATokenForOneLinkLeadsToNoOther(t *testing.T) {
	s := tokens()
	const link = "https://example.org/"
	token := seal(t, s, "shop", sealed.Track, "79", link)
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "shop~"))
	if err != nil {
		t.Fatal(err)
	}
	payload, mac := b[:len(b)-16], b[len(b)-16:]
	for i := range len(link) + 1 {
		moved := "shop~" + base64.RawURLEncoding.EncodeToString([]byte(string(payload)+link[:i]+string(mac)))
		if _, _, err := s.Open(t.Context(), moved, sealed.Track, link[i:]); (err == nil) != (i == 0) {
			t.Errorf("with %q in the token and %q as the link: %v", link[:i], link[i:], err)
		}
	}
	for _, other := range []string{"", link + "x", link[1:]} {
		if _, _, err := s.Open(t.Context(), token, sealed.Track, other); !errors.Is(err, sealed.ErrBad) {
			t.Errorf("it leads to %q too: %v", other, err)
		}
	}
}

func TestATokenThatIsNoneIsRefused(t *testing.T) {
	s := tokens()
	token := seal(t, s, "shop", sealed.Track, "79", "")
	ack := seal(t, s, "shop", sealed.Acknowledge, "79", "")
	sealedPart := strings.TrimPrefix(token, "shop~")
	flipped := []byte(token)
	flipped[len(flipped)-2] ^= 1
	asTrack := base64.RawURLEncoding.EncodeToString(append([]byte{byte(sealed.Track)}, mustDecode(t, strings.TrimPrefix(ack, "shop~"))[1:]...))
	for name, bad := range map[string]string{
		"nothing": "", "an app": "shop", "no seal": "shop~", "not base64": "shop~!", "too short": "shop~AQ", "too long": "shop~" + strings.Repeat("A", 300),
		"cut": token[:len(token)-1], "more": token + "A", "another signature": string(flipped), "another app's": "other~" + sealedPart,
		"of no app": seal(t, sealed.New(secrets{}, nil), "nobody", sealed.Track, "79", ""), "to acknowledge": ack, "to acknowledge, as one to track": "shop~" + asTrack,
	} {
		if _, _, err := s.Open(t.Context(), bad, sealed.Track, ""); !errors.Is(err, sealed.ErrBad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.Open(t.Context(), token, sealed.Acknowledge, ""); !errors.Is(err, sealed.ErrBad) {
		t.Errorf("a token to track acknowledges: %v", err)
	}
}

func mustDecode(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzOpen(f *testing.F) {
	s := tokens()
	k, err := s.Key(context.Background(), "shop")
	if err != nil {
		f.Fatal(err)
	}
	good := k.Seal(sealed.Acknowledge, []byte("says"), "")
	f.Add(good)
	f.Add("shop~AQ")
	f.Add("~")
	f.Fuzz(func(t *testing.T, token string) {
		if _, _, err := s.Open(t.Context(), token, sealed.Acknowledge, ""); err == nil && token != good {
			t.Errorf("%q opens", token)
		}
	})
}

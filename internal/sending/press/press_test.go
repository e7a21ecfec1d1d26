package press

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

type secrets struct{}

func (secrets) TrackKey(_ context.Context, app string) ([]byte, error) {
	return []byte("secret of " + app), nil
}

func TestOnlyButtonsAsSentAreRead(t *testing.T) {
	tokens := sealed.New(secrets{}, nil)
	key, err := tokens.Key(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", MaxName)
	message := []byte("sixteen bytes of id\x80\x80\x80\x80\x80\x01") // with the longest number of a row that has to fit
	c := push.Content{Telegram: push.TelegramContent{Buttons: [][]push.TelegramLink{{{Text: "T", Callback: name}, {Text: "U", URL: "https://x.example/"}}}}}
	All(&c, key, func(*push.TelegramLink) Kind { return Acknowledging }, message[:16+6])
	row := c.Telegram.Buttons[0]
	data := row[0].Callback
	if len(data) > 64 || row[1].Callback != "" {
		t.Errorf("%d bytes: %q; of a link %q", len(data), data, row[1].Callback)
	}
	kind, says, button, err := Open(t.Context(), tokens, "shop", data)
	if err != nil || kind != Acknowledging || !slices.Equal(says, message[:22]) || button != name {
		t.Errorf("%q, %q, %q, %v", kind, says, button, err)
	}
	for what, bad := range map[string]string{
		"another name": data[:len(data)-1] + "m", "another kind": "n" + data[1:], "nothing": "", "a kind alone": "a", "no token": "a.n", "text": "hello", "a cut token": data[:20] + "." + name,
	} {
		if _, _, _, err := Open(t.Context(), tokens, "shop", bad); !errors.Is(err, sealed.ErrBad) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, _, err := Open(t.Context(), tokens, "another", data); !errors.Is(err, sealed.ErrBad) {
		t.Errorf("another app: %v", err)
	}
}

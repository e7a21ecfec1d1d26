package channel_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// MaxFile implements push.Uploader.
func (*botSender) MaxFile(kind string) int64 {
	if kind == "photo" {
		return 10
	}
	return 0
}

// Upload implements push.Uploader.
func (*botSender) Upload(_ context.Context, _ json.RawMessage, f *push.File) (string, error) {
	b, err := io.ReadAll(f.Body)
	if err != nil {
		return "", &push.UnknownError{Reason: "the connection ended"}
	}
	return "id-" + string(b), nil
}

func TestFilesAreCheckedBeforeTheirProviderGetsThem(t *testing.T) {
	s := newWorld(t).server
	set(t, s, "shop", push.Telegram, channel.Values{"token": "t"})
	upload := func(f push.File, text, address string) (string, error) {
		f.Body = strings.NewReader(text)
		give, err := s.Upload(t.Context(), "shop", push.Telegram, json.RawMessage(address), &f)
		if err != nil {
			return "", err
		}
		return give(t.Context())
	}
	photo := push.File{Type: "photo", Name: "a.jpg", Size: -1}
	if id, err := upload(photo, "0123456789", "{}"); err != nil || id != "id-0123456789" {
		t.Errorf("as large as allowed: %q, %v", id, err)
	}
	if _, err := upload(photo, "0123456789a", "{}"); err == nil || push.Outcome(err) != "failed" || !strings.Contains(err.Error(), "more than 10 bytes") {
		t.Errorf("a longer one of unknown size: %v", err)
	}
	long, empty, hologram, path := photo, photo, photo, photo
	long.Size, empty.Size, hologram.Type, path.Name = 11, 0, "hologram", "../a.jpg"
	var large *channel.TooLargeError
	if _, err := upload(long, "0123456789a", "{}"); !errors.As(err, &large) || large.Most != 10 {
		t.Errorf("a longer one of known size: %v", err)
	}
	for field, f := range map[string]push.File{"body": empty, "type": hologram, "name": path, "address": photo} {
		address := map[bool]string{true: "{", false: "{}"}[field == "address"]
		var bad *notification.FieldError
		if _, err := upload(f, "x", address); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()+m.GetLabel()[len(m.GetLabel())-1].GetValue()] = m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{"godwit_push_upload_bytes_totaltelegram": 10, "godwit_push_uploads_totalaccepted": 1, "godwit_push_uploads_totalrefused": 6}
	if !maps.Equal(got, want) {
		t.Errorf("metrics are %v, want %v", got, want)
	}
}

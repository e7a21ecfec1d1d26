package fcm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/fcmserver"
)

// file returns a service account's file with changes; nil removes a field.
func file(t testing.TB, change map[string]any) string {
	t.Helper()
	server := fcmserver.Start(fcmserver.Options{})
	defer server.Close()
	var fields map[string]any
	if err := json.Unmarshal(server.Account(), &fields); err != nil {
		t.Fatal(err)
	}
	fields["token_uri"] = "https://oauth2.googleapis.com/token"
	for k, v := range change {
		if fields[k] = v; v == nil {
			delete(fields, k)
		}
	}
	b, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAMalformedServiceAccountIsRefusedWhenItIsSet(t *testing.T) {
	whole := file(t, nil)
	key := "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
	for says, text := range map[string]string{
		"is required":                 "",
		"not valid JSON":              whole[:len(whole)/2],
		"not a JSON object":           `["x"]`,
		"is google-services.json":     `{"project_info":{"project_id":"demo"},"client":[]}`,
		`no "type":"service_account"`: file(t, map[string]any{"type": "authorized_user"}),
		"no client_email":             file(t, map[string]any{"client_email": nil}),
		"client_email is not a text":  file(t, map[string]any{"client_email": 7}),
		"no project_id":               file(t, map[string]any{"project_id": nil}),
		"not like my-project-123":     file(t, map[string]any{"project_id": "../../x"}),
		"no private_key":              file(t, map[string]any{"private_key": nil}),
		"not PEM":                     file(t, map[string]any{"private_key": "c2VjcmV0"}),
		"cut off or altered":          file(t, map[string]any{"private_key": key}),
		"token_uri must begin with":   file(t, map[string]any{"token_uri": "http://oauth2.googleapis.com/token"}),
		"token_uri leads to":          file(t, map[string]any{"token_uri": "https://169.254.169.254/token"}),
	} {
		_, err := fcm.Kind{}.Complete(channel.Values{fcm.FieldAccount: text})
		var field *notification.FieldError
		if !errors.As(err, &field) || field.Field != fcm.FieldAccount || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		if err != nil && strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	if _, err := (fcm.Kind{}).Complete(channel.Values{fcm.FieldAccount: whole}); err != nil {
		t.Error(err)
	}
	_, err := fcm.Kind{}.Complete(channel.Values{fcm.FieldAccount: whole, fcm.FieldBaseURL: "ftp://x"})
	var f *notification.FieldError
	if !errors.As(err, &f) || f.Field != fcm.FieldBaseURL {
		t.Error(err)
	}
}

func TestAServiceAccountIsReadInTheFormsThatPeopleHave(t *testing.T) {
	whole := file(t, nil)
	texts := []string{whole, "\ufeff" + whole}
	var fields struct {
		Key string `json:"private_key"`
	}
	if err := json.Unmarshal([]byte(whole), &fields); err != nil {
		t.Fatal(err)
	}
	for _, form := range sendertest.KeyForms(fields.Key) {
		texts = append(texts, file(t, map[string]any{"private_key": form}))
	}
	for i, text := range texts {
		if _, err := fcm.ParseAccount([]byte(text), urlguard.Targets{}); err != nil {
			t.Errorf("form %d: %v", i, err)
		}
	}
}

func TestOnlyWhoseAccountItIsIsShown(t *testing.T) {
	whole := file(t, nil)
	v := channel.Values{fcm.FieldAccount: whole}
	if got := fmt.Sprint(fcm.Kind{}.Shown(v)); got != "map[client_email:"+fcmserver.Email+" project:"+project+"]" {
		t.Error(got)
	}
	a, err := fcm.ParseAccount([]byte(whole), urlguard.Targets{})
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%v %+v %#v %s", a, a, a, slog.AnyValue(a))
	if strings.Contains(shown, "PRIVATE") || strings.Contains(shown, "MII") {
		t.Error(shown)
	}
	for _, f := range (fcm.Kind{}).Fields() {
		if f.Name == fcm.FieldAccount && !f.Secret {
			t.Error("the service account comes out again")
		}
	}
}

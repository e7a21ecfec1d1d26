package sendertest

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"godwit.dev/godwit/internal/sending/push"
)

// Vectors compares a channel's sender with api/vectors/push.json, which also tests clients and the examples for apps. encode returns the
// message for a request.
func Vectors(t *testing.T, channel string, encode func(*push.Request) ([]byte, error)) {
	t.Helper()
	text, err := os.ReadFile("../../../api/vectors/push.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name  string
			Steps []map[string]any
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range file.Cases {
		for i, s := range c.Steps {
			want, ok := s[channel].(map[string]any)
			if !ok {
				continue
			}
			n++
			w, _ := s["webpush"].(map[string]any)
			text := func(name string) string { v, _ := w[name].(string); return v }
			recall, _ := w["recall"].(bool)
			b, err := encode(&push.Request{
				ID: text("id"), GodwitID: text("godwit_id"), Recall: recall, AckToken: text("godwit_ack"), Settle: text("godwit_settle"),
				Content: push.Content{Title: text("title"), Body: text("body")},
			})
			var got map[string]any
			if err != nil || json.Unmarshal(b, &got) != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, step %d: %s, %v; want %v", c.Name, i, b, err, want)
			}
		}
	}
	if n == 0 {
		t.Errorf("the vectors have no message of %s", channel)
	}
}

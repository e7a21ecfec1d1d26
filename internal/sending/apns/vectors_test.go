package apns

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// vectorCase is a case of api/vectors/apns.json.
type vectorCase struct {
	Name string `json:"name"`
	// Message or Update is what is sent, to Address.
	Message *struct {
		Content  push.Content `json:"content"`
		ID       string       `json:"id"`
		Ack      string       `json:"ack"`
		Track    string       `json:"track"`
		Settle   string       `json:"settle"`
		Priority push.Urgency `json:"priority"`
		Recall   bool         `json:"recall"`
		Badge    *int         `json:"badge"`
		Alone    bool         `json:"badge_alone"`
	} `json:"message"`
	Update *struct {
		State    json.RawMessage     `json:"state"`
		Alert    *push.ActivityAlert `json:"alert"`
		Priority push.Urgency        `json:"priority"`
		End      bool                `json:"end"`
		Stale    int64               `json:"stale"`
		Dismiss  int64               `json:"dismiss"`
	} `json:"update"`
	Address json.RawMessage   `json:"address"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Payload any               `json:"payload"`
}

// The vectors are the contract that apps are written against: what a message looks like when it leaves for Apple.
func TestPayloadsAreThoseOfTheVectors(t *testing.T) {
	text, err := os.ReadFile("../../../api/vectors/apns.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Now   int64        `json:"now"`
		Topic string       `json:"topic"`
		Cases []vectorCase `json:"cases"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(file.Now, 0)
	s := &Sender{cfg: Config{Topic: file.Topic, Environment: Production, Now: func() time.Time { return now }}, scope: "apns:" + file.Topic, signer: &signer{}}
	for i := range file.Cases {
		c := &file.Cases[i]
		m, err := c.make(s)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		var payload any
		if err := json.Unmarshal(m.body, &payload); err != nil || !reflect.DeepEqual(payload, c.Payload) {
			t.Errorf("%s: the payload is %s", c.Name, m.body)
		}
		if m.path != c.Path {
			t.Errorf("%s: the path is %s, want %s", c.Name, m.path, c.Path)
		}
		got := make(map[string]string)
		for _, h := range s.request(m, "token").Header {
			got[h.Name] = h.Value
		}
		for _, name := range []string{"apns-topic", "apns-push-type", "apns-priority", "apns-channel-id", "apns-expiration"} {
			if want, says := c.Headers[name]; got[name] != want && (says || name != "apns-expiration") {
				t.Errorf("%s: %s is %q, want %q", c.Name, name, got[name], want)
			}
		}
	}
	if len(file.Cases) < 10 {
		t.Errorf("%d cases", len(file.Cases))
	}
}

func (c *vectorCase) make(s *Sender) (*message, error) {
	if c.Update != nil {
		u := push.ActivityUpdate{Address: c.Address, State: c.Update.State, Alert: c.Update.Alert, Urgency: c.Update.Priority, End: c.Update.End}
		if c.Update.Stale != 0 {
			u.Stale = time.Unix(c.Update.Stale, 0)
		}
		if c.Update.Dismiss != 0 {
			u.Dismiss = time.Unix(c.Update.Dismiss, 0)
		}
		return s.updateMessage(&u)
	}
	m := c.Message
	return s.message(&push.Request{
		ID: "d-1", GodwitID: m.ID, Address: c.Address, Content: m.Content, AckToken: m.Ack, Track: m.Track, Settle: m.Settle, Urgency: m.Priority,
		Recall: m.Recall, Badge: m.Badge, BadgeOnly: m.Alone,
	})
}

package backend

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

func TestDecodeReadsEveryField(t *testing.T) {
	d, err := decodeDraft([]byte(` { "to" : [ "a" , "b" ] , "id":"n","title":"\u00e9\n","body":"b","category":"c","data": [1, "]", {"a":"\""}] ,
		"ttl":"90s","send_at":"2026-01-02T03:04:05.006+01:00","collapse_key":"k","priority":"low","ack":"none",
		"escalate":[{"channel":"live"},{"after":5,"channel":"fcm"},
		{"settle":"shown","withdraw":false,"to":"sms","channel":"webhook"},{"channel":"apns","withdraw":true}],"reply_by":"3d","expires_at":"2026-01-03T00:00:00Z"} `))
	if err != nil {
		t.Fatal(err)
	}
	want := notification.Draft{
		To: []string{"a", "b"}, ID: "n",
		Content:     notification.Content{Title: "é\n", Body: "b", Category: "c", Data: []byte(`[1, "]", {"a":"\""}]`), ContentType: "application/json"},
		TTL:         90 * time.Second,
		SendAt:      time.Date(2026, 1, 2, 2, 4, 5, 6_000_000, time.UTC),
		ExpiresAt:   time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC),
		CollapseKey: "k", Priority: notification.Low, Ack: notification.AckNone,
		Escalate: []notification.Step{
			{Channel: "live"},
			{Channel: "fcm", After: 5 * time.Second},
			{Channel: "webhook", StepOptions: notification.StepOptions{Shown: true, Keep: true, To: "sms"}},
			{Channel: "apns"},
		},
		ReplyBy: 72 * time.Hour,
	}
	d.SendAt, d.ExpiresAt = d.SendAt.UTC(), d.ExpiresAt.UTC()
	if !d.list || !reflect.DeepEqual(d.Draft, want) {
		t.Errorf("got %+v\nwant %+v", d.Draft, want)
	}
}

func TestAListOfRecipientsIsReadNoFurtherThanItMayBeLong(t *testing.T) {
	list := func(n int) []byte { return []byte(`{"to":["a"` + strings.Repeat(`,"a"`, n-1)) }
	if _, err := decodeDraft(append(list(notification.MaxRecipients), `],"title":"t"}`...)); err != nil {
		t.Error(err)
	}
	if _, err := decodeDraft(list(notification.MaxRecipients + 1)); err == nil || !strings.Contains(err.Error(), "more than 1000 recipients") {
		t.Errorf("a list that is too long, and does not end: %v", err)
	}
}

func TestDecodedDraftDoesNotReferToTheBody(t *testing.T) {
	body := []byte(`{"to":"abc","id":"abc","title":"abc","body":"abc","category":"abc","data":{"abc":1},"collapse_key":"abc"}`)
	d, err := decodeDraft(body)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = '#'
	}
	c := d.Content
	for _, s := range []string{d.To[0], d.ID, c.Title, c.Body, c.Category, d.CollapseKey, string(c.Data)} {
		if strings.Contains(s, "#") {
			t.Errorf("%q changed with the body", s)
		}
	}
}

// FuzzDecodeDraft compares the decoder with encoding/json: accepted input is an object in valid JSON, from which both read the same
// strings.
func FuzzDecodeDraft(f *testing.F) {
	for _, s := range []string{
		`{"to":"driver-42","id":"ride-9f3","title":"New ride","data":{"fare":120},"ttl":"30s","priority":"high"}`,
		`{"to":["a","b"],"body":"\u00e9\ud83d\ude00\ud800","data":[[],{},"\\",1e9,null],"escalate":[{"channel":"live","after":"5s"}]}`,
		`{"to":"a","content_type":"text/plain","data":"x\ny"}`, `{"to":"a","data_base64":"AP8=","ttl":60,"title":null}`,
		"{\"to\":\"a\",\n\"data\":{\"a\":\n[1]}}", `{"to":"a","data":{]}`, `{"\u0074o":"a"}`, `{"to":"a"`, ``, `[`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := decodeDraft(body)
		if err != nil {
			return
		}
		if notification.IsJSON(d.Content.ContentType) && !json.Valid(d.Content.Data) {
			return // the error names data: the rules of a publish refuse it
		}
		var want struct {
			Title, Body, Category, ID *string
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil {
			t.Fatalf("accepted %q, which is not JSON: %v", body, err)
		}
		for name, to := range map[string]**string{"title": &want.Title, "body": &want.Body, "category": &want.Category, "id": &want.ID} {
			if raw, ok := object[name]; ok {
				if err := json.Unmarshal(raw, to); err != nil {
					t.Fatalf("accepted %q with %s: %v", body, name, err)
				}
			}
		}
		same(t, "title", want.Title, d.Content.Title)
		same(t, "body", want.Body, d.Content.Body)
		same(t, "category", want.Category, d.Content.Category)
		same(t, "id", want.ID, d.ID)
		if notification.IsJSON(d.Content.ContentType) && object["data"] != nil && string(object["data"]) != "null" {
			var a, b any
			_ = json.Unmarshal(object["data"], &a) // valid: part of a valid document
			_ = json.Unmarshal(d.Content.Data, &b) // valid: checked above
			if !reflect.DeepEqual(a, b) {
				t.Errorf("data %s became %s", object["data"], d.Content.Data)
			}
		}
	})
}

func same(t *testing.T, field string, want *string, got string) {
	t.Helper()
	if want == nil {
		want = new(string)
	}
	if *want != got {
		t.Errorf("%s is %q, want %q", field, got, *want)
	}
}

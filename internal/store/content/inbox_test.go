package content_test

import (
	"bytes"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
)

func TestInboxesKeepWhatPeopleSee(t *testing.T) {
	month := 30 * 24 * time.Hour
	for name, in := range map[string]*notification.Inbox{
		"plain":   {Keep: month},
		"actions": {Keep: month, Actions: []notification.Action{{ID: "ok", Title: "OK"}}},
	} {
		for _, push := range [][]byte{nil, []byte(`{"content":{}}`)} {
			c := notification.Content{Title: "a", Body: "b", Category: "c", Data: []byte(`{}`), ContentType: "application/json", Push: push, Inbox: in}
			body, hash := content.Encode(&c)
			whole, err := content.Decode(body)
			if err != nil || whole.Inbox == nil || whole.Inbox.Keep != month || len(whole.Inbox.Actions) != len(in.Actions) || !bytes.Equal(whole.Push, push) {
				t.Errorf("%s: %+v, %v", name, whole, err)
			}
			kept, err := content.Decode(content.Kept(&c, body))
			if err != nil || kept.Title != "a" || kept.Body != "b" || kept.Category != "c" || string(kept.Data) != `{}` || kept.Push != nil {
				t.Errorf("%s: kept %+v, %v", name, kept, err)
			}
			if has := kept.Inbox != nil && len(kept.Inbox.Actions) > 0; has != (len(in.Actions) > 0) {
				t.Errorf("%s: kept actions %+v", name, kept.Inbox)
			}
			c.Inbox = nil
			if _, other := content.Encode(&c); other != hash {
				t.Errorf("%s: the inbox changes the hash", name)
			}
		}
	}
}

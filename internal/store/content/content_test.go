package content_test

import (
	"bytes"
	"testing"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
)

// FuzzContent decodes arbitrary bytes without harm; accepted ones encode to the same content and hash again.
func FuzzContent(f *testing.F) {
	for _, c := range []notification.Content{
		{},
		{Title: "New ride", Body: "2.1 km away", Category: "NEW_RIDE", Data: []byte(`{"fare":120}`), ContentType: "application/json"},
		{Title: "Hi", Push: []byte(`{"content":{}}`)},
		{Data: []byte{0, 0xff}, ContentType: "application/octet-stream"},
	} {
		body, _ := content.Encode(&c)
		f.Add(body)
		f.Add(body[:len(body)-1])
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		c, err := content.Decode(stored)
		if err != nil {
			return
		}
		body, hash := content.Encode(&c)
		again, err := content.Decode(body)
		if err != nil {
			t.Fatalf("what was encoded cannot be decoded: %v", err)
		}
		if again.Title != c.Title || again.Body != c.Body || again.Category != c.Category || again.ContentType != c.ContentType || !bytes.Equal(again.Data, c.Data) || !bytes.Equal(again.Push, c.Push) || (again.Push == nil) != (c.Push == nil) {
			t.Errorf("got %+v, want %+v", again, c)
		}
		if _, h := content.Encode(&again); h != hash {
			t.Error("the hash changed")
		}
	})
}

func TestTheHashIgnoresTheContentTypeAndNothingElse(t *testing.T) {
	base := notification.Content{Title: "a", Body: "b", Category: "c", Data: []byte("d"), ContentType: "text/plain"}
	_, want := content.Encode(&base)
	for name, change := range map[string]func(*notification.Content){
		"title":    func(c *notification.Content) { c.Title = "x" },
		"body":     func(c *notification.Content) { c.Body = "x" },
		"category": func(c *notification.Content) { c.Category = "x" },
		"data":     func(c *notification.Content) { c.Data = []byte("x") },
		"shifted":  func(c *notification.Content) { c.Title, c.Body = "ab", "" },
	} {
		c := base
		change(&c)
		if _, got := content.Encode(&c); got == want {
			t.Errorf("other %s, same hash", name)
		}
	}
	base.Push = []byte("x")
	if _, got := content.Encode(&base); got != want {
		t.Error("what push channels get changes the hash")
	}
	base.ContentType = "application/json"
	if _, got := content.Encode(&base); got != want {
		t.Error("the content type changes the hash")
	}
}

func TestAContentWithAKeyIsKnownByThat(t *testing.T) {
	a := notification.Content{Title: "a", Key: "k"}
	b := notification.Content{Title: "b", Key: "k"}
	_, first := content.Encode(&a)
	if _, second := content.Encode(&b); second != first {
		t.Error("another text of the same key has another hash")
	}
	b.Key = "l"
	if _, second := content.Encode(&b); second == first {
		t.Error("another key has the same hash")
	}
}

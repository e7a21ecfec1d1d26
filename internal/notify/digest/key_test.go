package digest

import (
	"strings"
	"testing"

	"godwit.dev/godwit/internal/notify/notification"
)

func TestKeyIsAFieldOfTheDataUnlessThePublishNamesOne(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		by, key, data string
		variables     map[string]string
		want          string
	}{
		{by: "post", data: `{"post":"p1"}`, want: "p1"},
		{by: "post", data: `{"post":"p1"}`, key: "own", want: "own"},
		{by: "", data: `{"post":"p1"}`, want: ""},
		{by: "post", data: `{"other":"p1"}`, want: ""},
		{by: "post", data: `{"post":null}`, want: ""},
		{by: "post", data: `{"post":17}`, want: "17"},
		{by: "post", data: `{"post":{ "a" : 1 }}`, want: `{"a":1}`},
		{by: "order.id", data: `{"order":{"id":"o1"}}`, want: "o1"},
		{by: "order.id", data: `{"order.id":"dotted","order":{"id":"o1"}}`, want: "dotted"},
		{by: "a.b.c", data: `{"a.b":{"c":"x"}}`, want: "x"},
		{by: "order.id", data: `{"order":"text"}`, want: ""},
		{by: "post", data: `[1]`, want: ""},
		{by: "post", data: ``, variables: map[string]string{"post": "p2"}, want: "p2"},
		{by: "post", data: `{"post":"p1"}`, variables: map[string]string{"post": "p2"}, want: "p1"},
		{by: "post", data: `{"post":"` + long + `"}`, want: stored(long)},
		{by: "post", data: `{"post":"a\u0000b"}`, want: stored("a\x00b")},
	} {
		d := &notification.Draft{DigestKey: c.key, Variables: c.variables}
		content := &notification.Content{Data: []byte(c.data), ContentType: "application/json"}
		if got := keyOf(d, content, c.by); got != c.want {
			t.Errorf("key by %q of %s with %v: %q, want %q", c.by, c.data, c.variables, got, c.want)
		}
	}
	if got := stored(long); len(got) > notification.MaxNameBytes || got == stored(long+"x") {
		t.Errorf("a long key is kept as %q", got)
	}
}

func TestLinesAreShortAndHaveNoBreaks(t *testing.T) {
	for _, c := range [][3]string{
		{"Title", "Body", "Title: Body"}, {"Title", "", "Title"}, {"", "Body\nof two  lines", "Body of two lines"}, {"", "", ""},
	} {
		if got := line(c[0], c[1]); got != c[2] {
			t.Errorf("line of %q and %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
	if got := line(strings.Repeat("ü", 300), ""); len(got) > maxLine || !strings.HasSuffix(got, "ü…") {
		t.Errorf("a long line is %d bytes, %q", len(got), got)
	}
}

package foreign

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// preview returns a campaign's texts as subscribers see them.
func (w *blog) preview(id string) (title, body, url string) {
	w.Helper()
	var said struct {
		Content struct{ Title, Body, URL string }
	}
	w.call(http.MethodPost, "/v1/campaigns/"+id+"/preview", map[string]any{}, &said)
	return said.Content.Title, said.Content.Body, said.Content.URL
}

func TestPostsInAnyScriptAndWithAnyBracesAreSent(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp(w.url(), w.key, nil)
	family := "👩‍👩‍👧‍👦"
	for i, c := range []struct{ title, content, wantTitle, wantBody string }{
		{strings.Repeat("Ж", 100), "Text.", strings.Repeat("Ж", 100), "Text."},
		{strings.Repeat("潮", 250), "Text.", strings.Repeat("潮", 200), "Text."},
		{strings.Repeat("कि", 150), strings.Repeat("क", 3000), strings.Repeat("कि", 100), strings.Repeat("क", 400)},
		{strings.Repeat(family, 60), strings.Repeat(family, 200), strings.Repeat(family, 24), strings.Repeat(family, 57)},
		{strings.Repeat("🇳🇴", 130), strings.Repeat("👍🏽", 300), strings.Repeat("🇳🇴", 75), strings.Repeat("👍🏽", 200)},
		{"e" + strings.Repeat("\u0301", 900), "Text.", "e" + strings.Repeat("\u0301", 199), "Text."},
		{strings.Repeat("\"\\", 99), strings.Repeat("\"\\", 300), strings.Repeat("\"\\", 99), strings.Repeat("\"\\", 200)},
		{"{{{raw}}} &#123;{x}}", "{{{{a}}}} {{", "{ { {raw}}} { {x}}", "{ { { {a}}}} { {"},
		{"{{", "{{x|}} {{#if a}} {{ & }}", "{ {", "{ {x|}} { {#if a}} { { & }}"},
		{"שלום \u200f עולם", "a\x00b\x07c [gallery] &amp;amp;&nbsp;d", "שלום \u200f עולם", "ab c &amp;\u00a0d"},
		{"caf\xe9 \xf0\x9f", "Text.", "caf\ufffd \ufffd", "Text."},
		{"", "Text.", "The Daily Tide", "Text."},
	} {
		save := publishPost(i+1, nil)
		save["bytes"] = map[string][]byte{"post_title": []byte(c.title), "post_content": []byte(c.content)} // JSON carries UTF-8 alone
		r := s.does(save)
		marks := r.Meta[strconv.Itoa(i+1)]
		if marks["_godwit_campaign"] == "" {
			t.Errorf("%.40q is not sent: %s", c.title, marks["_godwit_error"])
			continue
		}
		title, body, _ := w.preview(marks["_godwit_campaign"])
		if title != c.wantTitle {
			t.Errorf("%.40q is sent as %q", c.title, title)
		}
		if body != c.wantBody {
			t.Errorf("%.40q: the text is sent as %q", c.title, body)
		}
	}
	w.campaigns()
	for _, m := range w.push.Received(w.subscriber) {
		if _, err := m.Payload(); err != nil {
			t.Error(err)
		}
	}
	if got := len(w.push.Received(w.subscriber)); got != 12 {
		t.Errorf("%d of 12 posts reached the subscriber", got)
	}
}

func TestAddressesOfAPostAreSentAsBrowsersOpenThem(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp(w.url(), w.key, nil)
	for i, c := range []struct{ link, want string }{
		{"https://site.example/?p=1&#038;lang=no&amp;x=1", "https://site.example/?p=1&lang=no&x=1"},
		{"https://site.example/it&#039;s/&#x26;&quot;", `https://site.example/it's/&"`},
		{"https://site.example/{{slug}}/", "https://site.example/%7B%7Bslug%7D%7D/"},
		{"https://site.example/" + strings.Repeat("%d0%b6", 180), "https://site.example/" + strings.Repeat("%d0%b6", 180)},
	} {
		r := s.does(publishPost(i+1, step{"link": c.link, "post_title": strings.Repeat("क", 200), "post_content": strings.Repeat("क ", 900), "thumbnail": "https://site.example/" + strings.Repeat("a", 900)}))
		id := r.Meta[strconv.Itoa(i+1)]["_godwit_campaign"]
		if id == "" {
			t.Errorf("%.60s is not sent: %s", c.link, r.Meta[strconv.Itoa(i+1)]["_godwit_error"])
		} else if _, _, url := w.preview(id); url != c.want {
			t.Errorf("%.60s is sent as %s", c.link, url)
		}
	}
	w.campaigns()
	if got := len(w.push.Received(w.subscriber)); got != 4 {
		t.Errorf("%d of 4 posts reached the subscriber", got)
	}
}

func TestRefusedPostIsSentOnceChanged(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp(w.url(), w.key, nil)
	s.logs = "post 1 was not sent: POST /v1/campaigns was answered with 400"
	r := s.does(publishPost(1, step{"link": "ftp://site.example/"}))
	if !strings.Contains(r.Meta["1"]["_godwit_error"], "content.url") && !strings.Contains(r.Meta["1"]["_godwit_error"], "http") {
		t.Errorf("refused: %v", r.Meta["1"])
	}
	if r := s.does(step{"do": "notice", "screen": "edit"}); !strings.Contains(r.Drawn, "The sea") || !strings.Contains(r.Drawn, "answered with 400") {
		t.Errorf("the list of posts says %q", r.Drawn)
	}
	r = s.does(publishPost(1, step{"link": "https://site.example/"}))
	if r.Meta["1"]["_godwit_campaign"] == "" || r.Scheduled != 0 {
		t.Errorf("changed: %+v", r)
	}
	if r := s.does(step{"do": "notice", "screen": "edit"}); r.Drawn != "" {
		t.Errorf("the list of posts still says %q", r.Drawn)
	}
}

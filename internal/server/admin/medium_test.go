package admin_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
)

// scripted is a transport for the requests of the page's script.
type scripted struct{}

func (scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("HX-Request", "true")
	return http.DefaultTransport.RoundTrip(r)
}

func TestAFileForTelegramIsUploadedFromTheFormOfACampaign(t *testing.T) {
	box := new(channelBox)
	w := newWorld(t, func(c *admin.Config) {
		c.Channels, c.Ready = box, func(_ context.Context, _ string, ch push.Channel) bool { return ch == push.Telegram }
	})
	b := w.signedIn()
	_, page := b.get("/ui/campaigns/new")
	wants(t, page, `action="/ui/campaigns/file"`, `<option value="sticker">sticker</option>`)
	said := b.uploadTo("/ui/campaigns/file", "menu <1>.pdf", "the menu", map[string]string{"type": "document", "chat": "@news"})
	wants(t, said, "menu &lt;1&gt;.pdf is uploaded", "<code>FILE&lt;7&gt;</code>")
	if want := []string{`document menu <1>.pdf {"chat_id":"@news"} -1 the menu`}; !slices.Equal(box.files, want) {
		t.Errorf("uploaded %q, want %q", box.files, want)
	}
	b.client.Transport = scripted{}
	said = b.uploadTo("/ui/campaigns/file", "a.pdf", "more", map[string]string{"type": "document", "chat": "42"})
	wants(t, said, `id="medium" hx-swap-oob="true"`, `<option value="document" selected>`, `value="FILE&lt;7&gt;"`)
	for _, c := range []struct{ name, text, kind, chat, want string }{
		{"a.pdf", "refused", "document", "42", "Telegram did not take the file: chat &lt;not&gt; found."},
		{"a.pdf", "x", "hologram", "42", "is no kind of file"},
		{"a.pdf", "x", "document", "", "Name a chat"},
		{"", "x", "document", "42", "Choose a file"},
	} {
		said = b.uploadTo("/ui/campaigns/file", c.name, c.text, map[string]string{"type": c.kind, "chat": c.chat})
		if wants(t, said, c.want); strings.Contains(said, "hx-swap-oob") {
			t.Errorf("%+v changes the form: %s", c, said)
		}
	}
}

func TestFormHasNoUploadsWithoutTelegram(t *testing.T) {
	w := newWorld(t, func(c *admin.Config) { c.Ready = func(context.Context, string, push.Channel) bool { return false } })
	status, page := w.signedIn().get("/ui/campaigns/new")
	if status != http.StatusOK || strings.Contains(page, "/ui/campaigns/file") {
		t.Errorf("%d, and the form offers uploads", status)
	}
}

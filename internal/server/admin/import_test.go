package admin_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

// upload posts a file to the import page.
func (b *browser) upload(name, text string, fields map[string]string) string {
	b.Helper()
	return b.uploadTo("/ui/audience/import", name, text, fields)
}

// uploadTo posts a form with a file.
func (b *browser) uploadTo(path, name, text string, fields map[string]string) string {
	b.Helper()
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	for field, value := range fields {
		must(b.T, m.WriteField(field, value))
	}
	part, err := m.CreateFormFile("file", name)
	must(b.T, err)
	_, err = part.Write([]byte(text))
	must(b.T, err)
	must(b.T, m.Close())
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.srv.URL+path, &body)
	must(b.T, err)
	r.Header.Set("Content-Type", m.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, said := b.do(r)
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("status %d: %s", resp.StatusCode, said)
	}
	return said
}

func TestAFileIsShownAsItIsReadAndThenImported(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	const file = "\ufeffchat_id;city;vip;Price\r\n1;Z\u00fcrich;TRUE;12.50\r\n2;<b>;FALSE;9\r\nx;\"open;TRUE;1\r\n3;Oslo;TRUE;2\r\n"
	count := func() (n int64) {
		active, _, err := w.store.EndpointCounts(t.Context(), "shop")
		must(t, err)
		for _, k := range active {
			n += k
		}
		return n
	}
	said := b.upload("people.csv", file, map[string]string{"channel": "telegram", "dry": "1"})
	for _, want := range []string{"UTF-8 with a byte-order mark, cells separated by semicolon", "attribute vip, true and false", "attribute Price, numbers", "<code>&lt;b&gt;</code>", "Line 4 is refused: has a quote", "<b>3</b> would be"} {
		if !strings.Contains(said, want) {
			t.Errorf("the preview does not say %q:\n%s", want, said)
		}
	}
	if n := count(); n != 0 {
		t.Errorf("a preview registered %d", n)
	}
	said = b.upload("people.csv", file, map[string]string{"channel": "telegram", "tag": "new"})
	if !strings.Contains(said, "<b>3</b> registered or renewed, <b>1</b> refused") || count() != 3 {
		t.Errorf("%d are registered:\n%s", count(), said)
	}
	if said = b.upload("people.csv", "chat_id,city\n1,Z\xfcrich\n", nil); !strings.Contains(said, "windows-1252") {
		t.Errorf("an encoding was guessed:\n%s", said)
	}
	if said = b.upload("people.ndjson", `{"channel":"telegram","address":{"chat_id":9}}`, nil); !strings.Contains(said, "<b>1</b> registered") || count() != 4 {
		t.Errorf("%d are registered:\n%s", count(), said)
	}
}

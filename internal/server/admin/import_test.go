package admin_test

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"html"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
)

// upload posts a file to the import page.
func (b *browser) upload(name, text string, fields map[string]string) string {
	b.Helper()
	return b.uploadTo("/ui/audience/import", name, text, fields)
}

// uploadTo posts a form with a file.
func (b *browser) uploadTo(path, name, text string, fields map[string]string, headers ...string) string {
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
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
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
	said := b.uploadTo("/ui/audience/import/check", "people.csv", file, map[string]string{"channel": "telegram"})
	wants(t, said, "UTF-8 with a byte-order mark, cells separated by semicolon", "attribute vip, true and false", "attribute Price, numbers", "<code>&lt;b&gt;</code>", "Line 4 is refused: has a quote", "<b>3</b> would be",
		"chat 2", "city = &lt;b&gt;", "Import 3</button>")
	b.upload("people.csv", file, map[string]string{"channel": "telegram", "dry": "1"})
	if n := count(); n != 0 {
		t.Errorf("a preview registered %d", n)
	}
	said = b.upload("people.csv", file, map[string]string{"channel": "telegram", "tag": "new"})
	wants(t, said, "<b>3</b> registered or renewed, 3 of them new. <b>1</b> refused.")
	if count() != 3 {
		t.Errorf("%d are registered:\n%s", count(), said)
	}
	if said = b.upload("people.csv", "chat_id,city\n1,Z\xfcrich\n", nil); !strings.Contains(said, "windows-1252") {
		t.Errorf("an encoding was guessed:\n%s", said)
	}
	if said = b.upload("people.ndjson", `{"channel":"telegram","address":{"chat_id":9}}`, nil); !strings.Contains(numbers.ReplaceAllString(said, ""), "<b>1</b> registered") || count() != 4 {
		t.Errorf("%d are registered:\n%s", count(), said)
	}
}

// reportOf returns the file of lines with problems that a page offers.
func reportOf(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`href="data:text/csv;charset=utf-8;base64,([^"]+)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page offers no file:\n%s", page)
	}
	text, err := base64.StdEncoding.DecodeString(html.UnescapeString(found[1]))
	must(t, err)
	report, marked := strings.CutPrefix(string(text), "\ufeff")
	if !marked {
		t.Errorf("spreadsheets do not know that the file is UTF-8: %q", report)
	}
	return report
}

// A German spreadsheet separates cells by semicolons.
func TestLinesWithProblemsAreDownloadedInTheReadersLanguage(t *testing.T) {
	b := newWorld(t).signedIn()
	page := b.uploadTo("/ui/audience/import/check", "people.csv", "\ufeffchat_id,timezone,tags,n\n7,Nowhere,a,1\nx y,,a,2\n8,,a\n9,,[1],3\n", map[string]string{"channel": "telegram"}, "Accept-Language", "de")
	table := csv.NewReader(strings.NewReader(reportOf(t, page)))
	table.Comma = ';'
	lines, err := table.ReadAll()
	must(t, err)
	want := [][]string{
		{"Zeile", "Problem"},
		{"4", "abgelehnt: hat 3 Zellen; die erste Zeile nennt 4 Spalten"},
		{"5", "abgelehnt: tags ist keine JSON-Liste von Texten"},
		{"2", `timezone: "Nowhere" ist keine Zeitzone wie Europe/Oslo und wird weggelassen`},
		{"3", "abgelehnt: address.chat_id: Muss die Nummer eines Chats sein oder ein öffentlicher Name wie @channel."},
	}
	if !slices.EqualFunc(lines, want, slices.Equal) {
		t.Errorf("the file is %q", lines)
	}
	wants(t, page, "UTF-8 mit Byte-Order-Mark, Zellen getrennt durch Komma", "Attribut n, Zahlen", "Adresse: chat_id")
	page = b.uploadTo("/ui/audience/import/check", "people.csv", "chat_id,chat_id\n7,7\n", nil, "Accept-Language", "de")
	wants(t, page, "Die Datei lässt sich nicht lesen: Spalte 2: &#34;chat_id&#34; und &#34;chat_id&#34; bedeuten beide chat_id.")
}

func TestLinesWithProblemsAreDownloaded(t *testing.T) {
	b := newWorld(t).signedIn()
	var file strings.Builder
	file.WriteString("chat_id,timezone\n")
	for i := range 3000 {
		fmt.Fprintf(&file, "=HYPERLINK(%d),x\n", i)
	}
	file.WriteString("7,Nowhere\n")
	page := b.uploadTo("/ui/audience/import/check", "people.csv", file.String(), map[string]string{"channel": "telegram"})
	report := reportOf(t, page)
	lines, err := csv.NewReader(strings.NewReader(report)).ReadAll()
	must(t, err)
	if len(lines) < 300 || len(page) > 200<<10 || lines[0][0] != "line" || lines[1][0] != "2" || !strings.HasPrefix(lines[1][1], "refused: ") {
		t.Errorf("the file has %d lines on a page of %d bytes and begins with %q", len(lines), len(page), lines[:2])
	}
	wants(t, page, "more did not fit into it", "<b>3,000</b> refused", "<b>1</b> would be")
	page = b.uploadTo("/ui/audience/import/check", "people.csv", "chat_id,timezone\n7,Nowhere\nx y,\n", map[string]string{"channel": "telegram"})
	if got := reportOf(t, page); !strings.Contains(got, "\n2,") || !strings.Contains(got, "\n3,refused: ") {
		t.Errorf("the file: %s", got)
	}
}

func TestAnImportIsUndoneAsFarAsItMadeEndpoints(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	chats := func() (all []string) {
		list, _, _, err := w.store.ListEndpoints(t.Context(), "shop", "", &audience.Selection{}, 0, 1000)
		must(t, err)
		for i := range list {
			all = append(all, string(list[i].Address))
		}
		return all
	}
	old := b.upload("old.csv", "chat_id\n1\n2\n", map[string]string{"channel": "telegram", "tag": "spring"})
	wants(t, old, "2 of them new")
	page := b.upload("new.csv", "chat_id\n2\n3\n4\n", map[string]string{"channel": "telegram", "tag": "spring"})
	wants(t, page, "<b>3</b> registered or renewed, 2 of them new")
	undo := fieldsIn(t, page, "undo")
	b.upload("later.csv", "chat_id\n5\n", map[string]string{"channel": "telegram", "tag": "autumn"})
	if len(chats()) != 5 {
		t.Fatalf("there are %q", chats())
	}
	_, page = b.post("/ui/audience/import/undo", undo)
	wants(t, page, "The import is undone: 2 endpoints are deleted.")
	if got := chats(); len(got) != 3 || strings.Contains(strings.Join(got, " "), "3") || strings.Contains(strings.Join(got, " "), "4") {
		t.Errorf("left are %q", got)
	}
	_, page = b.post("/ui/audience/import/undo", undo, "HX-Request", "true") // twice
	wants(t, page, "0 endpoints are deleted.")
	if page = b.upload("new.csv", "chat_id\n9\n", map[string]string{"channel": "telegram"}); strings.Contains(page, `id="undo"`) {
		t.Error("an import without a tag offers to be undone")
	}
	for _, name := range []string{"tag", "since", "until", "after", "deleted"} {
		bad := url.Values{}
		for field, values := range undo {
			bad[field] = values
		}
		bad.Set(name, hostile)
		status, page := b.post("/ui/audience/import/undo", bad)
		checkHarmless(t, name, page)
		if status >= http.StatusInternalServerError {
			t.Errorf("%s: %d", name, status)
		}
	}
	if len(chats()) != 4 {
		t.Errorf("left are %q", chats())
	}
}

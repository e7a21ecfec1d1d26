package foreign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/test/blackbox"
)

// press is a WordPress of its own: Debian's, with SQLite for its data, PHP's web server, and the plug-in as a zip.
type press struct {
	*testing.T
	client    http.Client // a browser
	url, home string
	env       []string
	archive   string // the plug-in's zip
}

func newPress(t *testing.T) *press {
	t.Helper()
	php, parts := blackbox.Tool(t, "php"), filepath.Join(blackbox.Root(), ".bin", "wordpress")
	if ready, _ := filepath.Glob(filepath.Join(parts, ".with-*")); len(ready) == 0 {
		blackbox.Skip(t, "WordPress is not there: run make test-tools")
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	at := blackbox.Free(t)
	p := &press{T: t, client: http.Client{Jar: jar}, url: "http://" + at, home: t.TempDir()}
	core := filepath.Join(parts, "core")
	p.env = append(os.Environ(), "GODWIT_WORDPRESS="+core, "GODWIT_WORDPRESS_CONFIG="+filepath.Join(p.home, "config.php"), "GODWIT_WORDPRESS_URL="+p.url)
	p.lay(parts)
	p.run("install")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), php, "-d", "opcache.enable_cli=1", "-S", at, "-t", core, filepath.Join(p.home, "router.php"))
	cmd.Env = p.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		p.checkLog()
	})
	if err := blackbox.Poll(t.Context(), time.Minute, func() error {
		_, err := getPage(t, p.url+"/wp-includes/images/blank.gif")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// lay lays out the site's own folder.
func (p *press) lay(parts string) {
	p.Helper()
	sqlite := filepath.Join(p.home, "content", "plugins", "sqlite-database-integration")
	for to, from := range map[string]string{
		p.home: "../wordpress/testdata/real", sqlite: filepath.Join(parts, "sqlite-database-integration"), filepath.Join(p.home, "content", "themes", "theme"): "../wordpress/testdata/real/theme",
	} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			p.Fatal(err)
		}
	}
	db, err := os.ReadFile(filepath.Join(sqlite, "db.copy"))
	if err != nil {
		p.Fatal(err)
	}
	db = bytes.ReplaceAll(db, []byte("{SQLITE_IMPLEMENTATION_FOLDER_PATH}"), []byte(sqlite))
	if err := os.WriteFile(filepath.Join(p.home, "content", "db.php"), db, 0o600); err != nil {
		p.Fatal(err)
	}
	pack := exec.CommandContext(p.Context(), "go", "run", "./tools/pluginzip", "integrations/wordpress", p.home)
	pack.Dir = blackbox.Root()
	out, err := pack.CombinedOutput()
	if err != nil {
		p.Fatalf("pack the plug-in: %v\n%s", err, out)
	}
	p.archive = strings.TrimSpace(string(out))
}

// run does something on the site's command line.
func (p *press) run(args ...string) string {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), blackbox.Tool(p, "php"), append([]string{filepath.Join(p.home, "run.php")}, args...)...)
	cmd.Env = p.env
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// checkLog fails if PHP has complained about the plug-in. What WordPress itself does on a PHP that is newer than it is not looked at.
func (p *press) checkLog() {
	log, err := os.ReadFile(filepath.Join(p.home, "php.log"))
	if err != nil {
		p.Errorf("WordPress wrote no log: %v", err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "plugins/godwit") || strings.Contains(line, "Fatal") {
			p.Errorf("logged: %s", line)
		}
	}
}

// does asks for a page, as a browser that follows redirects.
func (p *press) does(req *http.Request, err error) string {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		p.Fatalf("%s %s: %s %v\n%s", req.Method, req.URL, resp.Status, err, body)
	}
	return string(body)
}

func (p *press) opens(path string) string {
	p.Helper()
	return p.does(http.NewRequestWithContext(p.Context(), http.MethodGet, p.url+path, http.NoBody))
}

// sends fills in the form on a page whose action is given, and sends it.
func (p *press) sends(page, action string, fields url.Values) string {
	p.Helper()
	_, form, ok := strings.Cut(page, `action="`+p.url+action+`"`)
	if !ok {
		p.Fatalf("no form leads to %s:\n%.4000s", action, page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	for _, input := range regexp.MustCompile(`<input type=["']hidden["'][^>]*>`).FindAllString(form, -1) {
		if name := attribute(input, "name"); name != "" && !fields.Has(name) {
			fields.Set(name, attribute(input, "value"))
		}
	}
	req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.url+action, strings.NewReader(fields.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return p.does(req, err)
}

func attribute(tag, name string) string {
	found := regexp.MustCompile(` ` + name + `=["']([^"']*)["']`).FindStringSubmatch(tag)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// signIn signs the editor in.
func (p *press) signIn() {
	p.Helper()
	page := p.sends(p.opens("/wp-login.php"), "/wp-login.php", url.Values{"log": {"editor"}, "pwd": {"the-editors-password"}})
	if !strings.Contains(page, "Dashboard") {
		p.Fatalf("not signed in:\n%.4000s", page)
	}
}

// installs uploads the plug-in's zip, under the name that a browser gives a second download, and switches the plug-in on.
func (p *press) installs() {
	p.Helper()
	content, err := os.ReadFile(p.archive)
	if err != nil {
		p.Fatal(err)
	}
	page := p.opens("/wp-admin/plugin-install.php?tab=upload")
	nonce := regexp.MustCompile(`name="_wpnonce" value="([^"]*)"`).FindStringSubmatch(page)
	if nonce == nil {
		p.Fatalf("nothing can be uploaded:\n%.4000s", page)
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("pluginzip", "godwit-wordpress (1).zip")
	if err == nil {
		_, err = part.Write(content)
	}
	if err := errors.Join(err, form.WriteField("_wpnonce", nonce[1]), form.Close()); err != nil {
		p.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.url+"/wp-admin/update.php?action=upload-plugin", &body)
	if err == nil {
		req.Header.Set("Content-Type", form.FormDataContentType())
	}
	page = p.does(req, err)
	link := regexp.MustCompile(`plugins\.php\?action=activate[^"]*plugin=godwit[^"]*`).FindString(page)
	if link == "" {
		p.Fatalf("not installed:\n%.4000s", page)
	}
	if page := p.opens("/wp-admin/" + html.UnescapeString(link)); !strings.Contains(page, "Plugin activated") {
		p.Fatalf("the plug-in is not on (%s):\n%.4000s", link, page)
	}
}

// publishes publishes a post over WordPress's API, as its editor does, and returns the post's address.
func (p *press) publishes(post map[string]any) (link string) {
	p.Helper()
	body, err := json.Marshal(post)
	if err != nil {
		p.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.url+"/?rest_route=/wp/v2/posts", bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-WP-Nonce", p.opens("/wp-admin/admin-ajax.php?action=rest-nonce"))
	}
	var made struct{ Link string }
	if err := json.Unmarshal([]byte(p.does(req, err)), &made); err != nil {
		p.Fatal(err)
	}
	return made.Link
}

const settingsPage = "/wp-admin/options-general.php?page=godwit"

func TestThePluginWorksInWordPress(t *testing.T) {
	blackbox.Long(t)
	w, p := newBlog(t), newPress(t)
	p.signIn()
	p.installs()
	fields := url.Values{
		"godwit_settings[server]": {w.url()}, "godwit_settings[app]": {"demo"}, "godwit_settings[key]": {w.key}, "godwit_settings[post_types][]": {"post"},
		"godwit_settings[title]": {`What's "new" \ here?`}, "godwit_settings[later]": {"No"},
	}
	for range 2 { // nothing is escaped a second time
		if page := p.sends(p.opens(settingsPage), "/wp-admin/options.php", fields); !strings.Contains(page, "Settings saved") || strings.Contains(page, w.key) {
			t.Fatalf("saved:\n%.4000s", page)
		}
	}
	p.wants("/", `data-app="demo"`, `data-title="What&#039;s &quot;new&quot; \ here?"`, `data-text-later="No"`, w.url()+"/sdk/godwit.js")
	p.wants("/godwit-sw.js", `importScripts("`+w.url()+`/sdk/sw.js");`)

	p.publishes(map[string]any{"title": "Not this one", "content": "x", "status": "publish"})
	link := p.publishes(map[string]any{"title": "The sea's <b>storm</b> & tide", "content": "<p>The wall is closed.</p>", "status": "publish", "meta": map[string]any{"_godwit_send": true}})
	w.campaigns()
	sent := w.push.Received(w.subscriber)
	if len(sent) != 1 {
		t.Fatalf("%d messages", len(sent))
	}
	text, err := sent[0].Payload()
	var got struct{ Title, Body, URL string }
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || got.Title != "The sea’s storm & tide" || got.Body != "The wall is closed." || !strings.Contains(got.URL, "/v1/click/") && got.URL != link {
		t.Errorf("sent %+v, %v; the post is at %s", got, err, link)
	}
	p.takesPerfectyOver(w)
	p.run("uninstall", "godwit/godwit.php")
	if got := p.run("get", "godwit_settings"); got != "false" {
		t.Errorf("left behind: %s", got)
	}
}

// wants checks that a page has some texts.
func (p *press) wants(path string, texts ...string) {
	p.Helper()
	page := p.opens(path)
	for _, want := range texts {
		if !strings.Contains(page, want) {
			p.Errorf("%s lacks %s:\n%.4000s", path, want, page)
		}
	}
}

// takesPerfectyOver brings the key and the texts of Perfecty Push along.
func (p *press) takesPerfectyOver(w *blog) {
	p.Helper()
	const private = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
	key, err := webpush.ParseKey([]byte(private))
	if err != nil {
		p.Fatal(err)
	}
	perfecty, err := json.Marshal(map[string]string{
		"vapid_public_key": key.Public(), "vapid_private_key": private, "dialog_title": "Theirs", "dialog_submit": "Oui, c&#039;est ça",
		"dialog_cancel": "Theirs", "settings_title": "Préférences", "settings_opt_in": "Je veux", "settings_update_error": "Encore une fois",
	})
	if err != nil {
		p.Fatal(err)
	}
	p.run("set", "perfecty_push", string(perfecty))
	page := p.sends(p.opens(settingsPage), "/wp-admin/admin-post.php", url.Values{"source": {"perfecty"}, "admin_key": {"dev"}, "sure": {"1"}})
	if !strings.Contains(page, "was brought along") {
		p.Fatalf("Perfecty's key:\n%.4000s", page)
	}
	p.wants("/", `data-title="What&#039;s &quot;new&quot; \ here?"`, `data-text-accept="Oui, c&#039;est ça"`, `data-text-later="No"`, `data-text-settings="Préférences"`,
		`data-text-bell="Préférences"`, `data-text-opt-in="Je veux"`, `data-text-failed="Encore une fois"`)
	var public struct {
		Key string `json:"public_key"`
	}
	w.call(http.MethodGet, "/v1/webpush/key?app=demo", nil, &public)
	if public.Key != key.Public() {
		p.Errorf("browsers subscribe with %q", public.Key)
	}
}

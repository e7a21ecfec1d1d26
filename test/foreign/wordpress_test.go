package foreign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/test/blackbox"
)

func plugin() string { return filepath.Join(blackbox.Root(), "integrations", "wordpress") }

// site is a WordPress with the plug-in, in a process of its own.
type site struct {
	*testing.T
	in   io.Writer
	out  *bufio.Scanner
	logs string       // expected content at the end
	log  bytes.Buffer // PHP's log; complete once PHP has ended
}

// ends closes the site and checks PHP's log.
func (s *site) ends(in io.Closer, cmd *exec.Cmd) {
	_ = in.Close() // which ends it
	if err := cmd.Wait(); err != nil {
		s.Errorf("PHP ends with %v:\n%s", err, &s.log)
	}
	for line := range strings.Lines(s.log.String()) {
		if !strings.HasPrefix(line, "Godwit: ") || strings.Contains(line, "the-secret-key") {
			s.Errorf("logged: %s", line)
		}
	}
	if s.logs != "" && !strings.Contains(s.log.String(), s.logs) {
		s.Errorf("not logged: %s\n%s", s.logs, &s.log)
	}
}

type step map[string]any

// siteResult is the state of the site after a step.
type siteResult struct {
	Drawn, Stopped, Redirect string
	Status, Scheduled        int
	Requests                 []string
	Options                  map[string]any
	Meta                     map[string]map[string]string
	Transients               map[string]any
}

func newSite(t *testing.T) *site {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), blackbox.Tool(t, "php"), "../wordpress/testdata/drive.php", plugin())
	s := &site{T: t}
	cmd.Stderr = &s.log
	in, out := blackbox.StartPiped(t, cmd)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	s.in, s.out = in, lines
	t.Cleanup(func() { s.ends(in, cmd) })
	return s
}

func (s *site) does(what step) (r siteResult) {
	s.Helper()
	line, err := json.Marshal(what)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		s.Fatal(err)
	}
	if !s.out.Scan() {
		s.Fatalf("%s: PHP has ended: %v", line, s.out.Err())
	}
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		s.Fatalf("%s: %v: %s", line, err, s.out.Bytes())
	}
	return r
}

// setUp configures the site's server and key, and gives its user the editor role.
func (s *site) setUp(server, key string, more step) {
	s.Helper()
	input := step{"server": server + "/", "app": access.DevApp, "key": key, "post_types": []string{"post"}}
	for name, value := range more {
		input[name] = value
	}
	s.does(step{"do": "settings", "input": input, "set": step{"can": []string{"edit_post", "publish_posts", "manage_options"}}})
}

func publishPost(id int, post step) step {
	all := step{"post_status": "publish", "post_title": "The sea's <b>storm</b> & tide", "post_content": "The sea [gallery] wall is closed. {{name}}"}
	for name, value := range post {
		all[name] = value
	}
	return step{"do": "save", "id": id, "ticked": true, "post": all}
}

// blog is a server with a subscriber at a push service.
type blog struct {
	*testing.T
	server     *blackbox.Server
	push       *pushserver.Server
	subscriber string
	key        string // of the role publish
}

func newBlog(t *testing.T) *blog {
	t.Helper()
	blackbox.Tool(t, "php")
	w := &blog{T: t, push: pushserver.Start(pushserver.Options{})}
	t.Cleanup(w.push.Close)
	cert := filepath.Join(t.TempDir(), "push.pem")
	if err := os.WriteFile(cert, w.push.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	w.server = blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls"), blackbox.Env("SSL_CERT_FILE="+cert))
	var address json.RawMessage
	w.subscriber, address = w.push.Subscribe(pushserver.Accepting)
	w.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "webpush", "address": address}, nil)
	var key struct {
		Key string `json:"key"`
	}
	w.call(http.MethodPost, "/v1/keys", map[string]any{"name": "WordPress", "roles": []string{"publish"}}, &key)
	w.key = key.Key
	return w
}

func (w *blog) url() string { return "http://" + w.server.HTTP }

func (w *blog) call(method, path string, body, into any) {
	w.Helper()
	w.server.API().Call(w, method, path, body, into)
}

// campaigns returns the names of the app's completed campaigns.
func (w *blog) campaigns() (names []string) {
	w.Helper()
	var list struct {
		Items []struct{ ID, Name, State string }
	}
	w.call(http.MethodGet, "/v1/campaigns", nil, &list)
	for _, c := range list.Items {
		err := blackbox.Poll(w.Context(), time.Minute, func() error {
			if w.call(http.MethodGet, "/v1/campaigns/"+c.ID, nil, &c); c.State != "completed" {
				return fmt.Errorf("%s is %s", c.Name, c.State)
			}
			return nil
		})
		if err != nil {
			w.Fatal(err)
		}
		names = append(names, c.Name)
	}
	return names
}

func TestPublishedPostIsPushedOnce(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp(w.url(), w.key, nil)

	for what, save := range map[string]step{
		"a draft":                    publishPost(1, step{"post_status": "draft"}),
		"one that is not ticked":     {"do": "save", "id": 2, "ticked": false, "post": step{"post_status": "publish"}},
		"one saved without the box":  {"do": "save", "id": 3, "post": step{"post_status": "publish"}},
		"another kind of post":       publishPost(4, step{"post_type": "page"}),
		"one with a password":        publishPost(5, step{"post_password": "x"}),
		"a box with another's nonce": {"do": "save", "id": 6, "ticked": true, "nonce": "0123456789", "post": step{"post_status": "publish"}},
	} {
		if r := s.does(save); len(r.Requests) > 0 {
			t.Errorf("%s leads to %v", what, r.Requests)
		}
	}
	r := s.does(publishPost(7, nil))
	if r.Meta["7"]["_godwit_campaign"] == "" || r.Meta["7"]["_godwit_error"] != "" {
		t.Fatalf("published: %v after %v", r.Meta["7"], r.Requests)
	}
	for _, again := range []step{publishPost(7, nil), publishPost(7, step{"post_title": "Another title"}), {"do": "save", "id": 7, "ticked": false, "post": step{}}, {"do": "later"}} {
		if r := s.does(again); len(r.Requests) > 0 {
			t.Errorf("saved again it leads to %v", r.Requests)
		}
	}
	if r := s.does(step{"do": "box", "id": 7}); !strings.Contains(r.Drawn, "It is not sent again") {
		t.Errorf("the box says %s", r.Drawn)
	}
	s.does(step{"do": "save", "id": 1, "post": step{"post_status": "publish"}}) // its scheduled time has come: no editor is open
	if got := w.campaigns(); len(got) != 2 || !strings.HasPrefix(got[1], "WordPress 7: The sea’s storm & tide") {
		t.Errorf("campaigns: %q", got)
	}
	got := w.push.Received(w.subscriber)
	if len(got) != 2 {
		t.Fatalf("the subscriber got %d messages, want 2", len(got))
	}
	var said struct{ Title, Body, URL, Icon string }
	payload, err := got[0].Payload()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &said); err != nil {
		t.Fatal(err)
	}
	if said.Title != "The sea’s storm & tide" || said.Body != "The sea wall is closed. { {name}}" || said.Icon == "" || said.URL == "" {
		t.Errorf("it says %s", payload)
	}
}

func TestUnreachableServerDoesNotStopPublishingPosts(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp("http://"+blackbox.Free(t), w.key, nil)
	s.logs = "post 1 was not sent: http://"
	r := s.does(publishPost(1, nil))
	if r.Stopped != "" || r.Scheduled != 1 || !strings.Contains(r.Meta["1"]["_godwit_error"], "does not answer (connection refused)") {
		t.Errorf("published while the server is away: %+v", r)
	}
	if r := s.does(step{"do": "notice", "id": 1}); !strings.Contains(r.Drawn, "notice-error") || !strings.Contains(r.Drawn, "does not answer") {
		t.Errorf("the editor is told %q", r.Drawn)
	}
	if r := s.does(step{"do": "page"}); !strings.Contains(r.Drawn, "post 1 was not sent") || strings.Contains(r.Drawn, w.key) {
		t.Errorf("the owner is told %q", r.Drawn)
	}
	s.setUp(w.url(), "a key that nobody knows", nil)
	if r := s.does(publishPost(1, step{"post_title": "Changed meanwhile"})); !strings.Contains(r.Meta["1"]["_godwit_error"], "the API key is not known") {
		t.Errorf("with a wrong key: %v", r.Meta["1"])
	}
	s.setUp(w.url(), w.key, nil)
	if r := s.does(step{"do": "later"}); r.Meta["1"]["_godwit_campaign"] == "" || r.Meta["1"]["_godwit_error"] != "" || r.Scheduled != 0 {
		t.Errorf("tried again: %+v", r)
	}
	if r := s.does(step{"do": "notice", "id": 1}); r.Drawn != "" {
		t.Errorf("the editor is still told %q", r.Drawn)
	}
	if got := w.campaigns(); len(got) != 1 || len(w.push.Received(w.subscriber)) != 1 {
		t.Errorf("campaigns: %q", got)
	}
}

func TestACampaignWhoseStartWasLostIsStartedOnce(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp(w.url(), w.key, nil)
	r := s.does(publishPost(1, nil))
	id := r.Meta["1"]["_godwit_campaign"]
	w.campaigns()
	// The state after a lost answer: the site knows the campaign's id, but not that it runs.
	r = s.does(step{"do": "save", "id": 1, "post": step{}, "set": step{"meta": map[string]any{"1": step{"_godwit_send": "1", "_godwit_made": id}}}})
	if r.Meta["1"]["_godwit_campaign"] != id {
		t.Errorf("tried again: %v", r.Meta["1"])
	}
	// Here the site does not even know the campaign: the idempotency key leads to it.
	r = s.does(step{"do": "save", "id": 1, "post": step{}, "set": step{"meta": map[string]any{"1": step{"_godwit_send": "1"}}}})
	if r.Meta["1"]["_godwit_campaign"] != id {
		t.Errorf("tried once more: %v", r.Meta["1"])
	}
	if got := w.campaigns(); len(got) != 1 || len(w.push.Received(w.subscriber)) != 1 {
		t.Errorf("campaigns: %q, messages: %d", got, len(w.push.Received(w.subscriber)))
	}
}

func TestTheKeyOfAnotherPluginIsBroughtAlong(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp(w.url(), w.key, nil)
	const public, private = "BFuVY8vWcVp3W9K8kP8rKl8Z2vA9p3Nn", "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
	s.does(step{"do": "option", "name": "perfecty_push", "value": step{"vapid_public_key": public, "vapid_private_key": private}})
	says := func(r siteResult) string {
		t.Helper()
		if r.Redirect != "https://site.example/blog/wp-admin/options-general.php?page=godwit" {
			t.Fatalf("leads to %q (%s, %d)", r.Redirect, r.Stopped, r.Status)
		}
		text, _ := json.Marshal(r.Transients)
		if strings.Contains(string(text), private) || strings.Contains(string(text), w.key) {
			t.Errorf("a secret is told: %s", text)
		}
		return string(text)
	}
	form := func(f step) step { return step{"do": "import", "form": f} }
	if got := says(s.does(form(step{"source": "perfecty"}))); !strings.Contains(got, "Tick the box") {
		t.Errorf("not sure: %s", got)
	}
	if got := says(s.does(form(step{"source": "perfecty", "sure": "1"}))); !strings.Contains(got, "admin") {
		t.Errorf("with a key that may only publish: %s", got)
	}
	if got := says(s.does(form(step{"source": "perfecty", "sure": "1", "admin_key": "dev"}))); !strings.Contains(got, "publicKey does not belong to privateKey") {
		t.Errorf("halves that are not of one key: %s", got)
	}
	if got := says(s.does(form(step{"source": "other", "sure": "1", "admin_key": "dev"}))); !strings.Contains(got, "no key of that plug-in") {
		t.Errorf("a plug-in that is not there: %s", got)
	}
	r := s.does(form(step{"source": "pasted", "private": private, "sure": "1", "admin_key": "dev"}))
	if got := says(r); !strings.Contains(got, "was brought along") {
		t.Errorf("pasted: %s", got)
	}
	if b, _ := json.Marshal(r.Options["godwit_settings"]); strings.Contains(string(b), private) || strings.Contains(string(b), `"dev"`) {
		t.Errorf("what was pasted is kept: %s", b)
	}
	var key struct {
		Key string `json:"public_key"`
	}
	w.call(http.MethodGet, "/v1/webpush/key?app=demo", nil, &key)
	want, err := webpush.ParseKey([]byte(private))
	if err != nil || key.Key != want.Public() {
		t.Errorf("browsers subscribe with %q (%v)", key.Key, err)
	}
	if r := s.does(step{"do": "import", "form": step{"_wpnonce": "forged", "source": "perfecty", "sure": "1"}}); r.Status != http.StatusForbidden || len(r.Requests) > 0 {
		t.Errorf("a forged form: %+v", r)
	}
	if r := s.does(step{"do": "import", "form": step{"source": "perfecty"}, "set": step{"can": []string{"edit_post"}}}); r.Status != http.StatusForbidden {
		t.Errorf("an editor: %+v", r)
	}
}

// hostile breaks out of text and attributes.
const hostile = `"><script>alert(1)</script>'`

func TestSettingsAreCleanedAndShownAsText(t *testing.T) {
	blackbox.Long(t)
	s := newSite(t)
	s.setUp("https://push.example.org", "the-secret-key", step{
		"title": hostile, "tags": hostile, "audience": hostile, "ask": hostile, "bell": []string{"x"}, "worker": "elsewhere", "visits": "-3", "post_types": []string{"post", "attachment", hostile},
	})
	r := s.does(step{"do": "settings", "input": step{"server": "javascript:alert(1)", "app": hostile, "key": "", "title": hostile}})
	got, _ := json.Marshal(r.Options["godwit_settings"])
	for _, want := range []string{`"server":""`, `"app":""`, `"key":"the-secret-key"`, `"ask":"dialog"`, `"bell":"right"`, `"worker":"file"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	s.setUp("https://push.example.org", "", step{"title": hostile, "tags": hostile})
	s.does(step{"do": "option", "name": "godwit_log", "value": []step{{"at": 1, "text": hostile}}})
	s.does(step{"do": "save", "id": 1, "post": step{"post_status": "draft"}, "set": step{"meta": map[string]any{"1": step{"_godwit_error": hostile}}}})
	for _, page := range []step{{"do": "page"}, {"do": "script"}, {"do": "box", "id": 1}, {"do": "notice", "id": 1}} {
		r := s.does(page)
		if strings.Contains(r.Drawn, "<script>") || strings.Contains(r.Drawn, "the-secret-key") || r.Drawn == "" {
			t.Errorf("%s draws %s", page["do"], r.Drawn)
		}
	}
	if r := s.does(step{"do": "page", "set": step{"can": []string{}}}); r.Status != http.StatusForbidden || r.Drawn != "" {
		t.Errorf("a stranger sees %+v", r)
	}
	if r := s.does(step{"do": "settings", "input": step{"forget_key": "1"}}); strings.Contains(fmt.Sprint(r.Options), "the-secret-key") {
		t.Error("the key is not forgotten")
	}
}

func TestTheScriptElementSaysWhatIsSet(t *testing.T) {
	blackbox.Long(t)
	s := newSite(t)
	if r := s.does(step{"do": "script"}); r.Drawn != "" {
		t.Errorf("before it is set up: %s", r.Drawn)
	}
	s.setUp("https://push.example.org", "k", step{
		"ask": "none", "bell": "left", "title": "News?", "accept": "Yes", "later": "No", "settings": "Bell", "opt_in": "I want it", "failed": "Again, please",
		"visits": "3", "tags": "news", "hide_bell": "1",
	})
	r := s.does(step{"do": "script"})
	for _, want := range []string{
		`src="https://push.example.org/sdk/godwit.js"`, ` async`, `data-app="demo"`, `data-service-worker="https://site.example/blog/godwit-sw.js"`, `data-scope="/blog/godwit/"`,
		`data-ask="none"`, `data-bell="left"`, `data-visits="3"`, `data-tags="news"`, `data-hide-bell="true"`, `data-icon="https://site.example/icon.png"`,
		`data-title="News?"`, `data-text-accept="Yes"`, `data-text-later="No"`, `data-text-settings="Bell"`, `data-text-bell="Bell"`, `data-text-opt-in="I want it"`, `data-text-failed="Again, please"`,
	} {
		if !strings.Contains(r.Drawn, want) {
			t.Errorf("%s is not in %s", want, r.Drawn)
		}
	}
	if strings.Contains(r.Drawn, "remove-conflicts") {
		t.Error("another worker would be taken away")
	}
}

func TestItLeavesNothingBehind(t *testing.T) {
	blackbox.Long(t)
	s := newSite(t)
	s.setUp("http://127.0.0.1:1", "k", nil)
	if r := s.does(publishPost(1, nil)); r.Scheduled != 1 || len(r.Meta["1"]) == 0 || r.Options["godwit_log"] == nil {
		t.Fatalf("nothing was stored: %+v", r)
	}
	r := s.does(step{"do": "uninstall"})
	if len(r.Meta) > 0 || r.Scheduled > 0 {
		t.Errorf("left behind: %v, %d jobs", r.Meta, r.Scheduled)
	}
	for name := range r.Options {
		if strings.HasPrefix(name, "godwit") {
			t.Errorf("option %s is left behind", name)
		}
	}
}

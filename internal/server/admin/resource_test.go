package admin_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/admin"
)

func (b *hookBox) Replay(_ context.Context, _, name string, since uint64) (hook.Info, error) {
	if name != "orders" {
		return hook.Info{}, hook.ErrUnknown
	}
	b.again = append(b.again, since)
	return b.info(), nil
}

func (b *hookBox) Delete(context.Context, string, string, setting.Match) error { return nil }

func (b *sinkBox) Kinds() []string                                             { return []string{"clickhouse", "novel"} }
func (b *sinkBox) Delete(context.Context, string, string, setting.Match) error { return nil }
func (b *sourceBox) Kinds() []string                                           { return []string{"jetstream", "redisstream"} }

func (b *sourceBox) Fields(string) ([]setting.Field, error) { return jetstream.Kind{}.Fields(), nil }

func (b *sourceBox) Quarantine(_ context.Context, _, name string, below int64, limit int) (list []source.SetAside, err error) {
	if name != "entries" {
		return nil, source.ErrUnknown
	}
	if below == 0 {
		below = int64(b.aside) + 1
	}
	for n := below - 1; n > 0 && len(list) < limit; n-- {
		text := []byte(fmt.Sprintf("entry %d %s", n, hostile))
		if n == 1 {
			text = []byte{0xff}
		}
		list = append(list, source.SetAside{Number: n, From: fmt.Sprintf("orders:%d", n), Why: "title: is missing " + hostile, Text: text})
	}
	return list, nil
}

func (b *sourceBox) EmptyQuarantine(context.Context, string, string) error {
	b.aside = 0
	return nil
}

func (b *sourceBox) Previews(kind string) bool { return kind == "redisstream" }
func (b *sourceBox) Delete(context.Context, string, string, setting.Match) (string, error) {
	return hostile, nil
}

// Fields knows a kind that no page was written for.
func (b *sinkBox) Fields(kind string) ([]setting.Field, error) {
	if kind == "novel" {
		return []setting.Field{{Name: "place_of_rest", Help: "where events rest " + hostile}, {Name: "seal", Secret: true}, {Name: "keep", Type: setting.Days, Default: setting.JSON(48 * time.Hour)}, {Name: "shape", Type: setting.Tree}, {Name: "dry", Type: setting.Bool}}, nil
	}
	return clickhouse.Kind{}.Fields(), nil
}

// shelf is a store of hooks as the service keeps them: one hook at a time, with a revision.
type shelf struct {
	hookBox
	have *hook.Hook
	made string // secret that the next Set makes
}

func (s *shelf) Get(_ context.Context, _, name string) (hook.Info, error) {
	if s.have == nil || s.have.Name != name {
		return hook.Info{}, hook.ErrUnknown
	}
	return hook.Info{Hook: *s.have, State: hook.Active}, nil
}

func (s *shelf) Set(_ context.Context, _, name string, c hook.Change) (hook.Info, bool, string, error) {
	now, revision := hook.Hook{Name: name, Enabled: true}, ""
	if s.have != nil && s.have.Name == name {
		now, revision = *s.have, setting.RevisionAt(s.have.UpdatedAt)
	}
	if err := c.Must.Check("hook "+name, revision); err != nil {
		return hook.Info{}, false, "", err
	}
	if !strings.HasPrefix(c.URL, "https://") {
		return hook.Info{}, false, "", notification.BadField("url", "is no URL: %s", hostile)
	}
	now.URL, now.Types, now.Enabled, now.UpdatedAt = c.URL, c.Types, *c.Enabled, setting.After(now.UpdatedAt, time.Now())
	if c.Secrets != nil {
		now.Secrets = c.Secrets
	}
	made := ""
	if len(now.Secrets) == 0 {
		made, now.Secrets = s.made, []string{s.made}
	}
	s.have = &now
	return hook.Info{Hook: now}, revision == "", made, nil
}

func (s *shelf) Delete(_ context.Context, _, name string, must setting.Match) error {
	h, err := s.Get(context.Background(), "", name)
	if err == nil {
		err = must.Check("hook", setting.RevisionAt(h.UpdatedAt))
	}
	if err == nil {
		s.have = nil
	}
	return err
}

func newShelf(t *testing.T) (*shelf, *browser) {
	s := &shelf{made: "whsec_made"}
	return s, newWorld(t, func(c *admin.Config) { c.Hooks = s }).signedIn()
}

// posted returns what a browser posts from the form of a page.
func posted(t *testing.T, page, id string) url.Values {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	must(t, err)
	v := url.Values{}
	for in := range doc.Descendants() {
		if attribute(in, "id") != id {
			continue
		}
		for n := range in.Descendants() {
			name := attribute(n, "name")
			switch {
			case name == "":
			case n.Data == "textarea":
				if n.FirstChild != nil {
					v.Add(name, strings.ReplaceAll(n.FirstChild.Data, "\n", "\r\n"))
				}
			case n.Data == "select":
				for o := range n.Descendants() {
					if o.Data == "option" && has(o, "selected") {
						v.Add(name, attribute(o, "value"))
					}
				}
			case attribute(n, "type") == "checkbox" && !has(n, "checked"):
			case attribute(n, "type") == "checkbox" && !has(n, "value"):
				v.Add(name, "on")
			case n.Data == "input":
				v.Add(name, attribute(n, "value"))
			}
		}
	}
	if len(v) == 0 {
		t.Fatalf("the page has no form %s:\n%s", id, page)
	}
	return v
}

func TestAHookIsMadeChangedAndDeletedAndItsSecretIsShownOnce(t *testing.T) {
	s, b := newShelf(t)
	_, page := b.get("/ui/new/hooks")
	form := posted(t, page, "settings")
	form.Set("name", "billing")
	form.Set("url", "https://billing.example/in")
	form["types"] = []string{"acked", "expired"}
	status, page := b.post("/ui/new/hooks", form)
	if wants(t, page, "whsec_made", "shown this once", `id="url" name="url"`); status != http.StatusOK || s.have == nil || s.have.URL != "https://billing.example/in" || !s.have.Enabled || len(s.have.Types) != 2 {
		t.Fatalf("%d, stored is %+v", status, s.have)
	}
	_, page = b.get("/ui/hooks/billing")
	if strings.Contains(page, "whsec_made") {
		t.Error("the secret comes out again")
	}
	wants(t, page, "set; what is left empty stays", "PUT /v1/hooks/billing", "If-Match: &#34;"+setting.RevisionAt(s.have.UpdatedAt), `value="acked" checked`)
	s.made = "whsec_second"
	form = posted(t, page, "settings")
	form.Del("enabled")
	status, page = b.post("/ui/hooks/billing", form)
	if wants(t, page, "Saved."); status != http.StatusOK || s.have.Enabled || s.have.Secrets[0] != "whsec_made" {
		t.Errorf("%d, stored is %+v", status, s.have)
	}
	form = posted(t, page, "settings")
	form.Set("remove-secrets", "on")
	_, page = b.post("/ui/hooks/billing", form)
	if wants(t, page, "whsec_second"); s.have.Secrets[0] != "whsec_second" {
		t.Error("the secret was not replaced")
	}
	if status, _ := b.post("/ui/hooks/billing/delete", posted(t, page, "delete")); status != http.StatusOK || s.have != nil {
		t.Errorf("deleting: %d, and %+v is left", status, s.have)
	}
	if status, page := b.get("/ui/hooks/billing"); status != http.StatusNotFound {
		t.Errorf("%d:\n%s", status, page)
	}
}

func TestOfTwoWhoChangeAHookTheLaterIsTold(t *testing.T) {
	s, b := newShelf(t)
	b.post("/ui/new/hooks", url.Values{"name": {"billing"}, "url": {"https://a.example"}, "enabled": {"on"}})
	_, page := b.get("/ui/hooks/billing")
	mine, theirs, gone := posted(t, page, "settings"), posted(t, page, "settings"), posted(t, page, "delete")
	theirs.Set("url", "https://theirs.example")
	b.post("/ui/hooks/billing", theirs)
	mine.Set("url", "https://mine.example")
	status, page := b.post("/ui/hooks/billing", mine)
	if wants(t, page, "Somebody else has changed these settings", "https://mine.example"); status != http.StatusConflict || s.have.URL != "https://theirs.example" {
		t.Errorf("%d, and stored is %s", status, s.have.URL)
	}
	if status, page := b.post("/ui/hooks/billing/delete", gone); status != http.StatusConflict || s.have == nil || !strings.Contains(page, "it is not deleted") {
		t.Errorf("deleting by what is old: %d", status)
	}
	if b.post("/ui/hooks/billing", posted(t, page, "settings")); s.have.URL != "https://mine.example" {
		t.Error("saving again does not replace theirs")
	}
	status, page = b.post("/ui/new/hooks", url.Values{"name": {"billing"}, "url": {"https://other.example"}})
	if wants(t, page, "There is one of this name already", "https://other.example", `id="name-problem"`); status != http.StatusConflict || s.have.URL != "https://mine.example" {
		t.Errorf("making one that is there: %d, stored is %s", status, s.have.URL)
	}
}

func TestBadInputStaysAsItWasTypedBesideItsProblem(t *testing.T) {
	s, b := newShelf(t)
	status, page := b.post("/ui/new/hooks", url.Values{"name": {"billing"}, "url": {hostile}, "types": {"acked"}, "secrets": {"whsec_typed"}})
	checkHarmless(t, "hook", page)
	wants(t, page, `id="url-problem"`, `value="billing"`, "&lt;hostile", `value="acked" checked`, "autofocus")
	if status != http.StatusUnprocessableEntity || s.have != nil || strings.Contains(page, "whsec_typed") {
		t.Errorf("%d, stored %+v, or the typed secret is shown", status, s.have)
	}
	for path, form := range map[string]url.Values{
		"/ui/new/hooks":      {"name": {"billing"}, "url": {"https://a.example"}, "types": {"acked", hostile}},
		"/ui/new/categories": {"name": {"promo"}, "campaign_limit": {hostile}},
		"/ui/new/services":   {"name": {"shop"}, "split": {hostile}, "access": {hostile}},
		"/ui/new/batches":    {"name": {hostile}, "batch": {"1m"}},
		"/ui/new/sources":    {"name": {"x"}, "kind": {"jetstream"}, "subjects": {strings.Repeat("a\n", 5000)}},
		"/ui/new/sinks":      {"kind": {"novel"}, "shape": {"{" + hostile}, "keep": {hostile}},
	} {
		status, page := b.post(path, form)
		if checkHarmless(t, path, page); status != http.StatusUnprocessableEntity || !strings.Contains(page, `-problem"`) {
			t.Errorf("%s: %d, and no problem stands beside a field:\n%s", path, status, page)
		}
	}
}

func TestNamedSettingsOfAnAppHaveForms(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	for path, form := range map[string]url.Values{
		"categories": {"name": {"*"}, "campaign_limit": {"1/8h"}, "campaign_beyond": {"suppress"}, "critical": {"on"}},
		"services":   {"name": {"shop"}, "access": {"client"}, "timeout": {"20s"}, "split": {"shop 95\r\nshop@2 5"}, "upload": {"store"}},
		"batches":    {"name": {"region-7"}, "batch": {"60s"}},
	} {
		if status, page := b.post("/ui/new/"+path, form); status != http.StatusOK || !strings.Contains(page, "Saved.") {
			t.Errorf("%s: %d\n%s", path, status, page)
		}
	}
	limit, _ := preference.ParseCampaignLimit("1/8h")
	if got, want := w.access.Categories("shop")["*"], (preference.Category{Critical: true, Campaigns: limit, Excess: preference.Suppress}); got != want {
		t.Errorf("the category is %+v", got)
	}
	if got := w.access.Services("shop")["shop"]; got.Access != access.ByClient || got.Timeout != 20*time.Second || got.Split["shop@2"] != 5 || got.Upload != access.UploadStore || got.Cookies {
		t.Errorf("the service is %+v", got)
	}
	if got := w.access.Batches("shop")["region-7"]; got != time.Minute {
		t.Errorf("the interval is %s", got)
	}
	for path, part := range map[string]string{
		"/ui/categories": "is not sent to this person", "/ui/services": "shop 95, shop@2 5", "/ui/batches": "1m0s", "/ui/categories/*": `value="1/8h"`, "/ui/services/shop": "shop 95\nshop@2 5</textarea>",
	} {
		_, page := b.get(path)
		wants(t, page, part)
	}
	_, page := b.get("/ui/services/shop")
	wants(t, page, `&#34;shop@2&#34;: 5`)
	same := posted(t, page, "settings")
	if status, page := b.post("/ui/services/shop", same); status != http.StatusOK || !strings.Contains(page, "Saved.") {
		t.Errorf("saving what the page shows: %d\n%s", status, page)
	}
	for _, path := range []string{"/ui/categories/*", "/ui/services/shop", "/ui/batches/region-7"} {
		_, before := b.get(path)
		if strings.Contains(before, "hx-confirm") {
			t.Errorf("%s asks before a deletion that can be undone", path)
		}
		_, gone := b.post(path+"/delete", posted(t, before, "delete"))
		if _, again := b.post(path+"/restore", posted(t, gone, "gone")); !maps.EqualFunc(posted(t, again, "settings"), posted(t, before, "settings"), slices.Equal) {
			t.Errorf("what was deleted at %s has come back otherwise:\n%s", path, again)
		}
		if status, page := b.post(path+"/restore", posted(t, gone, "gone")); status != http.StatusOK || strings.Contains(page, "It stays.") {
			t.Errorf("undoing twice is answered %d", status)
		}
		_, page := b.get(path)
		b.post(path+"/delete", posted(t, page, "delete"))
	}
	if n := len(w.access.Categories("shop")) + len(w.access.Services("shop")) + len(w.access.Batches("shop")); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestAKindThatNoPageWasWrittenForHasAForm(t *testing.T) {
	o, b := newOutside(t)
	_, page := b.get("/ui/new/sources")
	wants(t, page, "NATS JetStream", `href="/ui/new/sources?kind=redisstream"`)
	_, page = b.get("/ui/new/sinks")
	checkHarmless(t, "new sink", page)
	wants(t, page, "Place of rest", "place_of_rest", "Where events rest", `name="seal" type="password"`, `value="2d"`, `id="dry"`, "backfill")
	status, _ := b.post("/ui/new/sinks", url.Values{"kind": {"novel"}, "place_of_rest": {"here"}, "seal": {"s3cret"}, "keep": {"3d"}, "shape": {`{"a":[1]}`}, "dry": {"on"}, "backfill": {"on"}})
	if len(o.sinks.set) != 1 {
		t.Fatalf("%d, set %d times", status, len(o.sinks.set))
	}
	c := o.sinks.set[0]
	if c.Values.Text("place_of_rest") != "here" || c.Values.Text("seal") != "s3cret" || c.Values.Duration("keep") != 72*time.Hour || string(c.Values["shape"]) != `{"a":[1]}` || !c.Values.Bool("dry") || !*c.Backfill || *c.Enabled || len(c.Values) != 5 {
		t.Errorf("set are %d values", len(c.Values))
	}
	_, page = b.get("/ui/sinks/clickhouse")
	if checkHarmless(t, "sink", page); strings.Contains(page, "s3cret") {
		t.Error("the page shows a secret")
	}
	_, page = b.post("/ui/sources/redisstream/delete", nil)
	if wants(t, page, "something is left"); !strings.Contains(page, "&lt;hostile") {
		t.Error("the page does not say what is left at the server")
	}
}

func TestPeopleWhoMayOnlyLookSeeNoFormAndNoSecretOfAnAddress(t *testing.T) {
	o := new(outside)
	b := newWorld(t, o.serve).as(signin.View)
	_, page := b.get("/ui/hooks/orders")
	wants(t, page, "https://example.org/in<")
	if strings.Contains(page, "s3cret") || strings.Contains(page, `id="settings"`) || strings.Contains(page, `id="delete"`) {
		t.Errorf("the page shows more:\n%s", page)
	}
}

func TestFormsOfSettingsAreAuditedAsTheAPIDoes(t *testing.T) {
	var cfg admin.Config
	b := newWorld(t, keep(&cfg)).signedIn()
	b.post("/ui/new/categories", url.Values{"name": {"promo"}, "escalate_limit": {"3/d"}})
	b.post("/ui/new/categories", url.Values{"name": {"promo"}, "escalate_limit": {"x"}}) // refused
	_, page := b.get("/ui/categories/promo")
	b.post("/ui/categories/promo", posted(t, page, "settings"))
	_, page = b.get("/ui/categories/promo")
	b.post("/ui/categories/promo/delete", posted(t, page, "delete"))
	want := []string{"category.set promo done", "category.set promo done", "category.delete promo done"}
	if got := actions(t, &cfg, "shop"); len(got) < 1 || !slices.Equal(got[1:], want) {
		t.Errorf("remembered are %q", got)
	}
}

func TestASourceIsPreviewedAsItIsTypedAndNothingIsStored(t *testing.T) {
	var cfg admin.Config
	o := new(outside)
	b := newWorld(t, o.serve, keep(&cfg)).signedIn()
	_, page := b.get("/ui/new/sources?kind=redisstream")
	form := posted(t, page, "settings")
	form.Set("then", "preview")
	form.Set("url", "nats://typed.example")
	form.Set("password", "s3cret")
	status, page := b.post("/ui/new/sources", form)
	checkHarmless(t, "preview", page)
	wants(t, page, "What rows of redisstream would become", "&lt;hostile", `value="nats://typed.example"`)
	if status != http.StatusOK || len(o.sources.set) != 0 || strings.Contains(page, "s3cret") {
		t.Errorf("%d, and %d changes are made", status, len(o.sources.set))
	}
	if len(o.sources.previewed) != 1 || o.sources.previewed[0].Values.Text("url") != "nats://typed.example" || o.sources.previewed[0].Kind != "redisstream" {
		t.Errorf("previewed %d times, not what was typed", len(o.sources.previewed))
	}
	form.Set("name", "none")
	if status, _ := b.post("/ui/new/sources", form); status != http.StatusNotFound {
		t.Errorf("a preview that fails: %d", status)
	}
	if got := actions(t, &cfg, "shop"); !slices.Equal(got[1:], []string{"source.preview redisstream done"}) {
		t.Errorf("remembered are %q", got)
	}
	if _, page := b.get("/ui/new/sources?kind=jetstream"); strings.Contains(page, `value="preview"`) {
		t.Error("a kind without a preview offers one")
	}
}

func TestTheQuarantineOfASourceIsReadAndEmptied(t *testing.T) {
	var cfg admin.Config
	o := new(outside)
	b := newWorld(t, o.serve, keep(&cfg)).signedIn()
	_, page := b.get("/ui/sources/entries/quarantine")
	wants(t, page, "There are none")
	o.sources.aside = 51
	_, page = b.get("/ui/sources/entries/quarantine")
	checkHarmless(t, "quarantine", page)
	wants(t, page, "orders:51", "orders:2<", `href="/ui/sources/entries/quarantine?below=2"`, "entry 7")
	_, page = b.get("/ui/sources/entries/quarantine?below=2")
	wants(t, page, "orders:1<", "the API has it in Base64")
	if status, _ := b.get("/ui/sources/none/quarantine"); status != http.StatusNotFound {
		t.Errorf("the quarantine of no source is answered %d", status)
	}
	b.post("/ui/sources/entries/empty-quarantine", nil)
	if o.sources.aside != 0 {
		t.Error("entries are left")
	}
	if got := actions(t, &cfg, "shop"); len(got) < 1 || !slices.Equal(got[1:], []string{"source.empty-quarantine entries done"}) {
		t.Errorf("remembered are %q", got)
	}
}

package admin_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/server/admin"
)

// newOperated is a world whose apps operators manage, with a browser that has signed in by the operator key.
func newOperated(t *testing.T, cfg *admin.Config) (*world, *browser) {
	t.Helper()
	w := newWorld(t, keep(cfg), func(c *admin.Config) { c.Apps = c.Access.(*access.Registry) })
	key, _, err := w.access.EnsureOperator(t.Context(), t.TempDir()+"/operator.key")
	must(t, err)
	b := w.browser()
	status, page := b.post("/ui/sign-in", url.Values{"key": {key}})
	if wants(t, page, `href="/ui/apps/shop"`, `href="/ui/apps/other"`, ">operator</span>"); status != http.StatusOK {
		t.Fatalf("%d\n%s", status, page)
	}
	return w, b
}

// hidden returns the revision in a page's form.
func hidden(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`name="revision" value="([^"]+)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no revision in\n%s", page)
	}
	return html.UnescapeString(found[1])
}

func TestOperatorMakesSetsAndDeletesAnApp(t *testing.T) {
	var cfg admin.Config
	w, b := newOperated(t, &cfg)
	status, page := b.post("/ui/apps", url.Values{"name": {"rides"}})
	key, err := w.access.Key(t.Context(), secret(t, page))
	if err != nil || key.App != "rides" || key.Roles != access.Admin || status != http.StatusOK {
		t.Fatalf("%d: the first key is %+v, %v", status, key, err)
	}
	for want, name := range map[string]string{"There is an app of this name": "rides", "app: contains": "a/b" + hostile} {
		status, page := b.post("/ui/apps", url.Values{"name": {name}})
		if wants(t, page, want); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", name, status)
		}
		checkHarmless(t, name, page)
	}
	_, page = b.get("/ui/apps/rides")
	form := url.Values{"revision": {hidden(t, page)}, "origins": {"https://a.example\nhttps://b.example"}, "issuer": {"https://login.example" + hostile}, "jwks_url": {""}}
	_, page = b.post("/ui/apps/rides", form)
	wants(t, page, "It is changed", "https://b.example</textarea>", "&lt;hostile")
	checkHarmless(t, "settings", page)
	app, err := w.access.App("rides")
	if err != nil || len(app.Origins) != 2 || !strings.HasPrefix(app.Issuer, "https://login.example") {
		t.Errorf("%+v, %v", app, err)
	}
	status, page = b.post("/ui/apps/rides", form) // from a page that another operator's change has made stale
	if wants(t, page, "Another operator has changed it"); status != http.StatusUnprocessableEntity {
		t.Errorf("a stale change: %d", status)
	}
	status, page = b.post("/ui/apps/rides", url.Values{"revision": {hidden(t, page)}, "jwks_url": {"ftp://x"}})
	if wants(t, page, "jwks_url: "); status != http.StatusUnprocessableEntity {
		t.Errorf("a bad URL: %d", status)
	}
	stale := hidden(t, page)
	for want, form := range map[string]url.Values{
		"type its name":           {"name": {"shop"}, "revision": {stale}},
		"Another operator has ch": {"name": {"rides"}, "revision": {"x"}},
	} {
		if status, page := b.post("/ui/apps/rides/delete", form); status != http.StatusUnprocessableEntity || !strings.Contains(page, want) {
			t.Errorf("%s: %d", want, status)
		}
	}
	_, page = b.post("/ui/apps/rides/delete", url.Values{"name": {"rides"}, "revision": {stale}})
	if strings.Contains(page, "/ui/apps/rides") {
		t.Error("the deleted app is listed")
	}
	if status, page = b.get("/ui/apps/rides"); status != http.StatusNotFound || !strings.Contains(page, "There is no such app") {
		t.Errorf("a deleted app: %d", status)
	}
	got := strings.Join(actions(t, &cfg, ""), "\n")
	wants(t, got, "sign-in", "app.create", "app.set", "app.delete")
	if strings.Count(got, "app.") != 3 {
		t.Errorf("what was refused is in the log:\n%s", got)
	}
	_, page = b.get("/ui/deeds")
	wants(t, page, "app.delete", "operator-", "godwit audit --server")
}

func TestOperatorMakesAndDeletesKeysOfAnyApp(t *testing.T) {
	var cfg admin.Config
	w, b := newOperated(t, &cfg)
	_, page := b.post("/ui/apps/other/keys", url.Values{"key": {"Orders" + hostile}, "role": {"publish", "read"}})
	key, err := w.access.Key(t.Context(), secret(t, page))
	if err != nil || key.App != "other" || key.Roles != access.Publish|access.Read {
		t.Fatalf("%+v, %v", key, err)
	}
	checkHarmless(t, "key", page)
	if status, page := b.post("/ui/apps/other/keys", url.Values{"key": {"x"}}); status != http.StatusUnprocessableEntity || !strings.Contains(page, "name at least one") {
		t.Errorf("a key without a role: %d", status)
	}
	if status, _ := b.post("/ui/apps/shop/keys/"+key.Key+"/delete", nil); status != http.StatusNotFound {
		t.Errorf("the key of another app: %d", status)
	}
	b.post("/ui/apps/other/keys/"+key.Key+"/delete", nil)
	if _, err := w.access.Key(t.Context(), secret(t, page)); err == nil {
		t.Error("a deleted key opens")
	}
	entries, err := cfg.Audit.List(t.Context(), "other", audit.Filter{}, 10)
	must(t, err)
	for _, e := range entries {
		if e.Object != key.Key || !strings.HasPrefix(e.By, "operator-") || e.Way != audit.Page {
			t.Errorf("remembered %+v", e)
		}
	}
	if len(entries) != 2 {
		t.Errorf("%d entries", len(entries))
	}
}

func TestOperatorSeesNothingWithinAnApp(t *testing.T) {
	var cfg admin.Config
	w, b := newOperated(t, &cfg)
	for _, path := range []string{"/ui/campaigns", "/ui/recipients", "/ui/keys", "/ui/audit", "/ui/settings", "/ui/signed-in", "/ui/send"} {
		if status, _ := b.get(path); status != http.StatusForbidden {
			t.Errorf("%s: %d", path, status)
		}
	}
	if _, page := b.get("/ui/"); !strings.Contains(page, `id="apps"`) {
		t.Error("the first page is not that of apps")
	}
	admin := w.signedIn()
	for _, path := range []string{"/ui/apps", "/ui/apps/shop", "/ui/deeds"} {
		if status, _ := admin.get(path); status != http.StatusForbidden {
			t.Errorf("%s as an admin of an app: %d", path, status)
		}
	}
	if status, _ := admin.post("/ui/apps/other/delete", url.Values{"name": {"other"}}); status != http.StatusForbidden {
		t.Errorf("an admin deletes another app: %d", status)
	}
	_, _, err := w.access.RotateOperator(t.Context(), w.access.OperatorID())
	must(t, err)
	if _, page := b.get("/ui/apps"); !strings.Contains(page, "Sign in") {
		t.Error("a replaced operator key still opens")
	}
	status, page := b.post("/ui/sign-in", url.Values{"key": {"gwo_x_" + strings.Repeat("y", 30)}})
	if wants(t, page, "not the operator key"); status != http.StatusForbidden {
		t.Errorf("another operator key: %d", status)
	}
}

func TestRuleMakesAnOperator(t *testing.T) {
	v := newVouched(t, "operator groups=ops; view shop groups=ops")
	v.cfg.Apps = v.access
	v.ruled("operator groups=ops; view shop groups=support")
	v.at.Says(map[string]any{"sub": "s-1", "email": "olga@example.org", "groups": []string{"ops"}})
	b := v.browser()
	b.get("/ui/oidc/start")
	status, page := b.get("/ui/apps")
	if wants(t, page, `href="/ui/apps/shop"`, "olga@example.org"); status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	v.at.Says(map[string]any{"sub": "s-2", "groups": []string{"ops", "support"}})
	b = v.browser()
	_, page = b.get("/ui/oidc/start")
	wants(t, page, `href="/ui/oidc/start?app=/"`, `href="/ui/oidc/start?app=shop"`)
	b.get("/ui/oidc/start?app=/")
	if status, page = b.get("/ui/apps"); status != http.StatusOK || !strings.Contains(page, `id="switch" href="/ui/oidc/start"`) {
		t.Errorf("chosen, it is %d", status)
	}
	b.get("/ui/oidc/start?app=shop")
	_, page = b.get("/ui/signed-in")
	wants(t, page, `id="switch" href="/ui/oidc/start"`)
	if status, _ = b.get("/ui/apps"); status != http.StatusForbidden {
		t.Errorf("in an app it is %d", status)
	}
	v.at.Says(map[string]any{"sub": "s-3", "groups": []string{"support"}})
	status, page = v.browser().get("/ui/oidc/start?app=/")
	if wants(t, page, "lets you in as an operator"); status != http.StatusForbidden {
		t.Errorf("nobody's operator: %d", status)
	}
}

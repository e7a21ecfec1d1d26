package admin_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/admin"
)

func TestAdminsChangeTheSettingsOfTheirApp(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	b := w.signedIn()
	_, page := b.get("/ui/app")
	old := posted(t, page, "settings")
	form := posted(t, page, "settings")
	form.Set("origins", "https://shop.example\r\nhttps://www.shop.example")
	form.Set("introspect_url", "https://login.example/introspect")
	form.Set("introspect_id", "godwit")
	form.Set("introspect_secret", "s3cret")
	form.Set("jwt_keys", strings.Repeat("k", 40))
	form.Set("mqtt_keep", "jobs.>")
	status, page := b.post("/ui/app", form)
	if wants(t, page, "Saved.", "PATCH /v1/apps/shop", "set; what is left empty stays"); status != http.StatusOK || strings.Contains(page, "s3cret") || strings.Contains(page, "kkkk") {
		t.Errorf("%d, or a secret comes out:\n%s", status, page)
	}
	app, err := w.access.App("shop")
	must(t, err)
	if !slices.Equal(app.Origins, []string{"https://shop.example", "https://www.shop.example"}) || string(app.IntrospectSecret) != "s3cret" || len(app.JWTKeys) != 2 || app.MQTTKeep[0] != "jobs.>" {
		t.Errorf("stored is %+v", app)
	}
	old.Set("issuer", "mine")
	status, page = b.post("/ui/app", old)
	if wants(t, page, "Somebody else has changed these settings", `value="mine"`); status != http.StatusConflict {
		t.Errorf("what is older than another change: %d", status)
	}
	other, err := w.access.App("other")
	must(t, err)
	if len(other.Origins) != 0 {
		t.Error("another app was changed")
	}
	if got := actions(t, &cfg, "shop"); !slices.Equal(got[1:], []string{"app.set shop done"}) {
		t.Errorf("remembered are %q", got)
	}
}

func TestAPasswordOfAnAppGoesToNoURLThatItWasNotGivenFor(t *testing.T) {
	w := newWorld(t)
	secret, at := access.Secret("s3cret"), "https://login.example/introspect"
	must(t, w.access.SetApp(t.Context(), "shop", access.AppChange{IntrospectURL: &at, IntrospectSecret: &secret}))
	b := w.signedIn()
	_, page := b.get("/ui/app")
	form := posted(t, page, "settings")
	form.Set("introspect_url", "https://evil.example")
	status, page := b.post("/ui/app", form)
	if wants(t, page, `id="introspect_secret-problem"`, "https://evil.example"); status != http.StatusUnprocessableEntity {
		t.Errorf("%d", status)
	}
	if app, _ := w.access.App("shop"); app.IntrospectURL != at {
		t.Errorf("the URL is %s", app.IntrospectURL)
	}
	form.Set("remove-introspect_secret", "on")
	status, _ = b.post("/ui/app", form)
	if app, _ := w.access.App("shop"); status != http.StatusOK || app.IntrospectSecret != "" || app.IntrospectURL != "https://evil.example" {
		t.Errorf("without the password: %d, %s", status, app.IntrospectURL)
	}
}

func TestAMistakeInAnAppsSettingsStandsBesideItsField(t *testing.T) {
	b := newWorld(t).signedIn()
	for field, typed := range map[string]string{"origins": "shop", "anonymous_origins": "https://*", "jwks_url": hostile, "jwt_keys": "short", "certificate_topics": "a..b", "certificate_publish": ".", "mqtt_keep": "x y"} {
		_, page := b.get("/ui/app")
		form := posted(t, page, "settings")
		form.Set(field, typed)
		status, page := b.post("/ui/app", form)
		checkHarmless(t, field, page)
		if wants(t, page, `id="`+field+`-problem"`); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", field, status)
		}
	}
}

func TestTheRulesOfSignInAreShownOfTheOwnAppAlone(t *testing.T) {
	_, page := newWorld(t).signedIn().get("/ui/sign-in-rules")
	wants(t, page, "People sign in with keys", "oidc_issuer", "view shop groups=support")
	v := newVouched(t, "view shop groups=support; send other groups=boss; operator groups=ops; admin shop email="+strings.NewReplacer(";", "", "\n", "").Replace(hostile))
	status, page := v.as(signin.Admin).get("/ui/sign-in-rules")
	checkHarmless(t, "rules", page)
	if wants(t, page, "<code>groups</code> is <code>support</code>", "&lt;hostile"); status != http.StatusOK || strings.Contains(page, "boss") || strings.Contains(page, "ops") {
		t.Errorf("%d, or the page shows rules of others:\n%s", status, page)
	}
}

func TestALostKeyIsReplacedByOneOfItsNameAndRoles(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	lost, _, err := w.access.CreateKey(t.Context(), "shop", "orders", access.Publish|access.Worker)
	must(t, err)
	theirs, _, err := w.access.CreateKey(t.Context(), "other", "orders", access.Admin)
	must(t, err)
	b := w.signedIn()
	_, page := b.post("/ui/keys/"+lost.ID+"/replace", nil, "HX-Request", "true")
	wants(t, page, "shown this once", "The key <code>"+lost.ID+"</code> works as before")
	keys := w.access.Keys("shop")
	made := keys[len(keys)-1]
	if made.ID == lost.ID || made.Name != "orders" || made.Roles != lost.Roles {
		t.Errorf("made is %+v", made)
	}
	for _, id := range []string{theirs.ID, "none", url.PathEscape(hostile)} {
		if status, _ := b.post("/ui/keys/"+id+"/replace", nil); status != http.StatusNotFound {
			t.Errorf("replacing %s: %d", id, status)
		}
	}
	if got := actions(t, &cfg, "shop"); !slices.Equal(got[1:], []string{"key.create " + made.ID + " done"}) {
		t.Errorf("remembered are %q", got)
	}
}

func TestEventsArePostedAgainAndASourceBeginsAnew(t *testing.T) {
	o, b := newOutside(t)
	for path, want := range map[string]int{"/ui/hooks/orders/replay": 200, "/ui/hooks/none/replay": 404, "/ui/sources/redisstream/resync": 200, "/ui/sources/none/resync": 404} {
		if status, _ := b.post(path, url.Values{"since": {"17"}}); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if status, page := b.post("/ui/hooks/orders/replay", url.Values{"since": {hostile}}); status != http.StatusUnprocessableEntity {
		t.Errorf("after no event: %d\n%s", status, page)
	}
	if !slices.Equal(o.hooks.again, []uint64{17}) || len(o.sources.set) != 1 || !o.sources.set[0].Resync || !*o.sources.set[0].Enabled || o.sources.set[0].Values != nil {
		t.Errorf("posted again after %v, sources set to %+v", o.hooks.again, o.sources.set)
	}
}

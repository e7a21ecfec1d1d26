package admin_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/admin"
)

var secretShown = regexp.MustCompile(`id="secret">([^<]+)<`)

// secret returns the secret that a page shows.
func secret(t *testing.T, page string) string {
	t.Helper()
	found := secretShown.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page shows no secret:\n%s", page)
	}
	return html.UnescapeString(found[1])
}

func TestAKeyIsMadeShownOnceAndDeleted(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	b := w.signedIn()
	for _, by := range [][]string{nil, {"HX-Request", "true"}} {
		status, page := b.post("/ui/keys", url.Values{"name": {"Orders " + hostile}, "role": {"publish", "worker"}}, by...)
		if status != http.StatusOK {
			t.Fatalf("%d\n%s", status, page)
		}
		checkHarmless(t, "made", page)
		wants(t, page, "&lt;hostile", "publish,worker", `id="keylist"`)
		key, err := w.access.Key(t.Context(), secret(t, page))
		if err != nil || key.App != "shop" || key.Roles != access.Publish|access.Worker {
			t.Fatalf("it is %+v, %v", key, err)
		}
		_, list := b.get("/ui/keys")
		if wants(t, list, key.Key, "&lt;hostile"); secretShown.MatchString(list) || strings.Contains(list, secret(t, page)) {
			t.Error("the secret is shown again")
		}
		checkHarmless(t, "list", list)
		_, page = b.post("/ui/keys/"+key.Key+"/delete", nil)
		if strings.Contains(page, key.Key) {
			t.Error("it is still listed")
		}
		if status, page := b.post("/ui/keys/"+key.Key+"/delete", nil); status != http.StatusNotFound || !strings.Contains(page, "no such key") {
			t.Errorf("deleted twice: %d", status)
		}
	}
	got := strings.Join(actions(t, &cfg, "shop"), "\n")
	if wants(t, got, "key.create", "key.delete"); strings.Count(got, "key.") != 4 || strings.Contains(got, "gw_") {
		t.Errorf("remembered:\n%s", got)
	}
}

func TestKeysThatCannotBeAreTold(t *testing.T) {
	b := newWorld(t).signedIn()
	for want, form := range map[string]url.Values{
		"name at least one":          {"name": {"x"}},
		"is not a role":              {"name": {"x"}, "role": {"owner" + hostile}},
		"must be printable text":     {"name": {"a\x00b"}, "role": {"read"}},
		"must be printable text of ": {"name": {strings.Repeat("x", 200)}, "role": {"read"}},
	} {
		status, page := b.post("/ui/keys", form, "HX-Request", "true")
		if wants(t, page, want); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", want, status)
		}
		checkHarmless(t, want, page)
	}
}

func TestAClientsTokenIsMade(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	b := w.signedIn()
	_, page := b.post("/ui/keys/token", url.Values{"recipient": {"driver-42"}, "ttl": {"1h"}, "device": {"phone"}, "topics": {"rides.{sub}"}})
	client, err := w.access.Client(t.Context(), access.Claim{App: "shop", Token: secret(t, page)})
	if err != nil || client.Recipient != "driver-42" || client.Device != "phone" || len(client.Topics) != 1 {
		t.Errorf("the token is of %+v, %v", client, err)
	}
	if got := strings.Join(actions(t, &cfg, "shop"), "\n"); !strings.Contains(got, "token.make driver-42 done") {
		t.Errorf("remembered:\n%s", got)
	}
	for want, form := range map[string]url.Values{
		"ttl":       {"recipient": {"a"}, "ttl": {"soon"}},
		"recipient": {"recipient": {""}, "ttl": {"1h"}},
		"device":    {"recipient": {"a"}, "ttl": {"1h"}, "device": {hostile}},
		"topics":    {"recipient": {"a"}, "ttl": {"1h"}, "topics": {hostile}},
	} {
		status, page := b.post("/ui/keys/token", form, "HX-Request", "true")
		if wants(t, page, want); status != http.StatusUnprocessableEntity {
			t.Errorf("%v: %d", form, status)
		}
		checkHarmless(t, want, page)
	}
}

func TestKeysAreTheAppsOwnAndForAdmins(t *testing.T) {
	w := newWorld(t)
	theirs := w.access.Keys("shop")[0].ID
	w.key = w.newKey("other", access.Admin)
	b := w.signedIn()
	_, page := b.get("/ui/keys")
	if wants(t, page, "yours"); strings.Contains(page, theirs) {
		t.Error("another app's key is listed")
	}
	if status, _ := b.post("/ui/keys/"+theirs+"/delete", nil); status != http.StatusNotFound || len(w.access.Keys("shop")) != 1 {
		t.Errorf("another app's key: %d, left %v", status, w.access.Keys("shop"))
	}
	own := w.access.Keys("other")[0].ID
	_, page = b.post("/ui/keys/"+own+"/delete", nil)
	wants(t, page, `action="/ui/sign-in"`)
	if status, _ := w.as(signin.Send).get("/ui/keys"); status != http.StatusForbidden {
		t.Errorf("somebody who may send: %d", status)
	}
}

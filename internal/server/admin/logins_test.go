package admin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/admin"
)

// keep saves the pages' configuration, so that a test can make a second server from it.
func keep(into *admin.Config) func(*admin.Config) {
	return func(c *admin.Config) { *into = *c }
}

// at moves a browser, with its cookies, to another server.
func (b *browser) at(srv *httptest.Server) *browser {
	b.Helper()
	from, err := url.Parse(b.srv.URL)
	must(b.T, err)
	to, err := url.Parse(srv.URL)
	must(b.T, err)
	w := *b.world
	w.srv = srv
	other := w.browser()
	other.client.Jar.SetCookies(to, b.client.Jar.Cookies(from))
	return other
}

// another serves the same pages as another node, or as the same one after a restart.
func another(t *testing.T, cfg *admin.Config) *httptest.Server {
	t.Helper()
	h, err := admin.New(*cfg)
	must(t, err)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

func TestLoginHoldsOnEveryNodeAndAfterRestart(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	b := w.signedIn()
	there := b.at(another(t, &cfg))
	_, page := there.get("/ui/campaigns")
	wants(t, page, "Sign out")
	there.post("/ui/sign-out", nil)
	_, page = b.get("/ui/campaigns")
	wants(t, page, `action="/ui/sign-in"`)
}

func (b *browser) as(name string) *browser {
	b.client.Transport = named{name}
	return b
}

// named is a transport that sets the browser's name.
type named struct{ name string }

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("User-Agent", n.name)
	return http.DefaultTransport.RoundTrip(r)
}

// loginIDs returns the ids of the logins that a page offers to end.
func loginIDs(t *testing.T, page string) (ids []string) {
	t.Helper()
	for _, lead := range leads(t, page) {
		if rest, ok := strings.CutPrefix(lead, "POST /ui/signed-in/"); ok {
			if id, ok := strings.CutSuffix(rest, "/end"); ok && (len(ids) == 0 || ids[len(ids)-1] != id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func TestPeopleSeeAndEndWhereTheyAreSignedIn(t *testing.T) {
	w := newWorld(t)
	boss := w.browser().as("Boss")
	boss.post("/ui/sign-in", url.Values{"key": {w.key}})
	key := w.newKey("shop", access.Read)
	in := func(name string) *browser {
		b := w.browser().as(name)
		b.post("/ui/sign-in", url.Values{"key": {key}})
		return b
	}
	here, phone := in("Desk"), in("Phone "+hostile)
	w.key = w.newKey("other", access.Admin)
	elsewhere := w.signedIn()

	_, page := here.get("/ui/signed-in")
	wants(t, page, "Desk", "Phone", "&lt;hostile", "127.0.0.1", "this one")
	checkHarmless(t, "signed in", page)
	if ids := loginIDs(t, page); len(ids) != 1 || strings.Contains(page, "Boss") {
		t.Errorf("somebody who may view sees %v:\n%s", ids, page)
	}
	_, all := boss.get("/ui/signed-in")
	wants(t, all, "Desk", "Phone", "Boss")
	ids := loginIDs(t, all)
	if len(ids) != 2 {
		t.Fatalf("an admin may end %v", ids)
	}
	for _, b := range []*browser{here, elsewhere} {
		for _, id := range append(loginIDs(t, page), "none") {
			status, _ := b.post("/ui/signed-in/"+id+"/end", nil)
			if own := b == here && id != "none"; (status == http.StatusOK) != own {
				t.Errorf("ending %s: %d", id, status)
			}
		}
	}
	_, page = phone.get("/ui/campaigns")
	wants(t, page, `action="/ui/sign-in"`)

	in("Laptop")
	here.post("/ui/signed-in/end-others", nil) // their own
	_, page = boss.get("/ui/signed-in")
	if wants(t, page, "Boss", "Desk"); strings.Contains(page, "Laptop") {
		t.Errorf("the laptop is still signed in:\n%s", page)
	}
	boss.post("/ui/signed-in/end-others", nil)
	for b, want := range map[*browser]string{here: `action="/ui/sign-in"`, boss: "Sign out", elsewhere: "Sign out"} {
		_, page = b.get("/ui/campaigns")
		wants(t, page, want)
	}
}

func TestDeletedKeyEndsItsLogins(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	b := w.signedIn()
	must(t, w.access.DeleteKey(t.Context(), "shop", w.access.Keys("shop")[0].ID))
	_, page := b.get("/ui/campaigns")
	wants(t, page, `action="/ui/sign-in"`)
	if list, err := cfg.Logins.Of(t.Context(), "shop"); err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}

// reroled returns other roles for all keys.
type reroled struct {
	admin.Access
	roles *access.Role
}

func (k reroled) Keys(app string) []access.Key {
	keys := k.Access.Keys(app)
	for i := range keys {
		if *k.roles != 0 {
			keys[i].Roles = *k.roles
		}
	}
	return keys
}

func TestAKeyWithOtherRolesSignsOutForGood(t *testing.T) {
	for _, changed := range []access.Role{access.Read, access.Worker} {
		roles := access.Role(0)
		b := newWorld(t, func(c *admin.Config) { c.Access = reroled{c.Access, &roles} }).signedIn()
		roles = changed
		_, page := b.get("/ui/campaigns")
		wants(t, page, `action="/ui/sign-in"`)
		roles = 0
		_, page = b.get("/ui/campaigns")
		wants(t, page, `action="/ui/sign-in"`)
	}
}

func TestAnOldCookieOpensNothing(t *testing.T) {
	now := time.Now()
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	store := keptLogins{now: func() time.Time { return now }}
	srv := another(t, store.over(&cfg))
	w.srv = srv
	b := w.signedIn()
	now = now.Add(signin.LongestIdle)
	_, page := b.get("/ui/campaigns")
	wants(t, page, `action="/ui/sign-in"`)
}

// keptLogins is an in-memory store of logins that can be made to fail.
type keptLogins struct {
	signin.LoginStore
	now  func() time.Time
	kept map[signin.Hash]signin.Login
	fail error
}

func (k *keptLogins) over(cfg *admin.Config) *admin.Config {
	k.kept = make(map[signin.Hash]signin.Login)
	cfg.Logins = signin.NewLogins(k, k.now)
	return cfg
}

func (k *keptLogins) AddLogin(_ context.Context, hash signin.Hash, s signin.Login, _ signin.Bounds) error {
	k.kept[hash] = s
	return k.fail
}

func (k *keptLogins) Login(_ context.Context, hash signin.Hash) (signin.Login, error) {
	s, ok := k.kept[hash]
	if !ok {
		return s, signin.ErrNoLogin
	}
	return s, k.fail
}

func TestWithoutTheStoreNobodyComesInAndAllAreTold(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	store := keptLogins{now: time.Now}
	w.srv = another(t, store.over(&cfg))
	b := w.signedIn()
	store.fail = errors.New("the disk has gone")
	for path, want := range map[string]string{"/ui/campaigns": "cannot be checked just now", "/": "cannot be checked just now"} {
		status, page := b.get(path)
		if wants(t, page, want); status != http.StatusServiceUnavailable || strings.Contains(page, "the disk") {
			t.Errorf("%s: %d\n%s", path, status, page)
		}
	}
	status, page := b.post("/ui/sign-in", url.Values{"key": {w.key}})
	if wants(t, page, "cannot be signed in just now"); status != http.StatusServiceUnavailable {
		t.Errorf("signing in: %d", status)
	}
	if status, page = b.post("/ui/sign-out", nil); status != http.StatusServiceUnavailable {
		t.Errorf("signing out: %d\n%s", status, page)
	}
}

// An EventSource never connects again after a status that is not 200.
func TestPagesComeBackToAStreamThatCannotBeServedNow(t *testing.T) {
	var cfg admin.Config
	w := newWorld(t, keep(&cfg))
	store := keptLogins{now: time.Now}
	w.srv = another(t, store.over(&cfg))
	b := w.signedIn()
	store.fail = errors.New("the database is away")
	resp := b.events(t.Context(), "/ui/overview/events")
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "no-store, no-transform" || !strings.HasPrefix(string(body), "retry: ") {
		t.Errorf("the stream is answered %d %q, %v; want 200, no-transform and retry", resp.StatusCode, body, err)
	}
}

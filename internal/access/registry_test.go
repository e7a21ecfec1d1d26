package access_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestKeysOpenTheirAppUntilDeleted(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop", "other")
	k, secret, err := w.CreateKey(t.Context(), "shop", "billing", access.Publish|access.Worker)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(secret, k.Prefix+"_") || len(secret)-len(k.Prefix) < 32 {
		t.Errorf("key %d characters long with prefix %q", len(secret), k.Prefix)
	}
	p, err := w.Key(t.Context(), secret)
	if want := (access.Principal{App: "shop", Key: k.ID, Roles: access.Publish | access.Worker}); err != nil || p != want {
		t.Errorf("got %+v, %v; want %+v", p, err, want)
	}
	for _, bad := range []string{"", "dev", k.ID, k.Prefix, secret[:len(secret)-1], secret + "a", strings.ToUpper(secret), " " + secret} {
		_, err := w.Key(t.Context(), bad)
		wantErr(t, err, access.ErrUnauthenticated)
	}
	if used := w.Keys("shop")[0].LastUsed; used.IsZero() || w.Keys("shop")[0].Name != "billing" {
		t.Errorf("listed as %+v", w.Keys("shop")[0])
	}
	wantErr(t, w.DeleteKey(t.Context(), "other", k.ID), access.ErrUnknownKey)
	if _, err := w.Key(t.Context(), secret); err != nil {
		t.Errorf("another app deleted the key: %v", err)
	}
	if err := w.DeleteKey(t.Context(), "shop", k.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.Key(t.Context(), secret)
	wantErr(t, err, access.ErrUnauthenticated)
}

func TestEveryKeyOfManyIsFound(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop", "other")
	secrets := map[string]string{}
	for i := range 30 {
		app := []string{"shop", "other"}[i%2]
		secrets[w.key(t, app, access.Read)] = app
	}
	for secret, app := range secrets {
		if p, err := w.Key(t.Context(), secret); err != nil || p.App != app {
			t.Errorf("key of %s: %+v, %v", app, p, err)
		}
	}
}

func TestDeletedAppTakesItsKeysAlong(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop", "other")
	mine, theirs := w.key(t, "shop", access.Admin), w.key(t, "other", access.Admin)
	if err := w.DeleteApp(t.Context(), "shop", nil); err != nil {
		t.Fatal(err)
	}
	_, err := w.Key(t.Context(), mine)
	wantErr(t, err, access.ErrUnauthenticated)
	if _, err := w.Key(t.Context(), theirs); err != nil {
		t.Errorf("another app's key: %v", err)
	}
	_, _, err = w.CreateKey(t.Context(), "shop", "", access.Read)
	wantErr(t, err, access.ErrUnknownApp)
	wantErr(t, w.DeleteApp(t.Context(), "shop", nil), access.ErrUnknownApp)
	wantErr(t, w.CreateApp(t.Context(), "other", access.AppChange{}), access.ErrExists)
	wantErr(t, w.SetApp(t.Context(), "shop", access.AppChange{}), access.ErrUnknownApp)
}

func TestKeyAsATokenListensAsItsRoleAllows(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop", "other")
	all, everywhere := []string{">"}, []string{">", "to.>", "o.>", "r.>"}
	for _, c := range []struct {
		roles access.Role
		want  access.Client
		err   error
	}{
		{access.Publish, access.Client{Topics: all, Publish: everywhere}, nil},
		{access.Admin, access.Client{Topics: all, Serve: all, Publish: everywhere}, nil},
		{access.Read, access.Client{Topics: all, Peek: true}, nil},
		{access.Read | access.Worker, access.Client{Topics: all, Serve: all, Peek: true}, nil},
		{access.Worker, access.Client{}, access.ErrForbidden},
	} {
		secret := w.key(t, "shop", c.roles)
		got, err := w.Client(t.Context(), access.Claim{Token: secret, Recipient: "driver-1", Device: "cli"})
		if c.err != nil {
			wantErr(t, err, c.err)
			continue
		}
		c.want.App, c.want.Recipient, c.want.Device = "shop", "driver-1", "cli"
		if got.Key == "" {
			t.Errorf("%s: the key's id is not told", c.roles)
		}
		got.Key = ""
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v; want %+v", c.roles, got, err, c.want)
		}
		if _, err := w.Client(t.Context(), access.Claim{Token: secret}); err == nil || !strings.Contains(err.Error(), "recipient") {
			t.Errorf("%s without recipient: %v", c.roles, err)
		}
		_, err = w.Client(t.Context(), access.Claim{App: "other", Token: secret, Recipient: "driver-1"})
		wantErr(t, err, access.ErrForbidden)
	}
}

func TestDevModeNeedsNoTokenForItsOwnAppOnly(t *testing.T) {
	w := newWorld(t, access.Config{Dev: true}, "shop")
	for _, app := range []string{"", "demo"} {
		if c, err := w.Client(t.Context(), access.Claim{App: app, Recipient: "driver-1"}); err != nil || c.App != "demo" || c.Recipient != "driver-1" || c.Peek {
			t.Errorf("app %q: %+v, %v", app, c, err)
		}
	}
	_, err := w.Client(t.Context(), access.Claim{App: "shop", Recipient: "driver-1"})
	wantErr(t, err, access.ErrUnauthenticated)
	_, err = w.Client(t.Context(), access.Claim{Token: "nonsense", Recipient: "driver-1"})
	wantErr(t, err, access.ErrUnauthenticated)
	if _, err := w.Client(t.Context(), access.Claim{App: "demo"}); err == nil || !strings.Contains(err.Error(), "recipient") {
		t.Errorf("without recipient: %v", err)
	}
	if p, err := w.Key(t.Context(), "dev"); err != nil || p.App != "demo" || !p.Roles.Has(access.Admin) {
		t.Errorf("key dev: %+v, %v", p, err)
	}
	_ = w.store.Close()
	w.open(t, access.Config{})
	_, err = w.Client(t.Context(), access.Claim{App: "demo", Recipient: "driver-1"})
	wantErr(t, err, access.ErrUnauthenticated)
	_, err = w.Key(t.Context(), "dev")
	wantErr(t, err, access.ErrUnauthenticated)
}

func TestChangesMadeBesideARunningServerTakeEffect(t *testing.T) {
	server := newWorld(t, access.Config{}, "shop")
	cli := &world{path: server.path, log: server.log}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer stop()
	cli.open(t, access.Config{})
	secret := cli.key(t, "shop", access.Read)
	eventually.True(t, "the key works", func() bool { _, err := server.Key(t.Context(), secret); return err == nil })
	for _, k := range cli.Keys("shop") {
		if err := cli.DeleteKey(t.Context(), "shop", k.ID); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "the key is revoked", func() bool { _, err := server.Key(t.Context(), secret); return err != nil })
	if err := cli.CreateApp(t.Context(), "second", access.AppChange{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the app is known", func() bool { _, err := server.App("second"); return err == nil })
}

func TestLastUseOfKeysIsWrittenDown(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop")
	secret := w.key(t, "shop", access.Read)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	if _, err := w.Key(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	stop()
	wg.Wait()
	_ = w.store.Close()
	w.open(t, access.Config{})
	if k := w.Keys("shop")[0]; time.Since(k.LastUsed) > time.Minute {
		t.Errorf("last used %s", k.LastUsed)
	}
}

// TestServersThatStartAtOnceAgreeOnTheFirstApp: nodes that share a database find it empty at the same moment.
func TestServersThatStartAtOnceAgreeOnTheFirstApp(t *testing.T) {
	w := newWorld(t, access.Config{})
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("a-secret-of-more-than-thirty-two-characters"), 0o600); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			r, err := access.NewRegistry(t.Context(), w.store, access.Config{Dev: true}, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			defer r.Close()
			if err := r.Bootstrap(t.Context(), "shop", file); err != nil {
				return err
			}
			if len(r.Apps()) != 2 || len(r.Keys("shop")) != 1 {
				return fmt.Errorf("apps %v, keys %v", r.Apps(), r.Keys("shop"))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestBootstrapGivesTheFirstAppItsKey(t *testing.T) {
	w := newWorld(t, access.Config{})
	file := filepath.Join(t.TempDir(), "key")
	check := func(secret string, ok bool) {
		t.Helper()
		if p, err := w.Key(t.Context(), secret); (err == nil) != ok || ok && (p.App != "shop" || p.Roles != access.Admin) {
			t.Errorf("key works: %t, want %t (%+v)", err == nil, ok, p)
		}
	}
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Bootstrap(t.Context(), "shop", file); err != nil {
		t.Fatal(err)
	}
	made := strings.TrimSpace(string(must(os.ReadFile(file))))
	check(made, true)
	if info := must(os.Stat(file)); info.Mode().Perm() != 0o600 {
		t.Errorf("the key file has mode %o", info.Mode().Perm())
	}
	write("a-key-that-somebody-else-made\n")
	for range 2 {
		if err := w.Bootstrap(t.Context(), "shop", file); err != nil {
			t.Fatal(err)
		}
	}
	check("a-key-that-somebody-else-made", true)
	check(made, false)
	for _, bad := range []string{"short", "two words of a key that is long"} {
		write(bad)
		if err := w.Bootstrap(t.Context(), "shop", file); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := w.Bootstrap(t.Context(), "", file); err == nil {
		t.Error("a key without an app was accepted")
	}
	if err := w.Bootstrap(t.Context(), "", ""); err != nil {
		t.Error(err)
	}
}

func TestCertificateNamesItsClient(t *testing.T) {
	w := newWorld(t, access.Config{}, "animal.observer", "shop")
	const uri = "godwit://animal.observer/region-1/region-1:observer-1"
	me := access.Client{App: "animal.observer", Group: "region-1", GroupBound: true, Recipient: "region-1:observer-1"}
	for name, c := range map[string]struct {
		claim access.Claim
		err   error
	}{
		"alone":           {access.Claim{CertURI: uri}, nil},
		"confirmed":       {access.Claim{CertURI: uri, App: me.App, Group: me.Group, Recipient: me.Recipient}, nil},
		"other app":       {access.Claim{CertURI: uri, App: "shop"}, access.ErrForbidden},
		"other group":     {access.Claim{CertURI: uri, Group: "region-2"}, access.ErrForbidden},
		"other recipient": {access.Claim{CertURI: uri, Recipient: "region-1:observer-2"}, access.ErrForbidden},
		"unknown app":     {access.Claim{CertURI: "godwit://nowhere/a/b"}, access.ErrUnknownApp},
		"no group":        {access.Claim{CertURI: "godwit://shop/a"}, access.ErrUnauthenticated},
		"too long":        {access.Claim{CertURI: "godwit://shop/a/b/c"}, access.ErrUnauthenticated},
		"empty recipient": {access.Claim{CertURI: "godwit://shop/a/"}, access.ErrUnauthenticated},
		"encoded slash":   {access.Claim{CertURI: "godwit://shop/a/b%2Fc"}, access.ErrUnauthenticated},
		"other scheme":    {access.Claim{CertURI: "spiffe://shop/a/b"}, access.ErrUnauthenticated},
		"bad token too":   {access.Claim{CertURI: uri, Token: "x"}, access.ErrUnauthenticated},
		"other's token":   {access.Claim{CertURI: uri, Token: must2(w.MintToken("animal.observer", access.TokenRequest{Recipient: "b", TTL: time.Hour}))}, access.ErrForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := w.Client(t.Context(), c.claim)
			if c.err != nil {
				wantErr(t, err, c.err)
			} else if err != nil || !reflect.DeepEqual(got, me) {
				t.Errorf("got %+v, %v; want %+v", got, err, me)
			}
		})
	}
}

func TestAppMustBeNamedWhereThereAreSeveral(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop")
	if a, err := w.App(""); err != nil || a.Name != "shop" {
		t.Errorf("the only app: %v, %v", a.Name, err)
	}
	if err := w.CreateApp(t.Context(), "other", access.AppChange{}); err != nil {
		t.Fatal(err)
	}
	_, err := w.App("")
	wantErr(t, err, access.ErrUnknownApp)
	w.trust(t, "shop", hmacSecret)
	_, err = w.Client(t.Context(), access.Claim{Token: hmacSigner(hmacSecret).token("", good(claims{"app": nil}))})
	wantErr(t, err, access.ErrUnknownApp)
}

func TestOriginsAreExact(t *testing.T) {
	w := newWorld(t, access.Config{}, "open", "listed")
	w.set(t, "listed", access.AppChange{Origins: &[]string{"https://Shop.example:443", "http://localhost:3000", "capacitor://localhost"}})
	for _, c := range []struct {
		app, origin, host string
		want              bool
	}{
		{"open", "https://godwit.example", "godwit.example", true},
		{"open", "https://godwit.example", "godwit.example:443", true},
		{"open", "http://godwit.example:8080", "godwit.example:8080", true},
		{"open", "http://GODWIT.example", "godwit.EXAMPLE", true},
		{"open", "http://godwit.example:8081", "godwit.example:8080", false},
		{"open", "https://evil.example", "godwit.example", false},
		{"open", "https://godwit.example.evil.example", "godwit.example", false},
		{"open", "null", "null", false},
		{"open", "", "", false},
		{"open", "https://user@godwit.example", "godwit.example", false},
		{"listed", "https://shop.example", "godwit.example", true},
		{"listed", "http://localhost:3000", "godwit.example", true},
		{"listed", "capacitor://localhost", "godwit.example", true},
		{"listed", "http://shop.example", "godwit.example", false},
		{"listed", "https://sub.shop.example", "godwit.example", false},
		{"listed", "https://godwit.example", "godwit.example", false},
		{"", "https://shop.example", "godwit.example", true},
		{"", "https://evil.example", "godwit.example", false},
		{"nowhere", "https://godwit.example", "godwit.example", false},
	} {
		if got := w.Origin(c.app, c.origin, c.host); got != c.want {
			t.Errorf("app %q, origin %q, host %q: %t", c.app, c.origin, c.host, got)
		}
	}
	for _, bad := range []string{"*", "https://*.example", "example.org", "https://a/b", "null", "https://a?b"} {
		if err := w.SetApp(t.Context(), "listed", access.AppChange{Origins: &[]string{bad}}); err == nil {
			t.Errorf("origin %q was accepted", bad)
		}
	}
}

func TestRolesReadAndImplyEachOther(t *testing.T) {
	if r, err := access.ParseRoles([]string{"publish", "worker"}); err != nil || r.String() != "publish,worker" || !r.Has(access.Read) || r.Has(access.Admin) {
		t.Errorf("got %s, %v", r, err)
	}
	for _, bad := range [][]string{nil, {"root"}, {"publish", ""}} {
		if r, err := access.ParseRoles(bad); err == nil {
			t.Errorf("%q became %s", bad, r)
		}
	}
	if !errors.Is(access.ErrForbidden, access.ErrForbidden) || !access.Admin.Has(access.Publish|access.Worker|access.Read) {
		t.Error("admin lacks a role")
	}
}

func TestOnlyNamedPagesMayRegisterVisitors(t *testing.T) {
	r := newWorld(t, access.Config{})
	origins := []string{"https://Site.example:443"}
	if err := r.CreateApp(t.Context(), "shop", access.AppChange{AnonymousOrigins: &origins}); err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]bool{
		"https://site.example": true, "https://SITE.example": true, "http://site.example": false, "https://site.example:8443": false,
		"": false, "null": false, "https://x.site.example": false, "http://localhost:3000": false,
	} {
		for _, app := range []string{"shop", ""} {
			if name, allowed := r.Anonymous(app, origin); allowed != want || name != "shop" {
				t.Errorf("%q for app %q: %q, %t", origin, app, name, allowed)
			}
		}
	}
	if err := r.CreateApp(t.Context(), "other", access.AppChange{}); err != nil {
		t.Fatal(err)
	}
	if name, allowed := r.Anonymous("", "https://site.example"); allowed || name != "" {
		t.Errorf("without an app's name: %q, %t", name, allowed)
	}
	if _, allowed := r.Anonymous("other", "https://site.example"); allowed {
		t.Error("an app that named no page takes visitors")
	}
	bad := []string{"site.example"}
	if err := r.SetApp(t.Context(), "other", access.AppChange{AnonymousOrigins: &bad}); err == nil {
		t.Error("a host is an origin")
	}
	dev := newWorld(t, access.Config{Dev: true})
	for origin, want := range map[string]bool{"http://localhost:3000": true, "http://127.0.0.1:8080": true, "http://[::1]:1": true, "https://site.example": false, "http://localhost.example": false} {
		if _, allowed := dev.Anonymous(access.DevApp, origin); allowed != want {
			t.Errorf("in development %q: %t", origin, allowed)
		}
	}
}

func TestTheStaticKeysOfAnAppAreBounded(t *testing.T) {
	w := newWorld(t, access.Config{}, "shop")
	var keys []access.JWTKey
	for i := range 17 {
		k, err := access.ParseJWTKeys(fmt.Appendf(nil, "secret number %032d", i))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k...)
	}
	most := keys[:16]
	w.set(t, "shop", access.AppChange{JWTKeys: &most})
	if err := w.SetApp(t.Context(), "shop", access.AppChange{JWTKeys: &keys}); err == nil || !strings.Contains(err.Error(), "has 17 keys; at most 16") {
		t.Errorf("17 keys: %v", err)
	}
}

func TestPagesOfThePublicURLAreTheServersOwn(t *testing.T) {
	w := newWorld(t, access.Config{Origin: access.OwnOrigin("https://Push.example.org:443/base/")}, "open")
	const host = "127.0.0.1:8080" // the Host that a proxy has set
	for origin, want := range map[string]bool{
		"https://push.example.org": true, "https://evil.example": false, "http://push.example.org": false,
		"https://push.example.org:8443": false, "http://127.0.0.1:8080": true,
	} {
		for _, app := range []string{"open", ""} {
			if got := w.Origin(app, origin, host); got != want {
				t.Errorf("app %q, origin %s: %t, want %t", app, origin, got, want)
			}
		}
	}
	for publicURL, origin := range map[string]string{
		"https://bücher.example/base": "https://xn--bcher-kva.example", "HTTPS://PUSH.Example.org:0443": "https://push.example.org",
		"http://[2001:DB8:0::1]:80/": "http://[2001:db8::1]", "https://push.example.org:/": "https://push.example.org",
	} {
		w := newWorld(t, access.Config{Origin: access.OwnOrigin(publicURL)}, "open")
		if !w.Origin("open", origin, host) {
			t.Errorf("pages of %s, which browsers call %s, may not connect", publicURL, origin)
		}
	}
	for _, none := range []string{"", "push.example.org", "://"} {
		if got := access.OwnOrigin(none); got != "" {
			t.Errorf("the origin of %q is %q", none, got)
		}
	}
}

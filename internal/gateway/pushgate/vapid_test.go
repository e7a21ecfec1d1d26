package pushgate_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"godwit.dev/godwit/internal/gateway/pushgate"
)

func TestSendersAreKnownByTheirKey(t *testing.T) {
	w := start(t, func(c *pushgate.Config) {
		c.Origins = []string{"https://push.example.org", "https://other.example.org:8443"}
	})
	d := w.device(t)
	k, stranger := newKey(t), newKey(t)
	_, named := d.register(k.public)
	_, open := d.register("")
	if !strings.HasPrefix(named, "https://push.example.org/wpush/v2/") || !strings.HasPrefix(open, "https://push.example.org/wpush/v1/") {
		t.Fatalf("endpoints %s and %s are not of the first origin", named, open)
	}
	bound, unbound := strings.Replace(named, "https://push.example.org", w.URL, 1), strings.Replace(open, "https://push.example.org", w.URL, 1)
	with := func(change func(map[string]any)) map[string]any {
		c := claims("https://push.example.org")
		change(c)
		return c
	}
	usual := claims("https://push.example.org")
	hs256, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat(k.public, 2))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	symmetric, err := jwt.Signed(hs256).Claims(usual).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	none := "eyJhbGciOiJub25lIn0." + strings.Split(k.token(t, usual), ".")[1] + "."
	vapid := func(token, key string) []string { return []string{"Authorization", "vapid t=" + token + ", k=" + key} }
	for _, c := range []struct {
		name   string
		header []string
		ok     bool
	}{
		{"usual", vapid(k.token(t, usual), k.public), true},
		{"k before t, without a space", []string{"Authorization", "vapid k=" + k.public + ",t=" + k.token(t, usual)}, true},
		{"scheme in capitals", []string{"Authorization", "VAPID t=" + k.token(t, usual) + ", k=" + k.public}, true},
		{"key with padding", vapid(k.token(t, usual), k.public+"="), true},
		{"of the draft", []string{"Authorization", "WebPush " + k.token(t, usual), "Crypto-Key", "p256ecdsa=" + k.public}, true},
		{"of an early draft", []string{"Authorization", "Bearer " + k.token(t, usual), "Crypto-Key", `p256ecdsa="` + k.public + `"`}, true},
		{"second origin", vapid(k.token(t, claims("https://other.example.org:8443")), k.public), true},
		{"aud with a slash", vapid(k.token(t, claims("https://push.example.org/")), k.public), true},
		{"list of audiences", vapid(k.token(t, with(func(c map[string]any) { c["aud"] = []string{"https://a.example", "https://push.example.org"} })), k.public), true},
		{"no sub", vapid(k.token(t, with(func(c map[string]any) { delete(c, "sub") })), k.public), true},
		{"nothing", nil, false},
		{"another key", vapid(stranger.token(t, usual), stranger.public), false},
		{"token by another key", vapid(stranger.token(t, usual), k.public), false},
		{"another audience", vapid(k.token(t, claims("https://a.example")), k.public), false},
		{"audience of the request's host", vapid(k.token(t, claims(w.URL)), k.public), false},
		{"no audience", vapid(k.token(t, with(func(c map[string]any) { delete(c, "aud") })), k.public), false},
		{"expired", vapid(k.token(t, with(func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() })), k.public), false},
		{"for more than a day", vapid(k.token(t, with(func(c map[string]any) { c["exp"] = time.Now().Add(25 * time.Hour).Unix() })), k.public), false},
		{"for ever", vapid(k.token(t, with(func(c map[string]any) { c["exp"] = 1e300 })), k.public), false},
		{"no exp", vapid(k.token(t, with(func(c map[string]any) { delete(c, "exp") })), k.public), false},
		{"exp as text", vapid(k.token(t, with(func(c map[string]any) { c["exp"] = "@" })), k.public), false},
		{"alg none", vapid(none, k.public), false},
		{"alg HS256 with the public key", vapid(symmetric, k.public), false},
		{"signature cut", vapid(strings.TrimRight(k.token(t, usual), "=")[:200], k.public), false},
		{"no key", []string{"Authorization", "vapid t=" + k.token(t, usual)}, false},
		{"key of junk", vapid(k.token(t, usual), "invalid|"), false},
		{"empty token", []string{"Authorization", "Bearer ", "Crypto-Key", "p256ecdsa=" + k.public}, false},
		{"another scheme", []string{"Authorization", "Basic YTpi"}, false},
		{"very long", []string{"Authorization", "vapid t=" + strings.Repeat("a", 5000) + ", k=" + k.public}, false},
	} {
		for range 2 { // the second time the token is known
			r := w.send(t, bound, post{body: "x", header: sealed("60", c.header...)})
			if c.ok && r.status != 201 || !c.ok && (r.status != 401 || r.errno != 109 || r.header.Get("WWW-Authenticate") != "vapid") {
				t.Errorf("%s: %d %s, errno %d, %v", c.name, r.status, r.body, r.errno, r.header)
			}
		}
	}
	if r := w.send(t, unbound, post{body: "x", header: sealed("60")}); r.status != 201 {
		t.Errorf("a channel for any sender answers %d %s without a token", r.status, r.body)
	}
	if r := w.send(t, unbound, post{body: "x", header: sealed("60", vapid(stranger.token(t, usual), k.public)...)}); r.status != 401 {
		t.Errorf("a channel for any sender answers %d with a token that is not valid, want 401", r.status)
	}
}

// TestCopiedTokenIsOfNoUseElsewhere sends a token again that somebody has read on the way.
func TestCopiedTokenIsOfNoUseElsewhere(t *testing.T) {
	var later atomic.Int64
	w := start(t, func(c *pushgate.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	d := w.device(t)
	k, other := newKey(t), newKey(t)
	_, endpoint := d.register(k.public)
	_, ofOther := d.register(other.public)
	text := k.token(t, claims(w.URL))
	token := sealed("60", "Authorization", "vapid t="+text+", k="+k.public)
	w.message(t, endpoint, "first", token)
	w.message(t, endpoint, "copied", token)
	refused := func(url, why string, header map[string]string) {
		t.Helper()
		if r := w.send(t, url, post{body: "x", header: header}); r.status != 401 || r.errno != 109 {
			t.Errorf("%s: %d, errno %d; want 401 and 109", why, r.status, r.errno)
		}
	}
	refused(ofOther, "a channel of another key", token)
	refused(ofOther, "with the other key beside the token", sealed("60", "Authorization", "vapid t="+text+", k="+other.public))
	refused(endpoint, "a token for another push service", sealed("60", "Authorization", k.header(t, "https://push.example.org")))
	later.Store(int64(13 * time.Hour))
	refused(endpoint, "after its end", token)
}

package foreign

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/test/blackbox"
)

// TestMonitoringPagesOfNATS: what NATS's own types read from /varz, /connz and /subsz is true, of one app alone, and has no secret in it.
func TestMonitoringPagesOfNATS(t *testing.T) {
	t.Parallel()
	s := blackbox.New(t, blackbox.Plain(), blackbox.Args("--nats-addr", "127.0.0.1:0"))
	keys := map[string]string{}
	for _, app := range []string{"shop", "blog", "idle"} {
		keys[app] = s.CreateApp(t, app)
	}
	token := s.Token(t, "shop", "ann", "--topics", "rides.*")
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	for secret, app := range map[string]string{keys["shop"]: "shop", keys["blog"]: "blog", token: "shop"} {
		nc, err := nats.Connect("nats://"+natsAddress(t, s), nats.Token(secret), nats.Name("of "+app), nats.NoReconnect())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Subscribe("godwit."+app+".t.rides.*", func(*nats.Msg) {}); err != nil || nc.Flush() != nil {
			t.Fatal(err)
		}
		if secret == token {
			continue
		}
		if _, err := nc.Request("godwit."+app+".r.nobody", nil, blackbox.Patience); !errors.Is(err, nats.ErrNoResponders) { // subscribes to an inbox
			t.Fatal(err)
		}
	}
	silent, err := net.Dial("tcp", natsAddress(t, s)) // never sends its CONNECT
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	read := func(path string, into any) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://tool:"+keys["shop"]+"@"+s.HTTP+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text json.RawMessage
		if err := json.NewDecoder(resp.Body).Decode(&text); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s %v", path, resp.StatusCode, text, err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{keys["shop"], token, "_INBOX.X", "blog"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s has %q in it: %s", path, secret, text)
			}
		}
		return string(text)
	}

	var v server.Varz
	read("/varz", &v)
	if v.Connections < 3 || v.Subscriptions < 3 || v.MaxPayload == 0 || v.Version == "" || len(v.ClientConnectURLs) > 0 {
		t.Errorf("/varz is %+v", v)
	}
	var c server.Connz
	text := read("/connz?auth=1&subs=1&sort=cid&limit=1024", &c)
	found := map[string]bool{}
	for _, one := range c.Conns {
		if one.Account != "shop" {
			t.Errorf("a connection of account %q is listed", one.Account)
		}
		if one.Name == "of shop" {
			found[one.AuthorizedUser] = one.IP == "127.0.0.1" && one.Port > 0 && one.Lang == "go" && strings.Contains(strings.Join(one.Subs, " "), "godwit.shop.t.rides.*")
		}
	}
	if len(found) != 2 || len(c.Conns) > 3 || !found["ann"] || strings.Count(text, `"_INBOX.`) != strings.Count(text, `"_INBOX.\u003e"`) {
		t.Errorf("/connz is %s", text)
	}
	for user, right := range found {
		if !right {
			t.Errorf("the connection of %s is wrong: %s", user, text)
		}
	}
	var u server.Subsz
	text = read("/subsz?subs=1&test=godwit.shop.t.rides.oslo", &u)
	if len(u.Subs) != 2 || u.Subs[0].Account != "shop" || u.SublistStats == nil || u.NumSubs < 2 {
		t.Errorf("/subsz is %s", text)
	}

	for key, path := range map[string]string{keys["idle"]: "/connz", keys["shop"]: "/connz?sort=idle&offset=50&limit=10"} {
		var none server.Connz
		if a := s.API(key).Call(t, http.MethodGet, path, nil, &none); none.ID != v.ID || none.NumConns != 0 || none.Conns == nil {
			t.Errorf("%s without a connection is %s", path, a.Body)
		}
	}
	for path, want := range map[string]int{"/varz?x=1": 400, "/connz?state=closed": 400, "/connz?sort=stop": 400, "/connz?limit=-1": 400, "/subsz?test=a.*": 400, "/connz?app=blog": 403} {
		if a, err := s.API(keys["shop"]).Do(t.Context(), http.MethodGet, path, nil); err != nil || a.Status != want {
			t.Errorf("%s: %+v, %v; want %d", path, a, err, want)
		}
	}
	for _, path := range []string{"/varz", "/connz", "/subsz"} {
		for key, want := range map[string]int{"": 401, "wrong": 401} {
			if a, err := s.API(key).Do(t.Context(), http.MethodGet, path, nil); err != nil || a.Status != want {
				t.Errorf("%s with key %q: %+v, %v; want %d", path, key, a, err, want)
			}
		}
	}
}

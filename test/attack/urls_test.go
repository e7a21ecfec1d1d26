package attack

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/server/app/feeds"
	"godwit.dev/godwit/internal/server/app/sending"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/modules"
	"godwit.dev/godwit/test/blackbox"
)

// inside is a service on this machine that only this machine may reach. It records the first line of each request.
type inside struct {
	port string
	mu   sync.Mutex
	came []string
}

func startInside(t *testing.T) *inside {
	t.Helper()
	ln, err := net.Listen("tcp", ":0") // listens on every address of this machine, including IPv6 if available
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in := &inside{port: port}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				line, _ := bufio.NewReader(c).ReadString('\n')
				in.mu.Lock()
				in.came = append(in.came, strings.TrimSpace(line))
				in.mu.Unlock()
				_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			})
		}
	})
	t.Cleanup(func() { ln.Close(); all.Wait() })
	return in
}

func (in *inside) lines() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]string(nil), in.came...)
}

// hosts returns spellings of this machine's addresses, and addresses at which clouds provide credentials.
func hosts(t *testing.T) []string {
	t.Helper()
	list := []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.", "0.0.0.0", "0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25lo]", "localhost", "LOCALHOST.", "a.localhost", "１２７.0.0.1", "127。0。0。1",
		"169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[fd20:ce::254]", "168.63.129.16", "100.100.100.200",
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if addrs, err := net.DefaultResolver.LookupHost(t.Context(), name); err == nil && len(addrs) > 0 && !strings.Contains(name, "_") {
		list = append(list, name) // a foreign name that resolves to this machine, as any name server can make it at any moment
	}
	return list
}

// urlSetting is a setting of an app with a URL to which this server connects.
type urlSetting struct {
	scheme string
	// set changes the setting over the API and makes the server use it immediately; the attacker can read the answer.
	set func(w *urlWorld, url string)
}

type urlWorld struct {
	*testing.T
	server *blackbox.Server
	api    *blackbox.API
	fcm    string // a service account
	apns   string // a key
}

func (w *urlWorld) do(method, path string, body any) {
	w.Helper()
	if _, err := w.api.Do(w.Context(), method, path, body); err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
}

func channelSetting(channel string, with func(w *urlWorld, url string) map[string]any) urlSetting {
	return urlSetting{"https", func(w *urlWorld, url string) {
		w.do(http.MethodPut, "/v1/channels/"+channel, with(w, url))
		w.do(http.MethodPost, "/v1/channels/"+channel+"/test", map[string]any{})
	}}
}

func address(channel, field string, more map[string]any) urlSetting {
	return urlSetting{"https", func(w *urlWorld, url string) {
		at := map[string]any{field: url}
		for k, v := range more {
			at[k] = v
		}
		w.do(http.MethodPut, "/v1/channels/"+channel, map[string]any{})
		w.do(http.MethodPost, "/v1/endpoints", map[string]any{"channel": channel, "recipient": "ann", "address": at})
		w.do(http.MethodPost, "/v1/channels/"+channel+"/test", map[string]any{"address": at, "title": "x"})
	}}
}

// sourceSetting sets up a source of a kind; with returns its settings for a URL.
func sourceSetting(scheme, kind string, with func(url string) map[string]any) urlSetting {
	return urlSetting{scheme, func(w *urlWorld, url string) {
		path := "/v1/sources/" + kind
		w.do(http.MethodPut, path, with(url))
		blackbox.Eventually(w, "the source has tried", func() error {
			var s struct {
				Failing *string `json:"failing_since"`
			}
			a, err := w.api.Do(w.Context(), http.MethodGet, path, nil)
			if err != nil || a.Status == http.StatusNotFound { // it was refused
				return err
			}
			if err := a.JSON(&s); err != nil {
				return err
			}
			if s.Failing == nil {
				return fmt.Errorf("not yet: %s", a.Body)
			}
			return nil
		})
		w.do(http.MethodDelete, path, nil)
	}}
}

// databaseSetting sets up a source that reads a database.
func databaseSetting(scheme, kind string) urlSetting {
	return sourceSetting(scheme, kind, func(url string) map[string]any {
		return map[string]any{"url": strings.Replace(url, "://", "://u@", 1) + "d"}
	})
}

// attacked returns urlSettings and, for each further kind of source, a setting for each of its addresses.
func attacked() map[string]urlSetting {
	all := maps.Clone(urlSettings)
	for kind, k := range feeds.SourceKinds(modules.All()) {
		for _, f := range k.Fields() {
			if name := "source " + f.Name; f.Address && all[name].set == nil {
				all[name] = sourceSetting("http", kind, func(url string) map[string]any {
					if f.Type == setting.List {
						return map[string]any{f.Name: []string{url}}
					}
					return map[string]any{f.Name: url}
				})
			}
		}
	}
	return all
}

// urlSettings are the settings that an app's own admin, or anybody who registers an address, can change.
var urlSettings = map[string]urlSetting{
	"hook url": {"https", func(w *urlWorld, url string) {
		w.do(http.MethodPut, "/v1/hooks/x", map[string]any{"url": url})
		w.do(http.MethodPost, "/v1/hooks/x/test", nil)
	}},
	"sink url": {"http", func(w *urlWorld, url string) {
		w.do(http.MethodPut, "/v1/sinks/clickhouse", map[string]any{"url": url, "backfill": true})
		w.do(http.MethodPost, "/v1/notifications", map[string]any{"to": "ann", "title": "x"})
		blackbox.Eventually(w, "the sink has tried", func() error {
			var s struct {
				Failing *string `json:"failing_since"`
				Stopped *string `json:"stopped"`
			}
			a, err := w.api.Do(w.Context(), http.MethodGet, "/v1/sinks/clickhouse", nil)
			if err != nil || a.Status == http.StatusNotFound { // it was refused
				return err
			}
			if err := a.JSON(&s); err != nil {
				return err
			}
			if s.Failing == nil && s.Stopped == nil {
				return fmt.Errorf("not yet: %s", a.Body)
			}
			return nil
		})
		w.do(http.MethodDelete, "/v1/sinks/clickhouse", nil)
	}},
	"source urls": sourceSetting("redis", "redisstream", func(url string) map[string]any { return map[string]any{"urls": []string{url}} }),
	"source url":  databaseSetting("postgres", "postgres"),
	"source preview url": {"postgres", func(w *urlWorld, url string) {
		w.do(http.MethodPost, "/v1/sources/postgres/preview", map[string]any{"url": strings.Replace(url, "://", "://u@", 1) + "d"})
	}},
	"source outbox url":   databaseSetting("postgres", "postgres-outbox"),
	"source outbox mysql": databaseSetting("mysql", "mysql-outbox"),
	"source nats url": sourceSetting("nats", "jetstream", func(url string) map[string]any {
		return map[string]any{"url": url, "stream": "orders"}
	}),
	"channel fcm base_url": channelSetting("fcm", func(w *urlWorld, url string) map[string]any {
		return map[string]any{"service_account": w.account("https://8.8.8.8/"), "base_url": url}
	}),
	"channel fcm service_account": channelSetting("fcm", func(w *urlWorld, url string) map[string]any {
		return map[string]any{"service_account": w.account(url), "base_url": nil}
	}),
	"channel apns base_url": channelSetting("apns", func(w *urlWorld, url string) map[string]any {
		return map[string]any{"private_key": w.apns, "key_id": "ABC123DEFG", "team_id": "DEF123GHIJ", "topic": "org.example.app", "base_url": strings.TrimSuffix(url, "/")}
	}),
	"channel webhook targets": {"https", func(w *urlWorld, url string) {
		w.do(http.MethodPut, "/v1/channels/webhook", map[string]any{"targets": "inside=" + url})
		w.do(http.MethodPost, "/v1/channels/webhook/test", map[string]any{"address": map[string]any{"target": "inside"}, "title": "x"})
	}},
	"address url":      address("webhook", "url", nil),
	"address endpoint": address("webpush", "endpoint", map[string]any{"keys": map[string]any{"p256dh": p256dh, "auth": "AAAAAAAAAAAAAAAAAAAAAA"}}),
}

// p256dh is a valid point of P-256: the curve's generator.
const p256dh = "BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"

func (w *urlWorld) account(tokenURI string) string {
	return strings.ReplaceAll(w.fcm, "TOKEN_URI", tokenURI)
}

// TestNoSettingReachesWhatOnlyThisMachineCan sets every URL setting of an app to every spelling of this machine's addresses.
func TestNoSettingReachesWhatOnlyThisMachineCan(t *testing.T) {
	t.Parallel()
	startURLWorld(t).attack()
}

// TestATargetOfTheOperatorOpensNoOther: a server whose operator allows one port of this machine leads there what the app's admin sets, and
// nothing elsewhere. A browser's address leads not even there.
func TestATargetOfTheOperatorOpensNoOther(t *testing.T) {
	t.Parallel()
	open, named := startInside(t), startInside(t)
	w := startURLWorld(t, "--allow-targets", "127.0.0.1:"+open.port+",localhost:"+named.port)
	w.attack()
	reached := len(open.lines())
	for _, name := range []string{
		"hook url", "sink url", "source urls", "source url", "source outbox url", "source outbox mysql", "source nats url", "channel fcm service_account", "channel apns base_url",
		"channel webhook targets", "address url",
	} {
		w.reaches(name, "127.0.0.1", open)
		w.reaches(name, "localhost", named) // each library passes the name to the dialer, and not what it resolves to
	}
	if reached != 0 {
		t.Errorf("%d requests came to the target before it was set", reached)
	}
	before, beforeNamed := len(open.lines()), len(named.lines())
	browser := urlSettings["address endpoint"]
	browser.set(w, "https://127.0.0.1:"+open.port+"/")
	browser.set(w, "https://localhost:"+named.port+"/")
	for _, line := range append(open.lines()[before:], named.lines()[beforeNamed:]...) {
		t.Errorf("from a browser's address a request came: %.60q", line)
	}
}

// reaches leads a setting to a target, where something must come.
func (w *urlWorld) reaches(name, host string, to *inside) {
	w.Helper()
	s, before := urlSettings[name], len(to.lines())
	s.set(w, s.scheme+"://"+host+":"+to.port+"/")
	blackbox.Eventually(w, name+" reaches "+host, func() error {
		if len(to.lines()) == before {
			return errors.New("nothing came")
		}
		return nil
	})
}

// attack sets every setting to every spelling of this machine's addresses, those of a channel one after the other.
func (w *urlWorld) attack() {
	all := attacked()
	channels := map[string]string{"address url": "webhook", "address endpoint": "webpush"}
	together := make(map[string][]string)
	for name := range all {
		of := name
		if rest, is := strings.CutPrefix(name, "channel "); is {
			of, _, _ = strings.Cut(rest, " ")
		} else if channels[name] != "" {
			of = channels[name]
		}
		together[of] = append(together[of], name)
	}
	w.Run("attack", func(t *testing.T) { // it ends when all have
		for of, names := range together {
			t.Run(of, func(t *testing.T) {
				t.Parallel()
				in, at := startInside(t), *w
				for _, name := range names {
					t.Run(name, func(t *testing.T) {
						at.T = t
						at.attackOne(all[name], in)
					})
				}
			})
		}
	})
}

func (w *urlWorld) attackOne(s urlSetting, in *inside) {
	for _, host := range hosts(w.T) {
		before := len(in.lines())
		s.set(w, s.scheme+"://"+host+":"+in.port+"/")
		for _, line := range in.lines()[before:] {
			w.Errorf("from %s a request came: %.60q", host, line)
		}
	}
}

func startURLWorld(t *testing.T, args ...string) *urlWorld {
	t.Helper()
	server := blackbox.New(t, blackbox.Plain(), blackbox.Args(args...))
	out, err := server.Manage("app", "create", "shop", "--data", server.Dir)
	if err != nil {
		t.Fatal(err, out)
	}
	key := keyIn(t, out)
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
	signing, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "demo-project", "client_email": "a@b.example", "private_key_id": "1", "private_key": pkcs8(t, signing), "token_uri": "TOKEN_URI",
	})
	if err != nil {
		t.Fatal(err)
	}
	return &urlWorld{t, server, server.API(key), string(account), pkcs8(t, provider)}
}

// keyIn extracts the API key from a command's output.
func keyIn(t *testing.T, said string) string {
	t.Helper()
	key := regexp.MustCompile(`gw_\S+`).FindString(said)
	if key == "" {
		t.Fatalf("no key in %q", said)
	}
	return key
}

func pkcs8(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// A Bot API server may be in the app's own network. Every value of the setting reaches only paths of the Bot API, and addresses at which
// clouds provide credentials stay unreachable.
func TestTelegramServersAreAskedForTheBotAPIAlone(t *testing.T) {
	in := startInside(t)
	w := startURLWorld(t)
	own := regexp.MustCompile(`^POST (/[a-z.]+)*/bot1234567:AAAAAAAAAAAAAAAAAAAA/[A-Za-z]+ HTTP/1\.1$`)
	host := "http://127.0.0.1:" + in.port
	for _, base := range []string{
		host, host + "/", host + "/api", // those work
		host + "/#", host + "#", host + "/private#", host + "/private/#/", host + "/?", host + "?", host + "/private?", host + "/private?a=b", host + "/private%23", host + "/private%3F",
		host + "/private%00", host + "/private;", host + "/private/..", host + "/a/../private", host + "/private%2f..", host + "/private\\", host + "/private%0d%0aX:y", host + "/private ",
		host + "//private", "http://user@127.0.0.1:" + in.port + "/", "http://user:secret@127.0.0.1:" + in.port, "http://@127.0.0.1:" + in.port, "//127.0.0.1:" + in.port,
		"http://0.0.0.0:" + in.port, "http://[::]:" + in.port, "http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://[fe80::1%25lo]:" + in.port, "file:///etc/passwd", "gopher://127.0.0.1:" + in.port + "/_x",
	} {
		w.do(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": "1234567:AAAAAAAAAAAAAAAAAAAA", "base_url": base})
		w.do(http.MethodPost, "/v1/channels/telegram/test", map[string]any{})
	}
	lines := in.lines()
	for _, line := range lines {
		if !own.MatchString(line) {
			t.Errorf("it was asked for %q", line)
		}
	}
	if len(lines) < 3 {
		t.Errorf("a server of the app's own was asked %d times", len(lines))
	}
}

// TestKeysAndIntrospectionReachNothingInside: the owner of the data folder sets these URLs; a name in them may later resolve to this
// machine.
func TestKeysAndIntrospectionReachNothingInside(t *testing.T) {
	in := startInside(t)
	w := startURLWorld(t)
	for _, setting := range []string{"--jwks-url", "--introspect-url"} {
		for _, host := range hosts(t) {
			if _, err := w.server.Manage("app", "set", "shop", "--data", w.server.Dir, setting, "https://"+host+":"+in.port+"/"); err != nil {
				continue // refused
			}
			for _, token := range []string{"opaque", "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJhIiwiZXhwIjo5OTk5OTk5OTk5fQ.AA"} {
				link, err := w.server.Dial(t.Context(), "ws", blackbox.Hello{App: "shop", Recipient: "ann", Token: token})
				if err != nil {
					t.Fatal(err)
				}
				if f, err := link.Next(t.Context()); err == nil && f.Welcome != nil {
					t.Errorf("%s of %s lets a stranger in", setting, host)
				}
				link.Cut()
			}
		}
	}
	for _, line := range in.lines() {
		t.Errorf("a request came: %.60q", line)
	}
}

// notDialled are settings with a URL to which this server never connects, or that only the operator sets: they are addresses of the
// server's own parts, and may be any address.
var notDialled = map[string]string{
	"channel telegram base_url": "see TestTelegramServersAreAskedForTheBotAPIAlone",
	"app JWKSURL":               "see TestKeysAndIntrospectionReachNothingInside",
	"app IntrospectURL":         "see TestKeysAndIntrospectionReachNothingInside",
	"channel webpush url":       "opened by browsers",
	"channel webpush icon":      "opened by browsers",
	"config public_url":         "where people reach this server",
	"config gateway_url":        "where people reach the gateway",
	"config allow_private_urls": "a switch",
	"config allow_targets":      "a list of hosts; see TestATargetOfTheOperatorOpensNoOther",
	"config otlp":               "the operator's", "config oidc_issuer": "the operator's; never link-local: internal/access/signin/provider", "config postgres": "the operator's", "config redis": "the operator's",
	"config nats": "the operator's", "config uploads": "the operator's", "config auth_url": "the operator's", "config driver_api_url": "the operator's",
}

// TestEverySettingWithAURLIsAttacked fails if a setting with a URL is added that no test here sets.
func TestEverySettingWithAURLIsAttacked(t *testing.T) {
	var found []string
	for channel, kind := range sending.Kinds(channel.Options{}, modules.All()) {
		for _, f := range kind.Fields() {
			if strings.Contains(f.Name, "url") || strings.Contains(f.Help, "http") || strings.Contains(f.Help, "URL") || f.Name == "service_account" {
				found = append(found, fmt.Sprintf("channel %s %s", channel, f.Name))
			}
		}
	}
	for _, kind := range feeds.SourceKinds(modules.All()) {
		for _, f := range kind.Fields() {
			if f.Address {
				found = append(found, "source "+f.Name)
			}
		}
	}
	for _, kind := range feeds.SinkKinds(modules.All()) {
		for _, f := range kind.Fields() {
			if f.Address {
				found = append(found, "sink "+f.Name)
			}
		}
	}
	for what, of := range map[string]any{"hook": hook.Hook{}, "app": access.App{}} {
		for i := range reflect.TypeOf(of).NumField() {
			if name := reflect.TypeOf(of).Field(i).Name; strings.Contains(name, "URL") {
				if what != "app" {
					name = strings.ToLower(name)
				}
				found = append(found, what+" "+name)
			}
		}
	}
	for _, f := range config.Fields(new(config.Config)) {
		if strings.Contains(f.Key, "url") || strings.Contains(f.Key, "issuer") || strings.Contains(f.Help, "://") {
			found = append(found, "config "+f.Key)
		}
	}
	all := attacked()
	for _, name := range found {
		if _, walked := all[name]; !walked && notDialled[name] == "" {
			t.Errorf("no test sets %q to an address inside: add it to urlSettings, or to notDialled with the reason", name)
		}
	}
}

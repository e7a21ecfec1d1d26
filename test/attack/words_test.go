package attack

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// parrot is a server that repeats everything sent to it: in its status line, its headers and its body.
type parrot struct {
	url  string
	mu   sync.Mutex
	came map[string]int // paths
}

// answers of a parrot, in turn. %[1]s is the repeated text, in one line; %[2]d its length.
var answers = []string{
	"HTTP/1.1 401 %[1]s\r\nX-Said: %[1]s\r\nContent-Length: %[2]d\r\n\r\n%[1]s",
	"HTTP/1.1 500 %[1]s\r\nContent-Type: text/html\r\nContent-Length: %[2]d\r\n\r\n%[1]s",
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %[2]d\r\n\r\n%[1]s",
	"HTTP/1.1 %[1]s\r\n\r\n",
	"%[1]s\r\n\r\n",
	"HTTP/1.1 200 OK\r\n%[1]s\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation: http://%%zz/%[1]s\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: %[1]s\r\n\r\n",
	"HTTP/1.1 400 Bad\r\nContent-Length: 999999\r\n\r\n%[1]s",
}

func startParrot(t *testing.T) *parrot {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &parrot{url: "http://" + ln.Addr().String(), came: map[string]int{}}
	var all sync.WaitGroup
	turn := 0
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			answer := answers[turn%len(answers)]
			turn++
			p.mu.Unlock()
			all.Go(func() { defer c.Close(); p.talk(c, answer) })
		}
	})
	t.Cleanup(func() { ln.Close(); all.Wait() })
	return p
}

func (p *parrot) talk(c net.Conn, answer string) {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(r.Body)
	shown := r.RequestURI
	for name, values := range r.Header {
		shown += " " + name + "=" + strings.Join(values, ",")
		for _, v := range values {
			if b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(v, "Basic ")); err == nil {
				shown += " " + string(b)
			}
		}
	}
	shown = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, shown+" "+string(body))
	p.mu.Lock()
	p.came[strings.Split(r.URL.Path, "/")[1]]++
	p.mu.Unlock()
	_, _ = fmt.Fprintf(c, answer, shown, len(shown))
}

// asked waits until each of these was requested as often as there are answers.
func (p *parrot) asked(t *testing.T, prefixes ...string) {
	t.Helper()
	blackbox.Eventually(t, "all are asked", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, prefix := range prefixes {
			n := 0
			for path, times := range p.came {
				if strings.HasPrefix(path, prefix) {
					n += times
				}
			}
			if n == 0 {
				return fmt.Errorf("%s was not asked", prefix)
			}
		}
		return nil
	})
}

// TestServersThatRepeatSecretsFillNoLog sends secrets of all kinds to a server that repeats them. No secret may appear in the log at its
// most detailed level, in the metrics, or in an answer to another app.
func TestServersThatRepeatSecretsFillNoLog(t *testing.T) {
	p := startParrot(t)
	const (
		sinkPassword = "sink-secret-4711"
		botToken     = "1234567:bot-secret-4711-AAAA"
		introspect   = "introspect-secret-4711"
		collector    = "collector-secret-4711"
		clientToken  = "opaque-secret-4711"
		hookPath     = "hook-secret-4711"
	)
	server := blackbox.New(t, blackbox.Plain(), blackbox.Args("--allow-private-urls", "--log-level", "debug", "--otlp", p.url+"/otlp"),
		blackbox.Env("OTEL_EXPORTER_OTLP_HEADERS=authorization="+collector, "OTEL_METRIC_EXPORT_INTERVAL=1000"))
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(introspect), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"app", "create", "shop"},
		{"app", "set", "shop", "--allow-private-urls", "--introspect-url", p.url + "/introspect", "--introspect-id", "us", "--introspect-secret-file", file},
	} {
		if out, err := server.Manage(append(args, "--data", server.Dir)...); err != nil {
			t.Fatalf("%v: %s", args, out)
		}
	}
	out, err := server.Manage("key", "create", "--role", "admin", "--app", "shop", "--data", server.Dir)
	if err != nil {
		t.Fatal(out)
	}
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
	api := server.API(keyIn(t, out))
	do := func(method, path string, body any) string {
		a, err := api.Do(t.Context(), method, path, body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(a.Status, " ", string(a.Body))
	}
	do(http.MethodPut, "/v1/sinks/clickhouse", map[string]any{"url": p.url + "/sink", "user": "us", "password": sinkPassword, "backfill": true})
	do(http.MethodPut, "/v1/hooks/x", map[string]any{"url": p.url + "/hook/" + hookPath})
	do(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": p.url, "updates": true})
	shown := ""
	for i := range len(answers) {
		do(http.MethodPost, "/v1/notifications", map[string]any{"to": "ann", "title": fmt.Sprint(i)})
		shown += do(http.MethodPost, "/v1/hooks/x/test", nil) + do(http.MethodPost, "/v1/channels/telegram/test", map[string]any{})
		link, err := server.Dial(t.Context(), "ws", blackbox.Hello{App: "shop", Recipient: "ann", Token: fmt.Sprint(clientToken, i)})
		if err != nil {
			t.Fatal(err)
		}
		if f, err := link.Next(t.Context()); err == nil && f.Welcome != nil {
			t.Error("a stranger is let in")
		}
		link.Cut()
		shown += do(http.MethodGet, "/v1/sinks/clickhouse", nil) + do(http.MethodGet, "/v1/hooks/x", nil)
		do(http.MethodPut, "/v1/sinks/clickhouse", map[string]any{"enabled": true}) // restarts a sink that has stopped
	}
	p.asked(t, "otlp", "sink", "hook", "bot", "introspect")
	metrics, err := api.Do(t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	for _, secret := range []string{sinkPassword, botToken, "bot-secret-4711", introspect, collector, clientToken, hookPath} {
		if strings.Contains(server.Log(), secret) {
			t.Errorf("the log has %s", secret)
		}
		if strings.Contains(string(metrics.Body), secret) {
			t.Errorf("the metrics have %s", secret)
		}
		if secret != hookPath && strings.Contains(shown, secret) {
			t.Errorf("the app's admin is shown %s", secret)
		}
	}
}

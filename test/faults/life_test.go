package faults

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

func TestSecondServerOnTheSameDataRefusesToStart(t *testing.T) {
	first := blackbox.Start(t, blackbox.Dev())
	second := blackbox.New(t, blackbox.Dev(), blackbox.In(first.Dir))
	if err := second.Spawn(); err != nil {
		t.Fatal(err)
	}
	if code := second.Wait(); code != 1 {
		t.Errorf("the second server exited with %d, want 1", code)
	}
	if log := second.Log(); !strings.Contains(log, "in use") {
		t.Errorf("the second server does not say that the folder is in use:\n%s", log)
	}
	if err := first.API().Publish(t.Context(), map[string]any{"to": "driver-1", "title": "still here"}); err != nil {
		t.Error(err)
	}
}

func TestStopSaysGoodbyeAndExitsCleanly(t *testing.T) {
	// The grace is for clients that read their goodbye slowly: here it is as long as a busy machine may need.
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--grace", "45s"))
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	links := map[string]blackbox.Link{}
	for _, transport := range blackbox.Transports {
		link, err := server.Dial(ctx, transport, blackbox.Hello{App: "demo", Recipient: "rider-" + transport})
		if err != nil {
			t.Fatal(transport, err)
		}
		defer link.Cut()
		if f, err := link.Next(ctx); err != nil || f.Welcome == nil {
			t.Fatalf("%s: %+v %v", transport, f, err)
		}
		links[transport] = link
	}
	goodbyes := make(chan error, len(links))
	for transport, link := range links {
		go func() {
			for {
				f, err := link.Next(ctx)
				if err != nil {
					goodbyes <- fmt.Errorf("%s: ended without goodbye: %w", transport, err)
					return
				}
				if f.Goodbye != nil {
					goodbyes <- nil
					return
				}
			}
		}()
	}
	// Between two polls a client has no connection on which to get a goodbye: so the poll must be waiting on the server.
	blackbox.Eventually(t, "the poll is held", func() error { return running(ctx, server, "pollgate.(*Gateway).poll") })
	if code := server.Stop(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for range links {
		if err := <-goodbyes; err != nil {
			t.Error(err)
		}
	}
}

// running returns nil if a goroutine of the server is in a function.
func running(ctx context.Context, s *blackbox.Server, function string) error {
	a, err := s.API().Do(ctx, http.MethodGet, "/debug/pprof/goroutine", nil)
	if err != nil {
		return err
	}
	profile, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err != nil {
		return fmt.Errorf("profile: %d %.100s: %w", a.Status, a.Body, err)
	}
	b, err := io.ReadAll(profile)
	if err == nil && !bytes.Contains(b, []byte(function)) {
		err = fmt.Errorf("no goroutine is in %s", function)
	}
	return err
}

// TestAppsNeverMeet uses the same names for everything in two apps.
func TestAppsNeverMeet(t *testing.T) {
	server := blackbox.New(t)
	keys := map[string]string{}
	for _, app := range []string{"red", "blue"} {
		keys[app] = server.CreateApp(t, app)
	}
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	links := map[string]blackbox.Link{}
	for app := range keys {
		link, err := server.Dial(ctx, "ws", blackbox.Hello{App: app, Recipient: "driver-1", Token: server.Token(t, app, "driver-1")})
		if err != nil {
			t.Fatal(err)
		}
		defer link.Cut()
		if f, err := link.Next(ctx); err != nil || f.Welcome == nil || f.Welcome.App != app {
			t.Fatalf("%s: %+v %v", app, f, err)
		}
		links[app] = link
	}
	for app, key := range keys {
		if err := server.API(key).Publish(ctx, map[string]any{"to": "driver-1", "id": "same-id", "title": app}); err != nil {
			t.Fatal(err)
		}
	}
	for app, link := range links {
		n, err := blackbox.NextNotification(ctx, link)
		if err != nil || n.Title != app {
			t.Errorf("%s got %+v %v", app, n, err)
		}
	}
	if err := links["red"].Ack(ctx, "same-id"); err != nil {
		t.Fatal(err)
	}
	blackbox.Eventually(t, "red's copy is acknowledged", func() error {
		return server.API(keys["red"]).WantState(ctx, "same-id", "driver-1", "acked")
	})
	blackbox.Eventually(t, "blue's copy is not touched by red's acknowledgement", func() error {
		return server.API(keys["blue"]).WantState(ctx, "same-id", "driver-1", "delivered")
	})
	// Erasing red's driver leaves blue's alone.
	answer, err := server.API(keys["red"]).Do(ctx, http.MethodDelete, "/v1/recipients/driver-1", nil)
	if err != nil || answer.Status >= 300 {
		t.Fatalf("erase: %v %v", answer, err)
	}
	if _, err := server.API(keys["blue"]).State(ctx, "same-id", "driver-1"); err != nil {
		t.Error(err)
	}
	// A token of one app opens nothing in the other.
	link, err := server.Dial(ctx, "ws", blackbox.Hello{App: "blue", Recipient: "driver-1", Token: server.Token(t, "red", "driver-1")})
	if err != nil {
		return // refused at the door
	}
	defer link.Cut()
	if f, err := link.Next(ctx); err == nil && f.Welcome != nil {
		t.Errorf("red's token was welcomed by %s", f.Welcome.App)
	}
}

// TestSecretsStayOutOfLogs uses every kind of secret, valid and invalid, at the most detailed log level.
func TestSecretsStayOutOfLogs(t *testing.T) {
	server := blackbox.New(t, blackbox.Args("--log-level", "debug"))
	key := server.CreateApp(t, "red")
	token := server.Token(t, "red", "driver-1")
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	const content = "the-content-of-a-notification"
	publish(ctx, t, server.API(key), "driver-1", "n1", content, "1m")
	wrong := "gw_wrong_" + strings.Repeat("0123456789abcdef", 2)
	if err := server.API(wrong).Publish(ctx, map[string]any{"to": "driver-1", "title": "x"}); err == nil {
		t.Error("a wrong key may publish")
	}
	var sessions []string
	for _, transport := range blackbox.Transports {
		for _, tok := range []string{token, token + "x"} {
			link, err := server.Dial(ctx, transport, blackbox.Hello{App: "red", Recipient: "driver-1", Token: tok})
			if err != nil {
				continue // the wrong one
			}
			if f, err := link.Next(ctx); err == nil && f.Welcome != nil {
				sessions = append(sessions, f.Welcome.Session)
			}
			link.Cut()
		}
	}
	if len(sessions) != len(blackbox.Transports) {
		t.Errorf("%d sessions were welcomed, want %d", len(sessions), len(blackbox.Transports))
	}
	metrics, err := server.API(key).Do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()

	secrets := append(sessions, key, wrong, token, token[strings.LastIndexByte(token, '.')+1:], content)
	for name, text := range map[string]string{"log": server.Log(), "metrics": string(metrics.Body)} {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("the %s contains a secret: %.12s…", name, s)
			}
		}
	}
	wantNoSecretOnDisk(t, server.Dir, key)
}

// wantNoSecretOnDisk: keys are stored hashed.
func wantNoSecretOnDisk(t *testing.T, dir, key string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // a folder
		}
		if bytes.Contains(b, []byte(key)) {
			t.Errorf("%s contains an API key in the clear", filepath.Base(name))
		}
	}
}

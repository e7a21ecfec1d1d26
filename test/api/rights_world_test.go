package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/test/blackbox"
)

// rightsWorld is a real server with the app demo, and a second app.
type rightsWorld struct {
	*testing.T
	data             string // its folder
	http, grpc, nats string
	client           *http.Client
	access           *access.Registry // opened on the server's folder, to sign tokens
	number           int64            // of a test's fences
}

func startRights(t *testing.T) *rightsWorld {
	t.Helper()
	w := startRightsWith(t)
	apps, closeApps, err := store.OpenApps(t.Context(), store.Config{Data: w.data}, false)
	if err != nil {
		t.Fatal(err)
	}
	if w.access, err = access.NewRegistry(t.Context(), apps.Access, access.Config{}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.access.Close()
		if err := closeApps(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// startRightsWith starts a server with other limits, which then apply to loopback, too. Its access is not set, so it cannot sign tokens.
func startRightsWith(t *testing.T, limits ...func(*config.Config)) *rightsWorld {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.HTTPAddr, cfg.GRPCAddr, cfg.NATSAddr, cfg.Dev, cfg.MinFree = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", true, 1<<20
	for _, change := range limits {
		cfg.LimitLoopback = true
		change(cfg)
	}
	a, err := app.Start(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	at := a.Addresses()
	return &rightsWorld{T: t, data: cfg.Data, http: at.HTTP, grpc: at.GRPC, nats: at.NATS, client: &http.Client{Transport: transport, Timeout: time.Minute}}
}

// token signs a client's token.
func (w *rightsWorld) token(recipient string, topics, serve []string) string {
	w.Helper()
	text, _, err := w.access.MintToken("demo", access.TokenRequest{Recipient: recipient, TTL: time.Minute, Topics: topics, Serve: serve})
	if err != nil {
		w.Fatal(err)
	}
	return text
}

// do sends a request with a key, and returns status and body.
func (w *rightsWorld) do(ctx context.Context, method, path, key string, body []byte) (status int, answer []byte) {
	w.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.http+path, bytes.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, answer
}

// ask is do for a GET without a key; it returns errors instead of failing the test.
func (w *rightsWorld) ask(ctx context.Context, path string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.http+path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// publish publishes to a topic with a key that permits it.
func (w *rightsWorld) publish(name string) {
	w.Helper()
	if status, answer := w.do(w.Context(), "POST", "/v1/topics/"+url.PathEscape(name), "dev", []byte("x")); status != http.StatusAccepted {
		w.Fatalf("publish to %s: %d %s", name, status, answer)
	}
}

func (w *rightsWorld) patiently() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(w.Context(), blackbox.Patience, fmt.Errorf("nothing happened in %s", blackbox.Patience))
}

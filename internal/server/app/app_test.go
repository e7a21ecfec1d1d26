package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
)

func TestMain(m *testing.M) {
	// The Redis library pauses a second before it reads a cluster's nodes again, and closing does not cut the pause short.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// settings are those of a small development server on free ports.
func settings(t *testing.T) *config.Config {
	cfg := config.Default()
	cfg.Data, cfg.HTTPAddr, cfg.GRPCAddr, cfg.Dev, cfg.MinFree = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", true, 1<<20
	return cfg
}

func start(t *testing.T, cfg *config.Config) *app.App {
	t.Helper()
	a, err := app.Start(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, a) })
	return a
}

func stop(t *testing.T, a *app.App) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.Stop(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("the stop failed (%v) or waited for something (%v)", err, ctx.Err())
	}
}

// ask sends one request on a connection of its own.
func ask(t *testing.T, method, url, body string) (status int, answer string, header http.Header) {
	t.Helper()
	return askAs(t, "", method, url, body)
}

// askAs is ask with a Host header; "": the URL's host.
func askAs(t *testing.T, host, method, url, body string) (status int, answer string, header http.Header) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Authorization", "Bearer dev")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

func TestServerIsReadyWhenItsAddressesAreWritten(t *testing.T) {
	cfg := settings(t)
	a := start(t, cfg)
	written, err := datadir.ReadAddresses(cfg.Data)
	if err != nil || !reflect.DeepEqual(written, a.Addresses()) || written.HTTP == "" || written.GRPC == "" {
		t.Fatalf("written %+v, %v; the server says %+v", written, err, a.Addresses())
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 200, "/openapi.yaml": 200, "/nothing": 404} {
		if status, body, _ := ask(t, "GET", "http://"+written.HTTP+path, ""); status != want {
			t.Errorf("%s answers %d: %s", path, status, body)
		}
	}
	if _, body, _ := ask(t, "GET", "http://"+written.HTTP+"/metrics", ""); !strings.Contains(body, `godwit_build_info{version="test"} 1`) || !strings.Contains(body, "godwit_sessions 0") ||
		!strings.Contains(body, "godwit_connections 0") || !strings.Contains(body, "godwit_events_dropped_total 0") {
		t.Errorf("metrics lack something: %s", body)
	}
	stop(t, a)
	if _, err := os.Stat(filepath.Join(cfg.Data, datadir.AddressesFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the stop the address file is there: %v", err)
	}
}

func TestSecondServerOnAFolderIsRefused(t *testing.T) {
	cfg := settings(t)
	a := start(t, cfg)
	_, err := app.Start(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler)})
	var inUse *datadir.InUseError
	if !errors.As(err, &inUse) || inUse.PID != os.Getpid() {
		t.Errorf("second server: %v", err)
	}
	if written, err := datadir.ReadAddresses(cfg.Data); err != nil || !reflect.DeepEqual(written, a.Addresses()) {
		t.Errorf("the refused server touched the address file: %+v, %v", written, err)
	}
}

func TestAddressInUseLeavesNothingRunning(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := settings(t)
	cfg.GRPCAddr = taken.Addr().String()
	if _, err := app.Start(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "grpc_addr") {
		t.Fatalf("start: %v", err)
	}
	cfg.GRPCAddr = "127.0.0.1:0"
	start(t, cfg) // the folder was let go
}

func TestListenersCanBeOff(t *testing.T) {
	cfg := settings(t)
	cfg.HTTPAddr = config.Off
	if a := start(t, cfg); a.Addresses().HTTP != "" || a.Addresses().GRPC == "" {
		t.Errorf("addresses %+v", a.Addresses())
	}
}

func TestStopSaysGoodbyeWithASpreadRetryAndClosesForARestart(t *testing.T) {
	a := start(t, settings(t))
	ws, _, err := websocket.Dial(t.Context(), "ws://"+a.Addresses().HTTP+"/v1/connect?recipient=driver-42", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"hello":{}}`)); err != nil {
		t.Fatal(err)
	}
	if _, b, err := ws.Read(t.Context()); err != nil || !bytes.HasPrefix(b, []byte(`{"welcome":`)) {
		t.Fatalf("%s, %v", b, err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { stop(t, a) })
	_, b, err := ws.Read(t.Context())
	var f struct {
		Goodbye *struct {
			Reason     string `json:"reason"`
			RetryAfter string `json:"retry_after"`
		} `json:"goodbye"`
	}
	if err != nil || json.Unmarshal(b, &f) != nil || f.Goodbye == nil || f.Goodbye.Reason != "shutdown" {
		t.Fatalf("%s, %v", b, err)
	}
	if d, err := time.ParseDuration(f.Goodbye.RetryAfter); err != nil || d < 0 || d > 30*time.Second {
		t.Errorf("retry_after %s", f.Goodbye.RetryAfter)
	}
	if _, _, err := ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("closed with %v", err)
	}
}

func TestClientThatIgnoresTheGoodbyeIsCutOffWithinTheGracePeriod(t *testing.T) {
	cfg := settings(t)
	cfg.Grace = config.Duration(2 * time.Second)
	a := start(t, cfg)
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", a.Addresses().HTTP)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	upgrade := "GET /v1/connect?recipient=a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	if _, err := c.Write([]byte(upgrade)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // long enough for a busy machine; the client gets its share of the grace period
	defer cancel()
	if err := a.Stop(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("the stop failed (%v) or waited for the client (%v)", err, ctx.Err())
	}
}

func TestOpenEventFeedDoesNotHoldUpAStop(t *testing.T) {
	cfg := settings(t)
	cfg.Grace = config.Duration(time.Hour) // an open feed would take a share of it
	a := start(t, cfg)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addresses().HTTP+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stop(t, a)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the feed ended with %v, want its end", err)
	}
}

func TestAcceptedPublishSurvivesTheServer(t *testing.T) {
	cfg := settings(t)
	a := start(t, cfg)
	if status, body, _ := ask(t, "POST", "http://"+a.Addresses().HTTP+"/v1/notifications", `{"to":"driver-42","id":"x","title":"Hi"}`); status != 201 {
		t.Fatalf("publish answers %d: %s", status, body)
	}
	stop(t, a)
	a = start(t, cfg)
	if status, body, _ := ask(t, "GET", "http://"+a.Addresses().HTTP+"/v1/notifications/x?to=driver-42", ""); status != 200 || !strings.Contains(body, `"status":"stored"`) {
		t.Errorf("after a restart: %d %s", status, body)
	}
}

func TestHTTP2WithoutTLSIsServed(t *testing.T) {
	a := start(t, settings(t))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addresses().HTTP+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
		t.Errorf("%s answers %s", resp.Proto, resp.Status)
	}
}

func TestConnectionsBeyondTheLimitsAreToldSo(t *testing.T) {
	cfg := settings(t)
	cfg.LimitLoopback = true
	var err error
	if cfg.LimitConnects, err = config.ParseRate("1/h"); err != nil {
		t.Fatal(err)
	}
	a := start(t, cfg)
	for range 100 { // the burst
		status, body, header := ask(t, "GET", "http://"+a.Addresses().HTTP+"/healthz", "")
		if status == 200 {
			continue
		}
		if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(body, "/problems/rate-limited") {
			t.Errorf("refused with %d %v %s", status, header, body)
		}
		return
	}
	t.Error("no connection was refused")
}

func TestConnectionCapAnswers503(t *testing.T) {
	cfg := settings(t)
	cfg.MaxConnections = 2
	a := start(t, cfg)
	var d net.Dialer
	for range 2 {
		c, err := d.DialContext(t.Context(), "tcp", a.Addresses().HTTP)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // it is counted
			t.Fatal(err)
		}
	}
	if status, body, header := ask(t, "GET", "http://"+a.Addresses().HTTP+"/healthz", ""); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("a third connection gets %d: %s", status, body)
	}
}

func TestWebSocketsCountAgainstTheCap(t *testing.T) {
	cfg := settings(t)
	cfg.MaxConnections = 2
	a := start(t, cfg)
	for range 2 {
		ws, _, err := websocket.Dial(t.Context(), "ws://"+a.Addresses().HTTP+"/v1/connect?recipient=a", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ws.CloseNow()
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"hello":{}}`)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ws.Read(t.Context()); err != nil { // the client got its welcome, so the connection is on the event loops
			t.Fatal(err)
		}
	}
	if status, body, _ := ask(t, "GET", "http://"+a.Addresses().HTTP+"/healthz", ""); status != 503 {
		t.Errorf("a third connection gets %d: %s", status, body)
	}
}

func TestRunEndsWithTheContextAndReportsFailures(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	cfg := settings(t)
	err := app.Run(ctx, cfg, app.Options{Log: slog.New(slog.NewJSONHandler(&log, nil)), Version: "test"}, func(datadir.Addresses) { cancel() })
	if err != nil {
		t.Errorf("stopped with %v", err)
	}
	for _, want := range []string{`"msg":"ready"`, `"msg":"stopping"`, `"msg":"stopped"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log lacks %s: %s", want, log.String())
		}
	}
	cfg.Data = filepath.Join(cfg.Data, datadir.LockFile, "below a file")
	if err := app.Run(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler)}, nil); err == nil {
		t.Error("started in a folder that cannot be")
	}
}

func TestCanceledStartLeavesNothingBehind(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.EOF)
	cfg := settings(t)
	if _, err := app.Start(ctx, cfg, app.Options{Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Fatal("started")
	}
	start(t, cfg)
}

func TestEnginesAndDriversServe(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"grpc-go":           func(c *config.Config) { c.GRPCEngine = "std" },
		"goroutine driver":  func(c *config.Config) { c.ReactorDriver = "goroutine" },
		"one loop":          func(c *config.Config) { c.ReactorLoops = 1 },
		"memory and GC set": func(c *config.Config) { c.MemoryLimit, c.GCPercent = 1<<30, 200 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := settings(t)
			change(cfg)
			a := start(t, cfg)
			if status, _, _ := ask(t, "GET", "http://"+a.Addresses().HTTP+"/readyz", ""); status != 200 {
				t.Errorf("answers %d", status)
			}
		})
	}
}

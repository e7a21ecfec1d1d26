// Package firefox starts Firefox without a screen and drives it, for tests.
package firefox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"godwit.dev/godwit/test/blackbox"
)

// Firefox is a process of Firefox, controlled over WebDriver BiDi (https://w3c.github.io/webdriver-bidi/).
type Firefox struct {
	cmd     *exec.Cmd
	conn    *websocket.Conn
	mu      sync.Mutex
	next    int
	waiting map[int]chan bidiAnswer
}

type bidiAnswer struct {
	ID      int             `json:"id"`
	Type    string          `json:"type"`
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
	Message string          `json:"message"`
}

// ordinary settings keep Firefox from asking its user, its maker and other hosts, and give it a touch screen.
const ordinary = `user_pref("remote.active-protocols", 1);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("browser.aboutwelcome.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("toolkit.telemetry.enabled", false);
user_pref("app.normandy.enabled", false);
user_pref("app.update.enabled", false);
user_pref("extensions.getAddons.cache.enabled", false);
user_pref("services.settings.server", "data:,");
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("dom.w3c_touch_events.enabled", 1);
user_pref("ui.prefersReducedMotion", 1);
`

// Start starts Firefox with a profile folder; settings are further lines of user.js. It ends with the test.
func Start(t testing.TB, profile, settings string) *Firefox {
	t.Helper()
	program := blackbox.Tool(t, "firefox-esr", "firefox")
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(ordinary+settings), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &Firefox{waiting: map[int]chan bidiAnswer{}}
	f.cmd = exec.Command(program, "--headless", "--no-remote", "--new-instance", "--profile", profile, "--remote-debugging-port", "0", "about:blank")
	f.cmd.Env = append(os.Environ(), "HOME="+profile, "MOZ_CRASHREPORTER_DISABLE=1")
	said, err := f.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 10*blackbox.Patience) // on a busy machine it takes more than a minute to start
	defer cancel()
	address, err := bidiAddress(said)
	if err != nil {
		t.Fatal(err)
	}
	if f.conn, _, err = websocket.Dial(ctx, address+"/session", nil); err != nil { // the library closes it
		t.Fatalf("connect to Firefox: %v", err)
	}
	f.conn.SetReadLimit(-1)
	go f.read() // until the connection is closed
	if err := f.Do(ctx, "session.new", map[string]any{"capabilities": map[string]any{}}, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

// Quit closes Firefox as its user would, so that it stores what it knows.
func (f *Firefox) Quit(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	if err := f.Do(ctx, "browser.close", map[string]any{}, nil); err != nil {
		t.Fatal(err)
	}
	_ = f.cmd.Wait() // it ends with any code
}

// Kill ends Firefox as a power cut would.
func (f *Firefox) Kill() {
	_ = f.cmd.Process.Kill() // an error means that it has ended already
	_ = f.cmd.Wait()
	if f.conn != nil {
		_ = f.conn.CloseNow()
	}
}

// bidiAddress reads where Firefox listens from what it says.
func bidiAddress(said io.Reader) (string, error) {
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, address, found := strings.Cut(lines.Text(), "WebDriver BiDi listening on "); found {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return strings.TrimSpace(address), nil
		}
	}
	return "", errors.New("start Firefox: it did not say where it listens")
}

// read passes answers to those who wait for them, until the connection ends.
func (f *Firefox) read() {
	for {
		_, data, err := f.conn.Read(context.Background())
		if err != nil {
			return
		}
		var a bidiAnswer
		if json.Unmarshal(data, &a) != nil || a.Type == "event" {
			continue
		}
		f.mu.Lock()
		waiting := f.waiting[a.ID]
		delete(f.waiting, a.ID)
		f.mu.Unlock()
		if waiting != nil {
			waiting <- a
		}
	}
}

// Do carries out a command.
func (f *Firefox) Do(ctx context.Context, method string, params, into any) error {
	answer := make(chan bidiAnswer, 1)
	f.mu.Lock()
	f.next++
	id := f.next
	f.waiting[id] = answer
	f.mu.Unlock()
	b, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	if err != nil {
		return err
	}
	if err := f.conn.Write(ctx, websocket.MessageText, b); err != nil {
		return err
	}
	select {
	case a := <-answer:
		if a.Error != "" {
			return fmt.Errorf("%s: %s: %s", method, a.Error, a.Message)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(a.Result, into)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

// Tab is a window with one page.
type Tab struct {
	*Firefox

	id string
}

// Tab opens one.
func (f *Firefox) Tab(t testing.TB) *Tab {
	t.Helper()
	var made struct{ Context string }
	if err := f.Do(t.Context(), "browsingContext.create", map[string]any{"type": "window"}, &made); err != nil {
		t.Fatal(err)
	}
	return &Tab{f, made.Context}
}

// ID is the tab's id in commands.
func (p *Tab) ID() string { return p.id }

// Open goes to a page.
func (p *Tab) Open(ctx context.Context, url string) error {
	return p.Do(ctx, "browsingContext.navigate", map[string]any{"context": p.id, "url": url, "wait": "complete"}, nil)
}

// Script evaluates an expression; a promise is awaited.
func (p *Tab) Script(ctx context.Context, js string, into any) error {
	var got struct {
		Type             string
		Result           struct{ Value json.RawMessage }
		ExceptionDetails struct{ Text string }
	}
	err := p.Do(ctx, "script.evaluate", map[string]any{
		"expression": "(async () => JSON.stringify(await (" + js + ")))()", "target": map[string]any{"context": p.id}, "awaitPromise": true,
	}, &got)
	if err != nil {
		return err
	}
	if got.Type != "success" {
		return fmt.Errorf("script: %s", got.ExceptionDetails.Text)
	}
	var text string
	if into == nil || json.Unmarshal(got.Result.Value, &text) != nil {
		return nil // undefined
	}
	return json.Unmarshal([]byte(text), into)
}

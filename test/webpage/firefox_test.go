package webpage

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
	"time"

	"github.com/coder/websocket"

	"godwit.dev/godwit/test/blackbox"
)

// firefox is a process of Firefox, controlled over WebDriver BiDi (https://w3c.github.io/webdriver-bidi/).
type firefox struct {
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

// firefoxSettings keep Firefox from asking its user, its maker and other hosts, and give it a touch screen.
const firefoxSettings = `user_pref("remote.active-protocols", 1);
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

func startFirefox(t *testing.T) maker {
	t.Helper()
	program := blackbox.Tool(t, "firefox-esr", "firefox")
	profile := t.TempDir()
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(firefoxSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-remote", "--new-instance", "--profile", profile, "--remote-debugging-port", "0", "about:blank") //nolint:gosec // ended below
	cmd.Env = append(os.Environ(), "HOME="+profile, "MOZ_CRASHREPORTER_DISABLE=1")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	f := &firefox{waiting: map[int]chan bidiAnswer{}}
	ctx, cancel := context.WithTimeout(t.Context(), blackbox.Patience)
	defer cancel()
	address, err := bidiAddress(said)
	if err != nil {
		t.Fatal(err)
	}
	if f.conn, _, err = websocket.Dial(ctx, address+"/session", nil); err != nil { //nolint:bodyclose // the library closes it
		t.Fatalf("connect to Firefox: %v", err)
	}
	f.conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = f.conn.CloseNow() })
	go f.read() //nolint:contextcheck // until the connection is closed
	if err := f.do(ctx, "session.new", map[string]any{"capabilities": map[string]any{}}, nil); err != nil {
		t.Fatal(err)
	}
	return f
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
func (f *firefox) read() {
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

// do carries out a command.
func (f *firefox) do(ctx context.Context, method string, params, into any) error {
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

func (f *firefox) tab(t *testing.T) tab {
	t.Helper()
	var made struct{ Context string }
	if err := f.do(t.Context(), "browsingContext.create", map[string]any{"type": "window"}, &made); err != nil {
		t.Fatal(err)
	}
	return &firefoxTab{f, made.Context}
}

type firefoxTab struct {
	*firefox
	id string
}

func (p *firefoxTab) open(ctx context.Context, url string) error {
	return p.do(ctx, "browsingContext.navigate", map[string]any{"context": p.id, "url": url, "wait": "complete"}, nil)
}

func (p *firefoxTab) script(ctx context.Context, js string, into any) error {
	var got struct {
		Type             string
		Result           struct{ Value json.RawMessage }
		ExceptionDetails struct{ Text string }
	}
	err := p.do(ctx, "script.evaluate", map[string]any{
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

// act carries out what one pointer or the keyboard does.
func (p *firefoxTab) act(ctx context.Context, source map[string]any) error {
	return p.do(ctx, "input.performActions", map[string]any{"context": p.id, "actions": []any{source}}, nil)
}

func (p *firefoxTab) click(ctx context.Context, x, y float64) error {
	return p.act(ctx, map[string]any{"type": "pointer", "id": "mouse", "parameters": map[string]any{"pointerType": "mouse"}, "actions": []any{
		moveTo(x, y, 0), map[string]any{"type": "pointerDown", "button": 0}, map[string]any{"type": "pointerUp", "button": 0},
	}})
}

func moveTo(x, y float64, in time.Duration) map[string]any {
	return map[string]any{"type": "pointerMove", "x": int(x), "y": int(y), "duration": in.Milliseconds()}
}

func (p *firefoxTab) swipe(ctx context.Context, x, y, by float64) error {
	var actions []any
	for i, step := range fingerSteps(x, by) {
		actions = append(actions, moveTo(step.x, y, step.after))
		if i == 0 {
			actions = append(actions, map[string]any{"type": "pointerDown", "button": 0})
		}
	}
	actions = append(actions, map[string]any{"type": "pointerUp", "button": 0})
	return p.act(ctx, map[string]any{"type": "pointer", "id": "finger", "parameters": map[string]any{"pointerType": "touch"}, "actions": actions})
}

// firefoxKeys are those of https://www.w3.org/TR/webdriver/#keyboard-actions.
var firefoxKeys = map[string]string{
	"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "End": "\ue010", "Home": "\ue011", "ArrowUp": "\ue013", "ArrowRight": "\ue014",
	"ArrowDown": "\ue015", "Delete": "\ue017",
}

func (p *firefoxTab) press(ctx context.Context, key string) error {
	if k, named := firefoxKeys[key]; named {
		key = k
	}
	return p.act(ctx, map[string]any{"type": "key", "id": "keys", "actions": []any{
		map[string]any{"type": "keyDown", "value": key}, map[string]any{"type": "keyUp", "value": key},
	}})
}

func (p *firefoxTab) phone(ctx context.Context) error {
	return p.do(ctx, "browsingContext.setViewport", map[string]any{"context": p.id, "viewport": map[string]any{"width": phoneWidth, "height": phoneHeight}}, nil)
}

package webpage

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"godwit.dev/godwit/test/blackbox"
)

// tab is a page in a browser of any maker.
type tab interface {
	open(ctx context.Context, url string) error
	// script evaluates an expression; a promise is awaited.
	script(ctx context.Context, js string, into any) error
	click(ctx context.Context, x, y float64) error
	// swipe moves a finger sideways; by 0 it taps.
	swipe(ctx context.Context, x, y, by float64) error
	press(ctx context.Context, key string) error
	// phone makes the page as large as a phone's, with a touch screen where the browser can.
	phone(ctx context.Context) error
}

// maker is a browser of one maker: it starts tabs.
type maker interface {
	tab(t *testing.T) tab
}

// browsers are the ones that a test is repeated in.
var browsers = map[string]func(t *testing.T) maker{"chromium": startChromium, "firefox": startFirefox}

// chromiumProcess is a process of Chromium.
type chromiumProcess struct{ ctx context.Context }

func startChromium(t *testing.T) maker { return &chromiumProcess{newPerson(t, "").ctx} }

func (b *chromiumProcess) tab(t *testing.T) tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	return &chromiumTab{ctx}
}

type chromiumTab struct{ ctx context.Context }

// run runs actions until the caller's context ends.
func (c *chromiumTab) run(ctx context.Context, actions ...chromedp.Action) error {
	own, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	return chromedp.Run(own, actions...)
}

func (c *chromiumTab) open(ctx context.Context, url string) error {
	return c.run(ctx, chromedp.Navigate(url))
}

func (c *chromiumTab) script(ctx context.Context, js string, into any) error {
	return c.run(ctx, chromedp.Evaluate(js, into, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
}

func (c *chromiumTab) click(ctx context.Context, x, y float64) error {
	return c.run(ctx, chromedp.MouseClickXY(x, y))
}

func (c *chromiumTab) swipe(ctx context.Context, x, y, by float64) error {
	return c.run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		at := time.Now()
		// The finger rests before it leaves: after a fling the browser takes the next tap for its end.
		steps := fingerSteps(x, by)
		for i, step := range steps {
			kind := input.TouchMove
			if i == 0 {
				kind = input.TouchStart
			}
			at = at.Add(step.after)
			stamp := input.TimeSinceEpoch(at)
			if err := input.DispatchTouchEvent(kind, []*input.TouchPoint{{X: step.x, Y: y}}).WithTimestamp(&stamp).Do(ctx); err != nil {
				return err
			}
		}
		return input.DispatchTouchEvent(input.TouchEnd, []*input.TouchPoint{}).Do(ctx)
	}))
}

// fingerStep is where a finger is after some time.
type fingerStep struct {
	x     float64
	after time.Duration
}

// fingerSteps are the steps of a finger that goes sideways and rests before it leaves.
func fingerSteps(x, by float64) []fingerStep {
	steps := []fingerStep{{x: x}}
	if by == 0 {
		return steps
	}
	const n = 8
	for i := 1; i <= n; i++ {
		steps = append(steps, fingerStep{x + by*float64(i)/n, 20 * time.Millisecond})
	}
	return append(steps, fingerStep{x + by, 500 * time.Millisecond})
}

// chromiumKeys are the names of keys that type nothing.
var chromiumKeys = map[string]string{
	"Tab": kb.Tab, "Enter": kb.Enter, "Escape": kb.Escape, "ArrowDown": kb.ArrowDown, "ArrowUp": kb.ArrowUp, "ArrowRight": kb.ArrowRight,
	"End": kb.End, "Home": kb.Home, "Delete": kb.Delete,
}

func (c *chromiumTab) press(ctx context.Context, key string) error {
	if k, named := chromiumKeys[key]; named {
		key = k
	}
	return c.run(ctx, chromedp.KeyEvent(key))
}

func (c *chromiumTab) phone(ctx context.Context) error {
	return c.run(ctx, emulation.SetDeviceMetricsOverride(phoneWidth, phoneHeight, 1, true), emulation.SetTouchEmulationEnabled(true))
}

const phoneWidth, phoneHeight = 390, 800

// guest uses a tab, and finds things by what a person or a screen reader calls them, in shadow trees too.
type guest struct {
	*testing.T
	tab
}

// finding is what scripts find elements with.
const finding = `const every = (root, out = []) => { for (const e of root.querySelectorAll("*")) { out.push(e); if (e.shadowRoot) every(e.shadowRoot, out); } return out; };
	const named = (text) => every(document).filter((e) => e.checkVisibility({visibilityProperty: true}) && (e.getAttribute("aria-label") ?? (e.childElementCount ? "" : e.textContent.trim())) === text);
	const active = () => { let e = document.activeElement; while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement; return e; };`

// asks evaluates an expression that may use every, named and active.
func (v *guest) asks(js string, into any) error {
	ctx, cancel := context.WithTimeout(v.Context(), oneAnswer)
	defer cancel()
	return v.script(ctx, `(async () => { `+finding+` return `+js+`; })()`, into)
}

// until waits until an expression is true.
func (v *guest) until(what, js string) {
	v.Helper()
	blackbox.Eventually(v, what, func() error {
		var is bool
		if err := v.asks("!!("+js+")", &is); err != nil {
			return err
		}
		if is {
			return nil
		}
		var seen string
		_ = v.asks(`every(document).filter((e) => e.localName !== "style" && e.localName !== "script" && !e.childElementCount && e.checkVisibility()).map((e) => e.textContent.trim()).filter(Boolean).join(" | ")`, &seen)
		return fmt.Errorf("not yet; there is: %s", seen)
	})
}

func (v *guest) seesText(text string) {
	v.Helper()
	v.until("see "+text, fmt.Sprintf("named(%s).length", quoted(text)))
}

func (v *guest) seesNo(text string) {
	v.Helper()
	v.until("see no "+text, fmt.Sprintf("!named(%s).length", quoted(text)))
}

// place is the middle of an element that stands still.
func (v *guest) place(text string) (x, y float64) {
	v.Helper()
	var at struct{ X, Y float64 }
	blackbox.Eventually(v, "find "+text, func() error {
		const rest = `new Promise((done) => { const e = named(%s)[0]; if (!e) return done("{}"); const at = () => { const r = e.getBoundingClientRect(); return JSON.stringify({x: r.x + r.width / 2, y: r.y + r.height / 2}); };
			const before = at(); setTimeout(() => done(at() === before ? before : "{}"), 50); })`
		var text2 string
		if err := v.asks("await "+fmt.Sprintf(rest, quoted(text)), &text2); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text2), &at); err != nil {
			return err
		}
		if at.X == 0 && at.Y == 0 {
			return fmt.Errorf("%s is not there, or moves", text)
		}
		return nil
	})
	return at.X, at.Y
}

func (v *guest) clicksOn(text string) {
	v.Helper()
	x, y := v.place(text)
	v.must("click "+text, v.click(v.Context(), x, y))
}

func (v *guest) taps(text string) {
	v.Helper()
	x, y := v.place(text)
	v.must("tap "+text, v.swipe(v.Context(), x, y, 0))
}

func (v *guest) swipes(text string, by float64) {
	v.Helper()
	_, y := v.place(text)
	v.must("swipe "+text, v.swipe(v.Context(), phoneWidth/2-by/2, y, by))
}

func (v *guest) hits(keys ...string) {
	v.Helper()
	for _, key := range keys {
		v.must("press "+key, v.press(v.Context(), key))
	}
}

func (v *guest) goes(url string) {
	v.Helper()
	v.must("open "+url, v.open(v.Context(), url))
}

func (v *guest) must(what string, err error) {
	v.Helper()
	if err != nil {
		v.Fatalf("%s: %v", what, err)
	}
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // a text
	return strings.ReplaceAll(string(b), "</", `<\/`)
}

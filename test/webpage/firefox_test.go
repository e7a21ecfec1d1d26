package webpage

import (
	"context"
	"testing"
	"time"

	"godwit.dev/godwit/test/firefox"
)

type firefoxMaker struct{ *firefox.Firefox }

func startFirefox(t *testing.T) maker {
	t.Helper()
	return firefoxMaker{firefox.Start(t, t.TempDir(), "")}
}

func (f firefoxMaker) tab(t *testing.T) tab {
	t.Helper()
	return &firefoxTab{f.Tab(t)}
}

type firefoxTab struct{ *firefox.Tab }

func (p *firefoxTab) open(ctx context.Context, url string) error { return p.Open(ctx, url) }

func (p *firefoxTab) script(ctx context.Context, js string, into any) error {
	return p.Script(ctx, js, into)
}

// act carries out what one pointer or the keyboard does.
func (p *firefoxTab) act(ctx context.Context, source map[string]any) error {
	return p.Do(ctx, "input.performActions", map[string]any{"context": p.ID(), "actions": []any{source}}, nil)
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
	return p.Do(ctx, "browsingContext.setViewport", map[string]any{"context": p.ID(), "viewport": map[string]any{"width": phoneWidth, "height": phoneHeight}}, nil)
}

package webpage

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/internal/sender/sendertest/botserver"
	"godwit.dev/godwit/test/blackbox"
)

const (
	chats    = 60
	patience = 2 * time.Minute
)

// screenshots is the folder that pictures for the documentation are written to; empty: none are kept.
var screenshots = os.Getenv("GODWIT_SCREENSHOTS")

// person drives a browser as somebody at a screen would.
type person struct {
	*testing.T
	ctx  context.Context
	base string
}

func newPerson(t *testing.T, base string) *person {
	chromium := blackbox.Tool(t, "chromium", "google-chrome", "chromium-browser")
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.WindowSize(1200, 860))
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("the browser was not done in %s", patience))
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &person{t, ctx, base}
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as the context it was started with
		t.Fatalf("start the browser: %v", err)
	}
	chromedp.ListenTarget(ctx, func(ev any) {
		if _, ok := ev.(*page.EventJavascriptDialogOpening); ok {
			go func() { _ = chromedp.Run(ctx, page.HandleJavaScriptDialog(true)) }()
		}
	})
	return p
}

// does fails with what the page showed if an action is not done in time.
func (p *person) does(what string, actions ...chromedp.Action) {
	p.Helper()
	ctx, cancel := context.WithTimeoutCause(p.ctx, blackbox.Patience, fmt.Errorf("not done in %s", blackbox.Patience))
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var at, seen string
		_ = chromedp.Run(p.ctx, chromedp.Location(&at), chromedp.Text("body", &seen, chromedp.ByQuery))
		p.Fatalf("%s: %v; the page is %s:\n%s", what, err, at, seen)
	}
}

func (p *person) opens(path string) { p.does("open "+path, chromedp.Navigate(p.base+path)) }

// sees waits until an element is there.
func (p *person) sees(selector string) {
	p.Helper()
	p.does("see "+selector, chromedp.WaitVisible(selector, chromedp.ByQuery))
}

// reads waits until an element has a text.
func (p *person) reads(selector, want string) {
	p.Helper()
	var got string
	err := blackbox.Poll(p.ctx, blackbox.Patience, func() error {
		if err := chromedp.Run(p.ctx, chromedp.Text(selector, &got, chromedp.ByQuery)); err != nil {
			return err
		}
		if !strings.Contains(got, want) {
			return fmt.Errorf("%s reads %q, not %q", selector, got, want)
		}
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
}

func (p *person) types(selector, text string) {
	p.Helper()
	p.does("type into "+selector, chromedp.SendKeys(selector, text, chromedp.ByQuery))
}

func (p *person) clicks(selector string) {
	p.Helper()
	p.does("click "+selector, chromedp.Click(selector, chromedp.ByQuery))
}

// presses clicks a button until what it does shows: the page may be drawn anew under the pointer, as a person would see.
func (p *person) presses(selector, shows string) {
	p.Helper()
	err := blackbox.Poll(p.ctx, blackbox.Patience, func() error {
		var done bool
		press := fmt.Sprintf(`!!document.querySelector(%q) || (document.querySelector(%q)?.click(), false)`, shows, selector)
		if err := chromedp.Run(p.ctx, chromedp.Evaluate(press, &done)); err != nil {
			return err
		}
		if !done {
			return fmt.Errorf("%s is pressed and %s does not show", selector, shows)
		}
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
}

// photographs keeps a picture of the page for the documentation.
func (p *person) photographs(name string) {
	p.Helper()
	if screenshots == "" {
		return
	}
	var png []byte
	p.does("photograph "+name, chromedp.Evaluate("scrollTo(0, 0)", nil), chromedp.CaptureScreenshot(&png))
	if err := os.WriteFile(filepath.Join(screenshots, name+".png"), png, 0o644); err != nil { //nolint:gosec // a picture for everybody
		p.Fatal(err)
	}
}

func TestACampaignFromSignInToRecall(t *testing.T) {
	blackbox.Long(t)
	bot := botserver.Start(botserver.Options{Token: "123456789:AAExampleExampleExampleExample1234567"})
	t.Cleanup(bot.Close)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls"))
	setUp(t, server, bot)

	p := newPerson(t, "http://"+server.HTTP)
	p.opens("/")
	p.sees("#key")
	p.photographs("web-sign-in")
	p.types("#key", "dev")
	p.clicks("main button")
	p.sees(`a[href="/ui/campaigns/new"]`)
	p.clicks(`a[href="/ui/campaigns/new"]`)

	p.sees("#title")
	p.types("#name", "Tide tables")
	p.types("#title", "Low tide at {{time|noon}}")
	p.types("#body", "The flats are open, {{name|friend}}.\nBring boots.")
	p.types("#where", `station = "north"`)
	p.reads("#reach", "30 can be reached")
	p.reads("#preview", "Low tide at noon")
	p.photographs("web-compose")
	p.clicks("#start")

	p.sees(`[data-state="completed"]`)
	p.reads(`[data-outcome="accepted"]`, "30")
	p.photographs("web-campaign")
	if n := len(bot.Messages()); n != 30 {
		t.Errorf("%d chats got it, want 30", n)
	}
	p.presses(`button[hx-post$="/recall"]`, `[data-state="recalled"]`)
	p.reads(`[data-outcome="recalled"]`, "30")
	for _, m := range bot.Messages() {
		if !m.Deleted {
			t.Errorf("chat %d still has the message", m.Chat)
		}
	}

	p.clicks(`a[href="/ui/audience"]`)
	p.reads("main", "60")
	p.types("#where", `station = "south" and exists(name)`)
	p.reads("#matches", "30 active addresses match")
	p.photographs("web-audience")
	p.clicks(`a[href="/ui/campaigns"]`)
	p.reads("#campaigns", "Tide tables")
	p.photographs("web-campaigns")
	p.usesAPhone(server)
	p.does("sign out", chromedp.Click(".who button", chromedp.ByQuery))
	p.sees("#key")
}

// usesAPhone looks at every page on a narrow screen, in a time zone of its own.
func (p *person) usesAPhone(server *blackbox.Server) {
	p.Helper()
	a, err := server.API().Do(p.Context(), http.MethodPost, "/v1/campaigns", map[string]any{
		"name": "A rather long name of a campaign that has not been sent to anybody yet", "content": map[string]any{"title": "Spring tide"},
		"audience": map[string]any{"channels": []string{"telegram"}, "where": `station = "north"`},
	})
	if err != nil || a.Status != http.StatusCreated {
		p.Fatalf("make a draft: %v %+v", err, a)
	}
	var draft struct {
		ID string `json:"id"`
	}
	if err := a.JSON(&draft); err != nil {
		p.Fatal(err)
	}
	id := draft.ID
	p.does("hold a phone", emulation.SetTimezoneOverride("America/New_York"), chromedp.EmulateViewport(390, 844))
	p.opens("/ui/campaigns/new")
	p.reads("#zone", "America/New_York")
	p.opens("/ui/campaigns/" + id)
	p.clicks("header a[aria-current]") // the header is within reach
	p.reads("#days", "30 recalled")
	pages := map[string]string{
		"campaigns": "/ui/campaigns", "compose": "/ui/campaigns/" + id + "/edit", "campaign": "/ui/campaigns/" + id,
		"reasons": "/ui/campaigns/" + id + "/deliveries?outcome=failed", "audience": "/ui/audience",
	}
	for name, path := range pages {
		p.opens(path)
		var screen, content int
		p.does("measure "+path, chromedp.Evaluate("innerWidth", &screen), chromedp.Evaluate("document.documentElement.scrollWidth", &content))
		if content > screen {
			p.Errorf("%s is %d wide on a screen of %d", path, content, screen)
		}
		if name == "campaigns" {
			p.photographs("phone-" + name)
		}
	}
	p.opens("/ui/campaigns/" + id)
	p.types("#to", "nobody")
	p.clicks("#try button")
	p.reads("#tried", "nobody has no active address")
	p.clicks(`button[hx-post$="/delete"]`)
	p.sees(`a[href="/ui/campaigns/new"]`)
}

// setUp connects the bot and imports its chats.
func setUp(t *testing.T, server *blackbox.Server, bot *botserver.Server) {
	t.Helper()
	api := server.API()
	want := func(what string, a *blackbox.Answer, err error) {
		t.Helper()
		if err != nil || a.Status >= http.StatusMultipleChoices {
			t.Fatalf("%s: %v %+v", what, err, a)
		}
	}
	a, err := api.Do(t.Context(), http.MethodPut, "/v1/channels/telegram", map[string]any{"token": "123456789:AAExampleExampleExampleExample1234567", "base_url": bot.URL})
	want("set up telegram", a, err)
	var lines bytes.Buffer
	for i := range chats {
		station := []string{"north", "south"}[i%2]
		fmt.Fprintf(&lines, `{"channel":"telegram","address":{"chat_id":%d},"tags":["tides"],"attributes":{"station":%q,"name":"Reader %d"}}`+"\n", 1000+i, station, i)
	}
	a, err = api.Do(t.Context(), http.MethodPost, "/v1/endpoints/batch", lines.Bytes())
	want("import chats", a, err)
}

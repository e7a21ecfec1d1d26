package webpage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/blackbox/chromium"
)

// patience is long, since the machine may be busy.
const patience = 25 * time.Minute

// person controls a browser as a user would.
type person struct {
	*testing.T
	ctx  context.Context
	base string
}

func newPerson(t *testing.T, base string) *person {
	t.Helper()
	return newPersonIn(t, chromium.Start(t, patience), base)
}

// newPersonIn puts a person in front of a browser.
func newPersonIn(t *testing.T, ctx context.Context, base string) *person {
	t.Helper()
	p := &person{T: t, ctx: ctx, base: base}
	chromedp.ListenTarget(ctx, func(ev any) {
		if _, ok := ev.(*page.EventJavascriptDialogOpening); ok {
			go func() { _ = chromedp.Run(ctx, page.HandleJavaScriptDialog(true)) }()
		}
	})
	return p
}

// does runs actions. If one is not done in time it fails the test with the page's content.
func (p *person) does(what string, actions ...chromedp.Action) {
	p.Helper()
	for i, action := range actions {
		actions[i] = again(action)
	}
	ctx, cancel := context.WithTimeoutCause(p.ctx, blackbox.Patience, fmt.Errorf("not done in %s", blackbox.Patience))
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var at, seen string
		_ = chromedp.Run(p.ctx, chromedp.Location(&at), chromedp.Text("body", &seen, chromedp.ByQuery))
		p.Fatalf("%s: %v; the page is %s:\n%s", what, err, at, seen)
	}
}

func (p *person) opens(path string) { p.does("open "+path, chromedp.Navigate(p.base+path)) }

// oneAnswer is how long the browser may take for one answer before the query is repeated.
const oneAnswer = 3 * time.Second

// sees waits until an element exists.
func (p *person) sees(selector string) {
	p.Helper()
	p.does("see "+selector, chromedp.WaitVisible(selector, chromedp.ByQuery))
}

// misses waits until a page is complete and has no such element. WaitNotPresent is satisfied while the next page is still loading.
func (p *person) misses(selector string) {
	p.Helper()
	p.repeats(fmt.Sprintf(`document.readyState === "complete" && !document.querySelector(%q)`, selector), selector+" is still there")
}

// lookAgain is the time between two looks at a page.
const lookAgain = 20 * time.Millisecond

// reads waits until an element has a text.
func (p *person) reads(selector, want string) {
	p.Helper()
	var got string
	err := blackbox.Poll(p.ctx, blackbox.Patience, func() error {
		ctx, cancel := context.WithTimeout(p.ctx, oneAnswer)
		defer cancel()
		if err := chromedp.Run(ctx, chromedp.Text(selector, &got, chromedp.ByQuery)); err != nil {
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

// rewrites replaces the text in a field. It looks for the field and writes in one step, since the page may be replaced between two.
func (p *person) rewrites(selector, text string) {
	p.Helper()
	p.repeats(fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		if (!field) return false;
		field.value = %q;
		field.dispatchEvent(new Event("input", {bubbles: true}));
		return true;
	})()`, selector, text), "there is no "+selector+" to rewrite")
}

// clicks clicks on an element. If the page moved it from under the pointer, so that the click went elsewhere, it clicks again.
func (p *person) clicks(selector string) {
	p.Helper()
	watch := fmt.Sprintf(`window.clicked = false, document.addEventListener("click", (e) => { window.clicked ||= e.target.closest(%q) !== null; }, true)`, selector)
	err := blackbox.Poll(p.ctx, blackbox.Patience, func() error {
		var missed bool
		p.answers(watch, nil)
		p.does("click "+selector, chromedp.Click(selector, chromedp.ByQuery))
		p.answers("window.clicked === false", &missed) // of another page it says nothing
		if missed {
			return fmt.Errorf("a click on %s goes elsewhere", selector)
		}
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
}

// answers evaluates a script, again until it is answered.
func (p *person) answers(script string, into any) {
	p.Helper()
	if err := blackbox.Poll(p.ctx, blackbox.Patience, func() error { return p.evaluates(script, into) }); err != nil {
		p.Fatalf("%s: %v", script, err)
	}
}

// evaluates evaluates a script once. A query during the replacement of the page may never be answered.
func (p *person) evaluates(script string, into any) error {
	ctx, cancel := context.WithTimeout(p.ctx, oneAnswer)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate(script, into))
}

// again repeats an action that the browser refused: the page was replaced between the look for an element and the action on it, so the
// element or its script's context is gone.
func again(action chromedp.Action) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for {
			err := action.Do(ctx)
			if gone := (*cdproto.Error)(nil); !errors.As(err, &gone) {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(lookAgain):
			}
		}
	})
}

// presses clicks a button until shows is visible; it clicks again if the page was redrawn under the pointer. It never clicks one button
// twice: a dialog that opens while the page is being replaced would stay open forever.
func (p *person) presses(selector, shows string) {
	p.Helper()
	p.repeats(fmt.Sprintf(`(() => {
		if (document.querySelector(%q)) return true;
		const button = document.querySelector(%q);
		if (button && !button.clicked) { button.clicked = true; button.click(); }
		return false;
	})()`, shows, selector), selector+" is pressed and "+shows+" does not show")
}

// repeats runs a script in the page until it answers true. If it never does, the test fails with the problem and the page's content.
func (p *person) repeats(script, problem string) {
	p.Helper()
	err := blackbox.Poll(p.ctx, blackbox.Patience, func() error {
		var done bool
		if err := p.evaluates(script, &done); err != nil {
			return err
		}
		if !done {
			return errors.New(problem)
		}
		return nil
	})
	if err != nil {
		var at, seen string
		_ = chromedp.Run(p.ctx, chromedp.Location(&at), chromedp.Text("body", &seen, chromedp.ByQuery))
		p.Fatalf("%v; the page is %s:\n%s", err, at, seen)
	}
}

func TestACampaignFromSignInToRecall(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestABotsOwnerSendsACampaignWithAButtonAndTakesItBack")
	bot := newBot(t)
	s := newStage(t, "--allow-private-urls")
	s.hasChats(bot)
	p, server := s.person, s.server
	p.givesKey("dev")
	p.sees("#figures")
	p.clicks(`a[href="/ui/campaigns"]`)
	p.clicks(`a[href="/ui/campaigns/new"]`)

	p.sees("#title")
	p.types("#name", "Tide tables")
	p.types("#title", "Low tide at {{time|noon}}")
	p.types("#body", "The flats are open, {{name|friend}}.\nBring boots.")
	p.types("#where", `station = "north"`)
	p.reads("#reach", "30 can be reached")
	p.reads("#preview", "Low tide at noon")
	p.clicks("#start")
	p.reads("#question", "Send it to 30 addresses over Telegram, about 1 s?")
	p.reads("#ends", "about")
	p.presses("#go", "[data-state]")

	p.sees(`[data-state="completed"]`)
	p.reads(`[data-outcome="accepted"]`, "30")
	if n := len(bot.Messages()); n != 30 {
		t.Errorf("%d chats got it, want 30", n)
	}
	p.corrects(bot)
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
	p.clicks(`a[href="/ui/campaigns"]`)
	p.reads("#campaigns", "Tide tables")
	draft := p.draft(server)
	p.looksAtEveryPage(p.sights(p.sendsWithFailures(server, bot), draft))
	p.usesAPhone(draft)
	p.does("sign out", chromedp.Click(".who button", chromedp.ByQuery))
	p.sees("#key")
	p.looksAtEveryPage([]sight{{"sign-in", "/", "#key", nil}})
}

// corrects changes a sent message, on the campaign's page.
func (p *person) corrects(bot *botserver.Server) {
	p.Helper()
	p.clicks("#correct")
	p.sees("#body")
	p.rewrites("#body", "The flats are closed, {{name|friend}}.")
	p.reads("#preview", "The flats are closed, friend.")
	p.presses(`.beside button[value="correct"]`, "#progress")
	p.reads("#progress", "30 of 30 messages in Telegram are corrected")
	p.sees(`[data-state="completed"]`)
	for _, m := range bot.Messages() {
		if !strings.Contains(m.Text, "The flats are closed, Reader") {
			p.Errorf("chat %d still reads %q", m.Chat, m.Text)
		}
	}
}

// sendsWithFailures sends a campaign that some chats refuse, and returns its id.
func (p *person) sendsWithFailures(server *blackbox.Server, bot *botserver.Server) string {
	p.Helper()
	for i, state := range []botserver.State{botserver.NotFound, botserver.NotFound, botserver.Blocked} {
		bot.Put(int64(1001+2*i), state)
	}
	id := p.makes(server, map[string]any{
		"name": "Storm warning", "content": map[string]any{"title": "Storm from the west", "body": "From six in the evening. Keep off the flats, {{name|friend}}."},
		"audience": map[string]any{"channels": []string{"telegram"}, "where": `station = "south"`},
	})
	p.opens("/ui/campaigns/" + id)
	p.clicks(`button[hx-post$="/start"]`)
	p.sees(`[data-state="completed"]`)
	p.reads(`[data-outcome="accepted"]`, "27")
	p.reads("#causes", "400")
	p.does("ask why", chromedp.Click(`[data-outcome="failed"] a`, chromedp.ByQuery))
	p.reads("#reasons", "400")
	return id
}

// usesAPhone changes, tests and deletes a draft on a narrow screen, in a time zone of its own.
func (p *person) usesAPhone(draft string) {
	p.Helper()
	p.does("hold a phone", emulation.SetTimezoneOverride("America/New_York"), chromedp.EmulateViewport(390, 844))
	p.opens("/ui/campaigns/" + draft)
	p.clicks(`header a[aria-current="page"]`) // the header is within reach
	p.reads("#days", "30 recalled")
	p.opens("/ui/campaigns/" + draft + "/edit")
	p.reads("#send_at-zone", "America/New_York")
	p.reads("#preview", "Grande marée")
	p.presses(`button[value="more-button"]`, "#button-3-text")
	p.types("#button-3-text", "Ask us")
	p.types("#button-3-url", "https://example.org/ask")
	p.reads("#preview", "Ask us")
	p.presses(`.beside button[value="draft"]`, "#try")
	p.reads("main", "Ask us")
	p.types("#to", "nobody")
	p.clicks("#try button")
	p.reads("#tried", "nobody has no active address")
	p.schedules(draft)
	p.opens("/ui/campaigns")
	p.clicks("#pick-" + draft)
	p.clicks(`#several button[value="delete"]`)
	p.reads("#done", "cancel it first")
	p.clicks(`#several button[value="cancel"]`) // the tick has stayed
	p.reads("#done", "1 campaign: cancelled.")
	p.opens("/ui/campaigns/" + draft)
	p.presses(`button[hx-post$="/delete"]`, `a[href="/ui/campaigns/new"]`)
}

// schedules schedules a draft for ten in the morning one month from today, by the person's own clock.
func (p *person) schedules(draft string) {
	p.Helper()
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		p.Fatal(err)
	}
	day := time.Now().In(newYork).AddDate(0, 1, 0)
	at := time.Date(day.Year(), day.Month(), day.Day(), 10, 0, 0, 0, newYork)
	p.opens("/ui/campaigns/" + draft + "/edit")
	p.reads("#send_at-zone", "America/New_York")
	p.does("set the time", chromedp.SetValue("#send_at", at.Format("2006-01-02T15:04"), chromedp.ByQuery))
	p.presses("#start", "#ask")
	p.presses("#go", `[data-state="scheduled"]`)
	shown := fmt.Sprintf("time[datetime=%q]", at.UTC().Format(time.RFC3339))
	p.reads(shown, "10:00")
	var exact string
	p.does("hover over the time", chromedp.AttributeValue(shown, "title", &exact, nil, chromedp.ByQuery))
	if !strings.Contains(exact, "10:00:00") || !strings.Contains(exact, at.Weekday().String()) {
		p.Errorf("on hover the time is %q", exact)
	}
}

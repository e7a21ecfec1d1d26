package campaign_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// trying returns a campaign that sends two messages to a share of the audience each, and decides after a time.
func trying(share int, after time.Duration) campaign.Spec {
	spec := hello()
	spec.Content.Title = "A"
	second := campaign.Content{Content: push.Content{Title: "B", URL: "https://example.org/b"}}
	spec.Variants = []campaign.Variant{{Share: share}, {Share: share, Content: &second}}
	spec.DecideAfter = campaign.Duration(after)
	return spec
}

// clicksOn makes the provider's receivers click at once on messages with a title.
func (e *env) clicksOn(p *provider, title string) {
	p.answer = func(r push.Request, _ int) (push.Receipt, error) {
		if r.Content.Title == title {
			if err := e.svc.React(e.Context(), r.Track, campaign.Clicked); err != nil {
				e.Error(err)
			}
		}
		return push.Receipt{ExternalID: "m-" + r.Endpoint}, nil
	}
}

// titles returns the title that each endpoint got, and fails if one got several messages.
func (p *provider) titles(t *testing.T) map[string]string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]string)
	for endpoint, got := range p.got {
		if len(got) != 1 {
			t.Errorf("%s got %d messages", endpoint, len(got))
		}
		all[endpoint] = got[0].Content.Title
	}
	return all
}

// untilWaiting waits until both variants were sent and the rest waits.
func (e *env) untilWaiting(id string) *campaign.View {
	e.Helper()
	return e.until(id, "waiting for the decision", func(v *campaign.View) bool {
		a, b := &v.Groups[campaign.GroupA], &v.Groups[campaign.GroupB]
		return !v.Spec.TriedAt.IsZero() && a.Open()+b.Open() == 0
	})
}

func TestTheRestGetsTheBetterVariant(t *testing.T) {
	const all = 600
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	ids := e.endpoints(push.Webhook, all, func(i int, ep *audience.Endpoint) {
		if i < 100 { // two endpoints a person
			ep.Recipient = "person-" + string(rune('a'+i/2%26)) + string(rune('a'+i/52))
		}
	})
	e.clicksOn(p, "B")
	e.run()
	id := e.create(trying(20, time.Second))
	e.start(id)
	v := e.untilState(id, campaign.Completed)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Accepted: all})
	d := v.Spec.Decision
	if d == nil || d.Variant != "B" || !strings.HasPrefix(d.Reason, "B has the larger share: 0 clicks of ") || d.At.Before(v.Spec.TriedAt.Add(time.Second)) {
		t.Fatalf("decided %+v, tried at %s", d, v.Spec.TriedAt)
	}
	a, b, rest := &v.Groups[campaign.GroupA], &v.Groups[campaign.GroupB], &v.Groups[campaign.Rest]
	for name, g := range map[string]*campaign.GroupFigures{"A": a, "B": b} {
		if n := g.Total(); n < all*12/100 || n > all*28/100 || g.Counts[campaign.Accepted] != n {
			t.Errorf("%s went to %d of %d: %v", name, n, all, g.Counts)
		}
	}
	if a.Total()+b.Total()+rest.Total() != all || a.Clicked != 0 || b.Clicked != b.Total() || rest.Clicked != rest.Total() || v.Clicked != b.Total()+rest.Total() {
		t.Errorf("A %+v, B %+v, the rest %+v", a, b, rest)
	}
	report, got := e.report(id), p.titles(t)
	count := map[string]int64{}
	byPerson := map[string]string{}
	for _, endpoint := range ids {
		row := report[endpoint.String()]
		title := got[endpoint.String()]
		count[title]++
		if row.Variant != title {
			t.Fatalf("%s got %q, and its report says %q", endpoint, title, row.Variant)
		}
		if before, known := byPerson[row.Recipient]; known && before != title && row.Recipient != "" {
			t.Errorf("%s got both variants", row.Recipient)
		}
		byPerson[row.Recipient] = title
	}
	if count["A"] != a.Total() || count["B"] != all-a.Total() {
		t.Errorf("%v, want A for %d", count, a.Total())
	}
}

func TestWithoutADifferenceTheRestGetsTheFirstVariant(t *testing.T) {
	for name, c := range map[string]struct {
		clicks, reason string
	}{
		"no clicks":  {"", "no clicks were counted"},
		"all clicks": {"AB", "both have the same share"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &provider{}
			e := newEnv(t, senders{push.Webhook: p})
			e.endpoints(push.Webhook, 100)
			p.answer = func(r push.Request, _ int) (push.Receipt, error) {
				if strings.Contains(c.clicks, r.Content.Title) {
					if err := e.svc.React(e.Context(), r.Track, campaign.Clicked); err != nil {
						t.Error(err)
					}
				}
				return push.Receipt{}, nil
			}
			e.run()
			id := e.create(trying(30, time.Second))
			e.start(id)
			v := e.untilState(id, campaign.Completed)
			if d := v.Spec.Decision; d == nil || d.Variant != "A" || !strings.HasPrefix(d.Reason, c.reason) {
				t.Errorf("decided %+v", d)
			}
			p.titles(t)
		})
	}
}

func TestVariantsOfTheWholeAudienceNeedNoDecision(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 200)
	e.run()
	spec := trying(50, 0)
	id := e.create(spec)
	e.start(id)
	v := e.untilState(id, campaign.Completed)
	a, b := v.Groups[campaign.GroupA].Total(), v.Groups[campaign.GroupB].Total()
	if v.Spec.Decision != nil || a+b != 200 || a < 60 || b < 60 {
		t.Errorf("A went to %d and B to %d, decided %+v", a, b, v.Spec.Decision)
	}
}

func TestWithoutARestNothingIsWaitedFor(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	e.run()
	id := e.create(trying(20, time.Hour))
	e.start(id)
	if v := e.untilState(id, campaign.Completed); v.Total() != 0 || v.Spec.Decision != nil {
		t.Errorf("%d messages, decided %+v", v.Total(), v.Spec.Decision)
	}
}

func TestAPersonMayDecideWhileTheRestWaits(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 100)
	e.run()
	id := e.create(trying(20, time.Hour))
	e.start(id)
	v := e.untilWaiting(id)
	waiting := v.Groups[campaign.Rest].Total()
	if !v.ETA.IsZero() {
		t.Errorf("it ends at %s, and has not decided", v.ETA)
	}
	if at := v.Spec.DecidesAt(); v.State != campaign.Running || v.Counts[campaign.Pending] != waiting || !at.Equal(v.Spec.TriedAt.Add(time.Hour)) {
		t.Errorf("%s, %v, it decides at %s", v.State, v.Counts, at)
	}
	for _, row := range e.report(id) {
		if row.Outcome == campaign.Pending && (!row.Waits || row.Variant != "" || !row.Due.IsZero()) {
			t.Fatalf("a delivery of the rest: %+v", row)
		}
	}
	if _, err := e.svc.Decide(t.Context(), app, id, "C"); err == nil {
		t.Error("a variant that there is not was chosen")
	}
	for range 2 { // again changes nothing
		if _, err := e.svc.Decide(t.Context(), app, id, "B"); err != nil {
			t.Fatal(err)
		}
	}
	var state *campaign.StateError
	if _, err := e.svc.Decide(t.Context(), app, id, "A"); !errors.As(err, &state) || !strings.Contains(err.Error(), "the rest gets B") {
		t.Errorf("another decision: %v", err)
	}
	v = e.untilState(id, campaign.Completed)
	if v.Groups[campaign.Rest].Counts[campaign.Accepted] != waiting || v.Spec.Decision.Reason != "somebody chose it" {
		t.Errorf("%+v, %+v", v.Groups, v.Spec.Decision)
	}
}

func TestPauseCancelAndRecallHoldWhileTheRestWaits(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 100)
	e.run()
	for name, c := range map[string]struct {
		do   func(id string) (*campaign.View, error)
		want campaign.State
		sent campaign.Outcome
	}{
		"cancel": {func(id string) (*campaign.View, error) { return e.svc.Cancel(t.Context(), app, id) }, campaign.Cancelled, campaign.Accepted},
		"recall": {func(id string) (*campaign.View, error) { return e.svc.Recall(t.Context(), app, id) }, campaign.RecallDone, campaign.TakenBack},
	} {
		id := e.create(trying(20, time.Hour))
		e.start(id)
		v := e.untilWaiting(id)
		waiting := v.Groups[campaign.Rest].Total()
		if _, err := e.svc.Pause(t.Context(), app, id); err != nil {
			t.Fatal(err)
		}
		if _, err := e.svc.Resume(t.Context(), app, id); err != nil {
			t.Fatal(err)
		}
		if _, err := c.do(id); err != nil {
			t.Fatal(err)
		}
		v = e.until(id, name, func(v *campaign.View) bool { return v.State == c.want && v.Open() == 0 })
		e.wantCounts(v, map[campaign.Outcome]int64{c.sent: 100 - waiting, campaign.Suppressed: waiting})
		if g := v.Groups[campaign.Rest].Counts; g[campaign.Suppressed] != waiting || g[campaign.Pending] != 0 {
			t.Errorf("%s: the rest is %v", name, g)
		}
		if tried := v.Groups[campaign.GroupA].Counts[c.sent] + v.Groups[campaign.GroupB].Counts[c.sent]; tried != 100-waiting {
			t.Errorf("%s: %d of those that got it are %s", name, tried, c.sent)
		}
	}
}

func TestACampaignContinuesBetweenItsStagesAfterARestart(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 1200) // more than one step releases
	e.run()
	id := e.create(trying(10, time.Hour))
	e.start(id)
	tried := e.untilWaiting(id).Spec.TriedAt
	again := func() {
		t.Helper()
		e.close()
		e.open()
	}
	again()
	if v := e.get(id); v.State != campaign.Running || !v.Spec.TriedAt.Equal(tried) || v.Spec.Decision != nil {
		t.Fatalf("after the restart: %s, tried at %s, decided %+v", v.State, v.Spec.TriedAt, v.Spec.Decision)
	}
	// The process ends between the decision and its effect, and between two steps of that.
	d := &campaign.Decision{At: time.Now().Truncate(time.Millisecond), Variant: "B", Reason: "test"}
	c, err := e.store.Change(t.Context(), app, id, func(c *campaign.Campaign) error { c.Spec.Decision = d; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if n, err := e.store.Release(t.Context(), c.Num, d.At, 100); n != 100 || err != nil {
		t.Fatalf("released %d, %v", n, err)
	}
	again()
	e.run()
	v := e.untilState(id, campaign.Completed)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Accepted: 1200})
	titles := map[string]int64{}
	for _, title := range p.titles(t) {
		titles[title]++
	}
	if titles["A"] != v.Groups[campaign.GroupA].Total() || titles["B"] != 1200-titles["A"] {
		t.Errorf("%v", titles)
	}
}

func TestAnotherServerDecidesWhenTheOwnerIsGone(t *testing.T) {
	p := &provider{}
	c := newCluster(t, 2, senders{push.Telegram: p})
	e := c.env
	e.endpoints(push.Telegram, 60)
	id := e.create(trying(20, 2*time.Second))
	c.leases.Give(app, 0)
	e.start(id)
	e.untilWaiting(id)
	c.leases.Give(app, 1)
	v := e.untilState(id, campaign.Completed)
	if v.Counts[campaign.Accepted] != 60 || v.Spec.Decision == nil {
		t.Errorf("%v, %+v", v.Counts, v.Spec.Decision)
	}
	p.titles(t)
}

func TestARefusedCredentialPausesACampaignBeforeItDecides(t *testing.T) {
	p := &provider{answer: func(push.Request, int) (push.Receipt, error) {
		return push.Receipt{}, &push.ConfigError{Reason: "401 Unauthorized"}
	}}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 50)
	e.run()
	id := e.create(trying(20, time.Second))
	e.start(id)
	v := e.untilState(id, campaign.Paused)
	if v.Spec.Decision != nil || !strings.Contains(v.Detail, "401 Unauthorized") {
		t.Errorf("paused for %q, decided %+v", v.Detail, v.Spec.Decision)
	}
	p.mu.Lock()
	p.answer = nil
	p.mu.Unlock()
	if _, err := e.svc.Resume(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	if v = e.untilState(id, campaign.Completed); v.Counts[campaign.Accepted] != 50 {
		t.Errorf("%v", v.Counts)
	}
}

func TestACorrectionKeepsTheMediaOfEachVariant(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Telegram: p})
	e.endpoints(push.Telegram, 40)
	e.run()
	spec := trying(50, 0)
	spec.Content.Telegram.Photo, spec.Variants[1].Content.Telegram.Photo = "a.jpg", "b.jpg"
	id := e.create(spec)
	e.start(id)
	e.untilState(id, campaign.Completed)
	k := campaign.Correction{Content: campaign.Content{Content: push.Content{Title: "Corrected"}}}
	k.Content.Telegram.Photo = "a.jpg"
	if _, err := e.svc.Correct(t.Context(), app, id, k); err == nil {
		t.Error("a correction gives one variant's photo to the other")
	}
	k.Content.Telegram.Photo = ""
	if _, err := e.svc.Correct(t.Context(), app, id, k); err != nil {
		t.Fatal(err)
	}
	e.until(id, "corrected", func(v *campaign.View) bool { return v.State == campaign.Completed && v.Corrected == 40 })
	was := p.titles(t)
	for _, s := range p.corrections() {
		want := map[string]string{"A": "a.jpg", "B": "b.jpg"}[was[s.Request.Endpoint]]
		if got := s.Request.Content; got.Title != "Corrected" || got.Telegram.Photo != want {
			t.Errorf("who got %s reads %q with %q", was[s.Request.Endpoint], got.Title, got.Telegram.Photo)
		}
	}
}

func TestATestSendsBothVariants(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	ids := e.endpoints(push.Webhook, 1)
	id := e.create(trying(20, time.Hour))
	tested, err := e.svc.Test(t.Context(), app, id, ids)
	if err != nil || len(tested) != 2 || tested[0].Variant != "A" || tested[1].Variant != "B" {
		t.Fatalf("%+v, %v", tested, err)
	}
	got := p.requests(ids[0].String())
	if got[0].Content.Title != "A" || got[1].Content.Title != "B" {
		t.Errorf("%+v", got)
	}
	pre, err := e.svc.Preview(t.Context(), app, id, campaign.Person{}, push.Webhook, nil)
	if err != nil || pre.Content.Title != "A" || pre.Second == nil || pre.Second.Title != "B" {
		t.Errorf("%+v, %v", pre, err)
	}
}

func TestTheFirstVariantsMessageIsTheCampaigns(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	first, second := campaign.Content{Content: push.Content{Title: "A {{place}}"}}, campaign.Content{Content: push.Content{Title: "B {{place}}"}}
	id := e.create(campaign.Spec{
		Variants: []campaign.Variant{
			{Share: 50, Content: &first, Variables: template.Variables{"place": "here"}},
			{Share: 50, Content: &second, Variables: template.Variables{"place": "there"}},
		},
	})
	s := e.get(id).Spec
	if s.Content.Title != "A {{place}}" || s.Variants[0].Content != nil {
		t.Errorf("%+v", s)
	}
	for g, want := range map[campaign.Group]string{campaign.GroupA: "A here", campaign.GroupB: "B there", campaign.Rest: "A here"} {
		if got := s.Of(g).Render(campaign.Person{}, push.Webhook).Title; got != want {
			t.Errorf("group %d gets %q, want %q", g, got, want)
		}
	}
	same := campaign.Spec{Content: first, Variables: template.Variables{"place": "here"}, Variants: []campaign.Variant{{Share: 50}, {Share: 50, Variables: template.Variables{"place": "there"}}}}
	s = e.get(e.create(same)).Spec
	if got := s.Of(campaign.GroupB).Render(campaign.Person{}, push.Webhook).Title; got != "A there" {
		t.Errorf("with variables of its own the second says %q", got)
	}
}

func TestBadVariantsNameTheirField(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	off := false
	for name, c := range map[string]struct {
		field  string
		change func(s *campaign.Spec)
	}{
		"one":                   {"variants", func(s *campaign.Spec) { s.Variants = s.Variants[:1] }},
		"three":                 {"variants", func(s *campaign.Spec) { s.Variants = append(s.Variants, s.Variants[1]) }},
		"no share":              {"variants[0].share", func(s *campaign.Spec) { s.Variants[0].Share = 0 }},
		"too much":              {"variants[1].share", func(s *campaign.Spec) { s.Variants[1].Share = 81 }},
		"nothing to say":        {"variants[1].content", func(s *campaign.Spec) { s.Variants[1].Content = nil }},
		"an empty message":      {"variants[1].content.title", func(s *campaign.Spec) { s.Variants[1].Content = &campaign.Content{} }},
		"a bad link":            {"variants[1].content.url", func(s *campaign.Spec) { s.Variants[1].Content.URL = "javascript:alert(1)" }},
		"no template":           {"variants[1].template", func(s *campaign.Spec) { s.Variants[1] = campaign.Variant{Share: 20, Template: "none"} }},
		"two first messages":    {"content", func(s *campaign.Spec) { c := s.Content; s.Variants[0].Content = &c }},
		"another category":      {"variants[1].content.category", func(s *campaign.Spec) { s.Variants[1].Content.Category = "promo" }},
		"no time":               {"decide_after", func(s *campaign.Spec) { s.DecideAfter = 0 }},
		"too long":              {"decide_after", func(s *campaign.Spec) { s.DecideAfter = campaign.Duration(8 * 24 * time.Hour) }},
		"over before":           {"decide_after", func(s *campaign.Spec) { s.Expires = time.Now().Add(59 * time.Minute) }},
		"no such metric":        {"metric", func(s *campaign.Spec) { s.Metric = "opens" }},
		"nobody is counted":     {"track", func(s *campaign.Spec) { s.Track = &off }},
		"nothing to decide":     {"decide_after", func(s *campaign.Spec) { s.Variants[0].Share, s.Variants[1].Share = 50, 50 }},
		"no variants to decide": {"decide_after", func(s *campaign.Spec) { s.Variants = nil }},
	} {
		spec := trying(20, time.Hour)
		c.change(&spec)
		_, err := e.svc.Create(t.Context(), app, spec, time.Time{}, "", [32]byte{})
		var field *notification.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want field %s", name, err, c.field)
		}
	}
	if list, err := e.svc.List(t.Context(), app, 10, 0); err != nil || len(list) != 0 {
		t.Errorf("%d campaigns, %v", len(list), err)
	}
}

func TestWhatCannotBeCountedDecidesNothing(t *testing.T) {
	e := newEnv(t, senders{push.Telegram: &provider{}})
	reports := [][]push.TelegramLink{{{Text: "Yes", Callback: "yes"}}}
	for name, c := range map[string]struct {
		metric  campaign.Metric
		url     string
		buttons [][]push.TelegramLink
		counted bool
	}{
		"links":            {campaign.Clicks, "https://example.org", nil, true},
		"buttons":          {campaign.Clicks, "", reports, true},
		"nothing to click": {campaign.Clicks, "", nil, false},
		"shown":            {campaign.Shows, "https://example.org", reports, false},
	} {
		spec := trying(20, time.Hour)
		spec.Metric, spec.Content.URL, spec.Content.Telegram.Buttons, spec.Variants[1].Content.URL = c.metric, c.url, c.buttons, c.url
		id := e.create(spec)
		_, err := e.svc.Start(t.Context(), app, id, time.Time{})
		var field *notification.FieldError
		if c.counted != (err == nil) || err != nil && (!errors.As(err, &field) || field.Field != "metric") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACloneTriesItsVariantsAnew(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 50)
	e.run()
	id := e.create(trying(20, time.Second))
	e.start(id)
	was := e.untilState(id, campaign.Completed)
	v, err := e.svc.Clone(t.Context(), app, id, "", "", [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	if s := v.Spec; s.Decision != nil || !s.TriedAt.IsZero() || len(s.Variants) != 2 || s.DecideAfter != was.Spec.DecideAfter {
		t.Errorf("%+v", s)
	}
	if !maps.Equal(e.get(id).Counts, was.Counts) {
		t.Error("the original has changed")
	}
}

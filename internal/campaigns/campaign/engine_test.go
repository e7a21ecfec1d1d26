package campaign_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/sending/push"
)

func TestEverySubscriberGetsTheCampaignOnce(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	ids := e.endpoints(push.Webhook, 1200, func(i int, ep *audience.Endpoint) {
		if i == 0 {
			ep.Attributes = audience.Attributes{"name": audience.Text("Ada")}
		}
	})
	e.run()
	id := e.create(hello())
	e.start(id)
	v := e.untilState(id, campaign.Completed)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Accepted: 1200})
	for i, ep := range ids {
		got := p.requests(ep.String())
		if len(got) != 1 {
			t.Fatalf("%s got it %d times", ep, len(got))
		}
		want := "Hi friend"
		if i == 0 {
			want = "Hi Ada"
		}
		if r := got[0]; r.Content.Title != want || r.ID != campaign.DeliveryID(id, ep.String()) || r.Track == "" || r.ExpiresAt.Before(time.Now()) {
			t.Fatalf("%s got %+v", ep, r)
		}
	}
	if v.StartedAt.IsZero() || v.FinishedAt.Before(v.StartedAt) {
		t.Errorf("started %s, finished %s", v.StartedAt, v.FinishedAt)
	}
}

// The tests of internal/sending/dispatch check how answers are classified; this test checks the effect on the report and on endpoints.
func TestTheReportSaysWhatBecameOfEach(t *testing.T) {
	answers := []struct {
		err    error
		always bool // every attempt has this answer; otherwise only the first
		want   campaign.Outcome
		detail string
		gone   bool
	}{
		{nil, false, campaign.Accepted, "", false},
		{&push.GoneError{Reason: "410 gone"}, true, campaign.Refused, "410 gone", true},
		{&push.PermanentError{Reason: "413 too large"}, true, campaign.Refused, "413 too large", false},
		{&push.RetryError{Reason: "503 busy"}, false, campaign.Accepted, "", false},
		{&push.UnknownError{Reason: "no answer"}, false, campaign.Accepted, "", false},
	}
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	ids := e.endpoints(push.Webhook, len(answers))
	p.answer = func(r push.Request, attempt int) (push.Receipt, error) {
		for i := range answers {
			if ids[i].String() == r.Endpoint && (answers[i].always || attempt == 1) {
				return push.Receipt{}, answers[i].err
			}
		}
		return push.Receipt{}, nil
	}
	e.run()
	id := e.create(hello())
	e.start(id)
	e.untilState(id, campaign.Completed)
	report := e.report(id)
	for i, a := range answers {
		d := report[ids[i].String()]
		if d.Outcome != a.want || !strings.Contains(d.Detail, a.detail) {
			t.Errorf("%v: outcome %s (%s), want %s (%s)", a.err, d.Outcome, d.Detail, a.want, a.detail)
		}
		ep, err := e.store.Endpoint(t.Context(), app, ids[i])
		if err != nil || (ep.Status == audience.Disabled) != a.gone {
			t.Errorf("%v: endpoint is %s (%s), gone: %t", a.err, ep.Status, ep.DisabledReason, a.gone)
		}
	}
	if d := report[ids[4].String()]; !d.Unsure || d.Attempts != 2 {
		t.Errorf("sent again after an unknown attempt: %+v", d)
	}
}

func TestTelegramsUnknownIsParkedUntilSomebodyDecides(t *testing.T) {
	p := &provider{answer: func(_ push.Request, attempt int) (push.Receipt, error) {
		if attempt == 1 {
			return push.Receipt{}, &push.UnknownError{Reason: "502 Bad Gateway"}
		}
		return push.Receipt{ExternalID: "7"}, nil
	}}
	e := newEnv(t, senders{push.Telegram: p})
	ids := e.endpoints(push.Telegram, 3)
	e.run()
	id := e.create(hello())
	e.start(id)
	v := e.untilState(id, campaign.Completed)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Unknown: 3})
	if p.total() != 3 {
		t.Errorf("%d requests, want 3", p.total())
	}
	n, err := e.svc.RetryUnknown(t.Context(), app, id)
	if err != nil || n != 3 {
		t.Fatalf("retry-unknown: %d, %v", n, err)
	}
	v = e.until(id, "completed with all accepted", func(v *campaign.View) bool {
		return v.State == campaign.Completed && v.Counts[campaign.Accepted] == 3
	})
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Accepted: 3})
	if r := p.requests(ids[0].String()); r[0].ID != r[1].ID {
		t.Error("the second attempt has another id")
	}
	if r := p.requests(ids[0].String())[0]; !strings.HasPrefix(r.Content.URL, "https://push.example.org/v1/click/demo~") {
		t.Errorf("the link in a chat is %s", r.Content.URL)
	}
}

func TestACampaignNeedsAChannel(t *testing.T) {
	e := newEnv(t, senders{})
	e.endpoints(push.Webhook, 1)
	id := e.create(hello())
	_, err := e.svc.Start(t.Context(), app, id, time.Time{})
	if _, ok := errors.AsType[*campaign.ChannelError](err); !ok || e.get(id).State != campaign.Draft {
		t.Errorf("started without any channel: %v, it is %s", err, e.get(id).State)
	}
}

func TestAllowedVerbsDependOnCampaignState(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}}) // no engine runs, so states do not change by themselves
	ctx := t.Context()
	verbs := map[string]func(id string) error{
		"start":  func(id string) error { _, err := e.svc.Start(ctx, app, id, time.Time{}); return err },
		"pause":  func(id string) error { _, err := e.svc.Pause(ctx, app, id); return err },
		"resume": func(id string) error { _, err := e.svc.Resume(ctx, app, id); return err },
		"cancel": func(id string) error { _, err := e.svc.Cancel(ctx, app, id); return err },
		"recall": func(id string) error { _, err := e.svc.Recall(ctx, app, id); return err },
		"retry":  func(id string) error { _, err := e.svc.RetryUnknown(ctx, app, id); return err },
		"revise": func(id string) error {
			_, err := e.svc.Revise(ctx, app, id, hello(), time.Time{}, setting.Match{})
			return err
		},
		"delete": func(id string) error { return e.svc.Delete(ctx, app, id, setting.Match{}) },
	}
	for state, c := range map[campaign.State]struct {
		by   []string // verbs that lead to it
		may  string
		late bool // start time in an hour
	}{
		campaign.Draft:     {may: "start cancel revise delete"},
		campaign.Scheduled: {late: true, may: "start pause cancel revise"},
		campaign.Running:   {by: []string{"start"}, may: "start pause resume cancel recall retry"},
		campaign.Paused:    {by: []string{"start", "pause"}, may: "pause resume cancel recall retry"},
		campaign.Cancelled: {by: []string{"cancel"}, may: "cancel recall delete"},
		campaign.Recalling: {by: []string{"start", "recall"}, may: "recall"},
	} {
		for name, verb := range verbs {
			at := time.Time{}
			if c.late {
				at = time.Now().Add(time.Hour)
			}
			v, err := e.svc.Create(ctx, app, hello(), at, "", [32]byte{})
			for _, by := range c.by {
				err = errors.Join(err, verbs[by](v.ID))
			}
			if err != nil || e.get(v.ID).State != state {
				t.Fatalf("%v; it is %s, want it %s", err, e.get(v.ID).State, state)
			}
			err = verb(v.ID)
			_, refused := errors.AsType[*campaign.StateError](err)
			if may := slices.Contains(strings.Fields(c.may), name); may && err != nil || !may && !refused {
				t.Errorf("%s what is %s: %v", name, state, err)
			}
			if refused && e.get(v.ID).State != state {
				t.Errorf("%s was refused what was %s, which is %s now", name, state, e.get(v.ID).State)
			}
		}
	}
}

func TestAScheduledCampaignStartsAtItsTime(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 1)
	e.run()
	at := time.Now().Add(2 * time.Second)
	v, err := e.svc.Create(t.Context(), app, hello(), at, "", [32]byte{})
	if err != nil || v.State != campaign.Scheduled {
		t.Fatalf("%v, %v", v, err)
	}
	v = e.untilState(v.ID, campaign.Completed)
	if v.StartedAt.Before(at.Truncate(time.Millisecond)) {
		t.Errorf("started %s early", at.Sub(v.StartedAt))
	}
}

func TestAScheduledCampaignThatWasPausedKeepsItsTime(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	e.endpoints(push.Webhook, 1)
	v, err := e.svc.Create(t.Context(), app, hello(), time.Now().Add(time.Hour), "", [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.svc.Pause(t.Context(), app, v.ID); err != nil {
		t.Fatal(err)
	}
	again, err := e.svc.Resume(t.Context(), app, v.ID)
	if err != nil || again.State != campaign.Scheduled || !again.StartedAt.IsZero() || !again.SendAt.Equal(v.SendAt) {
		t.Errorf("it is %s, started %s, %v; want it scheduled for %s", again.State, again.StartedAt, err, v.SendAt)
	}
}

func TestAnotherOwnerDoesNotGetWhatWasForTheFormerOne(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	owner := func(name string) audience.ID {
		return e.endpoints(push.Webhook, 1, func(_ int, ep *audience.Endpoint) { ep.Recipient = name })[0]
	}
	ep := owner("ann").String()
	p.answer = func(_ push.Request, attempt int) (push.Receipt, error) {
		if attempt > 1 {
			return push.Receipt{ExternalID: "m"}, nil
		}
		owner("bob")
		return push.Receipt{}, &push.RetryError{After: time.Millisecond, Reason: "not now"}
	}
	e.run()
	spec := hello()
	spec.Audience.Recipients = []string{"ann"}
	spec.Audience.Channels = []push.Channel{push.Webhook}
	id := e.create(spec)
	e.start(id)
	v := e.untilState(id, campaign.Completed)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Suppressed: 1})
	if n := len(p.requests(ep)); n != 1 {
		t.Errorf("the endpoint got %d messages, want the one to ann", n)
	}
}

func TestADeliveryLivesAsLongAsItsCampaignSays(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	ep := e.endpoints(push.Webhook, 1)[0].String()
	e.run()
	for ttl, want := range map[time.Duration]time.Duration{0: campaign.DefaultTTL, 2 * time.Hour: 2 * time.Hour} {
		spec := hello()
		spec.TTL = campaign.Duration(ttl)
		begun, before := time.Now(), len(p.requests(ep))
		id := e.create(spec)
		e.start(id)
		e.untilState(id, campaign.Completed)
		got := p.requests(ep)[before].ExpiresAt
		if got.Before(begun.Add(want).Truncate(time.Millisecond)) || got.After(time.Now().Add(want)) {
			t.Errorf("with a ttl of %s it expires after %s, want %s", ttl, got.Sub(begun), want)
		}
	}
}

func TestARefusedCredentialPausesTheCampaign(t *testing.T) {
	refuse := true
	p := &provider{}
	e := newEnv(t, senders{push.Telegram: p})
	p.answer = func(push.Request, int) (push.Receipt, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if refuse {
			return push.Receipt{}, &push.ConfigError{Reason: "401 Unauthorized"}
		}
		return push.Receipt{}, nil
	}
	e.endpoints(push.Telegram, 50)
	e.run()
	id := e.create(hello())
	e.start(id)
	v := e.untilState(id, campaign.Paused)
	if !strings.Contains(v.Detail, "401 Unauthorized") || v.Counts[campaign.Pending] != 50 {
		t.Errorf("paused: %q, %v", v.Detail, v.Counts)
	}
	if n := p.total(); n > 40 {
		t.Errorf("%d requests with a credential that is refused", n)
	}
	p.mu.Lock()
	refuse = false
	p.mu.Unlock()
	if _, err := e.svc.Resume(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	v = e.untilState(id, campaign.Completed)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Accepted: 50})
}

func TestAChannelThatIsTakenAwayPausesTheCampaign(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Telegram: p})
	channels := &switchable{senders: e.senders}
	e.serve(channels)
	e.endpoints(push.Telegram, 100) // a sender handles 60 of them at once
	release := p.holdBack(1)
	defer release()
	e.run()
	id := e.create(hello())
	e.start(id)
	e.until(id, "at work", func(v *campaign.View) bool { return v.Counts[campaign.Accepted] > 0 })
	channels.off.Store(true)
	release()
	v := e.untilState(id, campaign.Paused)
	if !strings.Contains(v.Detail, "telegram") || !strings.Contains(v.Detail, "switched off") {
		t.Errorf("paused for %q", v.Detail)
	}
	channels.off.Store(false)
	if _, err := e.svc.Resume(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	e.wantCounts(e.untilState(id, campaign.Completed), map[campaign.Outcome]int64{campaign.Accepted: 100})
}

func TestQuietHoursPutOff(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	now := time.Now().UTC()
	ids := e.endpoints(push.Webhook, 2, func(i int, ep *audience.Endpoint) {
		if i == 1 {
			ep.Timezone = "Etc/GMT-12" // half a day away
		}
	})
	e.run()
	spec := hello()
	spec.Quiet = &campaign.QuietHours{From: now.Add(-2 * time.Hour).Format("15:04"), To: now.Add(2 * time.Hour).Format("15:04"), Timezone: "recipient"}
	id := e.create(spec)
	e.start(id)
	v := e.until(id, "sent to one", func(v *campaign.View) bool { return v.Counts[campaign.Accepted] == 1 && v.Enumerated })
	d := e.report(id)[ids[0].String()]
	if !v.ETA.Equal(d.Due) {
		t.Errorf("it is expected to end at %s, and the last message is due at %s", v.ETA, d.Due)
	}
	if v.State != campaign.Running || d.Outcome != campaign.Pending || d.Due.Sub(now) < time.Hour || d.Due.Sub(now) > 3*time.Hour {
		t.Errorf("in its quiet hours: %s, due in %s", d.Outcome, d.Due.Sub(now))
	}
	if got, want := figures(t, e.svc), map[string]float64{"running": 1, "recalling": 0, "correcting": 0, "cancelled": 0, "open": 1, "ended": 1}; !maps.Equal(got, want) {
		t.Errorf("the figures are %v, want %v", got, want)
	}
}

// figures returns a service's numbers of campaigns in progress, by state.
func figures(t *testing.T, s *campaign.Service) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(s)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "godwit_campaign") {
			continue
		}
		for _, one := range f.GetMetric() {
			got[one.GetLabel()[0].GetValue()] = one.GetGauge().GetValue()
		}
	}
	return got
}

func TestSpreadGivesEveryoneTheirMoment(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 200)
	e.run()
	spec := hello()
	spec.Spread = campaign.Duration(time.Hour)
	id := e.create(spec)
	begun := time.Now()
	e.start(id)
	e.until(id, "enumerated", func(v *campaign.View) bool { return v.Total() == 200 })
	var quarters [4]int
	for _, d := range e.report(id) {
		after := max(d.Due.Sub(begun), 0) // the first may be sent already
		if after > time.Hour+time.Minute {
			t.Fatalf("one is due after %s", after)
		}
		quarters[min(int(after/(15*time.Minute)), 3)]++
	}
	for i, n := range quarters {
		if n < 20 || n > 80 {
			t.Errorf("%d of 200 are due in quarter %d of the hour", n, i+1)
		}
	}
	if n := p.total(); n > 20 {
		t.Errorf("%d were sent at once", n)
	}
}

func TestATestLeavesNoTrace(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	ids := e.endpoints(push.Webhook, 2)
	id := e.create(hello())
	res, err := e.svc.Test(t.Context(), app, id, []audience.ID{ids[0], {}})
	if err != nil || res[0].Outcome != campaign.Accepted || res[1].Outcome != campaign.Suppressed {
		t.Fatalf("%+v, %v", res, err)
	}
	if p.requests(ids[0].String())[0].ID == campaign.DeliveryID(id, ids[0].String()) {
		t.Error("a test message has the id of the campaign's own: a receiver would drop that as repeated")
	}
	if v := e.get(id); v.Total() != 0 || v.State != campaign.Draft {
		t.Errorf("after a test: %s, %v", v.State, v.Counts)
	}
}

func TestReactionsCountOnceAndTokensCannotBeForged(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p, push.Telegram: p})
	hooks, chats := e.endpoints(push.Webhook, 2), e.endpoints(push.Telegram, 1)
	e.run()
	id := e.create(hello())
	e.start(id)
	e.untilState(id, campaign.Completed)
	token := p.requests(hooks[0].String())[0].Track
	for range 2 {
		if err := e.svc.React(t.Context(), token, campaign.Shown); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.svc.React(t.Context(), token, campaign.Clicked); err != nil {
		t.Fatal(err)
	}
	link := p.requests(chats[0].String())[0].Content.URL
	click, _, _ := strings.Cut(strings.TrimPrefix(link, "https://push.example.org/v1/click/"), "?")
	for _, person := range []bool{false, true} {
		if err := e.svc.Follow(t.Context(), click, "https://example.org/news", person); err != nil {
			t.Error(err)
		}
		if v := e.get(id); !person && v.Clicked != 1 {
			t.Errorf("%d clicked once a robot has followed the link, want 1", v.Clicked)
		}
	}
	if err := e.svc.Follow(t.Context(), click, "https://evil.example/", true); !errors.Is(err, campaign.ErrBadToken) {
		t.Errorf("a link that was not signed may be followed: %v", err)
	}
	for _, bad := range []string{"", "demo", token[:len(token)-1], token + "A", "other" + token[4:], strings.Replace(token, "~", "~A", 1)} {
		if err := e.svc.React(t.Context(), bad, campaign.Shown); !errors.Is(err, campaign.ErrBadToken) {
			t.Errorf("token %q: %v", bad, err)
		}
	}
	v := e.get(id)
	if v.Shown != 1 || v.Clicked != 2 {
		t.Errorf("%d shown, %d clicked; want 1 and 2", v.Shown, v.Clicked)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(e.svc)
	counted := map[string]float64{}
	families, err := registry.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			counted[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	if err != nil || counted["shown"] != 1 || counted["clicked"] != 2 {
		t.Errorf("counted %v, %v", counted, err)
	}
	days, err := e.svc.Days(t.Context(), app, id, time.Now().Add(-time.Hour), time.Now())
	if err != nil || len(days) == 0 || days[len(days)-1].Outcomes[campaign.Accepted] != 3 || days[len(days)-1].Reactions[campaign.Clicked] != 2 {
		t.Errorf("by day: %+v, %v", days, err)
	}
}

func TestARepeatedRequestMakesOneCampaign(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	first, err := e.svc.Create(t.Context(), app, hello(), time.Time{}, "key-1", [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	again, err := e.svc.Create(t.Context(), app, hello(), time.Time{}, "key-1", [32]byte{1})
	if err != nil || again.ID != first.ID || !again.Duplicate || first.Duplicate {
		t.Errorf("the second request made %+v, %v", again, err)
	}
	if _, err := e.svc.Create(t.Context(), app, hello(), time.Time{}, "key-1", [32]byte{2}); !errors.Is(err, campaign.ErrReused) {
		t.Errorf("another body under the same key: %v", err)
	}
	if _, err := e.svc.Create(t.Context(), "other", hello(), time.Time{}, "key-1", [32]byte{2}); err != nil {
		t.Errorf("another app's key of the same name: %v", err)
	}
	if _, err := e.svc.Get(t.Context(), "other", first.ID); !errors.Is(err, campaign.ErrNotFound) {
		t.Errorf("another app reads it: %v", err)
	}
}

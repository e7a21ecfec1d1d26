package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/sending/push"
)

func corrected(title string) campaign.Correction {
	return campaign.Correction{Content: campaign.Content{Content: push.Content{Title: title, URL: "https://example.org/mended"}}}
}

func (e *env) correct(id string, k campaign.Correction) *campaign.View {
	e.Helper()
	v, err := e.svc.Correct(e.Context(), app, id, k)
	if err != nil {
		e.Fatal(err)
	}
	return v
}

// sentTo sends a campaign to n chats, and returns its id and theirs.
func (e *env) sentTo(n int, change ...func(i int, ep *audience.Endpoint)) (id string, chats []audience.ID) {
	e.Helper()
	chats = e.endpoints(push.Telegram, n, change...)
	id = e.create(hello())
	e.start(id)
	e.untilState(id, campaign.Completed)
	return id, chats
}

func TestACorrectionReachesTheMessagesThatCanBeCorrected(t *testing.T) {
	chat, hook := &provider{}, &provider{}
	e := newEnv(t, senders{push.Telegram: chat, push.Webhook: hook})
	e.endpoints(push.Webhook, 2)
	e.run()
	id, chats := e.sentTo(4, func(i int, ep *audience.Endpoint) {
		ep.Attributes = audience.Attributes{"name": audience.Text([]string{"Ada", "Bo", "Cy", "Di"}[i])}
		if i == 1 {
			ep.Locale = "fr"
		}
	})
	chat.correct = func(_ context.Context, s push.Sent) error {
		if s.Request.Endpoint == chats[2].String() {
			return &push.PermanentError{Reason: "message to edit not found"}
		}
		return nil
	}
	if err := e.store.DeleteEndpoint(t.Context(), app, chats[3]); err != nil {
		t.Fatal(err)
	}
	finished := e.get(id).FinishedAt
	k := corrected("Dear {{name}} of {{place|here}}")
	k.Content.Locales = map[string]template.Variant{"fr": {Title: "Salut {{name}}"}}
	if v := e.correct(id, k); v.State != campaign.Correcting || v.Spec.Correction.Messages != 4 || v.Spec.Correction.Kept != 2 {
		t.Errorf("asked for: %s, %+v", v.State, v.Spec.Correction)
	}
	v := e.untilState(id, campaign.Completed)
	if v.Corrected != 2 || v.NotCorrected != 2 || !v.FinishedAt.Equal(finished) || v.Spec.Content.Title != "Hi {{name|friend}}" {
		t.Errorf("%d corrected, %d not: %+v", v.Corrected, v.NotCorrected, v)
	}
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Accepted: 6})
	if got := chat.says(); got[chats[0].String()] != "Dear Ada of here" || got[chats[1].String()] != "Salut Bo" || len(got) != 3 || len(hook.says()) != 0 {
		t.Errorf("they say %v, and elsewhere %v", got, hook.says())
	}
	first := chat.corrections()[0]
	if first.ExternalID != "m-"+first.Request.Endpoint || !strings.HasPrefix(first.Request.Content.URL, "https://push.example.org/v1/click/") {
		t.Errorf("the sender was told %+v", first)
	}
	report := e.report(id)
	if a, b := report[chats[2].String()].Correction, report[chats[3].String()].Correction; a != "message to edit not found" || b != "the subscriber has left" {
		t.Errorf("why they were not corrected: %q, %q", a, b)
	}

	k = corrected("{{greeting}}")
	k.Variables = template.Variables{"greeting": "Again"}
	chat.mu.Lock()
	chat.correct = nil
	chat.mu.Unlock()
	e.correct(id, k)
	v = e.until(id, "corrected once more", func(v *campaign.View) bool { return v.State == campaign.Completed && v.Corrected == 3 })
	if got := chat.says(); v.NotCorrected != 1 || got[chats[2].String()] != "Again" || e.report(id)[chats[2].String()].Correction != "" {
		t.Errorf("once more: %d not corrected, they say %v", v.NotCorrected, got)
	}
	if v.Spec.Correction.Variables["greeting"] != "Again" || v.Spec.Render(campaign.Person{}, push.Webhook).Title != "Hi friend" {
		t.Errorf("kept: %+v", v.Spec.Correction)
	}
}

func TestACorrectionGoesOnAfterTheServerEnded(t *testing.T) {
	chat := &provider{pace: push.Pace{Scope: "bot", Rate: 1000}}
	e := newEnv(t, senders{push.Telegram: chat})
	e.run()
	id, chats := e.sentTo(520) // more than one page of a correction
	under := make(chan struct{}, 1)
	chat.correct = func(_ context.Context, s push.Sent) error {
		if s.Request.Endpoint != chats[510].String() {
			return nil
		}
		under <- struct{}{}
		return &push.RetryError{After: time.Hour, Reason: "later"} // the server ends before
	}
	e.correct(id, corrected("Mended"))
	<-under
	if v := e.get(id); v.State != campaign.Correcting || v.Corrected != 500 {
		t.Errorf("on the way: %s, %d corrected", v.State, v.Corrected)
	}
	e.close()
	chat.mu.Lock()
	chat.correct, chat.corrected = nil, nil
	chat.mu.Unlock()
	e.open()
	e.run()
	v := e.untilState(id, campaign.Completed)
	if n := len(chat.says()); v.Corrected != 520 || v.NotCorrected != 0 || n != 20 {
		t.Errorf("%d corrected, %d not; %d by the second server", v.Corrected, v.NotCorrected, n)
	}
}

func TestACorrectionWaitsForWhatObjects(t *testing.T) {
	chat := &provider{pace: push.Pace{Scope: "bot", Rate: 1000}}
	e := newEnv(t, senders{push.Telegram: chat})
	e.run()
	id, chats := e.sentTo(3)
	objected := false
	chat.correct = func(context.Context, push.Sent) error {
		chat.mu.Lock()
		defer chat.mu.Unlock()
		if objected {
			return nil
		}
		objected = true
		return &push.RetryError{After: 20 * time.Millisecond, Credential: true, Reason: "too many requests"}
	}
	e.correct(id, corrected("Mended"))
	if v := e.untilState(id, campaign.Completed); v.Corrected != 3 || len(chat.corrections()) != 4 || len(chat.says()) != len(chats) {
		t.Errorf("%d corrected in %d attempts", v.Corrected, len(chat.corrections()))
	}
}

func TestACorrectionMayBeRecalled(t *testing.T) {
	chat := &provider{pace: push.Pace{Scope: "bot", Rate: 1000}}
	e := newEnv(t, senders{push.Telegram: chat})
	e.run()
	id, _ := e.sentTo(40)
	held, under := make(chan struct{}), make(chan struct{}, 40)
	chat.correct = func(context.Context, push.Sent) error {
		under <- struct{}{}
		<-held
		return nil
	}
	e.correct(id, corrected("Mended"))
	<-under
	var state *campaign.StateError
	if _, err := e.svc.Correct(t.Context(), app, id, corrected("Other")); !errors.As(err, &state) {
		t.Errorf("another correction beside it: %v", err)
	}
	if v := e.correct(id, corrected("Mended")); v.State != campaign.Correcting {
		t.Errorf("asked for again: %s", v.State)
	}
	if _, err := e.svc.Recall(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	close(held)
	v := e.untilState(id, campaign.RecallDone)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.TakenBack: 40})
	if _, err := e.svc.Correct(t.Context(), app, id, corrected("Too late")); !errors.As(err, &state) || !strings.Contains(err.Error(), "taken back") {
		t.Errorf("what was taken back is corrected: %v", err)
	}
}

func TestACorrectionIsCheckedLikeACampaign(t *testing.T) {
	e := newEnv(t, senders{push.Telegram: &provider{}, push.Webhook: &provider{}})
	e.run()
	spec := hello()
	spec.Content.Telegram.Photo = "https://p.example/1.jpg"
	id := e.create(spec)
	var state *campaign.StateError
	if _, err := e.svc.Correct(t.Context(), app, id, corrected("Early")); !errors.As(err, &state) || state.State != campaign.Draft {
		t.Errorf("a draft is corrected: %v", err)
	}
	e.endpoints(push.Telegram, 1)
	e.start(id)
	e.untilState(id, campaign.Completed)
	for field, change := range map[string]func(*campaign.Correction){
		"content.title":            func(k *campaign.Correction) { k.Content.Title = "" },
		"content.telegram.buttons": func(k *campaign.Correction) { k.Content.Telegram.Buttons = [][]push.TelegramLink{{}} },
		"content.telegram.video":   func(k *campaign.Correction) { k.Content.Telegram.Video = "v" },
		"content.telegram.photo":   func(k *campaign.Correction) { k.Content.Telegram.Photo = "other" },
		"variables":                func(k *campaign.Correction) { k.Variables = template.Variables{"not a name": "x"} },
		"template":                 func(k *campaign.Correction) { k.Template, k.Content = "none", campaign.Content{} },
	} {
		k := corrected("T")
		change(&k)
		_, err := e.svc.Correct(t.Context(), app, id, k)
		if err == nil || !strings.HasPrefix(fmt.Sprint(err), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if v := e.correct(id, corrected("T")); v.Spec.Render(campaign.Person{}, push.Telegram).Telegram.Photo != spec.Content.Telegram.Photo {
		t.Errorf("the photo does not stay: %+v", v.Spec.Correction)
	}
	e.untilState(id, campaign.Completed)

	other := hello()
	other.Audience.Channels = []push.Channel{push.Webhook}
	e.endpoints(push.Webhook, 1)
	id = e.create(other)
	e.start(id)
	e.untilState(id, campaign.Completed)
	if _, err := e.svc.Correct(t.Context(), app, id, corrected("T")); !errors.As(err, &state) || !strings.Contains(err.Error(), "nothing of it was sent over telegram") {
		t.Errorf("what cannot be corrected is: %v", err)
	}
}

package admin_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
)

// sent is a campaign service whose campaigns have been sent to three chats.
type sent struct {
	admin.Campaigns
	asked  []campaign.Correction
	refuse error
}

func (s *sent) Get(ctx context.Context, app, id string) (*campaign.View, error) {
	c, err := s.Campaigns.Get(ctx, app, id)
	if err != nil {
		return nil, err
	}
	c.State, c.Campaign.Channels, c.Counts = campaign.Completed, []push.Channel{push.Telegram}, map[campaign.Outcome]int64{campaign.Accepted: 3}
	if n := len(s.asked); n > 0 {
		c.Spec.Correction = &s.asked[n-1]
	}
	return c, nil
}

func (s *sent) Correct(ctx context.Context, app, id string, k campaign.Correction) (*campaign.View, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.asked = append(s.asked, k)
	return s.Get(ctx, app, id)
}

func (s *sent) last() campaign.Correction { return s.asked[len(s.asked)-1] }

// correcting returns a browser on the pages of sent campaigns, and the id of one of them.
func correcting(t *testing.T) (s *sent, b *browser, id string) {
	s = new(sent)
	w := newWorld(t, func(c *admin.Config) {
		s.Campaigns = c.Campaigns
		c.Campaigns = s
	})
	w.stores("shop", "closed", closed())
	b = w.signedIn()
	id = b.create(url.Values{
		"title": {"Hi {{name|friend}}"}, "body": {"The pier is closed."}, "channel": {"telegram"}, "media": {"video"}, "media_url": {"https://example.org/pier.mp4"}, "key": {"k"}, "then": {"draft"},
		"button-0-text": {"Map"}, "button-0-url": {"https://example.org/map"}, "locale-0-tag": {"fr"}, "locale-0-body": {"Fermé."}, "tags_any": {"news"}, "send_at": {""}, "where": {`city = "Oslo"`},
	})
	return s, b, id
}

func TestSentCampaignIsCorrectedWithoutScript(t *testing.T) {
	s, b, id := correcting(t)
	_, page := b.get("/ui/campaigns/" + id)
	wants(t, page, `href="/ui/campaigns/`+id+`/correct"`)
	_, page = b.get("/ui/campaigns/" + id + "/correct")
	form := formOf(t, page)
	for name, want := range map[string]string{"title": "Hi {{name|friend}}", "body": "The pier is closed.", "media": "video", "button-0-text": "Map", "locale-0-body": "Fermé."} {
		if form.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, form.Get(name), want)
		}
	}
	for _, name := range []string{"name", "channel", "tags_any", "where", "send_at", "rate", "track"} {
		if form.Has(name) {
			t.Errorf("the form of a correction asks for %s", name)
		}
	}
	form.Set("body", "The pier is open.")
	form.Set("button-0-text", "")
	form.Set("button-0-url", "")
	_, page = b.post("/ui/campaigns/preview", form, "HX-Request", "true")
	wants(t, page, "The pier is open.", "pier.mp4")
	if strings.Contains(page, "can be reached") {
		t.Error("the preview of a correction counts whom a campaign would reach")
	}
	_, page = b.post("/ui/campaigns/preview", form)
	wants(t, page, "Correct what was sent")

	form.Set("then", "correct")
	if status, page := b.post("/ui/campaigns/"+id+"/correct", form); status != http.StatusOK || len(s.asked) != 1 {
		t.Fatalf("it is answered %d:\n%s", status, page)
	}
	k := s.last()
	if k.Template != "" || k.Variables == nil || k.Content.Body != "The pier is open." || k.Content.Title != "Hi {{name|friend}}" || len(k.Content.Telegram.Buttons) > 0 ||
		k.Content.Telegram.Video != "https://example.org/pier.mp4" || k.Content.Locales["fr"].Body != "Fermé." {
		t.Errorf("it asks for %s", asJSON(t, k))
	}
	_, page = b.get("/ui/campaigns/" + id + "/correct")
	if again := formOf(t, page); again.Get("body") != "The pier is open." || again.Get("button-0-text") != "" {
		t.Errorf("the next correction begins with %v", again)
	}
}

func TestACorrectionIsMadeOfATemplate(t *testing.T) {
	s, b, id := correcting(t)
	path := "/ui/campaigns/" + id + "/correct"
	_, page := b.get(path)
	form := b.uses(path, "closed", formOf(t, page))
	form.Set("then", "correct")
	status, page := b.post(path, form)
	if says := problemAt(t, page, "variable-place"); status != http.StatusUnprocessableEntity || says == "" {
		t.Fatalf("without its variable it is answered %d, and says %q", status, says)
	}
	form = formOf(t, page)
	form.Set("variable-place", "bridge")
	form.Set("then", "correct")
	b.post(path, form)
	if k := s.last(); k.Template != "closed" || k.TemplateRevision != 1 || k.Variables["place"] != "bridge" || asJSON(t, k.Content) != asJSON(t, closed()) {
		t.Errorf("it asks for %s", asJSON(t, k))
	}
}

func TestACorrectionThatIsRefusedStaysInTheForm(t *testing.T) {
	s, b, id := correcting(t)
	path := "/ui/campaigns/" + id + "/correct"
	_, page := b.get(path)
	form := formOf(t, page)
	form.Set("title", "")
	form.Set("body", "")
	form.Set("then", "correct")
	status, page := b.post(path, form)
	if says := problemAt(t, page, "title"); status != http.StatusUnprocessableEntity || says == "" || len(s.asked) > 0 {
		t.Errorf("an empty message is answered %d, and says %q", status, says)
	}
	form.Set("title", hostile)
	s.refuse = &campaign.StateError{Action: "be corrected", State: campaign.Running, Hint: "cancel it first"}
	status, page = b.post(path, form)
	wants(t, page, "A campaign that is running cannot be corrected: cancel it first.")
	checkHarmless(t, "a refused correction", page)
	if again := formOf(t, page); status != http.StatusConflict || again.Get("title") != hostile || !again.Has("correct") {
		t.Errorf("it is answered %d with %v", status, again)
	}
	s.refuse = nil
	b.post(path, form)
	for _, path := range []string{path, "/ui/campaigns/" + id} {
		_, page = b.get(path)
		checkHarmless(t, path, page)
		wants(t, page, "&lt;hostile")
	}
}

package public

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// clicks hears who followed links.
type clicks struct{ persons, others int }

func (c *clicks) React(context.Context, string, campaign.Reaction) error { return nil }

func (c *clicks) Follow(_ context.Context, _, _ string, person bool) error {
	if person {
		c.persons++
	} else {
		c.others++
	}
	return nil
}

func TestOnlyClicksOfPeopleAreCounted(t *testing.T) {
	heard := &clicks{}
	api := New(Parts{Campaigns: heard})
	for _, c := range []struct{ method, agent string }{
		{http.MethodHead, "Mozilla/5.0"}, {http.MethodGet, "TelegramBot (like TwitterBot)"}, {http.MethodGet, "Mozilla/5.0"},
	} {
		r := httptest.NewRequest(c.method, "/v1/click/t?to=https://m%C3%BCnchen.example/news", nil)
		r.Header.Set("User-Agent", c.agent)
		w := httptest.NewRecorder()
		if err := api.Click(&call.Call{W: w, R: r, Ctx: t.Context()}); err != nil || w.Code != http.StatusFound || w.Header().Get("Location") != "https://xn--mnchen-3ya.example/news" {
			t.Errorf("%s by %s: %v, %d to %q", c.method, c.agent, err, w.Code, w.Header().Get("Location"))
		}
	}
	if heard.persons != 1 || heard.others != 2 {
		t.Errorf("%d clicks of people and %d of others, want 1 and 2", heard.persons, heard.others)
	}
}

package godwit_test

import (
	"errors"
	"net/http"
	"testing"

	godwit "godwit.dev/godwit/clients/go"
)

func TestACampaignOfARealServer(t *testing.T) {
	c := client(t, run(t, nil))
	ctx := t.Context()
	spec := godwit.CampaignSpec{
		Name: "Spring", Content: map[string]any{"title": "Hi {{name|friend}}"}, Audience: godwit.Audience{Channels: []string{"live"}, Recipients: []string{"ada", "eve"}},
	}
	sale, err := c.CreateCampaign(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sale.Recall(ctx); refusedWith(err) != 409 {
		t.Errorf("a draft is recalled: %v", err)
	}
	spec.Name = "Summer"
	if s, err := sale.Revise(ctx, spec); err != nil || s.State != "draft" || s.Name != "Summer" {
		t.Errorf("revised to %+v, %v", s, err)
	}
	if _, err := sale.Start(ctx); err != nil {
		t.Fatal(err)
	}
	var last godwit.CampaignStatus
	for s, err := range sale.Progress(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		last = s
	}
	if last.State != "completed" || last.Counts["accepted"] != 2 || last.Total != 2 {
		t.Errorf("it ended as %+v", last)
	}
	to := map[string]bool{}
	for d, err := range sale.Deliveries(ctx, "accepted") {
		if err != nil {
			t.Fatal(err)
		}
		to[d.Recipient] = d.Channel == "live"
	}
	if len(to) != 2 || !to["ada"] || !to["eve"] {
		t.Errorf("deliveries to %v", to)
	}
	if _, err := sale.Correct(ctx, godwit.CorrectionSpec{Content: map[string]any{"title": "Ho"}}); refusedWith(err) != 409 {
		t.Errorf("what was not sent over Telegram is corrected: %v", err)
	}
	if _, err := sale.Recall(ctx); err != nil {
		t.Fatal(err)
	}
	for s, err := range sale.Progress(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		last = s
	}
	if last.State != "recalled" || last.Counts["recalled"] != 2 {
		t.Errorf("after its recall: %+v", last)
	}
	n := 0
	for s, err := range c.Campaigns(ctx) {
		if err != nil || s.ID != sale.ID {
			t.Errorf("listed: %+v, %v", s, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d campaigns are listed", n)
	}
	if err := sale.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := sale.Status(ctx); refusedWith(err) != 404 {
		t.Errorf("after it was deleted: %v", err)
	}
}

func TestChannelsOfARealServer(t *testing.T) {
	c := client(t, run(t, nil))
	if err := c.SetChannel(t.Context(), "telegram", map[string]any{"token": "42:AAExampleSecretOfTheBot", "base_url": "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	list, err := c.Channels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set := false
	for _, ch := range list {
		set = set || ch.Channel == "telegram" && ch.Enabled && len(ch.Credentials) == 1
	}
	if !set {
		t.Errorf("channels %+v", list)
	}
	if done, err := c.TestChannel(t.Context(), "telegram", nil); err != nil || done.OK || done.Outcome == "" {
		t.Errorf("a bot nobody reaches: %+v, %v", done, err)
	}
	if err := c.DeleteChannel(t.Context(), "telegram"); err != nil {
		t.Error(err)
	}
}

// refusedWith returns the status of the server's error.
func refusedWith(err error) int {
	var refused *godwit.Error
	if errors.As(err, &refused) {
		return refused.Status
	}
	return 0
}

func TestATemplateSaysWhatAPublishAndACampaignDoNot(t *testing.T) {
	c := client(t, run(t, nil))
	content := map[string]any{"content": map[string]any{"title": "Plan {{plan}}"}}
	set := godwit.Call{Method: http.MethodPut, Path: "/v1/templates/plan", Body: content}
	if err := c.Call(t.Context(), set, nil); err != nil {
		t.Fatal(err)
	}
	set.IfMatch = `"7"`
	if err := c.Call(t.Context(), set, nil); refusedWith(err) != http.StatusPreconditionFailed {
		t.Errorf("another revision is changed: %v", err)
	}
	given := map[string]string{"plan": "pro"}
	if _, err := c.Publish(t.Context(), godwit.Publication{To: "ann", Template: "plan", Variables: given, Locale: "de"}); err != nil {
		t.Error(err)
	}
	if _, err := c.Publish(t.Context(), godwit.Publication{To: "ann", Template: "plan"}); refusedWith(err) != http.StatusBadRequest {
		t.Errorf("without its variable: %v", err)
	}
	if _, err := c.CreateCampaign(t.Context(), godwit.CampaignSpec{Template: "plan", Variables: given}); err != nil {
		t.Error(err)
	}
}

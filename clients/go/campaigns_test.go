package godwit_test

import (
	"errors"
	"fmt"
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
	read, err := sale.Status(ctx)
	if err != nil || read.Revision == "" {
		t.Fatalf("it is %+v, %v", read, err)
	}
	spec.Name = "Summer"
	if s, err := sale.Revise(ctx, spec); err != nil || s.State != "draft" || s.Name != "Summer" {
		t.Errorf("revised to %+v, %v", s, err)
	}
	theirs := spec
	theirs.Name = "Autumn"
	if _, err := sale.ReviseIf(ctx, read.Revision, theirs); refusedWith(err) != http.StatusPreconditionFailed {
		t.Errorf("a revision that nobody has read is replaced: %v", err)
	}
	if err := sale.DeleteIf(ctx, read.Revision); refusedWith(err) != http.StatusPreconditionFailed {
		t.Errorf("a revision that nobody has read is deleted: %v", err)
	}
	if read, err = sale.Status(ctx); err != nil || read.Name != "Summer" {
		t.Fatalf("it is %+v, %v", read, err)
	}
	if s, err := sale.ReviseIf(ctx, read.Revision, theirs); err != nil || s.Name != "Autumn" || s.Revision == read.Revision {
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

func TestVariantsOfARealServerAreDecidedAndCloned(t *testing.T) {
	c := client(t, run(t, nil))
	ctx := t.Context()
	to := make([]string, 40)
	for i := range to {
		to[i] = fmt.Sprintf("reader-%d", i)
	}
	spec := godwit.CampaignSpec{
		Content: map[string]any{"title": "A"}, Audience: godwit.Audience{Channels: []string{"live"}, Recipients: to}, DecideAfter: "1h",
		Variants: []godwit.CampaignVariant{{Share: 20}, {Share: 20, Content: map[string]any{"title": "B"}}},
	}
	sale, err := c.CreateCampaign(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sale.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err := sale.Decide(ctx, "B"); err != nil || s.Decision == nil || s.Decision.Variant != "B" {
		t.Fatalf("decided: %+v, %v", s.Decision, err)
	}
	var last godwit.CampaignStatus
	for s, err := range sale.Progress(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		last = s
	}
	if len(last.Variants) != 2 || last.Rest == nil || last.Variants[0].Total+last.Variants[1].Total+last.Rest.Total != 40 || last.Counts["accepted"] != 40 {
		t.Errorf("it ended as %+v", last)
	}
	copied, err := sale.Clone(ctx, "Again")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := copied.Status(ctx); err != nil || s.Name != "Again" || s.State != "draft" || len(s.Variants) != 2 || s.Decision != nil {
		t.Errorf("the clone: %+v, %v", s, err)
	}
	_, err = c.CreateCampaign(ctx, godwit.CampaignSpec{Content: spec.Content, LocalTime: &godwit.CampaignLocalTime{At: "2020-01-01T09:00"}})
	if bad, ok := errors.AsType[*godwit.Error](err); !ok || bad.Field != "local_time.at" {
		t.Errorf("a time that has passed: %v", err)
	}
}

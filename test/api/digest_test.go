package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// gathers makes a category gather by the field post of the data.
func (w *world) gathers(category string, more map[string]any) {
	w.Helper()
	digest := map[string]any{"window": "1h", "by": "post"}
	for k, v := range more {
		digest[k] = v
	}
	w.call(http.MethodPut, "/v1/categories/"+category, map[string]any{"digest": digest})
}

// item publishes a notification that may gather, and returns its status.
func (w *world) item(id, to, category string, more map[string]any) string {
	w.Helper()
	body := map[string]any{"id": id, "to": to, "title": "Title " + id, "category": category, "data": map[string]any{"post": "p1", "actor": "Ann " + id}}
	for k, v := range more {
		body[k] = v
	}
	var r struct{ Status string }
	if err := w.call(http.MethodPost, "/v1/notifications", body).JSON(&r); err != nil {
		w.Fatal(err)
	}
	return r.Status
}

// next returns the next notification of a connection.
func (w *world) next(l blackbox.Link) *blackbox.Notification {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), blackbox.Patience)
	defer cancel()
	n, err := blackbox.NextNotification(ctx, l)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// in returns the status of an item, and its digest.
func (w *world) in(id, to string) (status, digest string) {
	w.Helper()
	var s struct {
		Status string
		Digest struct{ ID string }
	}
	if err := w.call(http.MethodGet, "/v1/notifications/"+id+"?to="+to, nil).JSON(&s); err != nil {
		w.Fatal(err)
	}
	return s.Status, s.Digest.ID
}

func (w *world) why(id, to string) string {
	w.Helper()
	var s struct{ Why string }
	if err := w.call(http.MethodGet, "/v1/notifications/"+id+"/timeline?to="+to, nil).JSON(&s); err != nil {
		w.Fatal(err)
	}
	return s.Why
}

func TestCategoryGathersIntoOneNotification(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.gathers("comment", map[string]any{"max": 4})
	l := w.online("bob")
	for i := range 3 {
		if got := w.item(fmt.Sprint("c", i), "bob", "comment", nil); got != "gathered" {
			t.Fatalf("item %d is %s", i, got)
		}
	}
	if got := w.item("c1", "bob", "comment", nil); got != "gathered" { // a duplicate
		t.Errorf("a repeated item is %s", got)
	}
	if got := w.item("other", "bob", "comment", map[string]any{"digest_key": "own"}); got != "gathered" {
		t.Errorf("an item with a key of its own is %s", got)
	}
	for id, more := range map[string]map[string]any{"urgent": {"priority": "high"}, "asks": {"reply_by": "1h"}, "plain": {"category": "other"}} {
		if got := w.item(id, "bob", "comment", more); got != "stored" {
			t.Errorf("%s is %s, want stored: it goes around the digest", id, got)
		}
		if n := w.next(l); n.ID != id {
			t.Errorf("bob gets %s, want %s", n.ID, id)
		}
	}
	if why := w.why("c0", "bob"); !strings.HasPrefix(why, "It waits in digest ") || !strings.Contains(why, "which has 3 notifications") {
		t.Errorf("why of one that waits: %s", why)
	}
	w.item("c3", "bob", "comment", map[string]any{"body": "the last"})
	n := w.next(l)
	if n.Title != "4 new notifications" || n.Body != "Title c3: the last\nTitle c2\nTitle c1" || n.Category != "comment" {
		t.Errorf("the digest is %+v", n)
	}
	var data struct {
		Digest struct {
			Key   string
			Count int
			Items []struct {
				ID   string
				Data map[string]string
			}
		}
	}
	if err := json.Unmarshal(n.Data, &data); err != nil || data.Digest.Key != "p1" || data.Digest.Count != 4 || len(data.Digest.Items) != 3 || data.Digest.Items[0].Data["actor"] != "Ann c3" {
		t.Errorf("its data is %s, %v", n.Data, err)
	}
	blackbox.Eventually(t, "the items are digested", func() error { return w.api.WantState(t.Context(), "c3", "bob", "digested") })
	for i := range 4 {
		if status, in := w.in(fmt.Sprint("c", i), "bob"); status != "digested" || in != n.ID {
			t.Errorf("item %d is %s in %s, want in %s", i, status, in, n.ID)
		}
	}
	if why := w.why("c0", "bob"); !strings.Contains(why, "went into digest "+n.ID) {
		t.Errorf("why of one that has left: %s", why)
	}
	if got := w.told("c0", "digested", 1); strings.Join(got, " ") != "gathered digested" {
		t.Errorf("the events of an item are %v", got)
	}
	if status, in := w.in("other", "bob"); status != "gathered" || in == n.ID {
		t.Errorf("the item of another key is %s in %s", status, in)
	}
	blackbox.Eventually(t, "the counts", func() error {
		sent, err := w.api.Metric(t.Context(), `godwit_digests_total{outcome="sent"`)
		waits, failed := w.api.Metric(t.Context(), "godwit_digests_waiting")
		if err != nil || failed != nil || sent != 1 || waits != 1 {
			return fmt.Errorf("%v sent, %v wait, %w, %w", sent, waits, err, failed)
		}
		return nil
	})
}

func TestWindowEndsWithOneNotificationThatHasWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.gathers("comment", map[string]any{"window": "2s"})
	l := w.online("bob")
	w.item("recalled", "bob", "comment", nil)
	w.item("old", "bob", "comment", map[string]any{"collapse_key": "k"})
	w.item("expired", "bob", "comment", map[string]any{"ttl": "1s"})
	w.item("new", "bob", "comment", map[string]any{"collapse_key": "k", "body": "as it was"})
	w.item("gone", "bob", "comment", map[string]any{"digest_key": "another"})
	for _, id := range []string{"recalled", "gone"} {
		w.call(http.MethodDelete, "/v1/notifications/"+id+"?to=bob", nil)
	}
	n := w.next(l) // one is left, and leaves as it was published
	if n.Title != "Title new" || n.Body != "as it was" || string(n.Data) != `{"actor":"Ann new","post":"p1"}` {
		t.Errorf("the digest is %+v, data %s", n, n.Data)
	}
	for id, want := range map[string]string{"recalled": "recalled", "old": "replaced", "expired": "expired", "new": "digested", "gone": "recalled"} {
		blackbox.Eventually(t, "the status of "+id, func() error { return w.api.WantState(t.Context(), id, "bob", want) })
	}
	var page struct{ Items []struct{ ID string } }
	if err := w.call(http.MethodGet, "/v1/digests?to=bob", nil).JSON(&page); err != nil || len(page.Items) != 1 || page.Items[0].ID != n.ID {
		t.Errorf("digests: %+v, %v; an empty one is not sent", page, err)
	}
}

func TestDigestIsKeptInTheInboxAsItsNewestNotificationAsks(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.gathers("comment", map[string]any{"window": "1s"})
	asks := map[string]any{"inbox": true, "keep": "2d", "actions": []any{map[string]any{"id": "yes", "title": "Yes"}}}
	w.item("alone", "ann", "comment", asks)
	w.item("one", "bob", "comment", nil)
	w.item("two", "bob", "comment", asks)
	for to, actions := range map[string]int{"ann": 1, "bob": 0} { // actions belong to one notification, so several have none
		blackbox.Eventually(t, "the inbox of "+to, func() error {
			var page struct {
				Items []struct {
					Title   string
					Actions []struct{ ID string }
				}
			}
			if err := w.call(http.MethodGet, "/v1/inbox?to="+to, nil).JSON(&page); err != nil {
				return err
			}
			if len(page.Items) != 1 || len(page.Items[0].Actions) != actions {
				return fmt.Errorf("it has %+v", page.Items)
			}
			return nil
		})
	}
}

func TestDigestHasTheTextOfItsTemplateInThePublishersLanguage(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.call(http.MethodPut, "/v1/templates/likes", map[string]any{"content": map[string]any{
		"title": "{{actor}} and {{others}} others like {{key}}", "body": "{{items}}", "locales": map[string]any{"de": map[string]string{"title": "{{actor}} und {{others}} weitere mögen {{key}}"}},
	}})
	w.call(http.MethodPut, "/v1/templates/like", map[string]any{"content": map[string]any{"title": "{{actor}} likes {{post}}", "category": "like"}})
	w.gathers("like", map[string]any{"max": 2, "template": "likes"})
	w.gathers("broken", map[string]any{"max": 2, "template": "none"})
	l := w.online("bob")
	for _, actor := range []string{"Eve", "Zoe"} {
		w.call(http.MethodPost, "/v1/notifications", map[string]any{
			"to": "bob", "template": "like", "locale": "de-CH", "variables": map[string]string{"actor": actor, "post": "p7"},
		})
	}
	if n := w.next(l); n.Title != "Zoe und 1 weitere mögen p7" || n.Body != "Zoe likes p7\nEve likes p7" || n.Category != "like" {
		t.Errorf("the digest is %+v", n)
	}
	for i := range 2 {
		w.item(fmt.Sprint("b", i), "bob", "broken", nil)
	}
	if n := w.next(l); n.Title != "2 new notifications" {
		t.Errorf("without its template a digest is %+v", n)
	}
}

func TestEscalationBeginsWithTheDigest(t *testing.T) {
	t.Parallel()
	w := begin(t)
	r := receive(t)
	w.reach("bob", r)
	w.gathers("comment", map[string]any{"max": 2})
	steps := []map[string]string{{"channel": "live"}, {"channel": "webhook", "after": "1s"}}
	w.item("e1", "bob", "comment", map[string]any{"escalate": steps})
	w.item("e2", "bob", "comment", map[string]any{"escalate": steps})
	blackbox.Eventually(t, "the step", func() error {
		if posts := r.log(); len(posts) != 1 || posts[0].data.Title != "2 new notifications" {
			return fmt.Errorf("posted: %+v", posts)
		}
		return nil
	})
	_, in := w.in("e1", "bob")
	if got := r.log()[0].note; got != in {
		t.Errorf("the step is of %s, want of the digest %s", got, in)
	}
}

func TestErasedRecipientHasNoDigest(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.gathers("comment", nil)
	w.item("secret", "bob", "comment", nil)
	w.item("kept", "eve", "comment", nil)
	w.call(http.MethodDelete, "/v1/recipients/bob", nil)
	a, err := w.api.Do(t.Context(), http.MethodGet, "/v1/notifications/secret?to=bob", nil)
	if err != nil || a.Status != http.StatusNotFound {
		t.Errorf("an erased item: %d %s, %v", a.Status, a.Body, err)
	}
	var page struct{ Items []struct{ To string } }
	if err := w.call(http.MethodGet, "/v1/digests?"+url.Values{"state": {"waiting"}}.Encode(), nil).JSON(&page); err != nil || len(page.Items) != 1 || page.Items[0].To != "eve" {
		t.Errorf("waiting: %+v, %v", page, err)
	}
}

// TestRepeatedPublishIsADuplicateWhateverItsCategorySaysNow: the first publish gathered and its category does not any more, or the other way round.
func TestRepeatedPublishIsADuplicateWhateverItsCategorySaysNow(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.gathers("comment", nil)
	w.item("first", "bob", "comment", nil)
	w.call(http.MethodDelete, "/v1/categories/comment", nil)
	if got := w.item("first", "bob", "comment", nil); got != "gathered" {
		t.Errorf("repeated without digests it is %s", got)
	}
	if got := w.item("second", "bob", "comment", nil); got != "stored" {
		t.Errorf("a new one is %s", got)
	}
	w.gathers("comment", nil)
	if got := w.item("second", "bob", "comment", nil); got != "stored" {
		t.Errorf("repeated with digests it is %s", got)
	}
	body := map[string]any{"to": []string{"bob", "eve"}, "id": "first", "title": "Title first", "category": "comment", "data": map[string]string{"post": "p1", "actor": "Ann first"}}
	w.call(http.MethodDelete, "/v1/categories/comment", nil)
	var r struct {
		Results []struct {
			To, Status string
			Duplicate  bool
		}
	}
	if err := w.call(http.MethodPost, "/v1/notifications", body).JSON(&r); err != nil || len(r.Results) != 2 || !r.Results[0].Duplicate || r.Results[1].Duplicate || r.Results[1].Status != "stored" {
		t.Errorf("to one who has it and one who has not: %+v, %v", r, err)
	}
}

// TestWhoWaitsForANotificationThatGathersIsToldOfItsDigest: the command line and the Go client wait until it has left.
func TestWhoWaitsForANotificationThatGathersIsToldOfItsDigest(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.gathers("comment", map[string]any{"window": "2s"})
	out, err := w.server.Run("publish", "bob", "--id", "w1", "--title", "T", "--category", "comment", "--wait", "60s", "--url", w.server.URL(""), "--json")
	if status, in := w.in("w1", "bob"); status != "digested" || in == "" || !strings.Contains(out, `"digested"`) {
		t.Errorf("it is %s in %s after the command has said %s, %v", status, in, out, err)
	}
}

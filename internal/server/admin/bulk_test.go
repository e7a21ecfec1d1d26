package admin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/signin"
)

func TestSeveralCampaignsAreCancelledAndDeletedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.subscribe("shop", "news")
	b := w.signedIn()
	var ids []string
	for n := range 3 {
		ids = append(ids, b.create(url.Values{
			"name": {fmt.Sprintf("Number %d %s", n, hostile)}, "title": {"Hi"}, "channel": {"webhook"}, "key": {fmt.Sprint("k", n)}, "send_at": {time.Now().UTC().Add(48 * time.Hour).Format("2006-01-02T15:04")}, "then": {"start"},
		}))
	}
	_, page := b.get("/ui/campaigns")
	for _, id := range ids {
		wants(t, page, `name="id" value="`+id+`"`)
	}
	draft := b.create(url.Values{"name": {"A draft"}, "title": {"Hi"}, "channel": {"webhook"}, "key": {"d"}, "then": {"draft"}})

	for _, by := range [][]string{nil, {"HX-Request", "true"}} {
		status, page := b.post("/ui/campaigns/bulk", url.Values{"deed": {"cancel"}}, by...)
		if wants(t, page, "Tick from 1 to 30 campaigns."); status != http.StatusOK {
			t.Errorf("nothing ticked: %d", status)
		}
	}
	if status, _ := b.post("/ui/campaigns/bulk", url.Values{"deed": {"rename"}, "id": ids}); status != http.StatusNotFound {
		t.Errorf("no such deed: %d", status)
	}
	_, page = b.post("/ui/campaigns/bulk", url.Values{"deed": {"cancel"}, "id": {ids[0], draft, ids[2], "nobody", hostile}})
	checkHarmless(t, "bulk", page)
	wants(t, page, "3 campaigns: cancelled.", "nobody: There is no such campaign.")
	if n := strings.Count(page, `class="state cancelled"`); n != 3 {
		t.Errorf("%d are cancelled:\n%s", n, page)
	}
	_, page = b.post("/ui/campaigns/bulk", url.Values{"deed": {"delete"}, "id": append(ids, draft)})
	checkHarmless(t, "bulk", page)
	wants(t, page, "3 campaigns: deleted.", "Number 1 &#34;")
	_, page = b.get("/ui/campaigns")
	for i, id := range append(ids, draft) {
		if there := strings.Contains(page, id); there != (i == 1) {
			t.Errorf("number %d is there: %v", i, there)
		}
	}
	_, page = b.post("/ui/campaigns/bulk", url.Values{"deed": {"retry"}, "id": {ids[1]}})
	wants(t, page, `id="done"`)

	viewer := w.as(signin.View)
	if _, page := viewer.get("/ui/campaigns"); strings.Contains(page, `name="id"`) || strings.Contains(page, `name="deed"`) {
		t.Error("somebody who may only look is offered to change campaigns")
	}
	if status, _ := viewer.post("/ui/campaigns/bulk", url.Values{"deed": {"delete"}, "id": {ids[1]}}); status != http.StatusForbidden {
		t.Errorf("and may: %d", status)
	}
}

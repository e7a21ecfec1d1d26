package httpapi_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"
)

// copiesPage is a page of GET /v1/notifications.
type copiesPage struct {
	Items []struct {
		ID, To, Status string
		CreatedAt      time.Time `json:"created_at"`
	}
	Next *string `json:"next_cursor"`
}

// copies reads all pages of a list.
func (w *world) copies(query string) (all []string) {
	w.t.Helper()
	for cursor, pages := "", 0; ; pages++ {
		p := decode[copiesPage](w.get("/v1/notifications?" + query + "&cursor=" + url.QueryEscape(cursor)).want(200))
		for _, it := range p.Items {
			all = append(all, it.To+"/"+it.ID+" "+it.Status)
		}
		if p.Next == nil {
			return all
		}
		if cursor = *p.Next; pages > 100 {
			w.t.Fatal("the list has no end")
		}
	}
}

func TestNotificationsOfAllRecipientsAreListed(t *testing.T) {
	w := newWorld(t)
	if got := w.copies("limit=1"); len(got) != 0 {
		t.Errorf("an app without any has %q", got)
	}
	for i := range 3 {
		w.post("/v1/notifications", fmt.Sprintf(`{"to":["anna","bert.1"],"id":"n%d","title":"Hi"}`, i)).want(200)
	}
	w.post("/v1/notifications", `{"to":"zoe","id":"later","send_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`","title":"Hi"}`).want(201)
	w.delete("/v1/notifications/n1?to=anna").want(200)
	all := []string{"anna/n2 stored", "anna/n1 recalled", "anna/n0 stored", "bert.1/n2 stored", "bert.1/n1 stored", "bert.1/n0 stored", "zoe/later scheduled"}
	for limit := 1; limit <= 8; limit++ {
		if got := w.copies(fmt.Sprint("limit=", limit)); !slices.Equal(got, all) {
			t.Errorf("in pages of %d: %q, want %q", limit, got, all)
		}
	}
	for query, want := range map[string][]string{
		"status=recalled":            {"anna/n1 recalled"},
		"status=scheduled":           {"zoe/later scheduled"},
		"status=stored&limit=2":      {"anna/n2 stored", "anna/n0 stored", "bert.1/n2 stored", "bert.1/n1 stored", "bert.1/n0 stored"},
		"status=acked":               nil,
		"since=2020-01-01T00:00:00Z": all,
		"since=" + url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)): nil,
	} {
		if got := w.copies(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	first := decode[copiesPage](w.get("/v1/notifications?limit=1").want(200)).Items[0].CreatedAt
	if got := w.copies("since=" + url.QueryEscape(first.Format(time.RFC3339Nano))); len(got) == 0 || got[0] != all[0] {
		t.Errorf("since the newest of anna: %q", got)
	}
	for query, field := range map[string]string{
		"status=lost": "status", "since=yesterday": "since", "limit=0": "limit", "cursor=x": "cursor", "cursor=-1.anna": "cursor", "cursor=5.": "cursor", "until=1": "until",
	} {
		w.get("/v1/notifications?"+query).problem(400, "bad-input", field)
	}
}

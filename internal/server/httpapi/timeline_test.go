package httpapi_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestATimelineGoesOnUntilItsCopyHasEnded(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/notifications", `{"to":"anna","id":"ride-1","title":"New ride"}`).want(http.StatusCreated)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/v1/notifications/ride-1/timeline?to=anna", nil)
	req.Header.Set("Authorization", "Bearer "+w.key)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || ct != "text/event-stream" {
		t.Fatalf("%d %s", resp.StatusCode, ct)
	}
	f := &feed{t: t, resp: resp, r: bufio.NewReader(resp.Body)}
	told := func() (event, status string) {
		event = strings.TrimPrefix(f.line(), "event: ")
		var said struct{ Status, Why string }
		if err := json.Unmarshal([]byte(strings.TrimPrefix(f.line(), "data: ")), &said); err != nil || event == "timeline" && said.Why == "" {
			t.Errorf("%v %+v", err, said)
		}
		f.line()
		return event, said.Status
	}
	if event, status := told(); event != "timeline" || status != "stored" {
		t.Errorf("first %s %s", event, status)
	}
	w.delete("/v1/notifications/ride-1?to=anna")
	if event, status := told(); event != "timeline" || status != "recalled" {
		t.Errorf("then %s %s", event, status)
	}
	if event, _ := told(); event != "end" {
		t.Errorf("last %s", event)
	}
	if _, err := f.r.ReadByte(); err == nil {
		t.Error("it goes on")
	}
}

func TestFollowingUnknownCopyIsNotFound(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{"/v1/notifications/none/timeline?to=anna": http.StatusNotFound, "/v1/notifications/none/timeline": http.StatusBadRequest} {
		a := w.do(request{method: http.MethodGet, path: path, key: w.key, header: map[string]string{"Accept": "text/event-stream"}})
		if a.status != want {
			t.Errorf("%s: %d, want %d", path, a.status, want)
		}
	}
}

func TestARecipientsTimelineIsPaged(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c"} {
		w.post("/v1/notifications", `{"to":"anna","id":"`+id+`","title":"New ride"}`).want(http.StatusCreated)
	}
	var page struct {
		Items []struct{ ID, Status, Why string }
		Next  string `json:"next_cursor"`
	}
	var got []string
	for cursor := ""; ; cursor = "&cursor=" + page.Next {
		page.Next = ""
		w.get("/v1/recipients/anna/timeline?limit=2" + cursor).into(&page)
		for _, it := range page.Items {
			got = append(got, it.ID+" "+it.Status+" "+it.Why)
		}
		if page.Next == "" {
			break
		}
	}
	const why = " stored It waits: anna has never been connected."
	if want := "c" + why + "|b" + why + "|a" + why; strings.Join(got, "|") != want {
		t.Errorf("got %q", got)
	}
}

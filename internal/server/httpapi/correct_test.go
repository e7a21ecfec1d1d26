package httpapi_test

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"
)

func TestACampaignIsCorrectedWhereItCanBe(t *testing.T) {
	w, out, _ := campaigns(t, "https://a.example/1", "chat:7", "chat:13")
	v := decode[campaignView](w.post("/v1/campaigns", `{"content":{"title":"Mondey","telegram":{"photo":"p"}},"variables":{"day":"Monday"}}`).want(http.StatusCreated))
	at := "/v1/campaigns/" + v.ID
	w.post(at+"/correct", `{"content":{"title":"{{day}}"}}`).problem(http.StatusConflict, "wrong-state", "")
	w.post(at+"/start", "").want(http.StatusOK)
	w.ended(v.ID)

	w.post(at+"/correct", `{}`).problem(http.StatusBadRequest, "bad-input", "content.title")
	w.post(at+"/correct", `{"content":{"title":"x","telegram":{"video":"v"}}}`).problem(http.StatusBadRequest, "bad-input", "content.telegram.video")
	w.post(at+"/correct", `{"content":{"title":"x"},"audience":{}}`).problem(http.StatusBadRequest, "bad-input", "audience")
	w.post(at+"/correct", `{"template":"none"}`).problem(http.StatusBadRequest, "bad-input", "template")
	w.post("/v1/campaigns/none/correct", `{"content":{"title":"x"}}`).problem(http.StatusNotFound, "not-found", "")

	type correction struct {
		Messages, Corrected, Kept int
		NotCorrected              int `json:"not_corrected"`
		Title                     string
		Content                   map[string]any
	}
	type corrected struct {
		campaignView
		Correction *correction
	}
	asked := decode[corrected](w.post(at+"/correct", `{"content":{"title":"{{day}}"}}`).want(http.StatusOK))
	if k := asked.Correction; asked.State != "correcting" || k == nil || k.Messages != 2 || k.Kept != 1 {
		t.Errorf("asked for: %+v %+v", asked, k)
	}
	w.ended(v.ID)
	got := decode[corrected](w.get(at))
	if k := got.Correction; k.Corrected != 1 || k.NotCorrected != 1 || k.Content["title"] != "{{day}}" || got.Content["title"] != "Mondey" {
		t.Errorf("done: %+v %+v", got, k)
	}
	out.mu.Lock()
	for _, s := range out.now {
		if c := s.Request.Content; c.Title != "Monday" || c.Telegram.Photo != "p" || s.ExternalID != "x1" {
			t.Errorf("the sender was told %+v", s)
		}
	}
	out.mu.Unlock()
	if b := string(w.get(at + "/deliveries").want(http.StatusOK).body); !strings.Contains(b, `"correction":"=message to edit not found"`) {
		t.Errorf("report: %s", b)
	}
	table, err := csv.NewReader(strings.NewReader(string(w.get(at + "/deliveries?format=csv").want(http.StatusOK).body))).ReadAll()
	if err != nil || table[0][14] != "correction" || table[3][14] != "'=message to edit not found" {
		t.Errorf("CSV: %q, %v", table, err)
	}
	if b := string(w.get("/v1/campaigns").want(http.StatusOK).body); !strings.Contains(b, `"title":"{{day}}"`) || strings.Contains(b, `"content"`) {
		t.Errorf("list: %s", b)
	}
}

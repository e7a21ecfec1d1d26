package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/httpapi/backend"
)

func (w *world) ndjson(lines ...string) answer {
	w.t.Helper()
	return w.do(request{
		method: "POST", path: "/v1/notifications/batch", body: strings.Join(lines, "\n"),
		header: map[string]string{"Content-Type": "application/x-ndjson"},
	})
}

func (a answer) lines() (rs []resultJSON) {
	a.t.Helper()
	if ct := a.header.Get("Content-Type"); ct != "application/x-ndjson" {
		a.t.Errorf("content type %q", ct)
	}
	for line := range strings.Lines(a.body) {
		var r resultJSON
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			a.t.Fatalf("%q: %v", line, err)
		}
		rs = append(rs, r)
	}
	return rs
}

func TestBatchAnswersEveryLineInOrder(t *testing.T) {
	w := newWorld(t)
	w.mailbox.full["full"] = true
	rs := w.ndjson(
		`{"to":"a","id":"n1","title":"Hi"}`,
		`{"to":"a","id":"n2","titel":"x"}`,
		`not json`,
		``,
		`{"to":["a","b b"],"id":"n3","title":"Hi"}`,
		`{"to":"full","id":"n4","title":"Hi"}`,
		`{"to":"a","id":"n1","title":"Hi"}`,
		`{"to":"a","id":"n5","reply_by":"31d","title":"Hi"}`,
		`{"to":"`+strings.Repeat("x", 256<<10)+`"}`,
		"  {\"to\":\"a\",\"id\":\"n6\",\"title\":\"Hi\"}\r",
		`{"to":"a","id":"n7"}`,
	).want(http.StatusOK).lines()
	if len(rs) != 10 {
		t.Fatalf("%d results, want 10", len(rs))
	}
	if rs[0].ID != "n1" || rs[0].Status != "stored" {
		t.Errorf("line 1: %+v", rs[0])
	}
	checkProblem(t, *rs[1].Error, 400, "bad-input", "titel")
	if rs[1].ID != "n2" || rs[1].To != "a" {
		t.Errorf("line 2 does not say whose it is: %+v", rs[1])
	}
	checkProblem(t, *rs[2].Error, 400, "bad-json", "")
	if len(rs[3].Results) != 2 || rs[3].Results[0].Status != "stored" {
		t.Errorf("line 5: %+v", rs[3])
	}
	checkProblem(t, *rs[3].Results[1].Error, 400, "bad-input", "to")
	checkProblem(t, *rs[4].Error, 429, "mailbox-full", "")
	if !rs[5].Duplicate {
		t.Errorf("line 7: %+v, want a duplicate", rs[5])
	}
	checkProblem(t, *rs[6].Error, 400, "bad-input", "reply_by")
	if rs[6].ID != "n5" || rs[6].To != "a" {
		t.Errorf("line 8 does not say whose it is: %+v", rs[6])
	}
	checkProblem(t, *rs[7].Error, 413, "too-large", "")
	if rs[8].ID != "n6" || rs[8].Status != "stored" {
		t.Errorf("line 10: %+v", rs[8])
	}
	checkProblem(t, *rs[9].Error, 400, "bad-input", "title")
}

func TestBatchSharesCommitsInChunks(t *testing.T) {
	w := newWorld(t)
	lines := make([]string, 1200)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"to":"r%d","id":"n%d","title":"Hi"}`, i%7, i)
	}
	rs := w.ndjson(lines...).want(http.StatusOK).lines()
	for i, r := range rs {
		if r.ID != fmt.Sprintf("n%d", i) || r.Status != "stored" {
			t.Fatalf("line %d: %+v", i+1, r)
		}
	}
	if got := w.mailbox.commits(); len(rs) != 1200 || !slices.Equal(got, []int{500, 500, 200}) {
		t.Errorf("%d results, commits of %v", len(rs), got)
	}
}

func TestBatchOverItsLimitsPublishesNothing(t *testing.T) {
	w := newWorld(t)
	line := `{"to":"a","title":"Hi"}`
	over := slices.Repeat([]string{line}, backend.MaxBatchLines+1)
	w.ndjson(over...).problem(http.StatusRequestEntityTooLarge, "too-large", "")
	w.ndjson(strings.Repeat(" ", backend.MaxBatchBytes+1)).problem(http.StatusRequestEntityTooLarge, "too-large", "")
	if got := w.mailbox.commits(); len(got) != 0 {
		t.Errorf("commits of %v", got)
	}
	if rs := w.ndjson(over[1:]...).want(http.StatusOK).lines(); len(rs) != backend.MaxBatchLines {
		t.Errorf("%d results", len(rs))
	}
	if a := w.ndjson("").want(http.StatusOK); a.body != "" {
		t.Errorf("an empty batch gets %q", a.body)
	}
}

func TestBatchRetriedWithItsIdempotencyKeyIsAllDuplicates(t *testing.T) {
	w := newWorld(t)
	send := func() []resultJSON {
		return w.do(request{
			method: "POST", path: "/v1/notifications/batch", body: "{\"to\":\"a\",\"title\":\"Hi\"}\n{\"to\":\"a\",\"title\":\"Hi\"}\nbad\n{\"to\":\"a\",\"id\":\"mine\",\"title\":\"Hi\"}\n",
			header: map[string]string{"Content-Type": "application/x-ndjson", "Idempotency-Key": "k"},
		}).want(http.StatusOK).lines()
	}
	first, again := send(), send()
	if first[0].ID == first[1].ID {
		t.Error("two lines share an id")
	}
	for _, i := range []int{0, 1, 3} {
		if first[i].Duplicate || !again[i].Duplicate || first[i].ID != again[i].ID {
			t.Errorf("line %d: %+v, then %+v", i+1, first[i], again[i])
		}
	}
}

func TestBatchSaysOfEveryLineThatTheStoreFailed(t *testing.T) {
	w := newWorld(t)
	w.mailbox.setFail(mailbox.ErrNoSpace)
	rs := w.ndjson(`{"to":"a","id":"n1","title":"Hi"}`, `{"to":["b"],"id":"n2","title":"Hi"}`).want(http.StatusOK).lines()
	for i, r := range rs {
		checkProblem(t, *r.Error, 503, "no-space", "")
		if r.Error.RetryAfter == 0 || r.ID != fmt.Sprintf("n%d", i+1) {
			t.Errorf("line %d: %+v", i+1, r)
		}
	}
	if !strings.Contains(w.log.String(), "batch not stored") {
		t.Error("the log does not say so")
	}
}

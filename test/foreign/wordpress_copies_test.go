package foreign

import (
	"maps"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// copied returns the step that copies a post's metadata to another post, as plug-ins do that duplicate, translate and import posts.
func copied(meta map[string]map[string]string, from, to string) step {
	all := map[string]any{}
	for id, marks := range meta {
		all[id] = marks
	}
	all[to] = maps.Clone(meta[from])
	return step{"meta": all}
}

func with(s step, set step) step {
	s["set"] = set
	return s
}

func TestACopyOfASentPostIsSent(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp(w.url(), w.key, nil)
	r := s.does(publishPost(1, nil))
	first := r.Meta["1"]["_godwit_campaign"]

	draft := publishPost(2, step{"post_status": "draft", "post_title": "A copy"})
	s.does(with(draft, copied(r.Meta, "1", "2")))
	if r := s.does(step{"do": "box", "id": 2}); strings.Contains(r.Drawn, "It is not sent again") {
		t.Errorf("the box of a copy says %s", r.Drawn)
	}
	// Its scheduled time comes while no editor is open.
	r = s.does(step{"do": "save", "id": 2, "post": step{"post_status": "publish"}})
	second := r.Meta["2"]["_godwit_campaign"]
	if second == "" || second == first {
		t.Errorf("the copy: %v", r.Meta["2"])
	}
	// A copy of the copy, which a program publishes immediately.
	r = s.does(with(step{"do": "save", "id": 3, "post": step{"post_status": "publish", "post_title": "Another"}}, copied(r.Meta, "2", "3")))
	if third := r.Meta["3"]["_godwit_campaign"]; third == "" || third == second {
		t.Errorf("the copy of the copy: %v", r.Meta["3"])
	}
	if got := w.campaigns(); len(got) != 3 || len(w.push.Received(w.subscriber)) != 3 {
		t.Errorf("campaigns: %q, messages: %d", got, len(w.push.Received(w.subscriber)))
	}
	if r := s.does(publishPost(1, nil)); len(r.Requests) > 0 {
		t.Errorf("the original leads to %v", r.Requests)
	}
}

func TestACopyThatWasPublishedBeforeIsSentOnlyWhereItIsTicked(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp(w.url(), w.key, nil)
	r := s.does(publishPost(1, nil))
	// An import publishes the post first, and adds the metadata afterwards.
	s.does(step{"do": "save", "id": 2, "post": step{"post_status": "publish", "post_title": "Imported"}})
	r = s.does(with(step{"do": "save", "id": 2, "post": step{}}, copied(r.Meta, "1", "2")))
	if len(r.Requests) > 0 {
		t.Errorf("saved again it leads to %v", r.Requests)
	}
	if r := s.does(step{"do": "box", "id": 2}); strings.Contains(r.Drawn, "checked") || strings.Contains(r.Drawn, "It is not sent again") {
		t.Errorf("the box says %s", r.Drawn)
	}
	if r := s.does(publishPost(2, nil)); r.Meta["2"]["_godwit_campaign"] == "" || r.Meta["2"]["_godwit_campaign"] == r.Meta["1"]["_godwit_campaign"] {
		t.Errorf("ticked: %v", r.Meta["2"])
	}
}

func TestMarksOfAnEarlierVersionBelongToThePostOfTheirCampaign(t *testing.T) {
	blackbox.Long(t)
	w := newBlog(t)
	s := newSite(t)
	s.setUp(w.url(), w.key, nil)
	r := s.does(publishPost(1, nil))
	first := r.Meta["1"]["_godwit_campaign"]
	old := func(id string) step {
		return step{"meta": map[string]any{id: step{"_godwit_send": "1", "_godwit_campaign": first}}}
	}
	if r := s.does(with(publishPost(1, nil), old("1"))); r.Meta["1"]["_godwit_campaign"] != first {
		t.Errorf("the post itself is sent again: %v", r.Meta["1"])
	}
	if r := s.does(with(publishPost(2, nil), old("2"))); r.Meta["2"]["_godwit_campaign"] == "" || r.Meta["2"]["_godwit_campaign"] == first {
		t.Errorf("its copy: %v", r.Meta["2"])
	}
}

func TestAPostIsTriedForHours(t *testing.T) {
	blackbox.Long(t)
	s := newSite(t)
	s.setUp("http://127.0.0.1:1", "k", nil)
	s.logs = "post 1 was not sent"
	tries := 1
	for r := s.does(publishPost(1, nil)); r.Scheduled == 1; tries++ {
		r = s.does(step{"do": "later"})
	}
	if tries != 9 {
		t.Errorf("tried %d times", tries)
	}
	if r := s.does(step{"do": "notice", "screen": "dashboard"}); !strings.Contains(r.Drawn, "does not answer") {
		t.Errorf("the dashboard says %q", r.Drawn)
	}
	if r := s.does(publishPost(1, nil)); r.Scheduled != 1 {
		t.Error("saved again it is not tried again")
	}
	if r := s.does(step{"do": "save", "id": 1, "ticked": false, "post": step{}}); r.Scheduled != 0 || len(r.Requests) > 0 {
		t.Errorf("no longer to be sent: %+v", r)
	}
	if r := s.does(step{"do": "notice", "screen": "dashboard"}); r.Drawn != "" {
		t.Errorf("the dashboard still says %q", r.Drawn)
	}
}

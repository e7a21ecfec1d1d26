package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

type inboxPage struct {
	Items []struct {
		ID, Title, Category string
		Actions             []struct{ ID, Title, URL string }
		ReadAt              *string `json:"read_at"`
	}
	Unseen, Unread, Total int
	Until                 string
	NextCursor            *string `json:"next_cursor"`
}

func (p *inboxPage) ids() (list []string) {
	for _, it := range p.Items {
		list = append(list, it.ID)
	}
	return list
}

func (w *world) keeps(id string, more map[string]any) {
	w.Helper()
	body := map[string]any{"to": "ann", "id": id, "title": "T", "inbox": true}
	for name, v := range more {
		body[name] = v
	}
	w.call(http.MethodPost, "/v1/notifications", body)
}

func (w *world) inbox(query string) (p inboxPage) {
	w.Helper()
	if err := w.call(http.MethodGet, "/v1/inbox?to=ann"+query, nil).JSON(&p); err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) wantInbox(query string, ids ...string) inboxPage {
	w.Helper()
	p := w.inbox(query)
	if !slices.Equal(p.ids(), ids) {
		w.Fatalf("inbox%s: %v, want %v", query, p.ids(), ids)
	}
	return p
}

// wantProblem makes a request that is refused.
func (w *world) wantProblem(method, path string, body any, status int, field string) {
	w.Helper()
	a, err := w.api.Do(w.Context(), method, path, body)
	if err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
	if p := a.Problem(); a.Status != status || p.Field != field {
		w.Errorf("%s %s: %d %s; want %d about %q", method, path, a.Status, a.Body, status, field)
	}
}

// nextInbox reads frames until one of the inbox.
func nextInbox(t *testing.T, l blackbox.Link) *blackbox.Inbox {
	t.Helper()
	for {
		f, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f.Inbox != nil {
			return f.Inbox
		}
	}
}

func TestInboxIsTheSameOverEveryTransport(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.keeps("first", nil)
	links := map[string]blackbox.Link{}
	for _, transport := range blackbox.Transports {
		l, err := w.server.Dial(t.Context(), transport, blackbox.Hello{Recipient: "ann", Device: transport})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Cut)
		if f, err := l.Next(t.Context()); err != nil || f.Welcome == nil || f.Welcome.Inbox == nil || f.Welcome.Inbox.Unseen != 1 {
			t.Fatalf("%s: welcome %+v, %v; want one unseen", transport, f, err)
		}
		links[transport] = l
	}
	w.keeps("second", nil)
	w.call(http.MethodPost, "/v1/inbox/first?to=ann", map[string]any{"read": true})
	for transport, l := range links {
		came, read := nextInbox(t, l), nextInbox(t, l)
		if came.Unseen != 2 || !slices.Equal(came.Changed, []string{"second"}) || read.Unread != 1 || !slices.Equal(read.Changed, []string{"first"}) ||
			len(came.Marked) > 0 || !slices.Equal(read.Marked, []blackbox.InboxMark{{ID: "first", Seen: true, Read: true}}) {
			t.Errorf("%s: %+v, then %+v", transport, came, read)
		}
	}
	stranger := w.server.Connect(t, "ws", blackbox.Hello{Recipient: "bob"})
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": "bob", "id": "plain", "title": "T"})
	if n, err := blackbox.NextNotification(t.Context(), stranger); err != nil || n.ID != "plain" {
		t.Errorf("bob got %+v, %v", n, err)
	}
}

func TestInboxItemShowsHowItWasAnswered(t *testing.T) {
	t.Parallel()
	w := begin(t)
	choices := map[string]any{"actions": []map[string]string{{"id": "yes", "title": "Yes"}, {"id": "no", "title": "No"}}, "reply_by": "1h"}
	for _, id := range []string{"called", "framed", "told"} {
		w.keeps(id, choices)
	}
	w.keeps("plain", nil)
	links, session := map[string]blackbox.Link{}, ""
	for _, transport := range blackbox.Transports {
		l, err := w.server.Dial(t.Context(), transport, blackbox.Hello{Recipient: "ann", Device: transport})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Cut)
		f, err := l.Next(t.Context())
		if err != nil || f.Welcome == nil {
			t.Fatalf("%s: %+v, %v", transport, f, err)
		}
		if links[transport] = l; transport == "sse" {
			session = f.Welcome.Session
		}
	}
	reply := func(id string, data any) {
		t.Helper()
		frame := map[string]any{"reply": map[string]any{"id": id, "data": data}}
		w.call(http.MethodPost, "/v1/frames", map[string]any{"session": session, "frames": []any{frame}})
	}
	if it := w.marked("called", map[string]any{"answered": "yes"}); it["answered"] != "yes" || it["answered_at"] == nil || it["read_at"] == nil || it["seen_at"] == nil {
		t.Errorf("answered by a call: %v", it)
	}
	if it := w.marked("called", map[string]any{"answered": "no", "archived": true}); it["answered"] != "yes" || it["archived_at"] == nil {
		t.Errorf("answered again: %v", it)
	}
	w.replied("called", "yes")
	for transport, l := range links {
		if in := nextInbox(t, l); !slices.Equal(in.Changed, []string{"called"}) || !slices.Equal(in.Marked, []blackbox.InboxMark{{ID: "called", Seen: true, Read: true, Answered: "yes"}}) {
			t.Errorf("%s: %+v", transport, in)
		}
	}
	reply("framed", map[string]string{"action": "no"})
	blackbox.Eventually(t, "the answer of a frame", func() error {
		if it := w.kept("framed"); it["answered"] != "no" {
			return fmt.Errorf("the item is %v", it)
		}
		return nil
	})
	w.replied("framed", "no")
	reply("told", map[string]string{"text": "maybe"})
	w.server.Kill()
	if err := w.server.Launch(); err != nil {
		t.Fatal(err)
	}
	w.api = w.server.API()
	for id, want := range map[string]any{"called": "yes", "framed": "no", "told": nil, "plain": nil} {
		if it := w.kept(id); it["answered"] != want {
			t.Errorf("after a kill %s is %v, want %v", id, it, want)
		}
	}
	w.wantProblem(http.MethodPost, "/v1/inbox/told?to=ann", map[string]any{"answered": "perhaps"}, http.StatusBadRequest, "answered")
	w.wantProblem(http.MethodPost, "/v1/inbox/plain?to=ann", map[string]any{"answered": "yes"}, http.StatusBadRequest, "answered")
	w.wantProblem(http.MethodPost, "/v1/inbox/told?to=ann", map[string]any{"answered": "yes", "read": false}, http.StatusBadRequest, "read")
	w.wantProblem(http.MethodPost, "/v1/inbox/nothing?to=ann", map[string]any{"answered": "yes"}, http.StatusNotFound, "")
}

// kept reads an item of ann's inbox.
func (w *world) kept(id string) (it map[string]any) {
	w.Helper()
	if err := w.call(http.MethodGet, "/v1/inbox/"+id+"?to=ann", nil).JSON(&it); err != nil {
		w.Fatal(err)
	}
	return it
}

// marked changes an item of ann's inbox.
func (w *world) marked(id string, marks map[string]any) map[string]any {
	w.Helper()
	var answer struct{ Item map[string]any }
	if err := w.call(http.MethodPost, "/v1/inbox/"+id+"?to=ann", marks).JSON(&answer); err != nil {
		w.Fatal(err)
	}
	return answer.Item
}

// replied waits for the status replied of a notification to ann, with an action.
func (w *world) replied(id, action string) {
	w.Helper()
	blackbox.Eventually(w.T, id+" is answered", func() error {
		var s struct {
			Status string
			Reply  struct{ Data struct{ Action string } }
		}
		if err := w.call(http.MethodGet, "/v1/notifications/"+id+"?to=ann", nil).JSON(&s); err != nil || s.Status != "replied" || s.Reply.Data.Action != action {
			return fmt.Errorf("it is %+v, %w", s, err)
		}
		return nil
	})
}

func TestInboxOutlivesDeliveryAndAKill(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.call(http.MethodPut, "/v1/categories/post", map[string]any{"inbox": true, "keep": "90d"})
	w.keeps("own", map[string]any{"actions": []map[string]string{{"id": "see", "title": "See", "url": "https://example.org"}}})
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": "ann", "id": "by-category", "title": "T", "category": "post"})
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": "ann", "id": "not", "title": "T", "category": "post", "inbox": false})
	w.keeps("recalled", nil)
	l := w.server.Connect(t, "ws", blackbox.Hello{Recipient: "ann"})
	for range 4 {
		n, err := blackbox.NextNotification(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Ack(t.Context(), n.ID); err != nil {
			t.Fatal(err)
		}
	}
	w.wantInbox("", "recalled", "by-category", "own")
	blackbox.Eventually(t, "the acknowledgement", func() error {
		var s struct{ Status string }
		if err := w.call(http.MethodGet, "/v1/notifications/recalled?to=ann", nil).JSON(&s); err != nil || s.Status != "acked" {
			return fmt.Errorf("it is %s, %w", s.Status, err)
		}
		return nil
	})
	w.call(http.MethodDelete, "/v1/notifications/recalled?to=ann", nil)
	w.call(http.MethodPost, "/v1/inbox/own?to=ann", map[string]any{"read": true, "pinned": true})
	w.server.Kill()
	if err := w.server.Launch(); err != nil {
		t.Fatal(err)
	}
	w.api = w.server.API()
	p := w.wantInbox("", "by-category", "own")
	if p.Unseen != 1 || p.Unread != 1 || p.Items[1].ReadAt == nil || len(p.Items[1].Actions) != 1 || p.Items[1].Actions[0].URL != "https://example.org" {
		t.Errorf("after a kill: %+v", p)
	}
	w.call(http.MethodDelete, "/v1/recipients/ann", nil)
	if p := w.inbox("&state=all"); p.Total != 0 || len(p.Items) != 0 {
		t.Errorf("after the erasure: %+v", p)
	}
}

func TestInboxPagesAndMarksWhatWasShown(t *testing.T) {
	t.Parallel()
	w := begin(t)
	for i := range 5 {
		w.keeps(fmt.Sprint("n", i), map[string]any{"category": fmt.Sprint("c", i%2)})
	}
	first := w.wantInbox("&limit=2", "n4", "n3")
	w.keeps("meanwhile", nil)
	w.call(http.MethodPost, "/v1/inbox/seen?to=ann", map[string]any{"until": *first.NextCursor})
	w.wantInbox("&state=unseen", "meanwhile", "n2", "n1", "n0")
	w.wantInbox("&limit=2&cursor="+*first.NextCursor, "n2", "n1")
	w.wantInbox("&category=c1", "n3", "n1")
	w.call(http.MethodPost, "/v1/inbox/archived?to=ann", map[string]any{"category": "c1"})
	w.wantInbox("&state=archived", "n3", "n1")
	w.call(http.MethodPost, "/v1/inbox/read?to=ann", nil)
	if p := w.wantInbox("&state=unread"); p.Unseen != 0 || p.Unread != 0 || p.Total != 6 {
		t.Errorf("counts %+v", p)
	}

	a := w.call(http.MethodGet, "/v1/inbox?to=ann&limit=1", nil)
	again := func() int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.api.Base+"/v1/inbox?to=ann&limit=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+w.api.Key)
		r.Header.Set("If-None-Match", a.Header.Get("ETag"))
		res, err := w.api.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if status := again(); status != http.StatusNotModified {
		t.Errorf("an inbox that is as it was: %d", status)
	}
	w.keeps("news", nil)
	if status := again(); status != http.StatusOK {
		t.Errorf("an inbox that has changed: %d", status)
	}

	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": "bob", "id": "his", "title": "T", "inbox": true})
	var his inboxPage
	if err := w.call(http.MethodGet, "/v1/inbox?to=bob", nil).JSON(&his); err != nil {
		t.Fatal(err)
	}
	w.wantProblem(http.MethodGet, "/v1/inbox?to=ann&cursor="+his.Until, nil, http.StatusBadRequest, "cursor")
	w.wantProblem(http.MethodPost, "/v1/inbox/seen?to=ann", map[string]any{"until": his.Until}, http.StatusBadRequest, "until")
	w.wantProblem(http.MethodPost, "/v1/inbox/his?to=ann", map[string]any{"read": true}, http.StatusNotFound, "")
	w.wantProblem(http.MethodGet, "/v1/inbox/his?to=ann", nil, http.StatusNotFound, "")
	w.wantProblem(http.MethodPost, "/v1/inbox/n0?to=ann", map[string]any{}, http.StatusBadRequest, "read")
	w.wantProblem(http.MethodPost, "/v1/inbox/n0?to=ann", map[string]any{"seen": false, "read": true}, http.StatusBadRequest, "seen")
	w.wantProblem(http.MethodGet, "/v1/inbox?to=ann&state=new", nil, http.StatusBadRequest, "state")
}

func TestInboxRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	w := begin(t)
	type object = map[string]any
	for field, more := range map[string]object{
		"keep":          {"keep": "366d"},
		"id":            {"id": "seen"},
		"category":      {"category": strings.Repeat("c", 129)},
		"actions":       {"actions": slices.Repeat([]object{{"id": "a", "title": "A"}}, 6)},
		"actions.url":   {"actions": []object{{"id": "a", "title": "A", "url": "JavaScript:alert(1)"}}},
		"actions.id":    {"actions": []object{{"id": "a", "title": "A"}, {"id": "a", "title": "B"}}},
		"actions.title": {"actions": []object{{"id": "a"}}},
	} {
		body := object{"to": "ann", "title": "T", "inbox": true}
		for name, v := range more {
			body[name] = v
		}
		w.wantProblem(http.MethodPost, "/v1/notifications", body, http.StatusBadRequest, field)
	}
	w.wantProblem(http.MethodPost, "/v1/notifications", object{"to": "ann", "title": "T", "keep": "1h"}, http.StatusBadRequest, "keep")
	w.wantProblem(http.MethodPut, "/v1/categories/post", object{"keep": "1h"}, http.StatusBadRequest, "keep")
	w.wantInbox("")
}

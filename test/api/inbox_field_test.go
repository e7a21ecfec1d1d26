package api

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// agree compares all ways to learn an inbox's counts: the list, the calls, a welcome.
func (w *world) agree(when string) (unseen, unread int) {
	w.Helper()
	var counts struct{ Unseen, Unread, Total int }
	if err := w.call(http.MethodGet, "/v1/inbox/counts?to=ann", nil).JSON(&counts); err != nil {
		w.Fatal(err)
	}
	listed := map[string]int{}
	for _, state := range []string{"unseen", "unread", "all", "archived"} {
		for cursor := ""; ; {
			p := w.inbox("&limit=100&state=" + state + cursor)
			if p.Unseen != counts.Unseen || p.Unread != counts.Unread || p.Total != counts.Total {
				w.Errorf("%s, a page of %s counts %+v, the counts are %+v", when, state, p, counts)
			}
			if listed[state] += len(p.Items); p.NextCursor == nil {
				break
			}
			cursor = "&cursor=" + *p.NextCursor
		}
	}
	if listed["unseen"] != counts.Unseen || listed["unread"] != counts.Unread || listed["all"]+listed["archived"] != counts.Total {
		w.Errorf("%s, there are %v, the counts are %+v", when, listed, counts)
	}
	l, err := w.server.Dial(w.Context(), "ws", blackbox.Hello{Recipient: "ann"})
	if err != nil {
		w.Fatal(err)
	}
	defer l.Cut()
	if f, err := l.Next(w.Context()); err != nil || f.Welcome == nil || f.Welcome.Inbox == nil || f.Welcome.Inbox.Unseen != counts.Unseen || f.Welcome.Inbox.Unread != counts.Unread {
		w.Errorf("%s, the welcome is %+v, %v; want %+v", when, f, err, counts)
	}
	return counts.Unseen, counts.Unread
}

// settled makes the first write to a connection settle a notification.
var settled = map[string]any{"ack": "none"}

// TestInboxCountsOfTheField tries what public reports say of unread counts; docs/field-cases.md names them.
func TestInboxCountsOfTheField(t *testing.T) {
	t.Parallel()
	w := begin(t)
	here := w.server.Connect(t, "ws", blackbox.Hello{Recipient: "ann"})
	go func() { // takes what comes, until the connection ends
		for _, err := here.Next(t.Context()); err == nil; {
			_, err = here.Next(t.Context())
		}
	}()

	// The first item of a new recipient counts.
	w.keeps("first", settled)
	if unseen, unread := w.agree("after the first item"); unseen != 1 || unread != 1 {
		t.Errorf("the first item counts %d unseen, %d unread", unseen, unread)
	}

	// To mark as unread what is unread, or as read what is read, changes nothing.
	for _, read := range []bool{false, false, true, true} {
		w.call(http.MethodPost, "/v1/inbox/first?to=ann", map[string]any{"read": read})
	}
	if _, unread := w.agree("after marking twice"); unread != 0 {
		t.Errorf("%d are unread after marking twice", unread)
	}

	// Items come while others are marked.
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 40 {
				w.keeps(fmt.Sprintf("%d-%d", g, i), settled)
			}
		})
		wg.Go(func() {
			for i := range 40 {
				switch i % 4 {
				case 0:
					w.call(http.MethodPost, "/v1/inbox/seen?to=ann", nil)
				case 1:
					w.call(http.MethodPost, "/v1/inbox/read?to=ann", nil)
				case 2:
					w.call(http.MethodPost, "/v1/inbox/first?to=ann", map[string]any{"archived": g%2 == 0})
				default:
					w.call(http.MethodPost, "/v1/inbox/first?to=ann", map[string]any{"read": g%2 == 0})
				}
			}
		})
	}
	wg.Wait()
	w.agree("after publishing and marking at the same time")

	// Connected sessions are told of a withdrawal.
	w.call(http.MethodPost, "/v1/inbox/read?to=ann", nil)
	w.keeps("withdrawn", settled)
	l := w.server.Connect(t, "ws", blackbox.Hello{Recipient: "ann"})
	w.call(http.MethodDelete, "/v1/notifications/withdrawn?to=ann", nil)
	if in := nextInbox(t, l); in.Unseen != 0 || in.Unread != 0 {
		t.Errorf("after the withdrawal the frame says %+v", in)
	}
	w.agree("after the withdrawal")

	// An inbox has an end, and marking a full one changes what is unread alone.
	for g := range 4 {
		wg.Go(func() {
			for i := range 260 {
				w.keeps(fmt.Sprintf("many-%d-%d", g, i), settled)
			}
		})
	}
	wg.Wait()
	if p := w.inbox(""); p.Total != 1000 {
		t.Errorf("the inbox has %d items, want 1000", p.Total)
	}
	w.agree("of a full inbox")
	w.call(http.MethodPost, "/v1/inbox/read?to=ann", nil)
	if unseen, unread := w.agree("after marking a full inbox"); unseen != 0 || unread != 0 {
		t.Errorf("after marking all of a full inbox %d are unseen, %d unread", unseen, unread)
	}
}

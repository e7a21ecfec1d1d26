package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// kept makes inboxes keep a notification.
func kept(keep time.Duration) change {
	return func(n *notification.Notification) { n.Content.Inbox = &notification.Inbox{Keep: keep} }
}

const month = 30 * 24 * time.Hour

func category(name string) change {
	return func(n *notification.Notification) { n.Content.Category = name }
}

func (e *env) inboxes() inbox.Store {
	e.Helper()
	in, ok := e.s.(inbox.Store)
	if !ok {
		e.Fatal("the store has no inboxes; leave out the ability Inbox")
	}
	return in
}

func (e *env) inbox(to string, q inbox.Query) inbox.Page {
	e.Helper()
	if q.Limit == 0 {
		q.Limit = inbox.MaxKept
	}
	page, err := e.inboxes().Inbox(e.Context(), App, to, q)
	if err != nil {
		e.Fatalf("inbox of %s: %v", to, err)
	}
	return page
}

// wantInbox checks what is in an inbox, newest first.
func (e *env) wantInbox(to string, s inbox.State, ids ...string) inbox.Page {
	e.Helper()
	page := e.inbox(to, inbox.Query{State: s})
	wantIDs(e, fmt.Sprintf("inbox of %s, %s", to, s), keptIDs(page.Items), ids)
	return page
}

func keptIDs(items []inbox.Item) (ids []string) {
	for _, it := range items {
		ids = append(ids, it.ID)
	}
	return ids
}

// wantCounts checks the counts of an inbox, and compares all inboxes with theirs.
func (e *env) wantCounts(to string, unseen, unread int) inbox.Counts {
	e.Helper()
	c, err := e.inboxes().InboxCounts(e.Context(), App, to)
	if err != nil || c.Unseen != unseen || c.Unread != unread {
		e.Fatalf("inbox of %s: %+v, %v; want %d unseen, %d unread", to, c, err, unseen, unread)
	}
	e.checked()
	return c
}

// checked compares all inboxes with their counts and contents.
func (e *env) checked() inbox.Checked {
	e.Helper()
	all, err := e.inboxes().CheckInboxes(e.Context(), func(app, recipient, problem string) { e.Errorf("inbox of %s in %s: %s", recipient, app, problem) })
	if err != nil || all.Items != all.References {
		e.Fatalf("check of inboxes: %+v, %v; want as many references as items", all, err)
	}
	return all
}

func (e *env) mark(to string, m inbox.Mark) inbox.Counts {
	e.Helper()
	if m.ID == "" && m.To == 0 {
		m.From, m.To = 1, math.MaxUint64
	}
	m.At = e.clock.Now()
	c, err := e.inboxes().MarkInbox(e.Context(), App, to, m)
	if err != nil {
		e.Fatalf("mark %+v in the inbox of %s: %v", m, to, err)
	}
	return c
}

var yes, no = ptr(true), ptr(false)

func ptr[T any](v T) *T { return &v }

var inboxCases = []testCase{
	{"InboxKeepsWhatWasPublishedForIt", []Ability{Inbox}, func(e *env) {
		e.wantCounts("r", 0, 0)
		e.stored(e.note("plain"), "r")
		e.wantInbox("r", inbox.All)
		actions := []notification.Action{{ID: "ok", Title: "OK"}, {ID: "see", Title: "See", URL: "https://example.org"}}
		e.stored(e.note("a", kept(month), func(n *notification.Notification) { n.Content.Inbox.Actions = actions }), "r")
		e.clock.Advance(time.Second)
		e.stored(e.note("b", kept(time.Hour), category("other")), "r", "s")
		e.acked("r", "a")
		e.acked("r", "b")
		e.acked("s", "b")
		for range 2 {
			page := e.wantInbox("r", inbox.All, "b", "a")
			if c := page.Categories; len(c) != 2 || c["C"] != (inbox.Count{Unseen: 1, Unread: 1}) || c["other"] != (inbox.Count{Unseen: 1, Unread: 1}) {
				e.Errorf("counts by category %+v", c)
			}
			a := page.Items[1]
			if a.Content.Title != "T" || string(a.Content.Data) != `{"k":1}` || !slices.Equal(a.Content.Inbox.Actions, actions) || !a.CreatedAt.Equal(e.clock.Now().Add(-time.Second)) {
				e.Errorf("the item is %+v", a)
			}
			if keep := a.KeptUntil.Sub(a.CreatedAt); keep < month || keep > month+time.Minute {
				e.Errorf("it is kept for %s", keep)
			}
			e.wantInbox("s", inbox.Unseen, "b")
			e.wantCounts("r", 2, 2)
			e.wantCounts("s", 1, 1)
			e.reopen()
		}
	}},
	{"InboxStatesCountOnce", []Ability{Inbox}, func(e *env) {
		for _, id := range []string{"a", "b", "c"} {
			e.stored(e.note(id, kept(month)), "r")
		}
		if c := e.mark("r", inbox.Mark{ID: "a", Read: yes}); c.Unseen != 2 || c.Unread != 2 {
			e.Errorf("after one was read: %+v", c)
		}
		e.mark("r", inbox.Mark{ID: "a", Read: yes})
		e.wantCounts("r", 2, 2)
		e.mark("r", inbox.Mark{Seen: yes})
		e.wantCounts("r", 0, 2)
		e.mark("r", inbox.Mark{ID: "a", Read: no})
		e.wantCounts("r", 0, 3)
		e.mark("r", inbox.Mark{ID: "b", Archived: yes})
		e.wantCounts("r", 0, 2)
		e.wantInbox("r", inbox.All, "c", "a")
		e.wantInbox("r", inbox.Archived, "b")
		e.mark("r", inbox.Mark{ID: "b", Archived: no, Pinned: yes})
		e.wantInbox("r", inbox.Pinned, "b")
		e.wantCounts("r", 0, 3)
		e.reopen()
		e.mark("r", inbox.Mark{Read: yes})
		e.wantCounts("r", 0, 0)
		e.mark("r", inbox.Mark{ID: "c", Seen: no})
		e.wantCounts("r", 1, 1)
		var seen, read, archived []string
		for _, c := range e.rec.All().Inboxes {
			seen, read, archived = append(seen, refIDs(c.Seen)...), append(read, refIDs(c.Read)...), append(archived, refIDs(c.Archived)...)
		}
		slices.Sort(seen)
		wantIDs(e, "seen", seen, []string{"a", "b", "c"})
		slices.Sort(read[1:])
		wantIDs(e, "read", read, []string{"a", "a", "b", "c"})
		wantIDs(e, "archived", archived, []string{"b"})
	}},
	{"InboxKeepsTheFirstAnswer", []Ability{Inbox}, func(e *env) {
		for _, id := range []string{"a", "b"} {
			e.stored(e.note(id, kept(month)), "r")
		}
		e.mark("r", inbox.Mark{ID: "a", Answered: "yes"})
		at := e.clock.Now().Truncate(time.Millisecond)
		e.clock.Advance(time.Minute)
		e.mark("r", inbox.Mark{ID: "a", Answered: "no"})
		e.mark("r", inbox.Mark{ID: "b", Read: yes})
		e.wantCounts("r", 0, 0)
		var told []inbox.Marked
		for _, c := range e.rec.All().Inboxes {
			told = append(told, c.Marked...)
		}
		if !slices.Equal(told, []inbox.Marked{{ID: "a", Seen: true, Read: true, Answered: "yes"}, {ID: "b", Seen: true, Read: true}}) {
			e.Errorf("told of %+v", told)
		}
		for i := range 60 { // until it is in a part
			e.stored(e.note(fmt.Sprint(i), kept(month)), "r")
			e.acked("r", fmt.Sprint(i))
		}
		for range 2 {
			for id, want := range map[string]string{"a": "yes", "b": ""} {
				it, err := e.inboxes().InboxItem(e.Context(), App, "r", id)
				if err != nil || it.Answered != want || want != "" && (!it.AnsweredAt.Equal(at) || !it.ReadAt.Equal(at) || !it.SeenAt.Equal(at)) {
					e.Errorf("%s: %+v, %v; want answer %q of %s", id, it, err, want, at)
				}
			}
			e.mark("r", inbox.Mark{ID: "a", Archived: yes})
			e.reopen()
		}
	}},
	{"InboxSaysWhenItsCountMovesByItself", []Ability{Inbox, Collapse}, func(e *env) {
		moved := func(what string, want bool) {
			e.Helper()
			all := e.rec.All().Inboxes
			if got := all[len(all)-1].Moved; got != want {
				e.Errorf("%s: moved %t, want %t", what, got, want)
			}
		}
		e.stored(e.note("a", kept(month), collapse("k")), "r")
		moved("an item came", false)
		e.stored(e.note("b", kept(month), collapse("k")), "r")
		moved("an item replaced another", false)
		e.stored(e.note("c", kept(2*time.Hour)), "r")
		e.mark("r", inbox.Mark{ID: "b", Pinned: yes})
		moved("an item was pinned", false)
		e.mark("r", inbox.Mark{ID: "b", Seen: yes})
		moved("an item was seen", true)
		e.mark("r", inbox.Mark{ID: "b", Read: yes})
		moved("what was seen was read", false)
		e.mark("r", inbox.Mark{ID: "b", Seen: no})
		moved("an item is new again", true)
		e.stored(e.note("d", collapse("k")), "r")
		moved("an item was replaced by what is not kept", true)
		e.clock.Advance(3 * time.Hour)
		e.sweep(1)
		moved("an item went at its time", true)
	}},
	{"InboxMarksOnlyWhatWasShown", []Ability{Inbox}, func(e *env) {
		e.stored(e.note("a", kept(month), category("x")), "r")
		e.stored(e.note("b", kept(month)), "r")
		page := e.wantInbox("r", inbox.All, "b", "a")
		e.stored(e.note("c", kept(month), category("x")), "r")
		e.mark("r", inbox.Mark{From: page.Items[0].Place, To: page.Newest, Seen: yes})
		e.wantInbox("r", inbox.Unseen, "c", "a")
		e.mark("r", inbox.Mark{Category: ptr("x"), Read: yes})
		e.wantInbox("r", inbox.Unread, "b")
		e.wantCounts("r", 0, 1)
	}},
	{"InboxOfAnotherHasNothingToMark", []Ability{Inbox}, func(e *env) {
		e.stored(e.note("a", kept(month)), "r")
		e.stored(e.note("plain"), "s")
		for _, to := range []string{"s", "nobody"} {
			if _, err := e.inboxes().MarkInbox(e.Context(), App, to, inbox.Mark{ID: "a", Read: yes, At: e.clock.Now()}); !errors.Is(err, inbox.ErrNotFound) {
				e.Errorf("marking a's item for %s: %v", to, err)
			}
			if _, err := e.inboxes().InboxItem(e.Context(), App, to, "a"); !errors.Is(err, inbox.ErrNotFound) {
				e.Errorf("reading it for %s: %v", to, err)
			}
		}
		e.wantCounts("r", 1, 1)
	}},
	{"InboxForgetsWhatIsWithdrawn", []Ability{Inbox, Recall}, func(e *env) {
		e.stored(e.note("a", kept(month)), "r", "s")
		e.acked("r", "a")
		n, err := e.inboxes().LeaveInbox(e.Context(), App, "a", []string{"r", "nobody"})
		if err != nil || n != 1 {
			e.Errorf("withdrawn from %d, %v; want 1", n, err)
		}
		e.wantCounts("r", 0, 0)
		e.wantInbox("s", inbox.All, "a")
		e.wantCounts("s", 1, 1)
		if n, err := e.inboxes().LeaveInbox(e.Context(), App, "a", []string{"r"}); err != nil || n != 0 {
			e.Errorf("withdrawn again from %d, %v; want 0", n, err)
		}
	}},
	{"InboxReplacesByCollapseKey", []Ability{Inbox, Collapse}, func(e *env) {
		e.stored(e.note("a", kept(month), collapse("k")), "r", "s")
		e.stored(e.note("other", kept(month), collapse("l")), "r")
		e.acked("r", "a")
		e.stored(e.note("b", kept(month), collapse("k")), "r")
		e.wantInbox("r", inbox.All, "b", "other")
		e.wantInbox("s", inbox.All, "a")
		e.stored(e.note("c", collapse("k")), "r") // not for the inbox itself
		e.wantInbox("r", inbox.All, "other")
		e.wantCounts("r", 1, 1)
		for i := range 100 {
			e.stored(e.note(fmt.Sprint(i), kept(month)), "r")
			e.acked("r", fmt.Sprint(i))
		}
		e.reopen()
		e.stored(e.note("d", kept(month), collapse("l")), "r")
		if page := e.inbox("r", inbox.Query{}); len(page.Items) != 101 || page.Items[0].ID != "d" || slices.Contains(keptIDs(page.Items), "other") {
			e.Errorf("after a replacement of an old one: %v", keptIDs(page.Items))
		}
		e.wantCounts("r", 101, 101)
	}},
	{"InboxKeepsForItsTimeWhateverBecomesOfTheCopy", []Ability{Inbox}, func(e *env) {
		e.stored(e.note("short", kept(2*time.Hour), ttl(time.Minute)), "r")
		e.stored(e.note("long", kept(month)), "r")
		e.clock.Advance(time.Hour)
		e.expireAll()
		e.wantInbox("r", inbox.All, "long", "short")
		e.sweep(0)
		e.clock.Advance(time.Hour + 2*time.Minute)
		e.sweep(1)
		e.wantInbox("r", inbox.All, "long")
		e.wantCounts("r", 1, 1)
		e.reopen()
		e.clock.Advance(month)
		e.sweep(1)
		e.wantInbox("r", inbox.All)
		e.wantCounts("r", 0, 0)
	}},
	{"InboxGetsWhatIsScheduledWhenItIsDue", []Ability{Inbox}, func(e *env) {
		e.stored(e.note("later", kept(month), sendAfter(time.Hour, time.Hour)), "r", "s")
		e.stored(e.note("now", kept(month)), "r")
		e.wantInbox("r", inbox.All, "now")
		e.reopen()
		e.clock.Advance(time.Hour)
		if _, err := e.s.Due(e.Context(), e.clock.Now()); err != nil {
			e.Fatal(err)
		}
		page := e.wantInbox("r", inbox.All, "later", "now")
		if !page.Items[0].CreatedAt.Equal(e.clock.Now().Truncate(time.Millisecond)) {
			e.Errorf("it came at %s, want %s", page.Items[0].CreatedAt, e.clock.Now())
		}
		e.wantInbox("s", inbox.All, "later")
		e.wantCounts("r", 2, 2)
	}},
	{"InboxHasAThousandAtMost", []Ability{Inbox}, func(e *env) {
		batch := make([]*mailbox.Append, 0, 100)
		id := func(i int) string { return fmt.Sprintf("n%04d", i) }
		for i := range inbox.MaxKept + 100 {
			batch = append(batch, &mailbox.Append{N: e.note(id(i), kept(month)), To: []string{"r"}})
			if len(batch) < 100 {
				continue
			}
			e.storedAtOnce(batch...)
			acks := make([]*mailbox.Settle, len(batch))
			for i := range batch {
				acks[i] = e.ackOf("r", batch[i].N.ID)
			}
			e.ackedAtOnce(acks...)
			if batch = batch[:0]; i == 99 {
				e.mark("r", inbox.Mark{ID: id(3), Pinned: yes})
			}
		}
		page := e.inbox("r", inbox.Query{})
		if len(page.Items) != inbox.MaxKept || page.Items[0].ID != id(inbox.MaxKept+99) || page.Items[inbox.MaxKept-1].ID != id(3) || page.Items[inbox.MaxKept-2].ID != id(101) {
			e.Errorf("%d items, %s to %s and %s", len(page.Items), page.Items[0].ID, page.Items[len(page.Items)-2].ID, page.Items[len(page.Items)-1].ID)
		}
		e.wantCounts("r", inbox.MaxKept, inbox.MaxKept)
		var got []string
		for q := (inbox.Query{Limit: 37}); ; {
			p := e.inbox("r", q)
			got = append(got, keptIDs(p.Items)...)
			if !p.More {
				break
			}
			q.Before = p.Items[len(p.Items)-1].Place
		}
		wantIDs(e, "all pages", got, keptIDs(page.Items))
		e.reopen()
		e.mark("r", inbox.Mark{Read: yes})
		e.wantCounts("r", 0, 0)
	}},
	{"InboxesAreCountedTogether", []Ability{Inbox}, func(e *env) {
		e.stored(e.note("a", kept(month)), "r", "s")
		e.stored(e.note("b", kept(month)), "s")
		e.stored(e.note("plain"), "t")
		of := []inbox.Owner{{App: App, Recipient: "s"}, {App: App, Recipient: "nobody"}, {App: App, Recipient: "r"}, {App: App, Recipient: "t"}, {App: App, Recipient: "s"}}
		list, err := e.inboxes().CountInboxes(e.Context(), of)
		if err != nil || len(list) != len(of) {
			e.Fatalf("%d counts of %d, %v", len(list), len(of), err)
		}
		for i, o := range of {
			if want := e.inbox(o.Recipient, inbox.Query{}).Counts; list[i].Count != want.Count || list[i].Revision != want.Revision || list[i].Total != want.Total {
				e.Errorf("%s: %+v, want %+v", o.Recipient, list[i], want)
			}
		}
	}},
	{"InboxIsErasedWithItsRecipient", []Ability{Inbox}, func(e *env) {
		for i := range 150 {
			e.stored(e.note(fmt.Sprint(i), kept(month)), "r", "s")
			e.acked("r", fmt.Sprint(i))
			e.acked("s", fmt.Sprint(i))
		}
		was := e.wantCounts("r", 150, 150)
		if err := e.s.Erase(e.Context(), App, "r"); err != nil {
			e.Fatal(err)
		}
		e.wantInbox("r", inbox.All)
		e.wantCounts("s", 150, 150)
		if all := e.checked(); all.Inboxes != 1 {
			e.Errorf("there are %d inboxes, want that of s", all.Inboxes)
		}
		e.stored(e.note("anew", kept(month)), "r")
		if is := e.wantCounts("r", 1, 1); is.Revision == was.Revision {
			e.Error("the new inbox has a revision of the old one")
		}
		for _, name := range []string{"r", "s"} {
			if err := e.s.Erase(e.Context(), App, name); err != nil {
				e.Fatal(err)
			}
		}
		if all := e.checked(); all != (inbox.Checked{}) {
			e.Errorf("after both were erased there is %+v", all)
		}
	}},
	{"InboxHasEveryFormOfID", []Ability{Inbox}, func(e *env) {
		ids := []string{
			"01M8KPGKRRMM0MC6PSZKJB0BVM", "01m8kpgkrrmm0mc6pszkjb0bvm", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "123e4567-e89b-12d3-a456-426614174000",
			"123E4567-e89b-12d3-a456-426614174000", "123e4567+e89b-12d3-a456-426614174000", strings.Repeat("x", notification.MaxNameBytes), "x",
		}
		for _, id := range ids {
			e.stored(e.note(id, kept(month)), "r")
		}
		slices.Reverse(ids)
		e.wantInbox("r", inbox.All, ids...)
		e.reopen()
		for i, id := range ids {
			if c := e.mark("r", inbox.Mark{ID: id, Read: yes}); c.Unread != len(ids)-i-1 {
				e.Errorf("after %s was read %d are unread", id, c.Unread)
			}
		}
	}},
	{"InboxIsThereAfterACrash", []Ability{Inbox, Crash}, func(e *env) {
		if e.o.Crash == nil {
			e.Skip("this store cannot be crashed here")
		}
		e.stored(e.note("a", kept(month)), "r", "s")
		e.stored(e.note("b", kept(month)), "r")
		e.mark("r", inbox.Mark{ID: "a", Read: yes})
		e.use(e.o.Crash())
		e.wantInbox("r", inbox.Unread, "b")
		e.wantInbox("s", inbox.Unread, "a")
		e.wantCounts("r", 1, 1)
	}},
	{"InboxAgreesWithASimpleModel", []Ability{Inbox, Collapse, Recall}, inboxModel},
}

func refIDs(refs []inbox.Ref) (ids []string) {
	for _, r := range refs {
		ids = append(ids, r.ID)
	}
	return ids
}

func (e *env) expireAll() {
	e.Helper()
	if _, err := e.s.Expire(e.Context(), e.clock.Now()); err != nil {
		e.Fatal(err)
	}
}

// sweep removes what is kept no more, and checks how many that are.
func (e *env) sweep(want int) {
	e.Helper()
	got := 0
	for more := true; more; {
		var n int
		var err error
		if n, more, err = e.inboxes().SweepInboxes(e.Context(), e.clock.Now()); err != nil {
			e.Fatal(err)
		}
		got += n
	}
	if got != want {
		e.Fatalf("%d were kept no more, want %d", got, want)
	}
}

package move_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/move"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files maps each schema to its source file.
var files = map[string]string{
	"godwit_app": store.AppsFile, "godwit_mailbox": store.MailboxFile, "godwit_event": store.EventsFile, "godwit_object": store.ObjectsFile,
	"godwit_campaign": store.CampaignsFile,
}

// elsewhere says how tables are moved that are not copied one to one, or why they need not be.
var elsewhere = map[string]string{
	"godwit_mailbox.content":         "goes with its notifications",
	"godwit_mailbox.slice":           "is made of the log",
	"godwit_mailbox.block":           "is made of the log",
	"godwit_mailbox.erasure":         "what is being erased stays behind",
	"godwit_mailbox.erased":          "is of the last minute",
	"godwit_mailbox.meta":            "is in counters",
	"godwit_mailbox.plan":            "goes with next steps",
	"godwit_campaign.send_owner":     "starts anew",
	"godwit_campaign.delivery_owner": "is of a former version",
	"godwit_campaign.endpoint_app":   "is made when it is needed",
	"godwit_mailbox.pending":         "comes of notifications",
	"godwit_mailbox.hour":            "says which tables there are",
	"godwit_mailbox.day":             "says which tables there are",
	"godwit_mailbox.retention":       "is set every hour",
	"godwit_app.version":             "starts anew",
	"godwit_event.log":               "is in the head",
	"godwit_mailbox.settlement":      "is in the copies",
	"godwit_mailbox.outcome":         "is in the copies",
	"godwit_mailbox.pack":            "is in the copies",
	"godwit_event.head":              "is in the log",
	"godwit_event.emitter":           "is of servers that run",
	"godwit_mailbox.tried":           "tells more of copies that have ended; moved ones tell it no more",
}

// A new table of a store must be copied, or be listed as one that need not be.
func TestEveryTableIsCopied(t *testing.T) {
	data, url := t.TempDir(), pgtest.Database(t)
	s, err := store.Open(t.Context(), store.Config{Data: data})
	ok(t, err)
	ok(t, s.Close())
	_, err = store.MoveToPostgres(t.Context(), store.MoveConfig{Data: data, Postgres: url})
	ok(t, err)
	copied := move.Tables()
	known := func(schema, table string) bool {
		return elsewhere[schema+"."+table] != "" || slices.Contains(copied, [2]string{schema, table})
	}
	for schema, file := range files {
		for _, table := range tablesOf(t, data+"/"+file) {
			if !known(schema, table) {
				t.Errorf("%s of %s is not copied", table, file)
			}
		}
	}
	c, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	defer c.Close(context.Background())
	rows, err := c.Query(t.Context(), "SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'godwit%'")
	ok(t, err)
	var schema, table string
	_, err = pgx.ForEachRow(rows, []any{&schema, &table}, func() error {
		if timed, _, _ := strings.Cut(table, "_"); timed == "note" || timed == "done" || timed == "content" || timed == "stub" {
			return nil
		}
		if files[schema] != "" && table != "migration" && !known(schema, table) {
			t.Errorf("nothing is copied to %s.%s", schema, table)
		}
		return nil
	})
	ok(t, err)
}

// tablesOf lists the tables of a file that no process has open.
func tablesOf(t *testing.T, path string) (list []string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	ok(t, err)
	defer c.Close()
	ok(t, sqlitedb.EachOnce(c, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", nil, func(s *sqlite.Stmt) error {
		list = append(list, s.ColumnText(0))
		return nil
	}))
	return list
}

// TestPackedCopiesAreMoved moves packed copies with rows before, among and after them, in slices that end anywhere.
func TestPackedCopiesAreMoved(t *testing.T) {
	data, url := t.TempDir(), pgtest.Database(t)
	s, err := store.Open(t.Context(), store.Config{Data: data})
	ok(t, err)
	now := s.Clock().Truncate(time.Millisecond)
	publish := func(id string, to ...string) *mailbox.Append {
		a := &mailbox.Append{To: to, N: &notification.Notification{App: "app", ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour), Content: notification.Content{Title: id}}}
		ok(t, s.Mailbox.Append(t.Context(), []*mailbox.Append{a}))
		return a
	}
	settle := func(id, to string, q mailbox.Settle) {
		q.App, q.ID, q.Recipient, q.At = "app", id, to, now
		ok(t, s.Mailbox.Settle(t.Context(), []*mailbox.Settle{&q}))
	}
	var many []string
	for i := range 2500 { // more than a slice of rows
		many = append(many, fmt.Sprint("r", i))
	}
	publish("first", "r0")
	publish("many", many...)
	publish("lone", "r1")
	publish("again", many[:600]...)
	settle("many", "r7", mailbox.Settle{As: notification.Acked})
	settle("many", "r8", mailbox.Settle{As: notification.Failed, Nack: true, Reason: "full"})
	ok(t, s.Mailbox.Erase(t.Context(), "app", "r9"))
	read := func() map[string][]mailbox.Record {
		all := map[string][]mailbox.Record{}
		for _, to := range []string{"r0", "r1", "r7", "r8", "r599", "r600", "r1999", "r2499"} {
			list, _, err := s.Mailbox.History(t.Context(), "app", to, 0, 10, 0)
			ok(t, err)
			for i := range list {
				list[i].Pos = 0
			}
			all[to] = list
		}
		return all
	}
	want := read()
	ok(t, s.Close())
	_, err = store.MoveToPostgres(t.Context(), store.MoveConfig{Data: data, Postgres: url})
	ok(t, err)
	s, err = store.Open(t.Context(), store.Config{Postgres: url, Node: "n"})
	ok(t, err)
	defer s.Close()
	for to, list := range read() {
		if fmt.Sprint(list) != fmt.Sprint(want[to]) {
			t.Errorf("%s has\n%+v, want\n%+v", to, list, want[to])
		}
	}
	res, err := s.Mailbox.Pending(t.Context(), []mailbox.PendingQuery{{App: "app", Recipient: "r599"}})
	if err != nil || len(res[0].Items) != 2 || res[0].Items[0].N.Content.Title != "many" || res[0].LastSeq != 2 {
		t.Errorf("pending %+v, %v", res, err)
	}
	if _, err := s.Mailbox.Lookup(t.Context(), "app", "many", "r9"); !errors.Is(err, mailbox.ErrNotFound) {
		t.Errorf("what was erased: %v", err)
	}
}

// TestStepsThatWaitAreMoved checks that the next step of an escalation, and steps that were handed over, continue after the move.
func TestStepsThatWaitAreMoved(t *testing.T) {
	data, url := t.TempDir(), pgtest.Database(t)
	s, err := store.Open(t.Context(), store.Config{Data: data})
	ok(t, err)
	now := s.Clock().Truncate(time.Millisecond)
	plan := []notification.Step{{Channel: "webhook", After: time.Second}, {Channel: "fcm", After: time.Hour, StepOptions: notification.StepOptions{Keep: true}}}
	a := &mailbox.Append{To: []string{"r", "s", "t"}, N: &notification.Notification{App: "app", ID: "x", CreatedAt: now, ExpiresAt: now.Add(10 * time.Hour), Steps: plan}}
	ok(t, s.Mailbox.Append(t.Context(), []*mailbox.Append{a}))
	due, _, err := s.Steps.StepsDue(t.Context(), nil, now.Add(time.Second), 10)
	ok(t, err)
	if len(due) != 3 {
		t.Fatalf("due %v", due)
	}
	ref := mailbox.Ref{App: "app", Recipient: due[0].Recipient, Pos: due[0].Pos}
	send := escalation.Send{ID: [16]byte{7}, App: "app", Recipient: ref.Recipient, Note: "x", Pos: ref.Pos, Channel: push.Webhook, Endpoint: 3, ExpiresAt: now.Add(time.Hour)}
	ok(t, s.Sends.Hand(t.Context(), []escalation.Send{send}, now))
	ok(t, s.Steps.HandedOver(t.Context(), []mailbox.StepDone{{Ref: ref}}, now))
	ok(t, s.Mailbox.Settle(t.Context(), []*mailbox.Settle{{App: "app", Recipient: due[1].Recipient, ID: "x", As: notification.Acked, At: now}}))
	ok(t, s.Close())
	_, err = store.MoveToPostgres(t.Context(), store.MoveConfig{Data: data, Postgres: url})
	ok(t, err)
	s, err = store.Open(t.Context(), store.Config{Postgres: url, Node: "n"})
	ok(t, err)
	defer s.Close()
	moved, next, err := s.Steps.StepsDue(t.Context(), nil, now.Add(time.Second), 10)
	if err != nil || len(moved) != 1 || moved[0] != due[2] || !next.Equal(now.Add(time.Hour)) {
		t.Errorf("due %+v, next %s, %v; want %+v", moved, next, err, due[2])
	}
	if steps, n, err := s.Steps.StepsOf(t.Context(), ref); err != nil || n != 1 || !slices.Equal(steps, plan) {
		t.Errorf("steps %v, next %d, %v", steps, n, err)
	}
	ok(t, s.Mailbox.Settle(t.Context(), []*mailbox.Settle{{App: "app", Recipient: ref.Recipient, ID: "x", Pos: ref.Pos, As: notification.Acked, At: now}}))
	if _, next, err = s.Steps.StepsDue(t.Context(), nil, now, 10); err != nil || !next.Equal(now.Add(time.Second)) {
		t.Errorf("after an ack the next is at %s, %v", next, err)
	}
	if n, err := s.Sends.RecoverSends(t.Context(), "shop", nil, now); err != nil || n != 0 {
		t.Errorf("recovered %d, %v", n, err)
	}
	sends, err := s.Sends.DueSends(t.Context(), escalation.Place{App: "app", Channel: push.Webhook}, now.Add(time.Second), 10)
	if err != nil || len(sends) != 1 || sends[0].ID != send.ID || sends[0].Pos != ref.Pos {
		t.Errorf("sends %+v, %v", sends, err)
	}
}

// inboxesOf reads what recipients see of their inboxes.
func inboxesOf(t *testing.T, s *store.Stores, names ...string) (list []inbox.Page) {
	t.Helper()
	for _, name := range names {
		for _, state := range []inbox.State{inbox.All, inbox.Unread, inbox.Archived, inbox.Pinned} {
			page, err := s.Inboxes.Inbox(t.Context(), "app", name, inbox.Query{State: state, Limit: inbox.MaxKept})
			ok(t, err)
			list = append(list, page)
		}
	}
	return list
}

// TestInboxesAndOpenDigestsAreMoved checks that both go on after the move where they were.
func TestInboxesAndOpenDigestsAreMoved(t *testing.T) {
	data, url := t.TempDir(), pgtest.Database(t)
	s, err := store.Open(t.Context(), store.Config{Data: data})
	ok(t, err)
	now := s.Clock().Truncate(time.Millisecond)
	names := []string{"ann", "bob", "cat"}
	publish := func(s *store.Stores, id string, to ...string) {
		n := &notification.Notification{App: "app", ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour), Content: notification.Content{
			Title: id, Category: "c" + id[len(id)-1:], Inbox: &notification.Inbox{Keep: 24 * time.Hour, Actions: []notification.Action{{ID: "see", Title: "See"}}},
		}}
		ok(t, s.Mailbox.Append(t.Context(), []*mailbox.Append{{N: n, To: to}}))
	}
	for i := range 80 {
		publish(s, fmt.Sprint("n", i), names[:1+i%3]...)
	}
	yes := true
	mark := func(s *store.Stores, name string, m inbox.Mark) inbox.Counts {
		m.At = now
		counts, err := s.Inboxes.MarkInbox(t.Context(), "app", name, m)
		ok(t, err)
		return counts
	}
	for _, name := range names {
		mark(s, name, inbox.Mark{From: 1, To: 20, Seen: &yes})
		mark(s, name, inbox.Mark{From: 1, To: 7, Read: &yes})
		mark(s, name, inbox.Mark{ID: "n5", Archived: &yes})
		mark(s, name, inbox.Mark{ID: "n8", Pinned: &yes})
		ok(t, s.Mailbox.Settle(t.Context(), []*mailbox.Settle{{App: "app", Recipient: name, ID: "n5", As: notification.Acked, At: now}}))
	}
	_, err = s.Inboxes.LeaveInbox(t.Context(), "app", "n2", names)
	ok(t, err)
	gather := func(s *store.Stores, id string) digest.Result {
		l := &digest.Lot{App: "app", ID: id, To: []string{"ann"}, Category: "c", Key: "k", Created: now, Sum: []byte{1}, Body: []byte(id), Window: time.Hour, Most: 10}
		ok(t, s.Digests.Gather(t.Context(), []*digest.Lot{l}, now))
		return l.Results[0]
	}
	gather(s, "d1")
	waits := gather(s, "d2")
	want := inboxesOf(t, s, names...)
	ok(t, s.Close())
	_, err = store.MoveToPostgres(t.Context(), store.MoveConfig{Data: data, Postgres: url})
	ok(t, err)
	s, err = store.Open(t.Context(), store.Config{Postgres: url, Node: "n"})
	ok(t, err)
	defer s.Close()
	if got := inboxesOf(t, s, names...); !reflect.DeepEqual(got, want) {
		t.Errorf("moved inboxes are\n%+v, want\n%+v", got, want)
	}
	checked, err := s.Inboxes.CheckInboxes(t.Context(), func(_, recipient, problem string) { t.Errorf("inbox of %s: %s", recipient, problem) })
	if err != nil || checked.Inboxes != 3 || checked.Items != checked.References {
		t.Errorf("%+v, %v", checked, err)
	}
	publish(s, "after9", names...)
	if c := mark(s, "ann", inbox.Mark{ID: "after9", Read: &yes}); c.Total != want[0].Total+1 || c.Unread != want[0].Unread {
		t.Errorf("after one more, which is read, counts are %+v, were %+v", c, want[0].Counts)
	}
	if again := gather(s, "d3"); again.Digest != waits.Digest || again.Until != waits.Until {
		t.Errorf("a further item waits in %+v, want %+v", again, waits)
	}
	due, _, err := s.Digests.Due(t.Context(), now.Add(time.Hour), 10)
	ok(t, err)
	leaving, err := s.Digests.Seal(t.Context(), due, now)
	if err != nil || len(leaving) != 1 || leaving[0].Items != 3 || string(leaving[0].Newest[2].Body) != "d1" {
		t.Errorf("leaving %+v, %v", leaving, err)
	}
}

package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// keptItems is what inboxes have: the state of each item, by recipient and id.
type keptItems map[string]map[string]string

const boxOwners = 30

// inboxes fills a folder with inboxes of up to 70 items, in several states, whose contents are partly shared.
func inboxes(t *testing.T) (dir string, had keptItems) {
	t.Helper()
	dir = made(t)
	inStore(t, dir, func(s *store.Stores) {
		now := s.Clock()
		keep := func(id string, to ...string) {
			n := &notification.Notification{
				App: "demo", ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour), Ack: notification.AckNone,
				Content: notification.Content{Title: "T", Body: strings.Repeat("text ", 40), Category: "c" + id[:1], Inbox: &notification.Inbox{Keep: 24 * time.Hour}},
			}
			var ends []*mailbox.Settle
			for _, r := range to {
				ends = append(ends, &mailbox.Settle{App: "demo", Recipient: r, ID: id, As: notification.Delivered, At: now})
			}
			if err := errors.Join(s.Mailbox.Append(t.Context(), []*mailbox.Append{{N: n, To: to}}), s.Mailbox.Settle(t.Context(), ends)); err != nil {
				t.Fatal(err)
			}
		}
		var all []string
		for r := range boxOwners {
			name := fmt.Sprintf("r%02d", r)
			all = append(all, name)
			for i := range 1 + (r*13)%65 {
				keep(fmt.Sprintf("%d-own-%s", i, name), name)
			}
		}
		for i := range 5 {
			keep(fmt.Sprintf("%d-shared", i), all...)
		}
		yes := true
		for _, m := range []inbox.Mark{{ID: "1-shared", Read: &yes}, {ID: "2-shared", Archived: &yes}, {ID: "3-shared", Pinned: &yes}, {From: 1, To: 20, Seen: &yes}} {
			for _, name := range all {
				m.At = now
				if _, err := s.Inboxes.MarkInbox(t.Context(), "demo", name, m); err != nil {
					t.Fatal(err)
				}
			}
		}
		had = kept(t, s)
	})
	return dir, had
}

// kept reads all inboxes, whose counts must agree with their items.
func kept(t *testing.T, s *store.Stores) keptItems {
	t.Helper()
	checked, err := s.Inboxes.CheckInboxes(t.Context(), func(app, recipient, problem string) { t.Errorf("inbox of %s in %s: %s", recipient, app, problem) })
	if err != nil || checked.Items != checked.References {
		t.Errorf("inboxes have %+v, %v; want as many references as items", checked, err)
	}
	all := keptItems{}
	for r := range boxOwners {
		name := fmt.Sprintf("r%02d", r)
		all[name] = map[string]string{}
		unread := 0
		for _, state := range []inbox.State{inbox.All, inbox.Archived} {
			page, err := s.Inboxes.Inbox(t.Context(), "demo", name, inbox.Query{State: state, Limit: inbox.MaxKept})
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Items {
				all[name][it.ID] = fmt.Sprint(it.Place, !it.SeenAt.IsZero(), !it.ReadAt.IsZero(), !it.ArchivedAt.IsZero(), it.Pinned, it.Content.Title, it.Content.Category)
				if state == inbox.All && it.ReadAt.IsZero() {
					unread++
				}
			}
			if state == inbox.Archived && (page.Unread != unread || page.Total != len(all[name])) {
				t.Errorf("%s has %d unread of %d, and counts %d of %d", name, unread, len(all[name]), page.Unread, page.Total)
			}
		}
	}
	return all
}

// pagesOf returns the numbers of a table's pages.
func pagesOf(t *testing.T, path, table string) (pages []int64) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.Execute(conn, "SELECT pageno FROM dbstat WHERE name = ?", &sqlitex.ExecOptions{Args: []any{table}, ResultFunc: func(s *sqlite.Stmt) error {
		pages = append(pages, s.ColumnInt64(0))
		return nil
	}})
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages of %s: %v, %v", table, pages, err)
	}
	return pages
}

// losePage zeroes a page of a file in a copy of a folder, and repairs that.
func losePage(t *testing.T, dir, file string, page int64) (left string, r store.Repaired) {
	t.Helper()
	left = filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, name := range store.Files() { // CopyFS gives read rights to all
		if err := os.Chmod(filepath.Join(left, name), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	path := filepath.Join(left, file)
	b, err := os.ReadFile(path)
	if err == nil {
		clear(b[(page-1)*4096 : page*4096])
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if found, err := store.Verify(t.Context(), left, 0, nil); err != nil || len(found) == 0 || found[0].File != file {
		t.Errorf("without page %d it finds %+v, %v", page, found, err)
	}
	if r, err = store.Repair(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if found, err := store.Verify(t.Context(), left, 0, nil); err != nil || len(found) != 0 {
		t.Errorf("after the repair it finds %+v, %v", found, err)
	}
	return left, r
}

// saidLost returns how many items of inboxes a repair says are lost, and those whose inboxes it names.
func saidLost(r *store.Repaired) (items int, owners map[string]bool) {
	owners = map[string]bool{}
	for _, f := range r.Files {
		for _, l := range f.Lost {
			if strings.Contains(l.What, "items of") {
				items += int(l.Rows)
				if l.To != "" {
					owners[l.To] = true
				}
			}
		}
	}
	return items, owners
}

// TestInboxesAreCountedAnewAfterALoss destroys one page at a time.
func TestInboxesAreCountedAnewAfterALoss(t *testing.T) {
	dir, had := inboxes(t)
	for _, table := range []string{"inbox", "inbox_due", "inbox_content"} {
		pages := pagesOf(t, filepath.Join(dir, store.MailboxFile), table)
		every := max(1, len(pages)/thorough.Rounds(4, math.MaxInt32))
		for i := 0; i < len(pages); i += every {
			left, r := losePage(t, dir, store.MailboxFile, pages[i])
			inStore(t, left, func(s *store.Stores) {
				now := kept(t, s)
				lost, owners := 0, map[string]bool{}
				for name, items := range had {
					for id, state := range items {
						switch got, there := now[name][id]; {
						case !there:
							lost++
							owners[name] = true
						case got != state:
							t.Errorf("%s of %s is %s, was %s", id, name, got, state)
						}
					}
				}
				said, named := saidLost(&r)
				if said != lost || (lost == 0) != r.Lossless() {
					t.Errorf("page %d of %s: %d items are lost, %d are said to be: %+v", pages[i], table, lost, said, r)
				}
				for name := range owners {
					if !named[name] {
						t.Errorf("page %d of %s: %s has lost items and is not named: %+v", pages[i], table, name, r)
					}
				}
				publishes(t, s, slices.Collect(maps.Keys(had)))
			})
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}

// publishes keeps one more notification for everybody.
func publishes(t *testing.T, s *store.Stores, to []string) {
	t.Helper()
	n := &notification.Notification{App: "demo", ID: "after", CreatedAt: s.Clock(), ExpiresAt: s.Clock().Add(time.Hour), Content: notification.Content{Title: "T", Inbox: &notification.Inbox{Keep: time.Hour}}}
	if err := s.Mailbox.Append(t.Context(), []*mailbox.Append{{N: n, To: to}}); err != nil {
		t.Fatal(err)
	}
	for name, items := range kept(t, s) {
		if _, there := items["after"]; !there {
			t.Errorf("after the repair %s gets nothing more", name)
		}
	}
}

// TestInboxOfALostRecipientIsNobodys: numbers of recipients are given out again.
func TestInboxOfALostRecipientIsNobodys(t *testing.T) {
	dir, had := inboxes(t)
	left, r := losePage(t, dir, store.MailboxFile, rootOf(t, filepath.Join(dir, store.MailboxFile), "recipient"))
	all := 0
	for _, items := range had {
		all += len(items)
	}
	if said, _ := saidLost(&r); said != all {
		t.Errorf("%d of %d items are said to be lost: %+v", said, all, r)
	}
	inStore(t, left, func(s *store.Stores) {
		for name, items := range kept(t, s) {
			if len(items) > 0 {
				t.Errorf("%s has %d items", name, len(items))
			}
		}
	})
}

// TestWrongCountsAreFoundAndPutRight changes rows although their pages are whole.
func TestWrongCountsAreFoundAndPutRight(t *testing.T) {
	dir, had := inboxes(t)
	path := filepath.Join(dir, store.MailboxFile)
	for what, sql := range map[string]string{
		"a head of former items": "UPDATE inbox SET data = (SELECT data FROM inbox i WHERE i.key = 5 << 12) WHERE key = 6 << 12",
		"a lost head":            "DELETE FROM inbox WHERE key = 3 << 12",
		"a lost part":            "DELETE FROM inbox WHERE key = (SELECT min(key) FROM inbox WHERE key & 4095 > 0)",
		"references":             "UPDATE inbox_content SET refs = refs + 1",
	} {
		left := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(left, filepath.Base(path))
		script(t, file, sql)
		if err := os.Remove(file + "-sums"); err != nil { // the rows went past them
			t.Fatal(err)
		}
		if f := store.DiagnoseFiles(t.Context(), left, false)[0]; f.OK || f.Check != "inboxes" || f.Hint == "" {
			t.Errorf("%s: the doctor finds %+v", what, f)
		}
		r, err := store.Repair(t.Context(), left)
		if err != nil {
			t.Fatal(err)
		}
		if f := store.DiagnoseFiles(t.Context(), left, false)[0]; !f.OK {
			t.Errorf("%s: after %+v the doctor finds %+v", what, r, f)
		}
		inStore(t, left, func(s *store.Stores) {
			now := kept(t, s)
			if what == "references" && fmt.Sprint(now) != fmt.Sprint(had) {
				t.Errorf("%s: items differ", what)
			}
		})
	}
}

// digests fills a folder with digests that wait.
func digests(t *testing.T) (dir string) {
	t.Helper()
	dir = made(t)
	inStore(t, dir, func(s *store.Stores) {
		now := s.Clock()
		for i := range 12 {
			l := &digest.Lot{
				App: "demo", ID: fmt.Sprint("n", i), To: []string{"ann", "bob"}, Category: "c", Key: fmt.Sprint("k", i%3), Created: now, Sum: []byte{1},
				Body: []byte(`{"title":"T","category":"c"}`), Window: time.Hour, Most: 100,
			}
			if err := s.Digests.Gather(t.Context(), []*digest.Lot{l}, now); err != nil {
				t.Fatal(err)
			}
		}
	})
	return dir
}

// leave sends all digests, and returns the number of their notifications.
func leave(t *testing.T, s *store.Stores, at time.Time) (items int) {
	t.Helper()
	due, _, err := s.Digests.Due(t.Context(), at, 100)
	if err != nil {
		t.Fatal(err)
	}
	leaving, err := s.Digests.Seal(t.Context(), due, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leaving {
		items += l.Items
		if len(l.Newest) != min(l.Items, digest.Shown) || l.Category != "c" {
			t.Errorf("digest %+v has %d contents", l.Digest, len(l.Newest))
		}
	}
	return items
}

// TestDigestsAreMendedAfterALoss destroys one table at a time.
func TestDigestsAreMendedAfterALoss(t *testing.T) {
	const file = "module-digest.db"
	for table, want := range map[string]struct {
		left int
		said string
	}{"digest": {24, "when a digest leaves"}, "digest_due": {24, ""}, "body": {0, "content is lost"}, "item": {0, "row of item"}} {
		dir := digests(t)
		left, r := losePage(t, dir, file, rootOf(t, filepath.Join(dir, file), table))
		var lines []string
		for i := range r.Files {
			lines = append(lines, r.Files[i].Losses()...)
		}
		if text := strings.Join(lines, "\n"); !strings.Contains(text, want.said) || (want.said == "") != (text == "") || want.left == 0 && strings.Count(text, want.said) != 24 {
			t.Errorf("without %s it says %q", table, text)
		}
		inStore(t, left, func(s *store.Stores) {
			if n := leave(t, s, s.Clock().Add(2*time.Hour)); n != want.left {
				t.Errorf("without %s, %d notifications leave, want %d", table, n, want.left)
			}
		})
		if f := store.DiagnoseFiles(t.Context(), left, false)[1]; !f.OK {
			t.Errorf("without %s, the doctor finds %+v", table, f)
		}
	}
}

func TestWrongCountsOfDigestsAreFoundAndPutRight(t *testing.T) {
	dir := digests(t)
	path := filepath.Join(dir, "module-digest.db")
	script(t, path, "UPDATE digest SET items = 2, bytes = 5 WHERE recipient = 'ann'; UPDATE body SET refs = 7 WHERE id IN (SELECT min(id) FROM body)")
	if err := os.Remove(path + "-sums"); err != nil {
		t.Fatal(err)
	}
	if f := store.DiagnoseFiles(t.Context(), dir, false)[1]; f.OK || f.Check != "digests" {
		t.Errorf("the doctor finds %+v", f)
	}
	if r, err := store.Repair(t.Context(), dir); err != nil || !r.Lossless() {
		t.Errorf("%+v, %v", r, err)
	}
	if f := store.DiagnoseFiles(t.Context(), dir, false)[1]; !f.OK {
		t.Errorf("after the repair, the doctor finds %+v", f)
	}
	inStore(t, dir, func(s *store.Stores) {
		if n := leave(t, s, s.Clock().Add(2*time.Hour)); n != 24 {
			t.Errorf("%d notifications leave, want 24", n)
		}
	})
}

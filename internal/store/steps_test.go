package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store"
)

const escalated = 20

// escalations fills a folder with notifications of two steps each; the sends of each first step are stored.
func escalations(t *testing.T) (dir string) {
	t.Helper()
	dir = made(t)
	inStore(t, dir, func(s *store.Stores) {
		reg, err := s.Endpoints.Register(t.Context(), "demo", []audience.Registration{{Trusted: true, Endpoint: audience.Endpoint{
			ID: audience.NewUUID(), Channel: push.Telegram, Recipient: "rider", Address: json.RawMessage(`{"chat_id":1000}`),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range escalated {
			now := s.Clock()
			n := &notification.Notification{
				App: "demo", ID: fmt.Sprint("ride-", i), CreatedAt: now, ExpiresAt: now.Add(48 * time.Hour), Content: notification.Content{Title: "T"},
				Steps: []notification.Step{{Channel: "telegram", After: time.Hour}, {Channel: "fcm", After: 2 * time.Hour}},
			}
			if err := s.Mailbox.Append(t.Context(), []*mailbox.Append{{N: n, To: []string{"rider"}, Results: make([]mailbox.AppendResult, 1)}}); err != nil {
				t.Fatal(err)
			}
		}
		due := dueSteps(t, s, 0)
		var sends []escalation.Send
		var done []mailbox.StepDone
		for i := range due {
			d := &due[i]
			sends = append(sends, escalation.Send{
				ID: escalation.ID(d, reg[0].Endpoint.ID), App: d.App, Recipient: d.Recipient, Note: d.ID, Pos: d.Pos, Channel: push.Telegram,
				Endpoint: reg[0].Endpoint.Number, EndpointID: reg[0].Endpoint.ID, ExpiresAt: d.ExpiresAt,
			})
			done = append(done, mailbox.StepDone{Ref: mailbox.Ref{App: d.App, Recipient: d.Recipient, Pos: d.Pos}})
		}
		if err := s.Sends.Hand(t.Context(), sends, s.Clock()); err != nil {
			t.Fatal(err)
		}
		if err := s.Steps.HandedOver(t.Context(), done, s.Clock()); err != nil {
			t.Fatal(err)
		}
	})
	return dir
}

func inStore(t *testing.T, dir string, do func(*store.Stores)) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Data: dir, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	do(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// dueSteps reads the steps due one day later, one for every notification.
func dueSteps(t *testing.T, s *store.Stores, step int) []mailbox.StepDue {
	t.Helper()
	due, _, err := s.Steps.StepsDue(t.Context(), nil, s.Clock().Add(24*time.Hour), 2*escalated)
	if err != nil || len(due) != escalated {
		t.Fatalf("%d steps are due, %v", len(due), err)
	}
	for _, d := range due {
		if d.Step != step {
			t.Fatalf("step %d of %s is next, want %d", d.Step, d.ID, step)
		}
	}
	return due
}

// lose zeroes the first page of a table, which is all of a small one, and repairs the folder.
func lose(t *testing.T, dir, file, table string) store.Repaired {
	t.Helper()
	path := filepath.Join(dir, file)
	page := rootOf(t, path, table)
	b, err := os.ReadFile(path)
	if err == nil {
		clear(b[(page-1)*4096 : page*4096])
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if found, err := store.Verify(t.Context(), dir, 0, nil); err != nil || len(found) != 1 || found[0].File != file {
		t.Errorf("without %s it finds %+v, %v", table, found, err)
	}
	r, err := store.Repair(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := store.Verify(t.Context(), dir, 0, nil); err != nil || len(found) != 0 {
		t.Errorf("after the repair it finds %+v, %v", found, err)
	}
	return r
}

// namedLost counts the notifications that a repair names among its losses of one kind.
func namedLost(r *store.Repaired, what string) (n int) {
	for i := range escalated {
		for _, f := range r.Files {
			for _, l := range f.Lost {
				if strings.Contains(l.What, what) && strings.HasSuffix(l.Key, fmt.Sprint("ride-", i)) {
					n++
				}
			}
		}
	}
	return n
}

// TestLostPlanPositionIsNoLoss: the plan starts again, and sends that were already made are recognised by their ids.
func TestLostPlanPositionIsNoLoss(t *testing.T) {
	dir := escalations(t)
	if r := lose(t, dir, store.MailboxFile, "escalation"); !r.Lossless() {
		t.Errorf("the repair says that something is lost: %+v", r)
	}
	inStore(t, dir, func(s *store.Stores) { dueSteps(t, s, 0) })
}

func TestLostPlansAreNamed(t *testing.T) {
	dir := escalations(t)
	if r := lose(t, dir, store.MailboxFile, "plan"); namedLost(&r, "steps") != escalated {
		t.Errorf("%d of %d are named: %+v", namedLost(&r, "steps"), escalated, r)
	}
	inStore(t, dir, func(s *store.Stores) {
		if due, _, err := s.Steps.StepsDue(t.Context(), nil, s.Clock().Add(24*time.Hour), 10); err != nil || len(due) != 0 {
			t.Errorf("due %+v, %v", due, err)
		}
	})
}

func TestLostSendsAreNamed(t *testing.T) {
	dir := escalations(t)
	if r := lose(t, dir, store.CampaignsFile, "push_send"); namedLost(&r, "push_send") != escalated {
		t.Errorf("%d of %d are named: %+v", namedLost(&r, "push_send"), escalated, r)
	}
	inStore(t, dir, func(s *store.Stores) {
		dueSteps(t, s, 1) // go on
		if places, err := s.Sends.WaitingSends(t.Context()); err != nil || len(places) != 0 {
			t.Errorf("waiting %v, %v", places, err)
		}
	})
}

func TestACopyKeepsStepsAndSends(t *testing.T) {
	dir, to := escalations(t), t.TempDir()
	if _, err := store.Copy(t.Context(), dir, to); err != nil {
		t.Fatal(err)
	}
	inStore(t, to, func(s *store.Stores) {
		dueSteps(t, s, 1)
		list, err := s.Sends.DueSends(t.Context(), escalation.Place{App: "demo", Channel: push.Telegram}, s.Clock(), 2*escalated)
		if err != nil || len(list) != escalated {
			t.Errorf("%d sends are due, %v", len(list), err)
		}
	})
}

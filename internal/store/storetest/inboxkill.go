package storetest

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// KilledStore is a store of mailboxes with inboxes.
type KilledStore interface {
	mailbox.Store
	inbox.Store
	Close() error
}

// killRecipients are few, so that inboxes fill, spill and replace.
const killRecipients = 40

// UseInboxes publishes to inboxes, marks and withdraws endlessly, in a process that InboxKills kills. It prints what is on disk.
func UseInboxes(s KilledStore) {
	var mu sync.Mutex
	say := func(words ...string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(strings.Join(words, " "))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				if err := useInbox(s, g, i, say); err != nil {
					say("failed", err.Error())
					return
				}
			}
		})
	}
	wg.Wait()
}

func useInbox(s KilledStore, g, i int, say func(...string)) error {
	ctx, now := context.Background(), time.Now()
	to := fmt.Sprint("r", (g*7+i)%killRecipients)
	n := &notification.Notification{
		App: App, ID: fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i), CreatedAt: now, ExpiresAt: now.Add(time.Hour), Ack: notification.AckNone,
		Content: notification.Content{Title: "T", Category: fmt.Sprint("c", i%3), Inbox: &notification.Inbox{Keep: 24 * time.Hour}},
	}
	a := &mailbox.Append{N: n, To: []string{to, fmt.Sprint("s", g)}}
	if err := s.Append(ctx, []*mailbox.Append{a}); err != nil {
		return err
	}
	say("kept", n.ID, to)
	for _, name := range a.To {
		if err := s.Settle(ctx, []*mailbox.Settle{{App: App, Recipient: name, ID: n.ID, As: notification.Delivered, At: now}}); err != nil {
			return err
		}
	}
	yes := true
	switch i % 5 {
	case 0:
		if _, err := s.MarkInbox(ctx, App, to, inbox.Mark{ID: n.ID, Read: &yes, At: now}); err != nil {
			return err
		}
		say("read", n.ID, to)
	case 1:
		if _, err := s.MarkInbox(ctx, App, to, inbox.Mark{From: 1, To: math.MaxUint64, Seen: &yes, At: now}); err != nil {
			return err
		}
	case 2:
		if _, err := s.LeaveInbox(ctx, App, n.ID, []string{to}); err != nil {
			return err
		}
		say("left", n.ID, to)
	}
	return nil
}

// InboxKills kills a busy process, again and again on the same store. After each kill the counts of every inbox equal its items, every item has its
// content, and what the process had said is there. The process calls UseInboxes.
func InboxKills(t *testing.T, kills int, process func() *exec.Cmd, open func() KilledStore) {
	t.Helper()
	said := make(map[string]string) // the last thing said of an item, by recipient and id
	for round := range kills {
		killInbox(t, process(), 400+150*(round%5), said)
		s := open()
		var all inbox.Checked
		var problems []string
		var err error
		eventually.Holds(func() bool { // a database may still end what the killed process has begun
			problems = nil
			all, err = s.CheckInboxes(t.Context(), func(app, recipient, problem string) {
				problems = append(problems, fmt.Sprintf("inbox of %s in %s: %s", recipient, app, problem))
			})
			return err == nil && len(problems) == 0 && all.Items == all.References
		})
		if err != nil || len(problems) > 0 || all.Items != all.References || all.Inboxes < killRecipients {
			t.Fatalf("after kill %d: %+v, %v, %q", round+1, all, err, problems)
		}
		compareSaid(t, s, said)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
	if len(said) < 100*kills {
		t.Fatalf("only %d items were answered", len(said))
	}
}

// killInbox runs the process until it has said so many lines, and kills it.
func killInbox(t *testing.T, cmd *exec.Cmd, after int, said map[string]string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) != 3 || words[0] == "failed" {
			t.Errorf("the process said %q", lines.Text())
			continue
		}
		said[words[2]+" "+words[1]] = words[0]
		if n == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
}

// compareSaid compares the inboxes with the last line about each item. The kill may have interrupted the withdrawal of an item whose last line says kept.
func compareSaid(t *testing.T, s KilledStore, said map[string]string) {
	t.Helper()
	there := make(map[string]inbox.Item)
	full := make(map[string]bool)
	for i := range killRecipients {
		name := fmt.Sprint("r", i)
		page, err := s.Inbox(t.Context(), App, name, inbox.Query{Limit: inbox.MaxKept})
		if err != nil {
			t.Fatal(err)
		}
		full[name] = page.Total == inbox.MaxKept
		for _, it := range page.Items {
			there[name+" "+it.ID] = it
		}
	}
	for key, what := range said {
		name, id, _ := strings.Cut(key, " ")
		it, is := there[key]
		switch {
		case what == "left" && is:
			t.Errorf("%s left the inbox of %s and is there", id, name)
		case what == "read" && !is && !full[name]:
			t.Errorf("%s was read by %s and is lost", id, name)
		case what == "read" && is && it.ReadAt.IsZero():
			t.Errorf("%s was read by %s and is unread", id, name)
		case what == "kept" && !is && !full[name] && !strings.HasSuffix(id, "2") && !strings.HasSuffix(id, "7"):
			t.Errorf("%s was kept for %s and is lost", id, name)
		}
	}
}

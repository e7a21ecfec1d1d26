package mailbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diary records the calls of a mailbox to its router and its feed, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
	away  error // why presence is unknown
	store mailbox.Store
}

func (d *diary) note(line string) {
	d.mu.Lock()
	d.lines = append(d.lines, line)
	d.mu.Unlock()
	select {
	case d.more <- struct{}{}:
	default:
	}
}

func (d *diary) has(line string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.lines, line)
}

func (d *diary) Route(items []mailbox.Item) {
	for _, it := range items {
		d.note("route " + it.N.ID + " to " + it.Recipient)
	}
}

func (d *diary) Settled(done []mailbox.Settled) {
	for _, s := range done {
		d.note("settled " + s.ID + " " + s.As.String())
	}
}

func (d *diary) Inboxes(changed []inbox.Change) {
	for _, c := range changed {
		d.note("inbox of " + c.Recipient)
	}
}

func (d *diary) Hold(changed []inbox.Change) func() {
	for _, c := range changed {
		d.note("hold " + c.Recipient)
	}
	return func() { d.note("release") }
}

func (d *diary) Reread(_, recipient string) { d.note("reread for " + recipient) }

func (d *diary) Online(context.Context, string, string) ([]string, error) { return nil, d.away }

func (d *diary) Emit(evs []event.Event) {
	for _, e := range evs {
		d.note("event " + string(e.Type) + " " + e.Note)
	}
}

// wait blocks until line was recorded.
func (d *diary) wait(t *testing.T, line string) {
	t.Helper()
	for {
		d.mu.Lock()
		found := slices.Contains(d.lines, line)
		lines := slices.Clone(d.lines)
		d.mu.Unlock()
		if found {
			return
		}
		select {
		case <-d.more:
		case <-t.Context().Done():
			t.Fatalf("never saw %q, only %q", line, lines)
		case <-time.After(time.Minute):
			t.Fatalf("did not see %q in a minute, only %q", line, lines)
		}
	}
}

func open(t *testing.T) (*mailbox.Mailbox, *diary) {
	t.Helper()
	d := &diary{more: make(chan struct{}, 1)}
	store, err := mailboxdb.Open(t.Context(), filepath.Join(t.TempDir(), "mailbox.db"), mailboxdb.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d.store = store
	m := mailbox.New(mailbox.Config{Store: store, Events: d, Log: slog.New(slog.DiscardHandler)})
	m.RouteTo(d, d)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, d
}

func publish(t *testing.T, to *diary, d notification.Draft) {
	t.Helper()
	d.Content.Title = "Hi"
	n, err := d.Check("demo", time.Now(), func() string { return "made" })
	if err != nil {
		t.Fatal(err)
	}
	if err := to.store.Append(t.Context(), []*mailbox.Append{{N: n, To: d.To}}); err != nil {
		t.Fatal(err)
	}
}

func TestPublishIsRoutedBeforeItIsAnswered(t *testing.T) {
	_, d := open(t)
	publish(t, d, notification.Draft{ID: "n1", To: []string{"anna", "bert"}})
	want := []string{"event stored n1", "event stored n1", "route n1 to anna", "route n1 to bert"}
	if !slices.Equal(d.lines, want) {
		t.Fatalf("after the answer there was %q, want %q", d.lines, want)
	}
}

func TestSessionsReadWhatIsPublishedAgain(t *testing.T) {
	m, d := open(t)
	publish(t, d, notification.Draft{ID: "n1", To: []string{"anna", "bert"}})
	if _, err := m.Ack(t.Context(), "demo", "bert", "", []string{"n1"}); err != nil {
		t.Fatal(err)
	}
	n, err := (&notification.Draft{ID: "n1", To: []string{"anna", "bert", "carl"}, Content: notification.Content{Title: "Hi"}}).Check("demo", time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Append(t.Context(), []*mailbox.Append{{N: n, To: []string{"anna", "bert", "carl"}}}); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]bool{"anna": true, "bert": false, "carl": false} { // waits, settled, new
		if d.has("reread for "+who) != want {
			t.Errorf("%s: want reread %t, got %q", who, want, d.lines)
		}
	}
}

func TestScheduledIsRoutedWhenDueNotBefore(t *testing.T) {
	_, d := open(t)
	publish(t, d, notification.Draft{ID: "n1", To: []string{"anna"}, SendAt: time.Now().Add(2 * time.Second)})
	if d.has("route n1 to anna") {
		t.Fatal("routed before its time")
	}
	d.wait(t, "route n1 to anna")
}

func TestOverdueExpiresByItself(t *testing.T) {
	_, d := open(t)
	publish(t, d, notification.Draft{ID: "long", To: []string{"anna"}})
	publish(t, d, notification.Draft{ID: "short", To: []string{"anna"}, TTL: 200 * time.Millisecond})
	d.wait(t, "event expired short")
	if d.has("event expired long") {
		t.Fatal("what has a day left expired as well")
	}
}

// TestNotificationAndItsInboxAreToldTogether: connections hold back the notification until the counts of its inbox follow.
func TestNotificationAndItsInboxAreToldTogether(t *testing.T) {
	_, d := open(t)
	kept := true
	publish(t, d, notification.Draft{ID: "n1", To: []string{"anna"}, Inbox: &kept})
	want := []string{"event stored n1", "hold anna", "route n1 to anna", "inbox of anna", "release"}
	if !slices.Equal(d.lines, want) {
		t.Errorf("order was %q, want %q", d.lines, want)
	}
}

func TestNewerOfACollapseKeyIsRoutedBeforeTheOlderIsTakenBack(t *testing.T) {
	_, d := open(t)
	publish(t, d, notification.Draft{ID: "old", To: []string{"anna"}, CollapseKey: "k"})
	publish(t, d, notification.Draft{ID: "new", To: []string{"anna"}, CollapseKey: "k"})
	routed, settled := slices.Index(d.lines, "route new to anna"), slices.Index(d.lines, "settled old replaced")
	if routed < 0 || settled < routed {
		t.Fatalf("order was %q", d.lines)
	}
}

func TestRecallCountsWhatItTookBack(t *testing.T) {
	m, d := open(t)
	publish(t, d, notification.Draft{ID: "n1", To: []string{"anna", "bert", "carl"}})
	if n, err := m.Ack(t.Context(), "demo", "anna", "", []string{"n1", "unknown"}); n != 1 || err != nil {
		t.Fatalf("acknowledged %d, %v", n, err)
	}
	if n, err := m.Recall(t.Context(), "demo", "n1", "bert"); n != 1 || err != nil {
		t.Fatalf("recalled %d of bert, %v", n, err)
	}
	if n, err := m.Recall(t.Context(), "demo", "n1", ""); n != 1 || err != nil {
		t.Fatalf("recalled %d of the rest, %v", n, err)
	}
	if n, err := m.Recall(t.Context(), "demo", "n1", ""); n != 0 || err != nil {
		t.Fatalf("recalled %d a second time, %v", n, err)
	}
	if _, err := m.Recall(t.Context(), "other", "n1", ""); !errors.Is(err, mailbox.ErrNotFound) {
		t.Fatalf("recall in another app: %v", err)
	}
}

func TestAckIsRefusedWhileNobodyKnowsWhoIsOnline(t *testing.T) {
	m, d := open(t)
	publish(t, d, notification.Draft{ID: "n1", To: []string{"anna"}})
	d.away = errors.New("no node answers")
	if n, err := m.Ack(t.Context(), "demo", "anna", "", []string{"n1"}); n != 0 || !errors.Is(err, d.away) {
		t.Fatalf("acknowledged %d, %v: another device may be waiting for it", n, err)
	}
	d.away = nil
	if n, err := m.Ack(t.Context(), "demo", "anna", "", []string{"n1"}); n != 1 || err != nil {
		t.Fatalf("acknowledged %d, %v", n, err)
	}
}

func TestDeliveryIsReportedOnce(t *testing.T) {
	m, d := open(t)
	for ack, want := range map[notification.AckMode][]string{
		notification.AckAny:  {"event stored any", "route any to anna", "event delivered any", "event acked any", "settled any acked"},
		notification.AckNone: {"event stored none", "route none to anna", "event delivered none", "settled none delivered"},
	} {
		d.lines = nil
		id, as := ack.String(), notification.Acked
		if notification.Delivered.Settled(ack) {
			as = notification.Delivered
		}
		publish(t, d, notification.Draft{ID: id, To: []string{"anna"}, Ack: ack})
		m.Delivered([]mailbox.Mark{{App: "demo", Recipient: "anna", ID: id, Attempts: 1, DeliveredAt: time.Now(), Ack: ack}})
		if err := d.store.Settle(t.Context(), []*mailbox.Settle{{App: "demo", Recipient: "anna", ID: id, As: as, At: time.Now(), DeliveredAt: time.Now(), Attempts: 1}}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(d.lines, want) {
			t.Errorf("told %q, want %q", d.lines, want)
		}
	}
}

func TestCountsFollowWhatHappened(t *testing.T) {
	m, d := open(t)
	publish(t, d, notification.Draft{ID: "n1", To: []string{"anna", "bert"}})
	if _, err := m.Ack(t.Context(), "demo", "anna", "", []string{"n1"}); err != nil {
		t.Fatal(err)
	}
	stored, settled := m.Counts()
	if stored != 2 || settled[notification.Acked] != 1 {
		t.Fatalf("stored %d, settled %v", stored, settled)
	}
}

// counter reads one of the mailbox's metrics by its name and the value of its label.
func counter(t *testing.T, m *mailbox.Mailbox, name, label string) float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if f.GetName() == name && (len(one.GetLabel()) == 0 || one.GetLabel()[0].GetValue() == label) {
				return one.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestCategoriesAreCountedUpToABound(t *testing.T) {
	const name = "godwit_notifications_category_stored_total"
	m, d := open(t)
	publish(t, d, notification.Draft{ID: "none", To: []string{"anna"}})
	publish(t, d, notification.Draft{ID: "two", To: []string{"anna", "bert"}, Content: notification.Content{Category: "RIDE"}})
	cut := strings.Repeat("c", 63) + "\u00e9"
	publish(t, d, notification.Draft{ID: "long", To: []string{"anna"}, Content: notification.Content{Category: cut}})
	for i := range 150 {
		publish(t, d, notification.Draft{ID: fmt.Sprintf("n%d", i), To: []string{"anna"}, Content: notification.Content{Category: fmt.Sprintf("C%d", i)}})
	}
	publish(t, d, notification.Draft{ID: "again", To: []string{"anna"}, Content: notification.Content{Category: "RIDE"}})
	for label, want := range map[string]float64{"RIDE": 3, "": 0, cut[:63]: 1, "C0": 1, "C97": 1, "C98": 0, "other": 52} {
		if got := counter(t, m, name, label); got != want {
			t.Errorf("%d of category %q were counted, want %d", int(got), label, int(want))
		}
	}
}

func TestDeliveriesRetriesAndExpiriesAreCountedByCategory(t *testing.T) {
	m, d := open(t)
	publish(t, d, notification.Draft{ID: "r1", To: []string{"anna", "bert"}, Content: notification.Content{Category: "RIDE"}, ExpiresAt: time.Now().Add(time.Hour)})
	m.Delivered([]mailbox.Mark{
		{App: "demo", Recipient: "anna", ID: "r1", Attempts: 1, Category: "RIDE"},
		{App: "demo", Recipient: "anna", ID: "r1", Attempts: 2, Category: "RIDE"},
		{App: "demo", Recipient: "anna", ID: "r1", Attempts: 3, Category: "RIDE"},
		{App: "demo", Recipient: "bert", ID: "none", Attempts: 1},
	})
	if _, err := d.store.Expire(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"stored": 2, "delivered": 1, "retried": 2, "expired": 2} {
		if got := counter(t, m, "godwit_notifications_category_"+name+"_total", "RIDE"); got != want {
			t.Errorf("%v were %s, want %v", got, name, want)
		}
	}
}

func TestRefusalsForLackOfSpaceAreCounted(t *testing.T) {
	store, err := mailboxdb.Open(t.Context(), filepath.Join(t.TempDir(), "mailbox.db"), mailboxdb.Config{MinFree: 1 << 62, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d := &diary{more: make(chan struct{}, 1), store: store}
	m := mailbox.New(mailbox.Config{Store: store, Events: d, Log: slog.New(slog.DiscardHandler)})
	draft := notification.Draft{To: []string{"anna"}, Content: notification.Content{Title: "x"}}
	n, err := draft.Check("demo", time.Now(), func() string { return "made" })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := m.Append(t.Context(), []*mailbox.Append{{N: n, To: draft.To}}); !errors.Is(err, mailbox.ErrNoSpace) {
			t.Fatalf("%v, want ErrNoSpace", err)
		}
	}
	const name = "godwit_store_refused_total"
	if got := counter(t, m, name, ""); got != 3 {
		t.Errorf("%s is %v, want 3", name, got)
	}
}

package escalation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/lease/leasetest"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

const patience = time.Minute

// mail is the mailbox that servers share. Its copies stay open, and their recipients are offline.
type mail struct {
	mu    sync.Mutex
	steps []mailbox.StepDue
	done  map[int64]bool
}

func (m *mail) StepsDue(_ context.Context, apps []string, now time.Time, limit int) (due []mailbox.StepDue, next time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.steps {
		if len(due) < limit && !m.done[d.Pos] && !d.Due.After(now) && (apps == nil || slices.Contains(apps, d.App)) {
			due = append(due, d)
		}
	}
	return due, now.Add(time.Minute), nil
}

func (m *mail) HandedOver(_ context.Context, done []mailbox.StepDone, _ time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range done {
		m.done[d.Pos] = true
	}
	return nil
}

func (m *mail) Hurry([]mailbox.Ref) {}

func (m *mail) StepsOf(context.Context, mailbox.Ref) ([]notification.Step, int, error) {
	return nil, 0, nil
}

func (m *mail) Items(_ context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
	items := make([]*mailbox.Item, len(refs))
	for i, r := range refs {
		items[i] = &mailbox.Item{Recipient: r.Recipient, Pos: r.Pos, N: &notification.Notification{App: r.App, ID: fmt.Sprint("n", r.Pos), Content: notification.Content{Title: "T"}}}
	}
	return items, nil
}

func (m *mail) Online(_ context.Context, _, recipient string) ([]string, error) {
	if recipient == "online" {
		return []string{"device"}, nil
	}
	return nil, nil
}

func (m *mail) AckCopies(context.Context, []mailbox.CopyAck) (n int, err error) { return 0, nil }

// append stores a copy with one due step, and returns it in the form in which the mailbox reports it to a server.
func (m *mail) append(app, to string) mailbox.Item {
	m.mu.Lock()
	defer m.mu.Unlock()
	pos, now := int64(len(m.steps)+1), time.Now()
	m.steps = append(m.steps, mailbox.StepDue{
		App: app, Recipient: to, ID: fmt.Sprint("n", pos), Pos: pos, Channel: string(push.Telegram), Due: now, ExpiresAt: now.Add(time.Hour),
	})
	n := &notification.Notification{App: app, ID: fmt.Sprint("n", pos), CreatedAt: now, ExpiresAt: now.Add(time.Hour), Steps: []notification.Step{{Channel: string(push.Telegram)}}}
	return mailbox.Item{N: n, Recipient: to, Pos: pos, Seq: 1, Escalates: true}
}

// bots accept messages and record which server sent them, in order.
type bots struct {
	mu  sync.Mutex
	log []sent
}

type sent struct {
	server int
	app    string
	step   bool
}

func (b *bots) count(app string, step bool) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.log {
		if s.app == app && s.step == step {
			n++
		}
	}
	return n
}

// bot is the bots channel of one server.
type bot struct {
	*bots
	server int
}

func (b bot) Sender(context.Context, string, push.Channel) (push.Sender, error) { return b, nil }

func (b bot) Send(_ context.Context, r push.Request) (push.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, sent{b.server, r.App, r.GodwitID != ""})
	return push.Receipt{ExternalID: "1"}, nil
}

// Pace slows campaigns down, so that they last a while.
func (b bot) Pace(json.RawMessage) push.Pace { return push.Pace{Scope: "bot", Rate: 100} }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is several servers that share a store.
type world struct {
	*testing.T
	mail      *mail
	bots      *bots
	leases    *leasetest.Leases
	store     *campaigndb.Store
	steps     []*escalation.Service
	campaigns []*campaign.Service
	told      chan told
}

// told is a message from one server to the others.
type told struct {
	server int
	In     int64
	Apps   []string
	Ended  []struct{ Note string }
}

func newWorld(t *testing.T, servers int) *world {
	t.Helper()
	w := &world{T: t, mail: &mail{done: map[int64]bool{}}, bots: &bots{}, leases: leasetest.New(), told: make(chan told, 1000)}
	path := sqlitetest.CampaignsFile(t)
	for i := range servers {
		store, err := campaigndb.Open(t.Context(), path, campaigndb.Config{})
		ok(t, err)
		t.Cleanup(func() { _ = store.Close() })
		out, err := dispatch.New(dispatch.Config{Senders: bot{w.bots, i}, Channels: push.Channels()})
		ok(t, err)
		asks := lease.Share(w.leases.Server(i))
		c := campaign.New(campaign.Config{Store: store, Dispatch: out, Own: asks})
		s := escalation.New(escalation.Config{
			Steps: w.mail, Mailbox: w.mail, Endpoints: store, Preferences: store, Store: store, Dispatch: out, Own: asks, Now: time.Now, Retain: time.Hour,
			Tokens:     sealed.New(store, func(string) bool { return true }),
			Categories: func(string) map[string]preference.Category { return nil },
			Changed:    func() <-chan struct{} { return nil }, Log: slog.New(slog.DiscardHandler),
		})
		w.store, w.campaigns, w.steps = store, append(w.campaigns, c), append(w.steps, s)
	}
	for i, s := range w.steps {
		s.TellOthers(func(body []byte) {
			said := told{server: i}
			ok(t, json.Unmarshal(body, &said))
			w.told <- said
			for other, o := range w.steps {
				if other != i {
					ok(t, o.Heard(body))
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range servers {
		running.Go(func() { _ = w.steps[i].Run(ctx) })
		running.Go(func() { _ = w.campaigns[i].Run(ctx) })
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// reach registers chats of an app.
func (w *world) reach(app string, chats int) {
	w.Helper()
	regs := make([]audience.Registration, chats)
	for i := range regs {
		regs[i] = audience.Registration{Trusted: true, Endpoint: audience.Endpoint{
			ID: audience.NewID(time.Now()), App: app, Channel: push.Telegram, Recipient: fmt.Sprint("r", i), Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, i+1)),
		}}
	}
	_, err := w.store.Register(w.Context(), app, regs)
	ok(w.T, err)
}

// campaign starts a campaign to all chats of an app, on a server.
func (w *world) campaign(server int, app string) {
	w.Helper()
	v, err := w.campaigns[server].Create(w.Context(), app, campaign.Spec{Content: campaign.Content{Content: push.Content{Title: "Hi"}}}, time.Time{}, "", [32]byte{})
	ok(w.T, err)
	_, err = w.campaigns[server].Start(w.Context(), app, v.ID, time.Time{})
	ok(w.T, err)
}

// publish stores a notification with a step on each server.
func (w *world) publish(app string) {
	for i, s := range w.steps {
		s.Stored([]mailbox.Item{w.mail.append(app, fmt.Sprint("r", i))})
	}
}

// TestOneServerAtATimeSendsAllOfAnApp: one server sends an app's campaign and the steps of copies that any server stores, so that one place
// counts against a provider's limit for a credential. When it ends, another server continues both.
func TestOneServerAtATimeSendsAllOfAnApp(t *testing.T) {
	const servers, chats = 3, 120
	w := newWorld(t, servers)
	w.reach("shop", chats)
	w.reach("taxi", chats)
	w.leases.Give("shop", 2) // which its campaign requests first
	w.leases.Give("taxi", 1) // the app's steps request this lease first
	w.campaign(0, "shop")
	w.publish("shop")
	w.publish("taxi")
	w.wantSteps(servers)
	w.campaign(2, "taxi")
	for i := range servers {
		eventually.True(t, "a part of the campaigns", func() bool { return w.bots.count("shop", false)+w.bots.count("taxi", false) >= 50*(i+1) })
		w.leases.Give("shop", i)
		w.leases.Give("taxi", (i+1)%servers)
		w.publish("shop")
		w.publish("taxi")
		w.wantSteps((i + 2) * servers)
	}
	eventually.True(t, "the campaigns", func() bool { return w.bots.count("shop", false) == chats && w.bots.count("taxi", false) == chats })
	w.bots.mu.Lock()
	defer w.bots.mu.Unlock()
	for app, want := range map[string][]int{"shop": {2, 0, 1, 2}, "taxi": {1, 2, 0}} {
		var owners []int
		for _, s := range w.bots.log {
			if s.app == app && (len(owners) == 0 || owners[len(owners)-1] != s.server) {
				owners = append(owners, s.server)
			}
		}
		if !slices.Equal(owners, want) {
			t.Errorf("%s was sent by servers %v, one after the other; want %v", app, owners, want)
		}
	}
}

// wantSteps waits until n steps of each app were sent.
func (w *world) wantSteps(n int) {
	w.Helper()
	eventually.True(w.T, "steps", func() bool { return w.bots.count("shop", true) == n && w.bots.count("taxi", true) == n })
}

// TestTheOwnerIsToldOfWhatItWouldSeeTooLate: the other servers report to the owner steps that they store and that are due within a second,
// and copies that they settle.
func TestTheOwnerIsToldOfWhatItWouldSeeTooLate(t *testing.T) {
	w := newWorld(t, 2)
	w.reach("shop", 1)
	w.reach("taxi", 1)
	w.leases.Give("taxi", 1)
	for i, app := range []string{"shop", "taxi"} {
		w.steps[i].Stored([]mailbox.Item{w.mail.append(app, "r0")})
	}
	w.wantSteps(1) // each has an owner
	in := func(app string, after time.Duration) mailbox.Item {
		it := w.mail.append(app, "r0")
		it.N.Steps[0].After = after
		it.Recipient = "online"
		return it
	}
	w.steps[0].Stored([]mailbox.Item{in("shop", 0), in("taxi", time.Hour), in("taxi", 900*time.Millisecond), in("taxi", 950*time.Millisecond)})
	// Messages that were sent before each app had its owner may arrive first.
	got := w.hears("when a step of the other's app is due", func(m told) bool { return m.server == 0 && slices.Equal(m.Apps, []string{"taxi"}) })
	if got.In > 900 {
		t.Errorf("told %+v; want when the first step is due", got)
	}
	it := in("taxi", 0)
	w.steps[0].Settled([]mailbox.Settled{{App: "shop", Recipient: "r0", ID: "ours", Escalates: true}, {App: "taxi", Recipient: "r0", Pos: it.Pos, ID: it.N.ID, Escalates: true}})
	got = w.hears("what was settled", func(m told) bool { return len(m.Ended) > 0 })
	if got.server != 0 || len(got.Ended) != 1 || got.Ended[0].Note != it.N.ID {
		t.Errorf("told %+v; want what was settled of the other's app", got)
	}
}

// hears waits for a message between servers.
func (w *world) hears(what string, is func(told) bool) told {
	w.Helper()
	late := time.After(patience)
	for {
		select {
		case m := <-w.told:
			if is(m) {
				return m
			}
		case <-late:
			w.Fatalf("nobody told %s", what)
		}
	}
}

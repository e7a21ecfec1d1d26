package campaign_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

const app = "demo"

// provider is a channel whose answers are chosen by the test. It records the sent messages.
type provider struct {
	mu     sync.Mutex
	got    map[string][]push.Request // by endpoint
	order  []string
	answer func(r push.Request, attempt int) (push.Receipt, error)
	pace   push.Pace
	recall func(sent push.Sent) error
	taken  []push.Sent

	correct   func(ctx context.Context, sent push.Sent) error
	corrected []push.Sent
}

func (p *provider) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	p.mu.Lock()
	if p.got == nil {
		p.got = make(map[string][]push.Request)
	}
	p.got[r.Endpoint] = append(p.got[r.Endpoint], r)
	p.order = append(p.order, r.Endpoint)
	n := len(p.got[r.Endpoint])
	answer := p.answer
	p.mu.Unlock()
	if answer == nil {
		return push.Receipt{ExternalID: "m-" + r.Endpoint}, nil
	}
	return answer(r, n)
}

// holdBack makes the provider answer that many messages; the others wait until release is called.
func (p *provider) holdBack(after int) (release func()) {
	held := make(chan struct{})
	var taken atomic.Int64
	p.answer = func(r push.Request, _ int) (push.Receipt, error) {
		if taken.Add(1) > int64(after) {
			<-held
		}
		return push.Receipt{ExternalID: "m-" + r.Endpoint}, nil
	}
	return sync.OnceFunc(func() { close(held) })
}

func (p *provider) Pace(json.RawMessage) push.Pace { return p.pace }

func (p *provider) Recall(_ context.Context, sent []push.Sent) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := make([]error, len(sent))
	for i, s := range sent {
		p.taken = append(p.taken, s)
		if p.recall != nil {
			errs[i] = p.recall(s)
		}
	}
	return errs
}

func (p *provider) Correct(ctx context.Context, sent push.Sent) error {
	p.mu.Lock()
	p.corrected = append(p.corrected, sent)
	correct := p.correct
	p.mu.Unlock()
	if correct == nil {
		return nil
	}
	return correct(ctx, sent)
}

func (p *provider) corrections() []push.Sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.corrected)
}

// says returns the title of each endpoint's last correction.
func (p *provider) says() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	titles := make(map[string]string)
	for _, s := range p.corrected {
		titles[s.Request.Endpoint] = s.Request.Content.Title
	}
	return titles
}

func (p *provider) requests(endpoint string) []push.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got[endpoint]
}

func (p *provider) total() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.order)
}

// senders are an app's senders by channel.
type senders map[push.Channel]push.Sender

func (s senders) Sender(_ context.Context, _ string, ch push.Channel) (push.Sender, error) {
	if p, ok := s[ch]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("channel %s is not set up", ch)
}

// switchable are senders that a test can disable.
type switchable struct {
	senders
	off atomic.Bool
}

func (s *switchable) Sender(ctx context.Context, app string, ch push.Channel) (push.Sender, error) {
	if s.off.Load() {
		return nil, errors.New("it is switched off")
	}
	return s.senders.Sender(ctx, app, ch)
}

// env is a campaign service on a real store.
type env struct {
	*testing.T
	store   *campaigndb.Store
	shelf   *shelves
	svc     *campaign.Service
	senders senders
	path    string
	stop    func()
}

func newEnv(t *testing.T, ss senders) *env {
	t.Helper()
	e := &env{T: t, shelf: &shelves{}, senders: ss, path: sqlitetest.CampaignsFile(t)}
	e.open()
	t.Cleanup(func() { e.close() })
	return e
}

func (e *env) open() {
	e.Helper()
	store, err := campaigndb.Open(e.Context(), e.path, campaigndb.Config{})
	if err != nil {
		e.Fatal(err)
	}
	e.store = store
	e.serve(e.senders)
	e.stop = func() {}
}

// serve creates the service, which uses these senders.
func (e *env) serve(ss dispatch.Senders) {
	e.Helper()
	out, err := dispatch.New(dispatch.Config{Senders: ss, Channels: push.Channels()})
	if err != nil {
		e.Fatal(err)
	}
	e.svc = campaign.New(campaign.Config{Store: e.store, Dispatch: out, Segments: e.shelf, PublicURL: "https://push.example.org"})
}

// run starts the engine.
func (e *env) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.svc.Run(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			e.Errorf("engine: %v", err)
		}
	})
}

func (e *env) close() {
	e.stop()
	if err := e.store.Close(); err != nil {
		e.Error(err)
	}
}

// endpoints registers n endpoints of a channel and returns their ids.
func (e *env) endpoints(ch push.Channel, n int, change ...func(i int, ep *audience.Endpoint)) []audience.ID {
	e.Helper()
	regs := make([]audience.Registration, n)
	for i := range regs {
		ep := audience.Endpoint{ID: audience.NewID(time.Now()), App: app, Channel: ch}
		switch ch {
		case push.Telegram:
			ep.Address = json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, 1000+i))
		default:
			ep.Channel, ep.Address = push.Webhook, json.RawMessage(fmt.Sprintf(`{"url":"https://example.org/%d"}`, i))
		}
		for _, f := range change {
			f(i, &ep)
		}
		if err := ep.Check(); err != nil {
			e.Fatal(err)
		}
		regs[i] = audience.Registration{Endpoint: ep, Trusted: true}
	}
	done, err := e.store.Register(e.Context(), app, regs)
	if err != nil {
		e.Fatal(err)
	}
	ids := make([]audience.ID, n)
	for i, d := range done {
		if d.Err != nil {
			e.Fatal(d.Err)
		}
		ids[i] = d.Endpoint.ID
	}
	return ids
}

func hello() campaign.Spec {
	return campaign.Spec{Content: campaign.Content{Content: push.Content{Title: "Hi {{name|friend}}", URL: "https://example.org/news"}}}
}

func (e *env) create(spec campaign.Spec) string {
	e.Helper()
	v, err := e.svc.Create(e.Context(), app, spec, time.Time{}, "", [32]byte{})
	if err != nil {
		e.Fatal(err)
	}
	return v.ID
}

func (e *env) start(id string) {
	e.Helper()
	if _, err := e.svc.Start(e.Context(), app, id, time.Time{}); err != nil {
		e.Fatal(err)
	}
}

func (e *env) get(id string) *campaign.View {
	e.Helper()
	v, err := e.svc.Get(e.Context(), app, id)
	if err != nil {
		e.Fatal(err)
	}
	return v
}

// patience limits a test's wait for an event that will happen.
const patience = 2 * time.Minute

// until waits until ok returns true for a campaign.
func (e *env) until(id, what string, ok func(*campaign.View) bool) *campaign.View {
	e.Helper()
	var v *campaign.View
	if !eventually.Holds(func() bool { v = e.get(id); return ok(v) }) {
		e.Fatalf("not %s in time: %s %s, %v", what, v.State, v.Detail, v.Counts)
	}
	return v
}

func (e *env) untilState(id string, want campaign.State) *campaign.View {
	e.Helper()
	return e.until(id, string(want), func(v *campaign.View) bool { return v.State == want })
}

// report returns all deliveries by endpoint.
func (e *env) report(id string) map[string]campaign.Delivery {
	e.Helper()
	all := make(map[string]campaign.Delivery)
	cursor := int64(0)
	for {
		page, next, err := e.svc.Report(e.Context(), app, id, nil, 100, cursor)
		if err != nil {
			e.Fatal(err)
		}
		for _, d := range page {
			if _, twice := all[d.Endpoint]; twice {
				e.Fatalf("endpoint %s has two deliveries", d.Endpoint)
			}
			all[d.Endpoint] = d
		}
		if cursor = next; next == 0 {
			return all
		}
	}
}

func (e *env) wantCounts(v *campaign.View, want map[campaign.Outcome]int64) {
	e.Helper()
	for o := campaign.Pending; o <= campaign.TakenBack; o++ {
		if v.Counts[o] != want[o] {
			e.Errorf("%d deliveries are %s, want %d", v.Counts[o], o, want[o])
		}
	}
	rows := make(map[campaign.Outcome]int64)
	for _, d := range e.report(v.ID) {
		rows[d.Outcome]++
	}
	for o, n := range rows {
		if v.Counts[o] != n {
			e.Errorf("the counter says %d %s, the rows say %d", v.Counts[o], o, n)
		}
	}
}

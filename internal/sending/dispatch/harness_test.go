package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/sending/push"
)

// rows is a backlog in memory. Tests read it and change its answers.
type rows struct {
	mu     sync.Mutex
	job    *Job
	all    map[int64]*row
	open   bool // more may be added
	life   time.Duration
	from   func(now time.Time) time.Time
	claim  func(d *Delivery) bool // nil: all
	broken int                    // how many of the next calls of Finish fail
	stale  bool
	// finished sees each result; nil: it is not called.
	finished func(Result)
	claims   [][]int64
	claimed  int // at once, at most
}

type row struct {
	Delivery
	result Result
	next   time.Time // due
	held   bool
	took   time.Duration // time from when it was due until its first request
}

func newRows(n int) *rows {
	s := &rows{all: make(map[int64]*row), life: time.Hour}
	for range n {
		s.add(push.Webhook, time.Now())
	}
	return s
}

func (s *rows) add(ch push.Channel, due time.Time) *row {
	return s.addTo(ch, strconv.Itoa(len(s.all)+1), "", due)
}

// addTo adds a row whose address and recipient matter.
func (s *rows) addTo(ch push.Channel, address, recipient string, due time.Time) *row {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(s.all) + 1)
	r := &row{Delivery: Delivery{Row: n, Channel: ch, Address: json.RawMessage(address), Recipient: recipient}, next: due}
	s.all[n] = r
	return r
}

func (s *rows) Due(_ context.Context, ch push.Channel, now time.Time, limit int) (ds []Delivery, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*row
	for _, r := range s.all {
		if r.result.Outcome == Pending && !r.next.After(now) && !r.held && r.Channel == ch {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b *row) int { return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.Row, b.Row)) })
	for _, r := range due[:min(limit, len(due))] {
		ds = append(ds, r.Delivery)
	}
	return ds, nil
}

func (s *rows) NextDue(_ context.Context, ch push.Channel) (at time.Time, ended bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.result.Outcome == Pending && !r.held && r.Channel == ch && (at.IsZero() || r.next.Before(at)) {
			at = r.next
		}
	}
	return at, !s.open, nil
}

func (s *rows) end() {
	s.mu.Lock()
	s.open = false
	s.mu.Unlock()
	s.job.Kick()
}

func (s *rows) Window(d *Delivery, now time.Time) (from, until time.Time) {
	first := d.First
	if first.IsZero() {
		first = now
	}
	if from = now; s.from != nil {
		from = s.from(now)
	}
	return from, first.Add(s.life)
}

func (s *rows) Claim(_ context.Context, ds []Delivery, now time.Time) (claimed []Delivery, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stale {
		return nil, ErrStale
	}
	var group []int64
	for i := range ds {
		r := s.all[ds[i].Row]
		if s.claim != nil && !s.claim(&ds[i]) {
			r.result.Outcome = Suppressed
			continue
		}
		r.result.Outcome = Sending
		if r.First.IsZero() {
			r.First = now
		}
		group = append(group, r.Row)
		claimed = append(claimed, ds[i])
	}
	s.claims = append(s.claims, group)
	n := 0
	for _, r := range s.all {
		if r.result.Outcome == Sending {
			n++
		}
	}
	s.claimed = max(s.claimed, n)
	return claimed, nil
}

func (s *rows) Request(d *Delivery, now time.Time) push.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[d.Row]
	if r.took == 0 {
		r.took = max(now.Sub(r.next), 1)
	}
	_, until := s.Window(d, now)
	return push.Request{ID: strconv.FormatInt(d.Row, 10), App: "demo", Address: d.Address, ExpiresAt: until}
}

func (s *rows) Finish(_ context.Context, results []Result, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stale {
		return ErrStale
	}
	if s.broken > 0 {
		s.broken--
		return errors.New("the disk is slow")
	}
	for _, res := range results {
		if s.finished != nil {
			s.finished(res)
		}
		r := s.all[res.Row]
		r.result, r.next, r.held = res, res.Due, res.Held
		r.Attempts, r.Unsure = res.Attempts, res.Unsure
	}
	return nil
}

func (s *rows) result(n int64) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[n].result
}

func (s *rows) count(o Outcome) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.result.Outcome == o {
			n++
		}
	}
	return n
}

// service is a provider whose answers a test chooses. It records the times of requests.
type service struct {
	mu     sync.Mutex
	asked  []time.Time
	times  map[string]int // by id
	pace   push.Pace
	takes  time.Duration
	answer func(r push.Request, attempt int) error
	recall func(sent push.Sent, attempt int) error
}

func (p *service) note(id string) (attempt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == nil {
		p.times = make(map[string]int)
	}
	p.asked = append(p.asked, time.Now())
	p.times[id]++
	return p.times[id]
}

func (p *service) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	n := p.note(r.ID)
	if !pause.For(ctx, p.takes) {
		return push.Receipt{}, &push.UnknownError{Reason: context.Cause(ctx).Error()}
	}
	if p.answer == nil {
		return push.Receipt{ExternalID: "m" + r.ID}, nil
	}
	return push.Receipt{}, p.answer(r, n)
}

func (p *service) Pace(json.RawMessage) push.Pace { return p.pace }

func (p *service) Recall(_ context.Context, sent []push.Sent) []error {
	return []error{p.recall(sent[0], p.note(sent[0].Request.ID))}
}

// Sender implements Senders. It returns the same sender for every channel.
func (p *service) Sender(context.Context, string, push.Channel) (push.Sender, error) { return p, nil }

func (p *service) total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// most returns the greatest number of requests within a second.
func (p *service) most() (most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := 0
	for i, at := range p.asked {
		for at.Sub(p.asked[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func newDispatcher(t *testing.T, ss Senders) *Dispatcher {
	t.Helper()
	d, err := New(Config{Senders: ss, Channels: push.Channels()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// begin sends a backlog's rows until it is done or ctx ends. ended waits for the end and returns Run's error.
func (s *rows) begin(t *testing.T, ctx context.Context, d *Dispatcher, w Work) (ended func() error) {
	t.Helper()
	w.App, w.Backlog = "demo", s
	if w.Channels == nil {
		w.Channels = []push.Channel{push.Webhook}
	}
	job, err := d.Job(w)
	if err != nil {
		t.Fatal(err)
	}
	s.job = job
	done := make(chan error, 1)
	go func() { done <- job.Run(ctx, t.Context()) }()
	return func() error { return <-done }
}

func (s *rows) send(t *testing.T, d *Dispatcher) {
	t.Helper()
	if err := s.begin(t, t.Context(), d, Work{})(); err != nil {
		t.Fatal(err)
	}
}

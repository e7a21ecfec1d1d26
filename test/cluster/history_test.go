package cluster

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

var historyFor = flag.Duration("history", time.Duration(thorough.Rounds(4, 6))*time.Second, "how long the whole history of a cluster under mixed faults is kept and then judged")

// The size of a history.
var (
	historyRecipients = thorough.Rounds(12, 25)
	historyPublishers = thorough.Rounds(4, 8)
)

const (
	historyPace     = 100 * time.Millisecond // between two publishes of one
	historyAckEvery = 300 * time.Millisecond // several acknowledgements share a frame
	historyStay     = 3 * time.Second        // of a session, on average
	historyPatience = 3 * time.Second        // with a node that does not answer; then clients try another one
)

var historyModes = []string{"any", "all", "any", "none", "all"}

// past drives a cluster and records its history.
type past struct {
	*history
	t     *testing.T
	c     *Cluster
	runs  atomic.Int32 // how many of the nodes clients know
	wires []*Wire
	db    *pgtest.Server
	begun []string // faults, for the log
}

// TestTheHistoryOfAClusterUnderFaultsIsWhole: all promises to publishers and clients hold under every fault, for every ack mode.
func TestTheHistoryOfAClusterUnderFaultsIsWhole(t *testing.T) {
	blackbox.Long(t)
	db := pgtest.Start(t, pgtest.Options{Fsync: true})
	p := &past{history: newHistory("a", "b"), t: t, db: db}
	p.runs.Store(3)
	p.c = New(t, Options{Nodes: int(p.runs.Load()) + 1, Postgres: func(int) string {
		url, wire := over(t, db.URL())
		p.wires = append(p.wires, wire)
		return url
	}, Serve: []blackbox.Option{blackbox.Plain()}})
	var starting errgroup.Group
	for _, n := range p.c.Nodes[:p.runs.Load()] {
		starting.Go(n.Launch)
	}
	if err := starting.Wait(); err != nil {
		t.Fatal(err)
	}

	listen, stopListening := context.WithCancel(context.Background())
	publish, stopPublishing := context.WithCancel(context.Background())
	var listening, publishing sync.WaitGroup
	t.Cleanup(func() {
		stopPublishing()
		stopListening()
		publishing.Wait()
		listening.Wait()
	})
	for i := range historyRecipients {
		for _, device := range p.devices {
			listening.Go(func() { p.listen(listen, recipient(i), device) })
		}
	}
	p.devicesAreKnown()
	for i := range historyPublishers {
		publishing.Go(func() { p.publish(publish, i) })
	}
	p.faults()
	stopPublishing()
	publishing.Wait()
	p.quiet()
	stopListening()
	listening.Wait()
	p.endings()
	for _, what := range p.judge() {
		t.Error(what)
	}
	t.Logf("%d copies, %d acknowledgements, %d recalls, %d came again, %d of %d with ack none were written to a connection that broke, %d events; faults: %s",
		len(p.copies), p.counts.acks, p.counts.recalls, p.counts.again, p.counts.broken, p.counts.unsure, len(p.events), strings.Join(p.begun, ", "))
}

// node returns a random node that clients know.
func (p *past) node() *blackbox.Server { return p.c.Nodes[rand.N(int(p.runs.Load()))] }

// publish publishes for recipients, and repeats each id until a node has answered that it is stored.
func (p *past) publish(ctx context.Context, publisher int) {
	every(ctx, historyPace, func(n int) {
		id, to, mode := fmt.Sprintf("h%d-%d", publisher, n), recipient(rand.N(historyRecipients)), historyModes[rand.N(len(historyModes))]
		p.publishing(id, to, mode)
		body := map[string]any{"id": id, "to": to, "title": "x", "ack": mode}
		err := blackbox.Poll(context.Background(), 2*blackbox.Patience, func() error { return p.post(body) })
		if err != nil {
			p.mu.Lock()
			p.problem("%s could not be published: %v", id, err)
			p.mu.Unlock()
			return
		}
		p.stored(id)
	})
}

func (p *past) post(body map[string]any) error {
	ctx, cancel := context.WithTimeout(context.Background(), historyPatience)
	defer cancel()
	api := p.node().API()
	defer api.HTTP.CloseIdleConnections()
	a, err := api.Do(ctx, http.MethodPost, "/v1/notifications", body)
	if err == nil && a.Status >= http.StatusMultipleChoices {
		err = fmt.Errorf("%d: %s", a.Status, a.Body)
	}
	return err
}

// listen is a device's client, which reconnects to some node whenever its session ends.
func (p *past) listen(ctx context.Context, to, device string) {
	for ctx.Err() == nil {
		stays, cancel := context.WithTimeout(ctx, historyPatience+rand.N(2*historyStay))
		p.stay(stays, to, device)
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(200 * time.Millisecond)):
		}
	}
}

func (p *past) stay(ctx context.Context, to, device string) {
	transport := []string{"ws", "ws-proto", "grpc"}[rand.N(3)]
	link, err := p.node().Dial(ctx, transport, blackbox.Hello{App: "demo", Recipient: to, Device: device})
	if err != nil {
		return
	}
	defer link.Cut()
	s := p.session(to, device)
	var mu sync.Mutex
	var waiting []string
	done := make(chan struct{})
	var acking sync.WaitGroup
	defer acking.Wait()
	defer close(done)
	acking.Go(func() {
		tick := time.NewTicker(historyAckEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			mu.Lock()
			ids := waiting
			waiting = nil
			mu.Unlock()
			if len(ids) > 0 {
				s.acknowledges(ids)
				_ = link.Ack(ctx, ids...) // on a broken link the session ends anyway
			}
		}
	})
	for {
		f, err := link.Next(ctx)
		switch {
		case err != nil, f.Goodbye != nil, f.Error != nil:
			return
		case f.Recall != nil:
			s.recalled(f.Recall.IDs)
		case f.Notification != nil:
			s.delivered(f.Notification.ID, f.Notification.Seq)
			mu.Lock()
			waiting = append(waiting, f.Notification.ID)
			mu.Unlock()
		}
	}
}

// devicesAreKnown waits until the store knows every device: from then on ack:all waits for each.
func (p *past) devicesAreKnown() {
	p.t.Helper()
	db := connect(p.t, p.db.URL())
	blackbox.Eventually(p.t, "all devices are known", func() error {
		n, want := 0, historyRecipients*len(p.devices)
		err := db.QueryRow(p.t.Context(), "SELECT count(*) FROM godwit_mailbox.device").Scan(&n)
		if err == nil && n != want {
			err = fmt.Errorf("%d of %d are", n, want)
		}
		return err
	})
}

// quiet waits until nothing is pending.
func (p *past) quiet() {
	p.t.Helper()
	api := p.c.Nodes[0].API()
	err := blackbox.Poll(p.t.Context(), 2*blackbox.Patience, func() error {
		n, err := api.Pending(p.t.Context())
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are pending", n)
		}
		return err
	})
	if err != nil {
		p.t.Errorf("not everything ends: %v", err)
	}
}

// endings queries the final status of each copy and reads all events.
func (p *past) endings() {
	p.t.Helper()
	api := p.c.Nodes[0].API()
	var g errgroup.Group
	g.SetLimit(historyPublishers)
	for _, c := range p.answered() {
		g.Go(func() error {
			s, err := api.State(p.t.Context(), c.id, c.to)
			p.ended(c.id, s.Status)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		p.t.Error(err)
	}
	const last = "last" // of all events
	if err := api.Publish(p.t.Context(), map[string]any{"id": last, "to": "nobody", "title": "x"}); err != nil {
		p.t.Fatal(err)
	}
	err := api.Events(p.t.Context(), "stored,delivered,acked,replied,expired,replaced,recalled,failed", func(e blackbox.Event) bool {
		p.event(told{string(e.EventID), e.Type, e.ID, e.To})
		return e.ID != last
	})
	if err != nil {
		p.t.Error(err)
	}
}

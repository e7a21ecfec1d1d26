package cluster

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// The load on the nodes, of which thorough runs have more.
var (
	recipients  = thorough.Rounds(60, 300)
	publishRate = thorough.Rounds(60, 200) // a second
	followers   = thorough.Rounds(8, 30)
	changeRate  = thorough.Rounds(20, 50)
)

const (
	objects      = 40
	followed     = 8  // by each
	publishers   = 16 // also the most publishes under way
	changers     = 8
	publishRetry = 50 * time.Millisecond
	stay         = 5 * time.Second // mean time that clients stay connected; publishers reconnect after stayRequests requests
	stayRequests = 10
	group        = "region-1"
)

// load publishes, changes objects, and receives both as clients do, until it is stopped. It records all promises of the server.
type load struct {
	t     testing.TB
	front *blackbox.Server
	api   *blackbox.API

	stopPublishing, stopListening context.CancelFunc
	publishing, listening         sync.WaitGroup

	mu         sync.Mutex
	stored     map[string]published         // notifications acknowledged to their publisher, by id
	arrived    map[string]time.Time         // first arrival, by id
	seqs       map[string]map[uint64]string // id by seq, for each recipient
	versions   map[string]int64             // latest version of each object that was acknowledged to its publisher
	known      []map[string]int64           // by follower
	again      int                          // arrivals after the first
	failures   map[string]int               // failed attempts, by their error
	longest    time.Duration                // longest time that a publish took, retries included
	gone       time.Duration                // longest time from a session's end to the next welcome
	complaints []string
	begun      time.Time
	ended      time.Time // when publishing did
}

type published struct {
	to string
	at time.Time
}

func startLoad(t testing.TB, front *blackbox.Server) *load {
	t.Helper()
	l := &load{
		t: t, begun: time.Now(), front: front, api: front.API(), stored: map[string]published{}, arrived: map[string]time.Time{}, seqs: map[string]map[uint64]string{},
		versions: map[string]int64{}, known: make([]map[string]int64, followers), failures: map[string]int{},
	}
	publish, stopPublishing := context.WithCancel(context.Background())
	listen, stopListening := context.WithCancel(context.Background())
	l.stopPublishing, l.stopListening = stopPublishing, stopListening
	t.Cleanup(func() {
		stopPublishing()
		stopListening()
		l.publishing.Wait()
		l.listening.Wait()
		l.api.HTTP.CloseIdleConnections()
	})
	for i := range recipients {
		l.listening.Go(func() { l.listen(listen, recipient(i), rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	for i := range followers {
		l.known[i] = map[string]int64{}
		l.listening.Go(func() { l.follow(listen, i) })
	}
	for i := range publishers {
		l.publishing.Go(func() { l.publish(publish, i) })
	}
	for i := range changers {
		l.publishing.Go(func() { l.change(publish, i) })
	}
	return l
}

func recipient(i int) string { return fmt.Sprint("driver-", i) }

func object(i int) string { return fmt.Sprint("o", i%objects) }

// every calls do at a fixed rate or, if do takes longer, as soon as possible.
func every(ctx context.Context, d time.Duration, do func(n int)) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do(n)
		}
	}
}

// publish runs one publisher. It repeats requests without success, with the same id, and never repeats successful ones.
func (l *load) publish(ctx context.Context, p int) {
	r, api := rand.New(rand.NewPCG(2, uint64(p))), l.poster()
	every(ctx, publishers*time.Second/time.Duration(publishRate), func(n int) {
		id, to := fmt.Sprintf("p%d-%d", p, n), recipient(r.IntN(recipients))
		l.insist(api, n, http.MethodPost, "/v1/notifications", map[string]any{"id": id, "to": to, "title": "x", "data": map[string]any{"n": n}}, func() {
			l.stored[id] = published{to, time.Now()}
		})
	})
}

// change changes objects; each changer has objects of its own.
func (l *load) change(ctx context.Context, c int) {
	api := l.poster()
	every(ctx, changers*time.Second/time.Duration(changeRate), func(n int) {
		name, version := object(c+changers*(n%(objects/changers))), int64(n+1)
		l.insist(api, n, http.MethodPut, "/v1/objects/"+group+"/"+name, map[string]any{"version": version, "payload": fmt.Sprint(version), "content_type": "text/plain"}, func() {
			l.versions[name] = max(l.versions[name], version)
		})
	})
}

// poster returns a back end's client with a connection of its own.
func (l *load) poster() *blackbox.API {
	api := l.front.API()
	l.t.Cleanup(api.HTTP.CloseIdleConnections)
	return api
}

// insist repeats a request until it succeeds, and then calls success with l.mu held. Every stayRequests requests it reconnects, perhaps to
// another node.
func (l *load) insist(api *blackbox.API, n int, method, path string, body any, success func()) {
	if n%stayRequests == 0 {
		api.HTTP.CloseIdleConnections()
	}
	ctx, cancel := context.WithTimeout(context.Background(), blackbox.Patience)
	defer cancel()
	begun := time.Now()
	for {
		answer, err := api.Do(ctx, method, path, body)
		l.mu.Lock()
		if err == nil && answer.Status < 300 {
			success()
			l.longest = max(l.longest, time.Since(begun))
			l.mu.Unlock()
			return
		}
		why := "connection broke"
		if err == nil {
			why = fmt.Sprint(answer.Status)
			// HAProxy answers these for a node that dies during the request.
			if answer.Status != http.StatusServiceUnavailable && answer.Status != http.StatusBadGateway {
				l.complain("%s %s: %d %s", method, path, answer.Status, answer.Body)
			}
		}
		if l.failures[why]++; ctx.Err() != nil {
			l.complain("%s %s %v: given up: %v", method, path, body, err)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		time.Sleep(publishRetry)
	}
}

// complain records a complaint. The caller holds l.mu.
func (l *load) complain(format string, args ...any) {
	if len(l.complaints) < 20 {
		l.complaints = append(l.complaints, fmt.Sprintf(format, args...))
	}
}

// listen is a recipient's client: it acknowledges all notifications, and reconnects when its connection breaks or after it has left.
func (l *load) listen(ctx context.Context, to string, r *rand.Rand) {
	ended := time.Now()
	for ctx.Err() == nil {
		stays, cancel := context.WithTimeout(ctx, rand.N(2*stay))
		if l.session(stays, to, ended) {
			ended = time.Now()
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(20+r.IntN(180)) * time.Millisecond):
		}
	}
}

// session is one connection of a client whose previous one ended at ended; it returns whether it was welcomed.
func (l *load) session(ctx context.Context, to string, ended time.Time) (welcomed bool) {
	link, err := l.front.Dial(ctx, "ws", blackbox.Hello{App: "demo", Recipient: to})
	if err != nil {
		return false
	}
	defer link.Cut()
	for {
		f, err := link.Next(ctx)
		switch {
		case err != nil || f.Goodbye != nil:
			return welcomed
		case f.Error != nil:
			l.mu.Lock()
			l.complain("%s got an error frame: %+v", to, *f.Error)
			l.mu.Unlock()
			return welcomed
		case f.Welcome != nil:
			welcomed = true
			l.mu.Lock()
			l.gone = max(l.gone, time.Since(ended))
			l.mu.Unlock()
			continue
		case f.Notification == nil:
			continue
		}
		l.got(to, f.Notification)
		if link.Ack(ctx, f.Notification.ID) != nil {
			return welcomed
		}
	}
}

// got judges an arrival.
func (l *load) got(to string, n *blackbox.Notification) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seqs[to] == nil {
		l.seqs[to] = map[uint64]string{}
	}
	if other, taken := l.seqs[to][n.Seq]; taken && other != n.ID {
		l.complain("%s got %s and %s with seq %d", to, other, n.ID, n.Seq)
	}
	l.seqs[to][n.Seq] = n.ID
	if _, before := l.arrived[n.ID]; before {
		l.again++
		return
	}
	l.arrived[n.ID] = time.Now()
}

// follow is a client of objects that uses the client library, which reconnects by itself.
func (l *load) follow(ctx context.Context, i int) {
	fail := func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.complain("follower %d: %v", i, err)
	}
	os, err := godwit.NewObjects(group)
	if err != nil {
		fail(err)
		return
	}
	for k := range followed {
		name := object(i*3 + k)
		err := os.Register(func(_ context.Context, s *godwit.Signal) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if !s.Unknown {
				l.known[i][name] = max(l.known[i][name], int64(s.Version))
			}
			return nil
		}, name)
		if err != nil {
			fail(err)
			return
		}
	}
	client, err := godwit.New("http://"+l.front.HTTP, godwit.WithApp("demo"))
	if err != nil {
		fail(err)
		return
	}
	defer client.Close()
	for ctx.Err() == nil {
		stays, cancel := context.WithTimeout(ctx, rand.N(2*stay))
		err = client.Listen(stays, fmt.Sprint("unit-", i), func(context.Context, *godwit.Notification) error { return nil },
			godwit.Device("d"), godwit.Follow(os), godwit.OnError(fail))
		cancel()
		if stays.Err() == nil {
			fail(err)
		}
	}
}

// told waits until every follower has the current versions of the objects, and returns how long that took.
func (l *load) told(what string) time.Duration {
	l.t.Helper()
	begun := time.Now()
	l.mu.Lock()
	goal := maps.Clone(l.versions)
	l.mu.Unlock()
	blackbox.Eventually(l.t, "followers know all objects "+what, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range l.known {
			for k := range followed {
				if name := object(i*3 + k); l.known[i][name] < goal[name] {
					return fmt.Errorf("follower %d knows %s at %d of %d", i, name, l.known[i][name], goal[name])
				}
			}
		}
		return nil
	})
	return time.Since(begun)
}

// goesOn waits while publishing continues at no less than a tenth of its rate, in case the machine is busy.
func (l *load) goesOn(d time.Duration) {
	l.t.Helper()
	stored := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.stored)
	}
	begun, goal := time.Now(), stored()+publishRate*int(d/time.Millisecond)/10_000
	blackbox.EventuallyWithin(l.t, d+blackbox.Patience, "publishing goes on", func() error {
		if n := stored(); n < goal || time.Since(begun) < d {
			return fmt.Errorf("%d of %d are published", n, goal)
		}
		return nil
	})
}

// end stops publishing, waits until all is acknowledged, and fails the test for lost or doubled notifications.
func (l *load) end() {
	l.t.Helper()
	l.stopPublishing()
	l.publishing.Wait()
	l.ended = time.Now()
	blackbox.Eventually(l.t, "everything acknowledged", func() error {
		pending, err := l.api.Pending(l.t.Context())
		if err == nil && pending > 0 {
			err = fmt.Errorf("%d are pending", pending)
		}
		return err
	})
	l.told("in the end")
	l.stopListening()
	l.listening.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.complaints {
		l.t.Error(c)
	}
	lost, delays := 0, []time.Duration{}
	for id, p := range l.stored {
		at, ok := l.arrived[id]
		if !ok {
			if lost++; lost <= 10 {
				l.t.Errorf("%s for %s was acknowledged and never arrived", id, p.to)
			}
			continue
		}
		delays = append(delays, at.Sub(p.at))
	}
	if lost > 0 {
		l.t.Errorf("%d of %d were lost", lost, len(l.stored))
	}
	l.ackedOnce()
	slices.Sort(delays)
	if len(delays) == 0 {
		l.t.Fatal("nothing was published")
	}
	l.t.Logf("%d published in %s, longest %s; sessions gone %s at most; failed attempts %v; arrived after %s (p50), %s (p99), %s at most; %d came again", len(l.stored), l.ended.Sub(l.begun).Round(time.Second),
		l.longest.Round(time.Millisecond), l.gone.Round(time.Millisecond), l.failures, delays[len(delays)/2].Round(time.Microsecond), delays[len(delays)*99/100].Round(time.Millisecond),
		delays[len(delays)-1].Round(time.Millisecond), l.again)
}

// ackedOnce checks each status, and checks in the events that each copy was acknowledged once. The events of a killed node may be missing.
func (l *load) ackedOnce() {
	l.t.Helper()
	var g errgroup.Group
	g.SetLimit(publishers)
	for id, p := range l.stored {
		g.Go(func() error { return l.api.WantState(l.t.Context(), id, p.to, "acked") })
	}
	if err := g.Wait(); err != nil {
		l.t.Error(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	const last = "last" // of all events
	if err := l.api.Publish(ctx, map[string]any{"id": last, "to": "nobody", "title": "x"}); err != nil {
		l.t.Fatal(err)
	}
	acked := map[string]int{}
	err := l.api.Events(ctx, "acked,stored", func(e blackbox.Event) bool {
		if e.Type == "acked" {
			acked[e.ID]++
		}
		return e.ID != last
	})
	if err != nil {
		l.t.Error(err)
	}
	for id, n := range acked {
		if n > 1 {
			l.t.Errorf("%s was settled %d times", id, n)
		}
	}
	l.t.Logf("events tell of %d acknowledgements", len(acked))
}

package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

var (
	stopRate = flag.Bool("stop-rate", false, "whether publishing has to be back at 80 % of its rate within 2 s after a node was stopped")
	stops    = flag.Int("stops", thorough.Rounds(1, 2), "how often a node is stopped (SIGSTOP) under load")
)

const (
	stopPublishers = 8  // per node, each with one publish under way
	stopRecipients = 40 // of all of them
	// stopMore is how many publishes each node answers while another is stopped: every publisher comes to every recipient, so also to
	// those whom the stopped node has locked.
	stopMore = stopPublishers * stopRecipients
	// Rates are compared in intervals of stopLook. The usual rate is measured during stopBefore.
	stopLook   = 500 * time.Millisecond
	stopBefore = 3 * time.Second
	stopBack   = 2 * time.Second
	stopShare  = 0.8
)

// stopLoad publishes on several nodes at once to recipients that all nodes share.
type stopLoad struct {
	t    *testing.T
	end  context.CancelFunc
	busy sync.WaitGroup

	mu      sync.Mutex
	begun   time.Time
	stored  map[string]string // recipients, by the ids of successful publishes
	at      [][]time.Time     // times of successful publishes, by node
	arrived map[string]bool
}

func startStopLoad(t *testing.T, c *Cluster) *stopLoad {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	l := &stopLoad{t: t, end: end, begun: time.Now(), stored: map[string]string{}, at: make([][]time.Time, len(c.Nodes)), arrived: map[string]bool{}}
	t.Cleanup(func() { end(); l.busy.Wait() })
	for i, n := range c.Nodes {
		for p := range stopPublishers {
			api := n.API()
			t.Cleanup(api.HTTP.CloseIdleConnections)
			l.busy.Go(func() { l.publish(ctx, api, i, p) })
		}
	}
	return l
}

func stopRecipient(i int) string { return fmt.Sprint("r", i%stopRecipients) }

// publish repeats failed publishes with the same id, as back ends do.
func (l *stopLoad) publish(ctx context.Context, api *blackbox.API, node, publisher int) {
	for n := 0; ctx.Err() == nil; n++ {
		id, to := fmt.Sprintf("%d-%d-%d", node, publisher, n), stopRecipient(n*7+publisher)
		body := map[string]any{"id": id, "to": to, "title": "x"}
		for ctx.Err() == nil {
			answer, err := api.Do(ctx, http.MethodPost, "/v1/notifications", body)
			if err == nil && answer.Status < 300 {
				l.mu.Lock()
				l.stored[id] = to
				l.at[node] = append(l.at[node], time.Now())
				l.mu.Unlock()
				break
			}
			if err == nil && (answer.Status != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "") {
				l.t.Errorf("publish %s: %d %s", id, answer.Status, answer.Body)
				return
			}
			time.Sleep(publishRetry)
		}
	}
}

// count returns how many publishes all nodes but one answered in a period.
func (l *stopLoad) count(but int, from, to time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for node, at := range l.at {
		if node != but {
			first, _ := slices.BinarySearchFunc(at, from, time.Time.Compare)
			last, _ := slices.BinarySearchFunc(at, to, time.Time.Compare)
			n += last - first
		}
	}
	return n
}

// goOn waits until each node but one has answered more further publishes.
func (l *stopLoad) goOn(but, more int, least time.Duration) {
	l.t.Helper()
	counts := func() (list []int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for node, at := range l.at {
			if node != but {
				list = append(list, len(at))
			}
		}
		return list
	}
	before, begun := counts(), time.Now()
	blackbox.EventuallyWithin(l.t, least+blackbox.Patience, "the nodes that run go on publishing", func() error {
		for i, n := range counts() {
			if n < before[i]+more {
				return fmt.Errorf("one has stored %d of %d", n-before[i], more)
			}
		}
		if time.Since(begun) < least {
			return errors.New("it has not lasted long enough")
		}
		return nil
	})
}

// TestOthersGoOnPublishingWhileANodeIsStopped: the stopped node's transactions have locked recipients to which the other nodes publish,
// too.
func TestOthersGoOnPublishingWhileANodeIsStopped(t *testing.T) {
	blackbox.Long(t)
	url := pgtest.Database(t)
	c := Start(t, Options{Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Plain()}})
	const stopped = 0
	var links []blackbox.Link
	for i := range stopRecipients {
		links = append(links, dial(t, c.Nodes[1+i%2], "ws", stopRecipient(i)))
	}
	l := startStopLoad(t, c)
	var listening sync.WaitGroup
	ctx, stopListening := context.WithCancel(t.Context())
	defer func() { stopListening(); listening.Wait() }()
	for i, link := range links {
		listening.Go(func() { l.listen(ctx, link, stopRecipient(i)) })
	}
	before, during := time.Duration(0), time.Duration(0)
	if measured := *stopRate || thorough.Run(); measured {
		before, during = stopBefore, 2*stopBack
	}
	for range *stops {
		l.goOn(-1, 50, before)
		at := time.Now()
		if err := syscall.Kill(c.Nodes[stopped].PID(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(c.Nodes[stopped].PID(), syscall.SIGCONT) }) // otherwise it could not be ended
		l.goOn(stopped, stopMore, during)
		if during > 0 {
			l.judge(stopped, at, time.Now())
		}
		if err := syscall.Kill(c.Nodes[stopped].PID(), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	l.goOn(-1, 50, 0)
	l.end()
	l.busy.Wait()
	blackbox.Eventually(t, "everything that was stored arrived", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id, to := range l.stored {
			if !l.arrived[id] {
				return fmt.Errorf("%s for %s did not, of %d", id, to, len(l.stored))
			}
		}
		return nil
	})
}

// judge reports the rate while a node was stopped.
func (l *stopLoad) judge(stopped int, at, until time.Time) {
	l.t.Helper()
	usual := float64(l.count(stopped, at.Add(-stopBefore), at)) / stopBefore.Seconds()
	lowest, back := usual, time.Duration(0)
	for from := at; from.Add(stopLook).Before(until); from = from.Add(stopLook / 5) {
		rate := float64(l.count(stopped, from, from.Add(stopLook))) / stopLook.Seconds()
		lowest = min(lowest, rate)
		if from.Before(at.Add(stopBack)) && rate < stopShare*usual {
			back = from.Sub(at) + stopLook/5
		}
	}
	after := float64(l.count(stopped, at.Add(stopBack), until)) / until.Sub(at.Add(stopBack)).Seconds()
	l.t.Logf("the others stored %.0f/s before, %.0f/s at the lowest, at 80 %% again after %s, and %.0f/s from %s on", usual, lowest, back.Round(time.Millisecond), after, stopBack)
	if *stopRate && after < stopShare*usual {
		l.t.Errorf("%s after a node was stopped the others store %.0f/s, before %.0f/s", stopBack, after, usual)
	}
}

// listen reads notifications and reports a wrong order: a publisher sends its next notification only when the previous one is stored.
func (l *stopLoad) listen(ctx context.Context, link blackbox.Link, to string) {
	last := map[[2]int]int{}
	for {
		n, err := blackbox.NextNotification(ctx, link)
		if err != nil {
			if ctx.Err() == nil {
				l.t.Errorf("%s: %v", to, err)
			}
			return
		}
		var node, publisher, number int
		if _, err := fmt.Sscanf(n.ID, "%d-%d-%d", &node, &publisher, &number); err != nil {
			l.t.Errorf("%s got %s", to, n.ID)
			return
		}
		l.mu.Lock()
		if of := [2]int{node, publisher}; !l.arrived[n.ID] {
			if before, some := last[of]; some && number < before {
				l.t.Errorf("%s got %s after number %d", to, n.ID, before)
			}
			last[of] = number
		}
		l.arrived[n.ID] = true
		l.mu.Unlock()
		if err := link.Ack(ctx, n.ID); err != nil && ctx.Err() == nil {
			l.t.Errorf("%s: %v", to, err)
			return
		}
	}
}

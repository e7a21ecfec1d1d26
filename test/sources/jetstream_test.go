package sources

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/cluster"
)

// desk publishes to a stream of a NATS that ends and starts again, and remembers what it has published.
type desk struct {
	*testing.T
	nats    *natsProcess
	js      jetstream.JetStream
	readers *readers
	goal    int // messages

	mu   sync.Mutex
	want map[string][]string // titles by recipient, in order
	n    int
}

func newDesk(t *testing.T, r *readers) *desk {
	t.Helper()
	d := &desk{T: t, readers: r, goal: thorough.Rounds(2_000, 50_000), want: make(map[string][]string)}
	d.nats = startNATS(t)
	nc, err := nats.Connect(d.nats.URL, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if d.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(blackbox.Patience)); err == nil {
		_, err = d.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "NEWS", Subjects: []string{"news.>"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run publishes until there are as many messages as wanted, and at last one for every recipient.
func (d *desk) run(ctx context.Context) {
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(34, uint64(w)))
			for i := 0; d.published() < d.goal && ctx.Err() == nil; i++ {
				if d.published()-d.readers.received() > lead {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				d.publish(ctx, ofWriter(w)[r.IntN(each)], fmt.Sprintf("%d.%d", w, i))
			}
		})
	}
	wg.Wait()
	for _, to := range recipients() {
		d.publish(ctx, to, "end")
	}
}

func (d *desk) published() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// publish publishes a message until NATS has it. Half of the messages tell NATS their id alone, so that repeats are one message there; the
// others have it in their JSON as well.
func (d *desk) publish(ctx context.Context, to, title string) {
	m := &nats.Msg{Subject: "news." + to, Header: nats.Header{jetstream.MsgIDHeader: {to + "-" + title}}, Data: fmt.Appendf(nil, `{"to":%q,"title":%q}`, to, title)}
	if len(title)%2 == 0 {
		m.Data = fmt.Appendf(nil, `{"to":%q,"title":%q,"id":"own-%s-%s"}`, to, title, to, title)
	}
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, time.Second)
		_, err := d.js.PublishMsg(within, m)
		cancel()
		if err == nil {
			break
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want[to] = append(d.want[to], title)
	d.n++
}

// arrive waits until a share of the messages has arrived.
func (d *desk) arrive(share float64) {
	d.Helper()
	blackbox.Eventually(d, "messages arrive", func() error {
		if n, at := d.readers.received(), int(float64(d.goal)*share); n < at {
			return fmt.Errorf("%d of %d did", n, at)
		}
		return nil
	})
}

// tryStream kills the node that reads the stream, and stops and kills NATS, while messages flow.
func tryStream(t *testing.T, kills, restarts, crashes int, nodes ...*blackbox.Server) {
	t.Helper()
	r := startReaders(t, nodes...)
	d := newDesk(t, r)
	if out, err := nodes[0].Run("source", "add", "news", "--kind", "jetstream", "--app", "demo", "--data", nodes[0].Dir, "--operator-key-file", blackbox.OperatorKey(t, nodes...), "--nats-url", d.nats.URL, "--stream", "NEWS", "--subject", "news.>"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tr := &trial{T: t, source: "jetstream", nodes: nodes, readers: r}
	faults := make([]func(), 0, kills+restarts+crashes)
	for range kills {
		faults = append(faults, func() {
			owner := tr.owner()
			owner.Kill()
			if err := owner.Launch(); err != nil {
				t.Fatal(err)
			}
		})
	}
	for range restarts {
		faults = append(faults, d.nats.Restart)
	}
	for range crashes {
		faults = append(faults, d.nats.Crash)
	}
	rand.New(rand.NewPCG(34, 34)).Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	var running sync.WaitGroup
	running.Go(func() { d.run(t.Context()) })
	for i, fault := range faults {
		d.arrive(float64(i+1) / float64(len(faults)+1))
		fault()
	}
	running.Wait()
	r.ended(t)
	(&office{want: d.want}).compare(t, r.has)
	api := tr.owner().API()
	defer api.HTTP.CloseIdleConnections()
	var one struct {
		State, Detail string
		Quarantined   int
		Entries       int `json:"lag_entries"`
	}
	blackbox.Eventually(t, "the source has caught up", func() error {
		if api.Call(t, http.MethodGet, "/v1/sources/news", nil, &one); one.State != "running" || one.Quarantined != 0 || one.Entries != 0 || one.Detail != "" {
			return fmt.Errorf("it is %+v", one)
		}
		return nil
	})
	t.Logf("%d messages, %d kills, %d restarts and %d kills of NATS, %d arrivals repeated", d.n, kills, restarts, crashes, r.again)
}

func TestMessagesOfAStreamArriveOnceInOrderWhateverIsKilled(t *testing.T) {
	t.Parallel()
	s := blackbox.Start(t, append([]blackbox.Option{blackbox.Dev()}, serve...)...)
	tryStream(t, thorough.Rounds(2, 20), thorough.Rounds(1, 5), thorough.Rounds(1, 10), s)
}

func TestMessagesOfAStreamArriveOnceInOrderWhenTheNodesThatReadAreKilled(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	thorough.Only(t, "TestMessagesOfAStreamArriveOnceInOrderWhateverIsKilled")
	c := cluster.Start(t, cluster.Options{Serve: serve})
	tryStream(t, 20, 5, 10, c.Nodes...)
}

func TestDoctorExaminesTheStreamsOfSources(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	s := blackbox.Start(t, append([]blackbox.Option{blackbox.Dev()}, serve...)...)
	s.API().Call(t, http.MethodPut, "/v1/sources/jetstream", map[string]any{"url": d.nats.URL, "stream": "OLDS", "token": "sekret-of-the-nats"}, nil)
	out, err := s.Run("doctor", "--data", s.Dir)
	if err == nil || !strings.Contains(out, "jetstream of app demo: the stream OLDS does not exist") || strings.Contains(out, "sekret") {
		t.Errorf("%v\n%s", err, out)
	}
}

package godwit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
)

// server is a real server, in this process, with a folder of its own.
type server struct {
	app *app.App
	cfg *config.Config
}

func startServer(dir string, change func(*config.Config)) (*server, error) {
	cfg := config.Default()
	cfg.Data, cfg.HTTPAddr, cfg.GRPCAddr, cfg.Dev, cfg.MinFree = dir, "127.0.0.1:0", "127.0.0.1:0", true, 1<<20
	if change != nil {
		change(cfg)
	}
	a, err := app.Start(context.Background(), cfg, app.Options{Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		return nil, err
	}
	return &server{a, cfg}, nil
}

func (s *server) addrs() datadir.Addresses { return s.app.Addresses() }
func (s *server) url() string              { return "http://" + s.addrs().HTTP }

func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.app.Stop(ctx)
}

func run(t *testing.T, change func(*config.Config)) *server {
	t.Helper()
	s, err := startServer(t.TempDir(), change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func client(t *testing.T, s *server, opts ...godwit.Option) *godwit.Client {
	t.Helper()
	c, err := godwit.New(s.url(), append([]godwit.Option{godwit.WithAPIKey("dev")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// transports runs a test over WebSocket and HTTP, and over gRPC alone.
func transports(t *testing.T, test func(t *testing.T, s *server, c *godwit.Client)) {
	for _, name := range []string{"websocket", "grpc"} {
		t.Run(name, func(t *testing.T) {
			s := run(t, nil)
			var opts []godwit.Option
			if name == "grpc" {
				opts = append(opts, godwit.WithGRPC(s.addrs().GRPC), godwit.WithRPC())
			}
			test(t, s, client(t, s, opts...))
		})
	}
}

// collector is a handler that records its notifications.
type collector struct {
	mu  sync.Mutex
	got []*godwit.Notification
	ch  chan *godwit.Notification
}

func newCollector() *collector { return &collector{ch: make(chan *godwit.Notification, 10_000)} }

func (c *collector) handle(_ context.Context, n *godwit.Notification) error {
	c.mu.Lock()
	c.got = append(c.got, n)
	c.mu.Unlock()
	c.ch <- n
	return nil
}

func (c *collector) next(t *testing.T) *godwit.Notification {
	t.Helper()
	select {
	case n := <-c.ch:
		return n
	case <-time.After(time.Minute):
		t.Fatal("no notification came")
		return nil
	}
}

// listen starts a listener that ends with the test.
func listen(t *testing.T, c *godwit.Client, recipient string, h godwit.Handler, opts ...godwit.ListenOption) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Listen(ctx, recipient, h, opts...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen returned %v", err)
		}
	})
}

func TestPublishedNotificationArrivesWholeAndIsAcknowledged(t *testing.T) {
	transports(t, func(t *testing.T, _ *server, c *godwit.Client) {
		got := newCollector()
		listen(t, c, "driver-42", got.handle, godwit.Device("phone"))
		for _, p := range []godwit.Publication{
			{To: "driver-42", ID: "json", Title: "New ride", Body: "2.1 km away", Category: "NEW_RIDE", Data: []byte(`{"fare":120}`), Priority: "high", TTL: time.Minute},
			{To: "driver-42", ID: "text", Data: []byte("two\nlines ☂")},
			{To: "driver-42", ID: "bytes", Data: []byte{0, 255, 128, 10}},
			{To: "driver-42", ID: "typed", Data: []byte(`"quoted"`), ContentType: "application/vnd.x+json"},
			{To: "driver-42", ID: "bare", Category: "PING"},
		} {
			r, err := c.Publish(t.Context(), p)
			if err != nil || r.ID != p.ID || r.Status != "stored" || r.Duplicate {
				t.Fatalf("published %s: %+v, %v", p.ID, r, err)
			}
			n := got.next(t)
			if n.ID != p.ID || n.Title != p.Title || n.Body != p.Body || n.Category != p.Category || string(n.Data) != string(p.Data) || n.Attempt != 1 {
				t.Errorf("published %+v, got %+v", p, n)
			}
			if p.Priority != "" && n.Priority != p.Priority {
				t.Errorf("priority %s", n.Priority)
			}
			if !n.ExpiresAt.Equal(r.ExpiresAt) || n.CreatedAt.After(n.ExpiresAt) {
				t.Errorf("from %s to %s, receipt says to %s", n.CreatedAt, n.ExpiresAt, r.ExpiresAt)
			}
			s, err := c.Wait(t.Context(), p.ID, p.To)
			if err != nil || s.Status != "acked" || s.AckedAt.IsZero() {
				t.Errorf("status of %s: %+v, %v", p.ID, s, err)
			}
		}
	})
}

func TestSameIDIsADuplicateAndOtherContentAConflict(t *testing.T) {
	c := client(t, run(t, nil))
	p := godwit.Publication{To: "a", ID: "x", Title: "one"}
	if _, err := c.Publish(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Publish(t.Context(), p); err != nil || !r.Duplicate {
		t.Errorf("again: %+v, %v", r, err)
	}
	p.Title = "two"
	_, err := c.Publish(t.Context(), p)
	var e *godwit.Error
	if !errors.As(err, &e) || e.Status != http.StatusConflict || e.Type != "/problems/id-conflict" {
		t.Errorf("other content: %v", err)
	}
}

func TestListAndBatchAnswerEveryRecipientInOrder(t *testing.T) {
	c := client(t, run(t, nil))
	rs, err := c.PublishTo(t.Context(), godwit.Publication{Title: "x"}, "a", "not a name", "b")
	if err != nil || len(rs) != 3 {
		t.Fatalf("%v, %v", rs, err)
	}
	var e *godwit.Error
	if rs[0].Err != nil || rs[2].Err != nil || rs[0].ID != rs[2].ID || !errors.As(rs[1].Err, &e) || e.Status != http.StatusBadRequest {
		t.Errorf("receipts %+v", rs)
	}
	var ps []godwit.Publication
	for i := range 10_100 { // more than one request takes
		ps = append(ps, godwit.Publication{To: fmt.Sprint("r", i%100), ID: fmt.Sprint("n", i), Title: "Hi"})
	}
	ps[7].To = "no name"
	ps[8].Data, ps[8].ContentType = []byte("{"), "application/json"
	rs, err = c.PublishBatch(t.Context(), ps)
	if err != nil || len(rs) != len(ps) {
		t.Fatalf("%d receipts, %v", len(rs), err)
	}
	for i, r := range rs {
		if bad := i == 7 || i == 8; bad != (r.Err != nil) || r.To != ps[i].To || r.ID != ps[i].ID {
			t.Fatalf("receipt %d for %s to %s: %+v", i, ps[i].ID, ps[i].To, r)
		}
	}
}

func TestRecalledNotificationIsTakenBack(t *testing.T) {
	transports(t, func(t *testing.T, _ *server, c *godwit.Client) {
		started, recalled, cause := make(chan struct{}), make(chan []string, 1), make(chan error, 1)
		listen(t, c, "a", func(ctx context.Context, _ *godwit.Notification) error {
			close(started)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		}, godwit.OnRecall(func(ids []string) { recalled <- ids }))
		if _, err := c.Publish(t.Context(), godwit.Publication{To: "a", ID: "x", Title: "Hi"}); err != nil {
			t.Fatal(err)
		}
		<-started
		if err := c.Recall(t.Context(), "x", "a"); err != nil {
			t.Fatal(err)
		}
		if err := <-cause; !errors.Is(err, godwit.ErrRecalled) {
			t.Errorf("the handler's context ended with %v", err)
		}
		if ids := <-recalled; !slices.Equal(ids, []string{"x"}) {
			t.Errorf("told of %v", ids)
		}
		if s, err := c.Status(t.Context(), "x", "a"); err != nil || s.Status != "recalled" {
			t.Errorf("status %+v, %v", s, err)
		}
	})
}

func TestFailedHandlerGetsItAgainAndTheSecondAttemptSaysSo(t *testing.T) {
	transports(t, func(t *testing.T, _ *server, c *godwit.Client) {
		var attempts []int
		done := make(chan struct{})
		listen(t, c, "a", func(_ context.Context, n *godwit.Notification) error {
			if attempts = append(attempts, n.Attempt); len(attempts) == 1 {
				return godwit.NackAfter(100*time.Millisecond, errors.New("not yet"))
			}
			close(done)
			return nil
		})
		if _, err := c.Publish(t.Context(), godwit.Publication{To: "a", ID: "x", Title: "Hi"}); err != nil {
			t.Fatal(err)
		}
		<-done
		if !slices.Equal(attempts, []int{1, 2}) {
			t.Errorf("attempts %v", attempts)
		}
	})
}

func TestListenerOutlivesARestartOfTheServer(t *testing.T) {
	dir := t.TempDir()
	s, err := startServer(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, s)
	got, welcomes := newCollector(), make(chan godwit.Welcome, 10)
	var byes []error
	listen(t, c, "a", got.handle, godwit.OnConnect(func(w godwit.Welcome) { welcomes <- w }),
		godwit.OnDisconnect(func(err error, _ time.Duration) { byes = append(byes, err) }))
	<-welcomes
	if _, err := c.Publish(t.Context(), godwit.Publication{To: "a", ID: "before", Title: "Hi"}); err != nil {
		t.Fatal(err)
	}
	got.next(t)
	if _, err := c.Wait(t.Context(), "before", "a"); err != nil {
		t.Fatal(err)
	}
	addrs := s.addrs()
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s, err = startServer(dir, func(cfg *config.Config) { cfg.HTTPAddr, cfg.GRPCAddr = addrs.HTTP, addrs.GRPC })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.Publish(t.Context(), godwit.Publication{To: "a", ID: "after", Title: "Hi"}); err != nil {
		t.Fatal(err)
	}
	if n := got.next(t); n.ID != "after" {
		t.Errorf("got %s", n.ID)
	}
	<-welcomes
	if len(byes) == 0 || !strings.Contains(byes[0].Error(), "shutdown") {
		t.Errorf("disconnected because of %v", byes)
	}
	if _, err := c.Wait(t.Context(), "after", "a"); err != nil {
		t.Error(err)
	}
}

func TestPeekSeesWithoutSettling(t *testing.T) {
	c := client(t, run(t, nil))
	seen := newCollector()
	listen(t, c, "a", seen.handle, godwit.Peek())
	if _, err := c.Publish(t.Context(), godwit.Publication{To: "a", ID: "x", Title: "Hi"}); err != nil {
		t.Fatal(err)
	}
	seen.next(t)
	if s, err := c.Status(t.Context(), "x", "a"); err != nil || s.Settled() {
		t.Errorf("after a peek it is %+v, %v", s, err)
	}
}

func TestObservingAnInboxSettlesNothingAndTellsWhatIsMarked(t *testing.T) {
	s := run(t, nil)
	c := client(t, s)
	for name, opts := range map[string][]godwit.Option{"websocket": nil, "grpc": {godwit.WithGRPC(s.addrs().GRPC)}} {
		watcher := client(t, s, append(opts, godwit.WithAPIKey(""))...)
		seen, news := newCollector(), make(chan godwit.InboxNews, 10)
		listen(t, watcher, name, seen.handle, godwit.Observe(), godwit.OnInbox(func(n godwit.InboxNews) { news <- n }))
		yes := true
		p := godwit.Publication{To: name, ID: name + "-x", Title: "Hi", Inbox: &yes, Actions: []godwit.Action{{ID: "ok", Title: "OK"}}}
		if _, err := c.Publish(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		seen.next(t)
		if n := <-news; n.Unseen != 1 || len(n.Marked) > 0 {
			t.Errorf("%s: the item came as %+v", name, n)
		}
		if got, err := c.Status(t.Context(), p.ID, name); err != nil || got.Settled() {
			t.Errorf("%s: after it was seen it is %+v, %v", name, got, err)
		}
		it, counts, err := c.MarkInbox(t.Context(), name, p.ID, godwit.InboxMark{Answered: "ok"})
		if err != nil || it.Answered != "ok" || it.AnsweredAt.IsZero() || it.ReadAt.IsZero() || counts.Unread != 0 {
			t.Errorf("%s: the answered item is %+v, %+v, %v", name, it, counts, err)
		}
		want := godwit.InboxNews{Changed: []string{p.ID}, Marked: []godwit.InboxState{{ID: p.ID, Seen: true, Read: true, Answered: "ok"}}}
		if n := <-news; !reflect.DeepEqual(n, want) {
			t.Errorf("%s: told of %+v, want %+v", name, n, want)
		}
		if _, err := c.Wait(t.Context(), p.ID, name); err != nil {
			t.Errorf("%s: the answer settles nothing: %v", name, err)
		}
	}
}

func TestListenOutsideDevelopmentNeedsAToken(t *testing.T) {
	dir := t.TempDir()
	keyFile := dir + "/key"
	if err := os.WriteFile(keyFile, []byte("a-key-that-is-long-enough\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := run(t, func(cfg *config.Config) {
		cfg.Dev, cfg.BootstrapApp, cfg.BootstrapKeyFile = false, "rides", keyFile
	})
	for name, opts := range map[string][]godwit.Option{
		"websocket": {godwit.WithAPIKey("a-key-that-is-long-enough")},
		"grpc":      {godwit.WithAPIKey("a-key-that-is-long-enough"), godwit.WithGRPC(s.addrs().GRPC)},
		"bad token": {godwit.WithToken("nonsense")},
	} {
		c := client(t, s, opts...)
		err := c.Listen(t.Context(), "a", nil)
		var refused *godwit.RefusedError
		if !errors.As(err, &refused) || refused.Reason != "unauthenticated" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEventsResumeWhereTheyWere(t *testing.T) {
	c := client(t, run(t, nil))
	for _, id := range []string{"one", "two", "three"} {
		if _, err := c.Publish(t.Context(), godwit.Publication{To: "a", ID: id, Title: "Hi"}); err != nil {
			t.Fatal(err)
		}
	}
	var since string
	var got []string
	for ev, err := range c.Events(t.Context(), "0", "stored") {
		if err != nil {
			t.Fatal(err)
		}
		got, since = append(got, ev.ID), ev.EventID
		if ev.ID == "two" {
			break
		}
	}
	for ev, err := range c.Events(t.Context(), since, "stored") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.ID)
		break
	}
	if !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("events %v", got)
	}
}

func TestWaitKnowsThatDeliveryEndsWhatNobodyMustAcknowledge(t *testing.T) {
	c := client(t, run(t, nil))
	if _, err := c.Publish(t.Context(), godwit.Publication{To: "a", ID: "x", Ack: "none", Title: "Hi"}); err != nil {
		t.Fatal(err)
	}
	listen(t, c, "a", newCollector().handle)
	if s, err := c.Wait(t.Context(), "x", "a"); err != nil || s.Status != "delivered" || s.SettledAt.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	c := client(t, run(t, nil))
	if _, err := c.Publish(t.Context(), godwit.Publication{To: "a", ID: "x", Title: "Hi"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(io.EOF) })
	if s, err := c.Wait(ctx, "x", "a"); err == nil {
		t.Errorf("returned %+v", s)
	}
}

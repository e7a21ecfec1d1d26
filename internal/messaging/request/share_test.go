package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is a session's connection that counts its writes. The worker's lock guards it.
type line struct {
	corked, held int // calls of Cork without Uncork yet; frames that wait for Uncork
	deepest      int
	frames       int // written
	writes       int
	full         bool
}

var _ session.Sender = (*line)(nil)

func (l *line) Format() frame.Format { return frame.Proto }
func (l *line) Queued() int          { return 0 }

func (l *line) Send(frame.ServerKind, []byte, []byte) bool {
	switch {
	case l.full:
		return false
	case l.corked > 0:
		l.held++
	default:
		l.frames++
		l.writes++
	}
	return true
}

func (l *line) Cork() {
	l.corked++
	l.deepest = max(l.deepest, l.corked)
}

func (l *line) Uncork() {
	if l.corked--; l.corked == 0 && l.held > 0 {
		l.frames += l.held
		l.held = 0
		l.writes++
	}
}

// nowhere is a bus without other clients.
type nowhere struct{ Bus }

func (nowhere) Alone(string) bool { return true }

func (nowhere) Served(string, string) (bool, error) { return false, topic.ErrUnavailable }

func (nowhere) Subscribe(string, string, string, func(topic.Message), func(int)) (func(), error) {
	return func() {}, nil
}

func newWorker(t *testing.T, window uint16) (*Service, *line, *worker) {
	t.Helper()
	s := New(Config{Bus: nowhere{}})
	l := &line{}
	w, ok := s.Open(context.Background(), l, session.Client{App: "a", Window: window, Rights: &session.Rights{Serve: []string{">"}}}, false).(*worker)
	if !ok {
		t.Fatal("no worker")
	}
	w.Frame(&frame.Client{Kind: frame.KindServe, Patterns: [][]byte{[]byte("orders.>")}})
	t.Cleanup(func() {
		w.Closed()
		_ = s.Close()
	})
	return s, l, w
}

// ask makes times requests at once, and answers them when the worker has received all.
func ask(t *testing.T, s *Service, w *worker, times int) {
	t.Helper()
	var askers sync.WaitGroup
	for i := range times {
		askers.Go(func() {
			if _, err := s.Ask(context.Background(), "a", &Request{Subject: fmt.Sprintf("orders.%d", i), Timeout: time.Minute}); err != nil {
				t.Error(err)
			}
		})
	}
	for asked := 0; asked < times; runtime.Gosched() {
		w.mu.Lock()
		if asked = len(w.asked); asked == times && w.sharing {
			asked--
		}
		w.mu.Unlock()
	}
	answerAll(w)
	askers.Wait()
}

// answerAll answers the worker's open requests.
func answerAll(w *worker) {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(w.asked))
	w.mu.Unlock()
	for _, id := range ids {
		w.Frame(&frame.Client{Kind: frame.KindReply, Reply: &frame.Reply{RequestID: []byte(id), Status: 200}})
	}
}

func TestRequestsAtOnceShareWrites(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with one processor, the goroutines run while the first one yields
	s, l, w := newWorker(t, 1024)
	ask(t, s, w, 1)
	if l.writes != 1 || l.deepest != 0 {
		t.Errorf("a request by itself took %d writes and waited for others %d times", l.writes, l.deepest)
	}
	const many = 500
	ask(t, s, w, many)
	if l.frames != many+1 || l.held != 0 || l.corked != 0 || l.deepest != 1 {
		t.Errorf("of %d requests %d were written and %d held back; corked %d times, at most %d at once", many+1, l.frames, l.held, l.corked, l.deepest)
	}
	if l.writes > many/2 {
		t.Errorf("%d requests at once took %d writes", many, l.writes-1)
	}
}

// begin starts requests that share a Together, and returns a channel with their results.
func begin(t *testing.T, s *Service, timeout time.Duration, times int) (results chan error, all []Pending) {
	t.Helper()
	results = make(chan error, 2*times) // room for a result that comes twice
	var with Together
	for i := range times {
		p, started := s.Start("a", &Request{Subject: fmt.Sprintf("orders.%d", i), Timeout: timeout}, &with, func(_ *Answer, err error) { results <- err })
		if !started {
			t.Fatal("it was not started")
		}
		all = append(all, p)
	}
	with.Send()
	return results, all
}

func TestRequestsStartedTogetherShareAWrite(t *testing.T) {
	s, l, w := newWorker(t, 1024)
	const many = 100
	for range 3 { // exchanges are used again
		l.frames, l.writes = 0, 0
		results, _ := begin(t, s, time.Minute, many)
		if l.frames != many || l.writes != 1 || l.corked != 0 {
			t.Errorf("%d of %d requests were sent in %d writes; corked %d times", l.frames, many, l.writes, l.corked)
		}
		answerAll(w)
		for range many {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if len(results) > 0 {
			t.Error("a request has two results")
		}
	}
}

func TestAStartedRequestHasOneResult(t *testing.T) {
	s, l, w := newWorker(t, 3)
	gone := errors.New("the caller has gone")
	result := func(results chan error, want error) {
		t.Helper()
		if err := <-results; !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	results, all := begin(t, s, time.Minute, 1)
	all[0].Cancel(gone)
	all[0].Cancel(gone)
	result(results, gone)
	answerAll(w) // nobody waits for it

	late, _ := begin(t, s, time.Nanosecond, 1)
	result(late, ErrNoAnswer)

	again, before := begin(t, s, time.Minute, 1)
	answerAll(w)
	result(again, nil)
	next, _ := begin(t, s, time.Minute, 1)
	before[0].Cancel(gone) // it was answered, and its exchange may serve the next one
	answerAll(w)
	result(next, nil)

	l.full = true
	refused, _ := begin(t, s, time.Minute, 1)
	result(refused, topic.ErrNoResponders)
	l.full = false
	w.Drained()

	lost, _ := begin(t, s, time.Minute, 1)
	w.Closed()
	result(lost, ErrWorkerGone)
	nobody, _ := begin(t, s, time.Minute, 1)
	result(nobody, topic.ErrNoResponders)
	for _, r := range []chan error{results, late, again, next, refused, lost, nobody} {
		if len(r) > 0 {
			t.Errorf("a second result: %v", <-r)
		}
	}
}

func TestARefusedRequestHoldsNothingBack(t *testing.T) {
	_, l, w := newWorker(t, 1024)
	give := func() bool {
		return w.share(&task{request: &frame.Request{Subject: "orders.get"}, deadline: time.Now().Add(time.Minute), answer: func(*Answer, error) {}}, nil)
	}
	if !give() {
		t.Fatal("the first one was refused")
	}
	l.full = true
	if give() || l.corked != 0 {
		t.Errorf("a full connection took it, or is corked %d times", l.corked)
	}
	l.full = false
	w.Drained()
	if !give() || l.frames != 2 || l.corked != 0 {
		t.Errorf("after it had drained %d frames were written, corked %d times", l.frames, l.corked)
	}
}

func TestAWorkerWithoutRoomIsGivenNothing(t *testing.T) {
	_, l, w := newWorker(t, 2)
	give := func(within time.Duration) bool {
		return w.give(&task{request: &frame.Request{Subject: "orders.get"}, deadline: time.Now().Add(within), answer: func(*Answer, error) {}})
	}
	taken := func(when string, want bool, frames int) {
		t.Helper()
		if got := give(time.Minute); got != want || l.frames != frames {
			t.Errorf("%s: taken is %v, and %d frames were written; want %v and %d", when, got, l.frames, want, frames)
		}
	}
	taken("idle", true, 1)
	taken("with room for one more", true, 2)
	taken("with a full window", false, 2)
	for id := range w.asked {
		w.Frame(&frame.Client{Kind: frame.KindReply, Reply: &frame.Reply{RequestID: []byte(id), Status: 200}})
		break
	}
	if !give(0) {
		t.Error("after an answer it has no room")
	}
	taken("once nobody waits any more for one", true, 4)
	w.mu.Lock()
	clear(w.asked)
	w.mu.Unlock()
	l.full = true
	taken("over a connection that takes nothing", false, 4)
	l.full = false
	taken("before that has drained", false, 4)
	w.Drained()
	taken("after it has", true, 5)
	w.Closed()
	taken("once the session is over", false, 5)
}

// TestARetiredServiceWaitsForItsWorkersAnswers retires a service whose worker has one request that it answers and one that becomes overdue.
func TestARetiredServiceWaitsForItsWorkersAnswers(t *testing.T) {
	s, _, w := newWorker(t, 8)
	answered, _ := begin(t, s, time.Minute, 1)
	first := slices.Collect(maps.Keys(w.asked))[0]
	begin(t, s, time.Millisecond, 1) // becomes overdue
	retired := make(chan error, 1)
	go func() { retired <- s.Retire(t.Context()) }()
	for s.Serves("a", "orders.new") == nil {
		runtime.Gosched()
	}
	if _, err := s.Ask(t.Context(), "a", &Request{Subject: "orders.new", Timeout: time.Minute}); err == nil {
		t.Error("a retired worker got a request")
	}
	select {
	case err := <-retired:
		t.Fatalf("the service retired before its worker answered: %v", err)
	default:
	}
	w.Frame(&frame.Client{Kind: frame.KindReply, Reply: &frame.Reply{RequestID: []byte(first), Status: 200}})
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-retired; err != nil {
		t.Error(err)
	}
}

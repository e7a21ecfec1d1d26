package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/server/watch"
)

// endless is the suffix of the paths of streams.
const endless = "/events"

const (
	mostStreams   = 200              // limits the open streams
	comeBackAfter = 10 * time.Second // wait of a page before it reconnects to a stream that cannot be served now
	streamWrites  = 10 * time.Second // limits the time for an event to reach the browser
)

// stream is an open page's stream of events for its script.
type stream struct {
	v  *visit
	rc *http.ResponseController
	b  bytes.Buffer
}

// streams counts the open streams.
type streams struct{ open atomic.Int64 }

// open begins a stream; the caller ends it with done.
func (a *admin) open(v *visit) (s *stream, done func(), err error) {
	if !wantsEvents(v.r) {
		return nil, nil, mistaken(http.StatusNotAcceptable, "This address is for the page's own script.")
	}
	if a.streams.open.Add(1) > mostStreams {
		a.streams.open.Add(-1)
		return nil, nil, mistaken(http.StatusServiceUnavailable, "%s people look at pages that go on, which is the most.", mostStreams)
	}
	s = &stream{v: v, rc: http.NewResponseController(v.w)}
	_ = s.rc.SetReadDeadline(time.Time{}) // tests' writers have no deadlines
	begin(v.w)
	return s, func() { a.streams.open.Add(-1) }, nil
}

// wantsEvents reports whether a request comes from a page's EventSource.
func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// begin starts an answer that is a stream of events.
func begin(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform") // no-transform: a compressing proxy would delay events
	h.Set("X-Accel-Buffering", "no")                 // and so would nginx
	w.WriteHeader(http.StatusOK)
}

// comeBack answers 200 for a stream that cannot be served now, with the wait before another try. After any other status an EventSource
// gives up, and the page would not change until somebody loads it again.
func comeBack(w http.ResponseWriter) {
	begin(w)
	fmt.Fprintf(w, "retry: %d\n\n", comeBackAfter.Milliseconds())
}

// add adds an event; send sends the added events.
func (s *stream) add(event, data string) {
	fmt.Fprintf(&s.b, "event: %s\n", event)
	for line := range strings.SplitSeq(strings.ReplaceAll(data, "\r", ""), "\n") {
		fmt.Fprintf(&s.b, "data: %s\n", line)
	}
	s.b.WriteByte('\n')
}

func (s *stream) json(event string, value any) {
	b, err := json.Marshal(value)
	if err == nil { // our own types always encode
		s.add(event, string(b))
	}
}

// send sends the added events; false: the browser is gone.
func (s *stream) send() bool {
	_ = s.rc.SetWriteDeadline(time.Now().Add(streamWrites)) // the same
	_, err := s.v.w.Write(s.b.Bytes())
	s.b.Reset()
	return err == nil && s.rc.Flush() == nil
}

// points holds figures for the charts: the times in seconds, and one list of values for each figure.
type points struct {
	At     []int64                   `json:"at"`
	Values map[string][]watch.Number `json:"values"`
}

func newPoints(h *watch.History) points {
	p := points{At: make([]int64, len(h.At)), Values: h.Values}
	for i, at := range h.At {
		p.At[i] = at.Unix()
	}
	return p
}

// followOverview sends the figures of the last hour, and each new reading, as long as the visitor is signed in.
func (a *admin) followOverview(v *visit) error {
	s, done, err := a.open(v)
	if err != nil {
		return err
	}
	defer done()
	news, advised := a.Watch.News(), ""
	var tick <-chan time.Time
	var w *watcher
	if about, ok := goalNamed(text(v.r.URL.Query(), "goal")); ok {
		w = &watcher{a: a, about: about}
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		tick = t.C
	}
	h := a.Watch.Last(watch.Kept)
	s.json("history", newPoints(&h))
	for {
		drawn, err := a.draw(v.lang, v.person.Role, "overview", "figures", a.standing(v))
		if err == nil {
			s.add("figures", drawn)
			drawn, err = a.draw(v.lang, v.person.Role, "overview", "advice", a.Watch.Advise(v.r.Context(), v.person.App))
		}
		if err != nil {
			a.Log.ErrorContext(v.r.Context(), "part of a page could not be made", "page", "overview", "error", err)
			return nil // the answer has begun
		}
		if drawn != advised { // replace the advice only if it changed: somebody may be reading it
			advised = drawn
			s.add("advice", advised)
		}
		if !s.send() || !a.guideUntil(s, w, tick, news) {
			return nil
		}
		if !a.remains(v.r, v.person) {
			s.add("gone", "signed out")
			s.send()
			return nil
		}
		news = a.Watch.News()
		h := a.Watch.Last(watch.Every / 2) // the newest alone
		s.json("points", newPoints(&h))
	}
}

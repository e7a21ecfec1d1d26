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

// endless is how the paths of streams end.
const endless = "/events"

const (
	mostStreams   = 200              // that people look at at once
	comeBackAfter = 10 * time.Second // that a page waits which cannot be served now
	streamWrites  = 10 * time.Second // as long a browser may take to read an event
)

// stream is a page that goes on: events for a script.
type stream struct {
	v  *visit
	rc *http.ResponseController
	b  bytes.Buffer
}

// streams counts those that are open.
type streams struct{ open atomic.Int64 }

// open begins a stream. End it with done.
func (a *admin) open(v *visit) (s *stream, done func(), err error) {
	if !wantsEvents(v.r) {
		return nil, nil, &mistake{http.StatusNotAcceptable, "This address is for the page's own script."}
	}
	if a.streams.open.Add(1) > mostStreams {
		a.streams.open.Add(-1)
		return nil, nil, &mistake{http.StatusServiceUnavailable, fmt.Sprintf("%d people look at pages that go on, which is the most.", mostStreams)}
	}
	s = &stream{v: v, rc: http.NewResponseController(v.w)}
	_ = s.rc.SetReadDeadline(time.Time{}) // tests' writers have no deadlines
	begin(v.w)
	return s, func() { a.streams.open.Add(-1) }, nil
}

// wantsEvents reports whether a request is that of a page's EventSource.
func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// begin makes an answer a stream of events.
func begin(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform") // a compressing proxy would hold events back
	h.Set("X-Accel-Buffering", "no")                 // and so would nginx
	w.WriteHeader(http.StatusOK)
}

// comeBack ends a stream that cannot be served now. An EventSource gives up after any status but 200, and the page would
// stand still until somebody loads it anew.
func comeBack(w http.ResponseWriter) {
	begin(w)
	fmt.Fprintf(w, "retry: %d\n\n", comeBackAfter.Milliseconds())
}

// add takes an event along; send sends it.
func (s *stream) add(event, data string) {
	fmt.Fprintf(&s.b, "event: %s\n", event)
	for line := range strings.SplitSeq(strings.ReplaceAll(data, "\r", ""), "\n") {
		fmt.Fprintf(&s.b, "data: %s\n", line)
	}
	s.b.WriteByte('\n')
}

func (s *stream) json(event string, value any) {
	b, err := json.Marshal(value)
	if err == nil { // of our own types none fails
		s.add(event, string(b))
	}
}

// send sends what was added; false: nobody reads any more.
func (s *stream) send() bool {
	_ = s.rc.SetWriteDeadline(time.Now().Add(streamWrites)) // the same
	_, err := s.v.w.Write(s.b.Bytes())
	s.b.Reset()
	return err == nil && s.rc.Flush() == nil
}

// points are figures for the charts: times in seconds, and a list of each.
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

// followOverview sends the figures of the last hour, and each further reading, as long as who looks is signed in.
func (a *admin) followOverview(v *visit) error {
	s, done, err := a.open(v)
	if err != nil {
		return err
	}
	defer done()
	news, advised := a.Watch.News(), ""
	h := a.Watch.Last(watch.Kept)
	s.json("history", newPoints(&h))
	for {
		drawn, err := a.draw(v.person.Role, "overview", "figures", a.standing(v))
		if err == nil {
			s.add("figures", drawn)
			drawn, err = a.draw(v.person.Role, "overview", "advice", a.Watch.Advise(v.r.Context(), v.person.App))
		}
		if err != nil {
			a.Log.ErrorContext(v.r.Context(), "part of a page could not be made", "page", "overview", "error", err)
			return nil // the answer has begun
		}
		if drawn != advised { // nobody loses what they were reading
			advised = drawn
			s.add("advice", advised)
		}
		if !s.send() {
			return nil
		}
		select {
		case <-v.r.Context().Done():
			return nil
		case <-a.Draining:
			return nil
		case <-news:
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

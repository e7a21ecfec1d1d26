package pubsub

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// subscriber holds a session's subscriptions.
type subscriber struct {
	fan  *fan
	to   session.Sender
	over atomic.Bool // the session has ended; its feeds may still list it

	mu       sync.Mutex
	rights   *session.Rights
	feeds    []*feed // in the order of the subscribe frames
	gap      uint32  // messages dropped and not reported yet
	overlaps bool    // a topic may match several of the patterns without a queue
	owing    bool    // listed by the teller
	observer bool
}

var _ session.Part = (*subscriber)(nil)

// Codes of errors.
const (
	codeForbidden   = "forbidden"
	codeTooMany     = "too_many_topics"
	codeUnavailable = "unavailable"
)

// Join implements session.Part.
func (s *subscriber) Join() {}

// Start implements session.Part.
func (s *subscriber) Start() {}

// Frame implements session.Part.
func (s *subscriber) Frame(f *frame.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return
	}
	if f.Kind == frame.KindUnsubscribe {
		for _, p := range f.Patterns {
			if i := s.find(string(p), string(f.Queue)); i >= 0 {
				s.drop(i)
			}
		}
		return
	}
	s.subscribe(f)
}

// subscribe adds the allowed patterns of a frame, and names the refused ones in one error frame for each cause.
func (s *subscriber) subscribe(f *frame.Client) {
	queue := string(f.Queue)
	var forbidden, tooMany, unavailable []string
	for _, p := range f.Patterns {
		pattern := string(p)
		if s.find(pattern, queue) >= 0 {
			continue
		}
		if !s.allowed(pattern, queue) {
			forbidden = append(forbidden, pattern)
			continue
		}
		if len(s.feeds) >= frame.MaxPatterns {
			tooMany = append(tooMany, pattern)
			continue
		}
		of, err := s.fan.join(s, pattern, queue)
		if err != nil {
			s.fan.svc.cfg.Log.Debug("subscription failed", "app", s.fan.app, "error", err)
			unavailable = append(unavailable, pattern)
			continue
		}
		s.feeds = append(s.feeds, of)
		s.overlapping()
	}
	why := "your credential does not allow"
	if queue != "" && s.observer {
		why = "one who only observes takes no messages from others of a queue; queue " + queue + ","
	}
	s.refuse(codeForbidden, why, forbidden)
	s.refuse(codeTooMany, fmt.Sprintf("a session may have %d patterns, which leaves none for", frame.MaxPatterns), tooMany)
	s.refuse(codeUnavailable, "the message bus cannot be reached now; subscribe again later to", unavailable)
}

// allowed reports whether the client may subscribe to all topics that a pattern matches.
func (s *subscriber) allowed(pattern, queue string) bool {
	return s.rights.CanSubscribe(pattern) && (queue == "" || !s.observer)
}

// refuse sends the client the refused patterns and the reason. If the connection's queue is full, the frame is lost, like any other answer.
func (s *subscriber) refuse(code, why string, patterns []string) {
	if len(patterns) == 0 {
		return
	}
	s.to.Send(frame.ServerError, frame.AppendError(nil, s.to.Format(), frame.PatternsError(frame.KindSubscribe, code, why, patterns)), nil)
}

func (s *subscriber) find(pattern, queue string) int {
	return slices.IndexFunc(s.feeds, func(of *feed) bool { return of.pattern == pattern && of.queue == queue })
}

// drop ends one subscription. s.mu is held.
func (s *subscriber) drop(i int) {
	of := s.feeds[i]
	s.feeds = slices.Delete(s.feeds, i, i+1)
	s.overlapping()
	s.fan.leave(s, of, false)
}

// overlapping records whether a topic may match several patterns. s.mu is held.
func (s *subscriber) overlapping() {
	shared, wild := 0, 0
	for _, of := range s.feeds {
		if of.queue == "" {
			shared++
			if of.wild {
				wild++
			}
		}
	}
	s.overlaps = shared > 1 && wild > 0
}

// Renew implements session.Part: it ends subscriptions that the new credential does not allow, and reports them to the client in a frame.
func (s *subscriber) Renew(who session.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rights, s.observer = who.Rights, who.Observer
	var ended []string
	for i := len(s.feeds) - 1; i >= 0; i-- {
		if of := s.feeds[i]; !s.allowed(of.pattern, of.queue) {
			ended = append(ended, of.pattern)
			s.drop(i)
		}
	}
	slices.Reverse(ended)
	s.refuse(codeForbidden, "your new credential does not allow", ended)
}

// Drained implements session.Part.
func (s *subscriber) Drained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over.Load() {
		s.tellGap()
	}
}

// Closed implements session.Part.
func (s *subscriber) Closed() {
	s.mu.Lock()
	feeds := s.feeds
	s.feeds = nil
	s.over.Store(true)
	s.mu.Unlock()
	for _, of := range feeds {
		s.fan.leave(s, of, true)
	}
}

// offer sends a feed's messages to this session, as many as its connection accepts.
func (s *subscriber) offer(of *feed, items []item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.feeds, of) {
		return // over, or unsubscribed
	}
	if len(items) > 1 {
		s.to.Cork()
		defer s.to.Uncork()
	}
	sent := uint64(0)
	for i := range items {
		switch it := &items[i]; {
		case it.post == nil:
			s.miss(it.lost)
		case s.overlaps && !s.first(of, it.post.Topic):
		case s.tellGap() && s.write(it.post.encoded(s.to.Format())):
			sent++
			if it.post.trace != nil {
				it.post.trace.sent.Add(1)
			}
		default:
			s.miss(1)
		}
	}
	s.fan.svc.counts.sent.Add(sent)
	s.tellGap()
}

// first reports whether of is the first of the session's patterns that match the topic. A message arrives once for each matching pattern;
// all but the first copy are skipped. Queues count separately.
func (s *subscriber) first(of *feed, name string) bool {
	if of.queue != "" {
		return true
	}
	for _, other := range s.feeds {
		if other == of {
			return true
		}
		if other.queue == "" && topic.Match(other.pattern, name) {
			return false
		}
	}
	return true
}

// write sends a message unless too many bytes wait for the connection already.
func (s *subscriber) write(b []byte) bool {
	if n := s.to.Queued(); n > 0 && n+len(b) > s.fan.svc.cfg.QueueShare {
		return false
	}
	return s.to.Send(frame.ServerMessage, nil, b)
}

// miss counts messages that the session will not get. s.mu is held.
func (s *subscriber) miss(n int) {
	s.fan.svc.counts.dropped.Add(uint64(n))
	s.gap = uint32(min(uint64(s.gap)+uint64(n), 1<<32-1)) // bounded
	if !s.owing {
		s.owing = true
		s.fan.svc.gaps.add(s)
	}
}

// tellGap sends the number of dropped messages. False: the connection has no room for that either. s.mu is held.
func (s *subscriber) tellGap() bool {
	if s.gap == 0 {
		return true
	}
	if !s.write(frame.AppendGap(nil, s.to.Format(), s.gap)) {
		return false
	}
	s.gap = 0
	return true
}

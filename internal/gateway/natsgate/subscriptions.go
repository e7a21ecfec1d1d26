package natsgate

import (
	"strconv"
	"sync"

	"godwit.dev/godwit/internal/notify/frame"
)

// kind is the kind of subject that a subscription is for. Each kind has a limit of its own; topics and served subjects have the limits of a
// session.
type kind int

const (
	topics kind = iota
	served
	others // inboxes, discovery, and all other subjects that an admin's key subscribes to
	kinds
)

// maxOthers leaves room for clients that use one inbox for each request: as many as wait at the same time.
const maxOthers = 4 * frame.MaxPatterns

var mostOf = [kinds]int{topics: frame.MaxPatterns, served: frame.MaxPatterns, others: maxOthers}

// subscriptions holds a connection's subscriptions, counted by the same rules as in the server.
type subscriptions struct {
	mu    sync.Mutex
	by    map[string]*subscription
	count [kinds]int
}

type subscription struct {
	of        kind
	seen, max uint64 // number of messages; max 0: until the client ends it
}

func newSubscriptions() *subscriptions { return &subscriptions{by: make(map[string]*subscription)} }

// add reports whether there is room for one more subscription. An id that is already in use changes nothing, here and in the server.
func (s *subscriptions) add(sid string, of kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[sid] != nil {
		return true
	}
	if s.count[of] >= mostOf[of] {
		return false
	}
	s.by[sid] = &subscription{of: of}
	s.count[of]++
	return true
}

// remove ends a subscription, at once or after a total number of messages, as the arguments of UNSUB request. False: an argument is no
// number.
func (s *subscriptions) remove(args []string) (ok bool) {
	var most uint64
	if len(args) == 2 {
		n, err := strconv.ParseUint(args[1], 10, 31)
		if err != nil {
			return false
		}
		most = n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.by[args[0]]; one != nil {
		one.max = most
		if most == 0 || one.seen >= most {
			s.drop(args[0], one)
		}
	}
	return true
}

// got counts a message for a subscription.
func (s *subscriptions) got(sid []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.by[string(sid)]
	if one == nil {
		return
	}
	if one.seen++; one.max > 0 && one.seen >= one.max {
		s.drop(string(sid), one)
	}
}

func (s *subscriptions) drop(sid string, one *subscription) {
	delete(s.by, sid)
	s.count[one.of]--
}

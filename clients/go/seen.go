package godwit

// rememberedIDs is the number of handled ids that a listener remembers to recognize redeliveries. A server has at most 1,024 notifications
// unacknowledged (the window), so this is several windows.
const rememberedIDs = 8192

// rememberedReplies is the number of answers to notifications that a listener stores: 4 MB if all have the largest size.
const rememberedReplies = 64

// replies stores the newest answers to notifications.
type replies struct {
	ring []*reply
	next int
}

func (s *replies) add(r *reply) {
	if len(s.ring) < rememberedReplies {
		s.ring = append(s.ring, r)
		return
	}
	s.ring[s.next] = r
	s.next = (s.next + 1) % len(s.ring)
}

// find returns the answer to a notification; nil: there is none, or it is no longer stored.
func (s *replies) find(id string) *reply {
	for _, r := range s.ring {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// idSet stores the newest added ids, up to a maximum number.
type idSet struct {
	ring []string
	next int
	has  map[string]struct{}
}

func newIDSet(size int) *idSet {
	return &idSet{ring: make([]string, 0, size), has: make(map[string]struct{})}
}

func (s *idSet) contains(id string) bool {
	_, ok := s.has[id]
	return ok
}

func (s *idSet) add(id string) {
	if s.contains(id) {
		return
	}
	s.has[id] = struct{}{}
	if len(s.ring) < cap(s.ring) {
		s.ring = append(s.ring, id)
		return
	}
	delete(s.has, s.ring[s.next])
	s.ring[s.next] = id
	s.next = (s.next + 1) % len(s.ring)
}

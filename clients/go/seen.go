package godwit

// memory of a listener: how many handled ids it keeps so as to know a redelivery when it sees one. A server sends at
// most a window of 1,024 unacknowledged, so this is several windows.
const rememberedIDs = 8192

// rememberedReplies is how many answers to notifications a listener keeps: 4 MB if all have the largest size.
const rememberedReplies = 64

// replies are the newest answers to notifications.
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

// find returns the answer to a notification; nil: it has none, or not any more.
func (s *replies) find(id string) *reply {
	for _, r := range s.ring {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// idSet keeps the newest ids that were put in, up to a number.
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

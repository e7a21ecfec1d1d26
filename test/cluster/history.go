package cluster

import (
	"fmt"
	"slices"
	"sync"
)

// history records, in order, what back ends, clients and the event log saw of a cluster. judge lists the violations.
type history struct {
	mu       sync.Mutex
	devices  []string                     // of every recipient
	copies   map[string]*copyStory        // published copies, by id
	seen     map[string]map[string]bool   // ids that a device has received before, by recipient and device
	seqs     map[string]map[uint64]string // id by seq, for each recipient
	problems []string                     // found at once
	events   []told
	counts   struct{ again, acks, recalls, unsure, broken int }
}

// copyStory is the story of one copy. All fields but the first three are set during the run.
type copyStory struct {
	id, to, mode string
	answered     bool            // its publisher got the answer that it is stored
	seq          uint64          // 0: nobody has got it
	got, acked   map[string]bool // by device
	ended        string          // status at the end
}

// told is an event of the log.
type told struct{ eventID, kind, id, to string }

// maxBroken is how many of 1,000 copies with ack none may never arrive: the write that settles such a copy may go to a connection whose
// other end the client, or a fault, has cut.
const maxBroken = 10

// maxProblems limits the reported problems: one fault affects many copies.
const maxProblems = 20

func newHistory(devices ...string) *history {
	return &history{devices: devices, copies: map[string]*copyStory{}, seen: map[string]map[string]bool{}, seqs: map[string]map[uint64]string{}}
}

func (h *history) problem(format string, args ...any) {
	if len(h.problems) < maxProblems {
		h.problems = append(h.problems, fmt.Sprintf(format, args...))
	}
}

// publishing records a copy before it is published: clients may get it before its publisher is answered.
func (h *history) publishing(id, to, mode string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.copies[id] = &copyStory{id: id, to: to, mode: mode, got: map[string]bool{}, acked: map[string]bool{}}
}

// stored records that the publisher got the answer that a copy is stored.
func (h *history) stored(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.copies[id].answered = true
}

// stream is one session of a device. Ids that the device gets for the first time must arrive in the order of their seqs.
type stream struct {
	h          *history
	to, device string
	last       uint64 // seq of the latest such id
}

func (h *history) session(to, device string) *stream { return &stream{h: h, to: to, device: device} }

// delivered notes an arrival.
func (s *stream) delivered(id string, seq uint64) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.copies[id]
	if c == nil || c.to != s.to {
		h.problem("%s of %s got %s, which nobody published to them", s.device, s.to, id)
		return
	}
	if c.seq != 0 && c.seq != seq {
		h.problem("%s of %s came with seq %d and with %d: it was stored twice", id, s.to, c.seq, seq)
	}
	c.seq = seq
	if h.seqs[s.to] == nil {
		h.seqs[s.to] = map[uint64]string{}
	}
	if other, taken := h.seqs[s.to][seq]; taken && other != id {
		h.problem("%s got %s and %s with seq %d", s.to, other, id, seq)
	}
	h.seqs[s.to][seq] = id
	c.got[s.device] = true
	of := s.to + "/" + s.device
	if h.seen[of] == nil {
		h.seen[of] = map[string]bool{}
	}
	if h.seen[of][id] {
		h.counts.again++
		return
	}
	h.seen[of][id] = true
	if seq < s.last {
		h.problem("%s of %s got %s with seq %d first after seq %d", s.device, s.to, id, seq, s.last)
	}
	s.last = max(s.last, seq)
}

// acknowledges records that acknowledgements are about to be sent.
func (s *stream) acknowledges(ids []string) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		h.counts.acks++
		if c := h.copies[id]; c != nil {
			c.acked[s.device] = true
		}
	}
}

// recalled records a recall of copies that ended elsewhere. A copy with ack all cannot end before this device has acknowledged it.
func (s *stream) recalled(ids []string) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		h.counts.recalls++
		if c := h.copies[id]; c != nil && c.mode == "all" && !c.acked[s.device] {
			h.problem("%s of %s was told that %s had ended before it had acknowledged it", s.device, s.to, id)
		}
	}
}

// ended records the status of a copy at the end.
func (h *history) ended(id, status string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.copies[id].ended = status
}

// event records an event of the log.
func (h *history) event(e told) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// answered lists the copies whose publishers got a positive answer.
func (h *history) answered() (list []*copyStory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.copies {
		if c.answered {
			list = append(list, c)
		}
	}
	return list
}

// endOf returns the status with which an accepted copy of an ack mode must end.
func endOf(mode string) string {
	if mode == "none" {
		return "delivered"
	}
	return "acked"
}

// judge returns the violations, after the end of the run.
func (h *history) judge() []string {
	for _, c := range h.answered() {
		h.judgeCopy(c)
	}
	if h.counts.broken*1_000 > max(h.counts.unsure, 1_000)*maxBroken {
		h.problem("%d of %d copies with ack none never arrived", h.counts.broken, h.counts.unsure)
	}
	h.judgeEvents()
	return h.problems
}

func (h *history) judgeCopy(c *copyStory) {
	switch {
	case c.mode == "none":
		h.counts.unsure++
		if len(c.got) == 0 {
			h.counts.broken++
		}
	case len(c.got) == 0:
		h.problem("%s (ack %s) for %s was stored and never arrived", c.id, c.mode, c.to)
	}
	every := !slices.ContainsFunc(h.devices, func(d string) bool { return !c.acked[d] })
	switch {
	case c.ended == endOf(c.mode):
		if c.mode == "all" && !every {
			h.problem("%s for %s ended before every device had acknowledged it", c.id, c.to)
		}
	case c.ended == "stored", c.ended == "delivered", c.ended == "scheduled":
		h.problem("%s (ack %s) for %s is still %s; got by %v, acknowledged by %v", c.id, c.mode, c.to, c.ended, keys(c.got), keys(c.acked))
	default:
		h.problem("%s (ack %s) for %s ended as %q", c.id, c.mode, c.to, c.ended)
	}
}

// judgeEvents finds duplicates among the events: an event id, an event of one copy, or two ends of one copy.
func (h *history) judgeEvents() {
	ids, things, ends := map[string]told{}, map[told]string{}, map[string]string{}
	for _, e := range h.events {
		if _, taken := ids[e.eventID]; taken {
			h.problem("two events have id %s: %+v", e.eventID, e)
		}
		ids[e.eventID] = e
		c := h.copies[e.id]
		if c == nil || e.kind == "delivered" && c.mode != "none" { // each device that gets it may cause such an event
			continue
		}
		thing := e
		thing.eventID = ""
		if before, taken := things[thing]; taken {
			h.problem("%s of %s for %s is told under event ids %s and %s", e.kind, e.id, e.to, before, e.eventID)
			continue
		}
		things[thing] = e.eventID
		if e.kind == "stored" {
			continue
		}
		if before := ends[e.id]; before != "" {
			h.problem("%s for %s ended as %s and as %s", e.id, e.to, before, e.kind)
		}
		ends[e.id] = e.kind
	}
}

func keys(set map[string]bool) (list []string) {
	for k := range set {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

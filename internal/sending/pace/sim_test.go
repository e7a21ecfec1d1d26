package pace

import (
	"container/heap"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
)

// place is an origin in a simulation: it decides whether it accepts a message.
type place interface {
	takes(now time.Duration) bool
}

// sliding accepts a limited number of messages within any second.
type sliding struct {
	cap    func(now time.Duration) int
	recent []time.Duration
}

func (s *sliding) takes(now time.Duration) bool {
	for len(s.recent) > 0 && now-s.recent[0] >= time.Second {
		s.recent = s.recent[1:]
	}
	if len(s.recent) >= s.cap(now) {
		return false
	}
	s.recent = append(s.recent, now)
	return true
}

// windowed accepts a limited number of messages in each second of the clock.
type windowed struct {
	cap    int
	second time.Duration
	n      int
}

func (w *windowed) takes(now time.Duration) bool {
	if second := now.Truncate(time.Second); second != w.second {
		w.second, w.n = second, 0
	}
	w.n++
	return w.n <= w.cap
}

// bucket is a token bucket with a fill rate and a capacity.
type bucket struct {
	rate, room, level float64
	last              time.Duration
}

func (b *bucket) takes(now time.Duration) bool {
	b.level = min(b.room, b.level+b.rate*(now-b.last).Seconds())
	if b.last = now; b.level < 1 {
		return false
	}
	b.level--
	return true
}

// open accepts all messages, except between from and to.
type open struct{ from, to time.Duration }

func (o open) takes(now time.Duration) bool { return now < o.from || now >= o.to }

// simulation sends campaigns to one origin in virtual time, as dispatch does.
type simulation struct {
	place   place
	asks    time.Duration    // Retry-After of the place and of the sick endpoints
	sick    func(i int) bool // which endpoints object always
	latency time.Duration

	start  time.Time
	now    time.Duration
	pacer  *Pacer
	events events
	seq    int
	flying int
	random *rand.Rand

	seconds []figures // of the healthy
	gaveUp  int       // of the healthy
}

// figures count a place's requests and answers.
type figures struct{ asked, denied, taken int }

// event is something that happens at a simulated time.

type event struct {
	at  time.Duration
	seq int
	do  func()
}
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s *simulation) at(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.events, event{d, s.seq, do})
}

func (s *simulation) clock() time.Time { return s.start.Add(s.now) }

// begin sets up the simulation; the same seed makes the same simulation.
func (s *simulation) begin(seed uint64) *simulation {
	s.start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s.pacer = New(0, s.start)
	s.random = rand.New(rand.NewPCG(seed, 1))
	if s.latency == 0 {
		s.latency = 20 * time.Millisecond
	}
	return s
}

// until runs the simulation up to a time.
func (s *simulation) until(d time.Duration) {
	for len(s.events) > 0 && s.events[0].at <= d {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.now = d
}

// message is one of a simulated campaign.
type message struct {
	endpoint int
	id       audience.ID
	attempts int
	due      time.Duration
}

// campaign is sent by one sender that handles due messages in order.
type campaign struct {
	s       *simulation
	waiting queue
	begun   time.Duration
	done    []time.Duration // when messages were taken
	left    int
}

// queue orders messages by due time.
type queue []*message

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].due < q[j].due || q[i].due == q[j].due && q[i].endpoint < q[j].endpoint
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*message)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// campaign begins to send to the first n endpoints.
func (s *simulation) campaign(n int) *campaign {
	c := &campaign{s: s, begun: s.now, left: n}
	for i := range n {
		m := &message{endpoint: i, due: s.now}
		binary.BigEndian.PutUint64(m.id[:], uint64(i+1))
		c.waiting = append(c.waiting, m)
	}
	heap.Init(&c.waiting)
	s.at(s.now, c.look)
	return c
}

const placesInFlight = 256

// look handles the next due message.
func (c *campaign) look() {
	s := c.s
	if len(c.waiting) == 0 {
		s.at(s.now+50*time.Millisecond, func() {
			if c.left > 0 {
				c.look()
			}
		})
		return
	}
	if next := c.waiting[0].due; next > s.now {
		s.at(min(next, s.now+50*time.Millisecond), c.look)
		return
	}
	if s.flying >= placesInFlight {
		s.at(s.now+time.Millisecond, c.look)
		return
	}
	m := heap.Pop(&c.waiting).(*message)
	if until, rests := s.pacer.Resting(m.id, s.clock()); rests {
		c.later(m, until)
		s.at(s.now, c.look)
		return
	}
	at, ok := s.pacer.Slot(s.clock(), 250*time.Millisecond)
	if !ok {
		c.later(m, s.pacer.Book(s.clock()))
		s.at(s.now, c.look)
		return
	}
	s.at(at.Sub(s.start), func() {
		if s.pacer.Stopped(at, s.clock()) {
			c.later(m, s.pacer.Book(s.clock()))
		} else {
			c.leave(m)
		}
		c.look()
	})
}

func (c *campaign) later(m *message, at time.Time) {
	m.due = at.Sub(c.s.start)
	heap.Push(&c.waiting, m)
}

func (c *campaign) leave(m *message) {
	s := c.s
	s.flying++
	left := s.clock()
	way := s.latency/4 + time.Duration(s.random.Int64N(int64(s.latency)/2+1))
	s.at(s.now+way, func() {
		ok := !s.isSick(m.endpoint) && s.place.takes(s.now)
		if !s.isSick(m.endpoint) {
			s.note(ok)
		}
		s.at(s.now+way, func() { c.answered(m, left, ok) })
	})
}

func (s *simulation) isSick(endpoint int) bool { return s.sick != nil && s.sick(endpoint) }

func (s *simulation) note(ok bool) {
	for len(s.seconds) <= int(s.now/time.Second) {
		s.seconds = append(s.seconds, figures{})
	}
	f := &s.seconds[s.now/time.Second]
	if f.asked++; ok {
		f.taken++
	} else {
		f.denied++
	}
}

func (c *campaign) answered(m *message, left time.Time, ok bool) {
	s := c.s
	s.flying--
	m.attempts++
	try := Try{Endpoint: m.id, Left: left}
	if ok {
		s.pacer.Succeeded(try, s.clock())
		c.left--
		c.done = append(c.done, s.now-c.begun)
		return
	}
	s.pacer.ObjectedAt(try, s.clock(), s.asks)
	tries := 20
	if s.asks == 0 && s.pacer.Alive(s.start.Add(c.begun)) {
		tries = 6
	}
	if m.attempts >= tries {
		if !s.isSick(m.endpoint) {
			s.gaveUp++
		}
		c.left--
		return
	}
	back := min(2*time.Second<<min(m.attempts-1, 20), 5*time.Minute)
	from := s.clock()
	if until, paused := s.pacer.Paused(from); paused {
		from = until
	}
	due := from.Add(back + back/4*time.Duration(s.random.IntN(1000))/1000)
	if asked := s.clock().Add(s.asks); due.Before(asked) {
		due = asked
	}
	c.later(m, due)
}

// between sums seconds up.
func (s *simulation) between(from, to time.Duration) (sum figures) {
	for i := int(from / time.Second); i < min(int(to/time.Second), len(s.seconds)); i++ {
		sum.asked += s.seconds[i].asked
		sum.denied += s.seconds[i].denied
		sum.taken += s.seconds[i].taken
	}
	return sum
}

// share is a part in percent.
func share(part, of int) float64 { return 100 * float64(part) / float64(max(of, 1)) }

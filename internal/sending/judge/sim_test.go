package judge

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"
)

// answer is a simulated provider's answer to a message.
type answer uint8

const (
	takes answer = iota
	denies
	missing // 404
	hangs
)

// world sends a campaign to one host in virtual time, as dispatch does.
type world struct {
	says    func(endpoint int, at time.Duration) answer
	latency time.Duration
	room    int
	rate    time.Duration // between two messages

	c       Case
	start   time.Time
	now     time.Duration
	random  *rand.Rand
	events  events
	seq     int
	open    int
	ended   map[int]Ruling // Address: refused; Later: taken
	removed map[int]bool
	sent    int
	stopped time.Duration // when the credential was ruled to be at fault; 0: never
	sentTil int           // messages sent by then
	most    int           // under way at once
	flying  int
}

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

func (w *world) at(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{d, w.seq, do})
}

// message is one of the campaign.
type message struct {
	endpoint, tries int
	first           time.Duration
	begun           bool
}

// run sends to n endpoints and returns at the simulated time until.
func (w *world) run(n int, seed uint64, until time.Duration) *world {
	if w.latency == 0 {
		w.latency = 20 * time.Millisecond
	}
	if w.room == 0 {
		w.room = 256
	}
	if w.rate == 0 {
		w.rate = 2 * time.Millisecond
	}
	w.start, w.random = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), rand.New(rand.NewPCG(seed, 1))
	w.ended, w.removed, w.open = make(map[int]Ruling), make(map[int]bool), n
	for i := range n {
		m := &message{endpoint: i}
		w.at(time.Duration(i)*w.rate, func() { w.look(m) })
	}
	for len(w.events) > 0 && w.events[0].at <= until && w.stopped == 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	return w
}

// look sends a message or postpones it.
func (w *world) look(m *message) {
	wait, ok := w.c.Enter(w.room, w.start.Add(w.now))
	switch {
	case !ok && wait == nil:
		w.at(w.now+time.Duration(w.random.Int64N(int64(5*time.Second))), func() { w.look(m) })
		return
	case !ok:
		w.at(w.now+50*time.Millisecond, func() { w.look(m) })
		return
	}
	if !m.begun {
		m.begun, m.first = true, w.now
	}
	m.tries++
	w.sent++
	w.flying++
	w.most = max(w.most, w.flying)
	left := w.now
	said := w.says(m.endpoint, w.now)
	took := w.latency/2 + time.Duration(w.random.Int64N(int64(w.latency)))
	if said == hangs {
		took = 20 * time.Second
	}
	w.at(w.now+took, func() { w.answered(m, left, said) })
}

func (w *world) answered(m *message, left time.Duration, said answer) {
	now := w.start.Add(w.now)
	w.flying--
	defer w.c.Leave()
	ruling := Later
	switch said {
	case takes:
		w.c.Took(now)
		w.end(m, Later)
		return
	case hangs:
		w.c.Silent()
	default:
		judged := Message{Party: Party(m.endpoint), Left: w.start.Add(left), First: w.start.Add(m.first), Tries: m.tries}
		ruling = w.c.Objected(judged, Objection{Ended: said == missing, Host: said == missing}, now)
	}
	switch ruling {
	case Address:
		w.removed[m.endpoint] = said == missing
		w.end(m, Address)
	case Shared:
		w.stopped, w.sentTil = w.now, w.sent
	default:
		back := min(2*time.Second<<min(m.tries-1, 20), 5*time.Minute)
		w.at(w.now+back+time.Duration(w.random.Int64N(int64(back/4))), func() { w.look(m) })
	}
}

func (w *world) end(m *message, r Ruling) {
	w.ended[m.endpoint] = r
	w.open--
}

// stale makes of1000 in 1,000 endpoints stale, spread as if by chance.
func stale(of1000 int) func(int) bool { return func(i int) bool { return i*7919%1000 < of1000 } }

func TestStaleAddressesStopNobodyElse(t *testing.T) {
	for _, said := range []answer{denies, missing} {
		for _, of1000 := range []int{1, 5, 10, 50, 200} {
			for seed := range uint64(5) {
				sick := stale(of1000)
				w := (&world{says: func(i int, _ time.Duration) answer {
					if sick(i) {
						return said
					}
					return takes
				}}).run(3000, seed, 5*time.Minute)
				for i := range 3000 {
					r, done := w.ended[i]
					if want := map[bool]Ruling{true: Address, false: Later}[sick(i)]; !done || r != want || w.removed[i] != (sick(i) && said == missing) {
						t.Fatalf("%d of 1000 stale (%d), seed %d: endpoint %d ended %t as %d, removed %t; stopped after %s", of1000, said, seed, i, done, r, w.removed[i], w.stopped)
					}
				}
			}
		}
	}
}

func TestAddressesThatAreStaleTogetherStopNobodyElse(t *testing.T) {
	for seed := range uint64(5) {
		w := (&world{says: func(i int, _ time.Duration) answer {
			if i < 500 {
				return denies
			}
			return takes
		}, rate: time.Microsecond}).run(2000, seed, 10*time.Minute)
		if w.stopped > 0 || w.open > 0 {
			t.Errorf("seed %d: the first 500 of 2,000 are stale: stopped after %s, %d open", seed, w.stopped, w.open)
		}
	}
}

func TestARevokedCredentialIsNoticedWithinTwentySends(t *testing.T) {
	for _, from := range []time.Duration{0, time.Second} {
		for seed := range uint64(5) {
			before := 0
			w := &world{}
			w.says = func(_ int, at time.Duration) answer {
				if at < from {
					before++
					return takes
				}
				return denies
			}
			w.run(3000, seed, 10*time.Minute)
			if w.stopped == 0 || w.sentTil-before > 20+int(w.latency*3/2/w.rate) {
				t.Errorf("from %s: stopped after %s, %d messages", from, w.stopped, w.sentTil-before)
			}
			if from == 0 && w.sentTil > 20 {
				t.Errorf("%d messages with a credential that never worked", w.sentTil)
			}
			if len(w.removed) > 0 {
				t.Errorf("%d endpoints were given up", len(w.removed))
			}
		}
	}
}

func TestAMinuteOfNonsenseKillsNothing(t *testing.T) {
	for _, from := range []time.Duration{0, time.Second} {
		for _, of1000 := range []int{0, 10} {
			sick := stale(of1000)
			w := (&world{says: func(i int, at time.Duration) answer {
				switch {
				case at >= from && at < from+time.Minute:
					return missing
				case sick(i):
					return missing
				}
				return takes
			}}).run(3000, 1, 30*time.Minute)
			for i := range 3000 {
				if w.removed[i] && !sick(i) || !sick(i) && w.ended[i] != Later || w.open > 0 {
					t.Fatalf("from %s, %d of 1000 stale: endpoint %d removed %t; %d open", from, of1000, i, w.removed[i], w.open)
				}
			}
		}
	}
}

func TestOneRecipientIsNoEvidenceAboutOthers(t *testing.T) {
	now := time.Now()
	var c Case
	for i := range 200 {
		now = now.Add(time.Second)
		if r := c.Objected(Message{Party: Party(i % max(several-1, 1)), Left: now, First: now, Tries: 1}, Objection{}, now); r != Later {
			t.Fatalf("refusal %d of %d recipients is ruled %d", i, several-1, r)
		}
	}
}

func TestAnAddressThatNobodyElseSpeaksOfIsGivenUpAlone(t *testing.T) {
	now := time.Now()
	first := now
	var c Case
	for tries := 1; tries <= aloneTries; tries++ {
		r := c.Objected(Message{Party: 1, Left: now, First: first, Tries: tries}, Objection{Ended: true, Host: true}, now)
		if want := tries == aloneTries; (r == Address) != want {
			t.Errorf("try %d is ruled %d", tries, r)
		}
		now = now.Add(10 * time.Second)
	}
}

func TestAHostThatHangsGetsFewMessages(t *testing.T) {
	for _, from := range []time.Duration{0, time.Second} {
		w := (&world{room: 32, rate: 10 * time.Millisecond, says: func(_ int, at time.Duration) answer {
			if at < from {
				return takes
			}
			return hangs
		}}).run(600, 1, 2*time.Minute)
		if most := map[bool]int{true: unknownMost, false: 32}[from == 0]; w.most > most {
			t.Errorf("from %s: %d under way at once", from, w.most)
		}
		if w.sent > 100+32+4*6+unknownMost*2 {
			t.Errorf("from %s: %d messages in two minutes", from, w.sent)
		}
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	var c Case
	now := time.Now()
	c.Answered()
	for i := range 3 {
		if _, ok := c.Enter(3, now); !ok {
			t.Fatalf("no place for the %dth of 3", i+1)
		}
	}
	wait, ok := c.Enter(3, now)
	if ok {
		t.Fatal("a fourth of 3")
	}
	c.Leave()
	<-wait
	if _, ok := c.Enter(3, now); !ok {
		t.Error("a place that was given back cannot be had")
	}
}

func TestTheTenthRefusalInARowIsTheCredentials(t *testing.T) {
	now := time.Now()
	var c Case
	for i := 1; i <= several+confirming; i++ {
		now = now.Add(time.Second)
		want := Later
		if i == several+confirming {
			want = Shared
		}
		if r := c.Objected(Message{Party: Party(i), Left: now, First: now, Tries: 1}, Objection{}, now); r != want {
			t.Errorf("refusal %d is ruled %d, want %d", i, r, want)
		}
	}
}

func TestAHostThatRefusesSeveralIsIll(t *testing.T) {
	now := time.Now()
	var c Case
	for i := 1; i <= 20; i++ {
		now = now.Add(time.Second)
		want := Later
		if i >= several {
			want = Ill
		}
		if r := c.Objected(Message{Party: Party(i), Left: now, First: now, Tries: 1}, Objection{Host: true}, now); r != want {
			t.Errorf("refusal %d is ruled %d, want %d", i, r, want)
		}
	}
}

func TestSilenceOfEightLeavesFourPlaces(t *testing.T) {
	now := time.Now()
	var c Case
	c.Took(now)
	for range silentAfter - 1 {
		c.Silent()
	}
	enter := func(n int) (got int) {
		for range n {
			if _, ok := c.Enter(100, now); ok {
				got++
			}
		}
		return got
	}
	if got := enter(silentMost + 1); got != silentMost+1 {
		t.Errorf("%d places after a silence of %d", got, silentAfter-1)
	}
	for range silentMost + 1 {
		c.Leave()
	}
	c.Silent()
	if got := enter(100); got != silentMost {
		t.Errorf("%d places after a silence of %d, want %d", got, silentAfter, silentMost)
	}
	c.Answered()
	if got := enter(10); got != 10 {
		t.Errorf("%d of 10 places once it has answered", got)
	}
}

func TestTheFirstRefusalOpensNoMorePlaces(t *testing.T) {
	now := time.Now()
	var c Case
	enter := func() (n int) {
		for {
			if _, ok := c.Enter(100, now); !ok {
				return n
			}
			n++
		}
	}
	sent := enter()
	for party := Party(1); party <= 2; party++ {
		c.Objected(Message{Party: party, Left: now, First: now, Tries: 1}, Objection{}, now)
		c.Leave()
		sent += enter()
	}
	if sent != unknownMost+2 {
		t.Errorf("%d messages left by the second refusal of a credential that never worked, want %d", sent, unknownMost+2)
	}
	c.Took(now)
	if n := enter(); n != 100-unknownMost {
		t.Errorf("%d more places once a message was taken", n)
	}
}

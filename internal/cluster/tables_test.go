package cluster

import (
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
)

func TestHashesAreASet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var s hashes
	want := map[uint64]struct{}{}
	steps := thorough.Rounds(40_000, 200_000)
	for step := range steps {
		h := rnd.Uint64N(3000) + 1 // small numbers, so that hashes are neighbours, which random ones never are
		if rnd.IntN(2) == 0 {
			h <<= 50 // or the same upper bits
		}
		if h = max(h, 1); rnd.IntN(100) < 20+80*step/steps { // it fills, and empties again
			s.remove(h)
			delete(want, h)
		} else {
			s.add(h)
			want[h] = struct{}{}
		}
		if _, ok := want[h]; s.has(h) != ok || s.n != len(want) {
			t.Fatalf("step %d: it has %d: %t; %d hashes, want %d", step, h, !ok, s.n, len(want))
		}
		if step%1000 == 0 {
			if got, all := slices.Sorted(s.all()), slices.Sorted(maps.Keys(want)); !slices.Equal(got, all) {
				t.Fatalf("step %d: %d hashes differ from %d", step, len(got), len(all))
			}
			for h := range want {
				if !s.has(h) {
					t.Fatalf("step %d: it does not find %d", step, h)
				}
			}
		}
	}
	for h := range want {
		s.remove(h)
	}
	if s.n != 0 || len(s.slots) > 2*leastSlots {
		t.Errorf("empty, it has %d hashes and %d slots", s.n, len(s.slots))
	}
}

// TestHashesAreSmall checks that the set stays within its memory limits while it grows and while it shrinks.
func TestHashesAreSmall(t *testing.T) {
	const n = 20_000
	var s hashes
	list := make([]uint64, n)
	for i := range list {
		list[i] = max(rand.Uint64(), 1)
		s.add(list[i])
		if i > 100 && 8*len(s.slots) > 12*s.n+8 {
			t.Fatalf("%d hashes take %d slots", s.n, len(s.slots))
		}
	}
	t.Logf("%.1f bytes a hash", 8*float64(len(s.slots))/n)
	for _, h := range list {
		s.remove(h)
		if s.n > 100 && 8*len(s.slots) > 22*s.n {
			t.Fatalf("%d hashes that are left take %d slots", s.n, len(s.slots))
		}
	}
}

// wire stores the messages that a node publishes, so that a test can deliver them.
type wire struct {
	Line
	sent []message
}

func (w *wire) Publish(_ string, data []byte) error {
	m, err := decode(slices.Clone(data))
	w.sent = append(w.sent, m)
	return err
}

func (w *wire) Dropped() uint64 { return 0 }

// take returns the messages that were sent since its last call.
func (w *wire) take() (sent []message) {
	sent, w.sent = w.sent, nil
	return sent
}

func lone() (*Cluster, *wire) {
	w := &wire{}
	c := &Cluster{line: w, cfg: Config{Boot: "one"}, log: slog.New(slog.DiscardHandler), reread: make(chan struct{}, 1)}
	c.mine.init()
	c.nodes.init()
	return c, w
}

// pair is a node that sends its table, and a second node, which receives only the messages that the test delivers.
type pair struct {
	t        *testing.T
	from, to *Cluster
	out      *wire
	now      time.Time // of the second node
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, now: time.Now()}
	p.from, p.out = lone()
	p.to, _ = lone()
	p.to.cfg.Boot = "other"
	p.beat()
	return p
}

// tell returns the messages that the node must send now.
func (p *pair) tell() []message {
	p.from.tellTable()
	p.from.sendTables()
	return p.out.take()
}

// hear delivers messages to the second node.
func (p *pair) hear(all ...message) {
	for i := range all {
		n, err := decodeNews(all[i].body)
		if err != nil {
			p.t.Fatal(err)
		}
		p.to.tables.take(all[i].from, &n, p.now)
	}
}

// beat delivers the number of the node's last change, when parts of a table are late, and then whatever the second node requests.
func (p *pair) beat() (asked bool) {
	p.now = p.now.Add(wholePatience)
	if asked = p.to.tables.lacks("one", p.from.mine.number.Load(), p.now); asked {
		p.from.gotNoTable(&message{from: "other"})
	}
	p.hear(p.tell()...)
	return asked
}

// agree checks that the second node's table contains exactly these recipients.
func (p *pair) agree(recipients ...string) {
	p.t.Helper()
	var want []uint64
	for _, r := range recipients {
		want = append(want, hashOf("demo", r))
	}
	slices.Sort(want)
	if got := slices.Sorted(p.to.tables.find("one").of.all()); !slices.Equal(got, want) {
		p.t.Errorf("it knows %d recipients, %d..., want %d", len(got), got[:min(3, len(got))], want)
	}
	for _, r := range recipients {
		if to := p.to.subjects(nil, "demo", r); !slices.Equal(to, []string{"n.one"}) {
			p.t.Errorf("what is for %s goes to %q", r, to)
		}
	}
	if to := p.to.subjects(nil, "demo", "nobody"); len(to) > 0 {
		p.t.Errorf("what is for nobody goes to %q", to)
	}
}

func TestNodesKnowWhoCameAndLeft(t *testing.T) {
	p := newPair(t)
	p.from.want("demo", "ann")
	p.from.want("demo", "ann") // a second device
	p.from.want("demo", "ben")
	p.hear(p.tell()...)
	p.agree("ann", "ben")
	p.from.drop("demo", "ann")
	p.from.drop("demo", "ben")
	p.hear(p.tell()...)
	p.agree("ann")
	p.from.drop("demo", "ann")
	p.from.want("demo", "ann") // before it was told
	p.hear(p.tell()...)
	p.agree("ann")
	if p.beat() {
		t.Error("it asks for what it has")
	}
}

func TestALostChangeIsAskedFor(t *testing.T) {
	p := newPair(t)
	p.from.want("demo", "ann")
	p.tell() // is lost
	p.from.want("demo", "ben")
	p.hear(p.tell()...)
	p.agree()
	if !p.beat() || len(p.from.reread) == 0 {
		t.Error("it does not ask, or the sessions of the node do not compare themselves")
	}
	p.agree("ann", "ben")
	p.from.want("demo", "cid")
	p.hear(p.tell()...)
	p.agree("ann", "ben", "cid")
}

func TestChangesInAnotherOrderAreAskedFor(t *testing.T) {
	p := newPair(t)
	p.from.want("demo", "ann")
	one := p.tell()
	p.from.drop("demo", "ann")
	two := p.tell()
	p.from.want("demo", "ben")
	three := p.tell()
	p.hear(slices.Concat(two, one, one, three)...)
	p.agree("ann") // stale: it costs a message
	if !p.beat() {
		t.Error("it does not ask")
	}
	p.agree("ben")
}

func TestAWholeTableIsInEffectOnceItIsComplete(t *testing.T) {
	p := newPair(t)
	p.from.want("demo", "ann")
	p.hear(p.tell()...)
	for _, lost := range []int{0, 1, 2} {
		many := make([]uint64, 2*hashesAtOnce+1)
		for i := range many {
			many[i] = rand.Uint64() | 1
			p.from.wants.add(many[i], 1)
			p.from.changed(many[i])
		}
		p.tell() // is lost
		p.from.gotNoTable(&message{from: "other"})
		parts := p.tell()
		if len(parts) != 3 {
			t.Fatalf("%d messages of %d hashes", len(parts), len(many))
		}
		for _, m := range parts {
			if len(m.body) > 33_000 {
				t.Errorf("a message of %d bytes", len(m.body))
			}
		}
		p.hear(slices.Delete(slices.Clone(parts), lost, lost+1)...)
		p.agree("ann")
		p.hear(parts[1], parts[0], parts[2])
		p.agree("ann")
		for _, h := range many {
			p.from.wants.add(h, -1)
			p.from.changed(h)
		}
		late := p.tell()
		if !p.beat() {
			t.Error("it does not ask")
		}
		p.agree("ann")
		p.hear(late...) // all of it is known
		p.agree("ann")
	}
}

// TestALargeTableArrivesWhileRecipientsComeAndLeave: it takes several messages at a time, between which the node reports changes.
func TestALargeTableArrivesWhileRecipientsComeAndLeave(t *testing.T) {
	p := newPair(t)
	<-p.from.reread
	for range 2*partsAtOnce*hashesAtOnce + 1 {
		h := rand.Uint64() | 1
		p.from.wants.add(h, 1)
		p.from.changed(h)
	}
	p.from.want("demo", "leaves")
	p.tell() // is lost
	p.from.gotNoTable(&message{from: "other"})
	<-p.from.reread
	steps := 0
	for p.from.mine.asked["other"] || p.from.mine.sends != nil {
		sent := p.tell()
		if len(sent) > partsAtOnce+1 {
			t.Fatalf("%d messages at once", len(sent))
		}
		p.hear(sent...)
		switch steps++; steps {
		case 1:
			p.from.drop("demo", "leaves")
		case 2:
			p.from.want("demo", "comes")
		}
	}
	if steps != 3 || len(p.from.reread) == 0 {
		t.Errorf("sent in %d steps; sessions compare themselves after it: %t", steps, len(p.from.reread) > 0)
	}
	of := &p.to.tables.find("one").of
	if of.has(hashOf("demo", "leaves")) || !of.has(hashOf("demo", "comes")) || of.n != len(p.from.wants.all()) {
		t.Errorf("%d recipients of %d; one left: %t, one came: %t", of.n, len(p.from.wants.all()), !of.has(hashOf("demo", "leaves")), of.has(hashOf("demo", "comes")))
	}
	if p.beat() {
		t.Error("it asks for what it has")
	}
}

// TestFewTablesAreRequestedAtOnce: others are requested when these have arrived, or do not arrive.
func TestFewTablesAreRequestedAtOnce(t *testing.T) {
	var ts tables
	now := time.Now()
	ask := func(at time.Time) (n int) {
		for i := range 2 * wholesAtOnce {
			if ts.lacks(string(rune('a'+i)), 2, at) {
				n++
			}
		}
		return n
	}
	if n := ask(now); n != wholesAtOnce {
		t.Errorf("%d tables are requested at once", n)
	}
	ts.take("a", &news{number: 2, part: 1, parts: 1}, now)
	if n := ask(now); n != 1 {
		t.Errorf("%d more are requested when one has arrived", n)
	}
	ts.take("b", &news{number: 2, part: 1, parts: 2}, now.Add(wholePatience/2))
	if n := ask(now.Add(wholePatience)); n != wholesAtOnce-1 || ts.lacks("b", 2, now.Add(wholePatience)) {
		t.Errorf("%d are requested when only one makes progress", n)
	}
}

// TestANodeOfTheSameNameStartsWithAnEmptyTable: a table belongs to one start of a node.
func TestANodeOfTheSameNameStartsWithAnEmptyTable(t *testing.T) {
	p := newPair(t)
	p.from.want("demo", "ann")
	first := p.tell()
	p.hear(first...)
	p.agree("ann")
	p.to.tables.lacks("two", 1, p.now)
	p.to.tables.forget("one")
	if to := p.to.subjects(nil, "demo", "ann"); len(to) > 0 {
		t.Errorf("what is for ann goes to %q", to)
	}
	p.hear(first...) // a late message of a node that has ended
	if to := p.to.subjects(nil, "demo", "ann"); len(to) > 0 || len(p.to.tables.all) != 1 {
		t.Errorf("what is for ann goes to %q; %d tables", to, len(p.to.tables.all))
	}
	if !p.beat() { // it was only cut off
		t.Error("it does not ask")
	}
	p.agree("ann")
}

func TestRecipientsOfOneHashAreOneInATable(t *testing.T) {
	p := newPair(t)
	h := hashOf("demo", "ann")
	for range 2 {
		if p.from.wants.add(h, 1) == 1 {
			p.from.changed(h)
		}
	}
	p.hear(p.tell()...)
	p.agree("ann")
	p.from.drop("demo", "ann") // the other one stays
	p.hear(p.tell()...)
	p.agree("ann")
	p.from.drop("demo", "ann")
	p.hear(p.tell()...)
	p.agree()
}

// TestStormOfHellosSendsOneMessageABatch: one message announces all recipients that have come since the one before.
func TestStormOfHellosSendsOneMessageABatch(t *testing.T) {
	p := newPair(t)
	names := make([]string, 5000)
	for i := range names {
		names[i] = string(rune(i + 1000))
		p.from.want("demo", names[i])
	}
	sent := p.tell()
	if len(sent) != 2 {
		t.Errorf("%d messages", len(sent))
	}
	p.hear(sent...)
	p.agree(names...)
	if sent := p.tell(); len(sent) > 0 {
		t.Errorf("%d messages of nothing", len(sent))
	}
}

// TestNodesOfTheReleaseBeforeAreServedWhileTheyAreHeard: by subjects of recipients.
func TestNodesOfTheReleaseBeforeAreServedWhileTheyAreHeard(t *testing.T) {
	c, _ := lone()
	line := &subscribed{open: map[string]int{}}
	c.line = line
	ann, ben := subjectOfHash(hashOf("demo", "ann")), subjectOfHash(hashOf("demo", "ben"))
	c.want("demo", "ann")
	c.former.look(c)
	insist := func(what string, to []string, subscribed ...string) {
		t.Helper()
		if got := c.subjects(nil, "demo", "ann"); !slices.Equal(got, to) {
			t.Errorf("%s: what is for ann goes to %q, want %q", what, got, to)
		}
		if got := slices.Sorted(maps.Keys(line.open)); !slices.Equal(got, slices.Sorted(slices.Values(subscribed))) {
			t.Errorf("%s: subscribed to %q, want %q", what, got, subscribed)
		}
	}
	insist("alone", nil)
	c.nodes.by["new"] = &node{boot: "new", heard: time.Now(), beat: beat{Table: 1}}
	c.nodes.by["unheard"] = &node{boot: "unheard"}
	c.former.look(c)
	insist("among new nodes", nil)
	c.nodes.by["old"] = &node{boot: "old", heard: time.Now()}
	c.former.look(c)
	insist("beside an old one", []string{ann}, ann)
	c.want("demo", "ben")
	insist("with another one", []string{ann}, ann, ben)
	c.drop("demo", "ann")
	insist("and one who left", []string{ann}, ben)
	c.tables.lacks("new", 1, time.Now())
	if !c.former.twice(c, ben, "new") || c.former.twice(c, ben, "old") || c.former.twice(c, "n.one", "new") {
		t.Error("a message is handed over twice, or never")
	}
	delete(c.nodes.by, "old")
	c.former.look(c)
	insist("without it", nil)
	c.want("demo", "cid")
	insist("and with one more", nil)
}

// subscribed counts subscriptions.
type subscribed struct {
	wire
	open map[string]int
}

func (s *subscribed) Subscribe(subject string) (interface{ End() }, error) {
	s.open[subject]++
	return &subscription{s, subject}, nil
}

type subscription struct {
	of      *subscribed
	subject string
}

func (s *subscription) End() { delete(s.of.open, s.subject) }

func FuzzNews(f *testing.F) {
	f.Add((&news{number: 2, came: []uint64{1, 1 << 63}, left: []uint64{7}}).append(nil))
	f.Add((&news{number: 300, part: 2, parts: 2, came: []uint64{1 << 40}}).append(nil))
	f.Add((&news{number: 1, part: 1, parts: 1}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeNews(b)
		if err != nil {
			return
		}
		again, err := decodeNews(n.append(nil))
		if err != nil || !reflect.DeepEqual(again, n) {
			t.Fatalf("%+v, %v, want %+v", again, err, n)
		}
		var ts tables
		ts.lacks("one", n.number, time.Now())
		ts.take("one", &n, time.Now())
		if of := &ts.find("one").of; of.n > len(n.came) || len(of.slots) > leastSlots+2*len(n.came) {
			t.Fatalf("%d slots of %d hashes", len(of.slots), len(n.came))
		}
	})
}

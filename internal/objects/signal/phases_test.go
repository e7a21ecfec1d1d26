package signal

import (
	"errors"
	"slices"
	"testing"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

func TestPhaseGoesForwardButForAReadThatFails(t *testing.T) {
	type step struct {
		what string
		do   func(p *phase) bool
		ok   bool
		want phase
	}
	reread := func(p *phase) bool { return p.reread() }
	fails := func(p *phase) bool { p.readFailed(); return true }
	load := func(p *phase) bool { return p.load() }
	remove := func(p *phase) bool { return p.remove() }
	for name, steps := range map[string][]step{
		"read again until it succeeds": {
			{"the first read fails", fails, true, unread},
			{"it is read again", reread, true, rereading},
			{"by one at a time", reread, false, rereading},
			{"it fails", fails, true, unread},
			{"it is read again", reread, true, rereading},
			{"it succeeds", load, true, loaded},
			{"a slower read is too late", load, false, loaded},
			{"and its failure changes nothing", fails, true, loaded},
			{"nobody reads again", reread, false, loaded},
		},
		"removed is the end": {
			{"removed before it was read", remove, true, removed},
			{"once", remove, false, removed},
			{"the read comes too late", load, false, removed},
			{"or fails", fails, true, removed},
			{"nobody reads again", reread, false, removed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p phase
			for _, s := range steps {
				if ok := s.do(&p); ok != s.ok || p != s.want {
					t.Fatalf("%s: %t, phase %d; want %t, %d", s.what, ok, p, s.ok, s.want)
				}
			}
		})
	}
}

func TestSaveCoversWhatWasChangedBeforeIt(t *testing.T) {
	var s saves
	if s.due() || !s.stored() {
		t.Fatal("a set that never changed is to be saved")
	}
	s.change()
	s.change()
	if !s.due() || s.stored() {
		t.Fatal("a changed set is not to be saved")
	}
	v := s.begin(7, 3)
	s.change()
	if s.due() {
		t.Fatal("a second save would begin while one is under way")
	}
	s.end(v, nil)
	if s.disk != (saved{change: 2, count: 3, digest: 7}) || s.stored() || !s.due() {
		t.Fatalf("%+v after the first save, due %t; want two changes on disk, and the third due", s.disk, s.due())
	}
	v = s.begin(8, 4)
	if s.stored() {
		t.Fatal("a client may be forgotten while its save is under way")
	}
	s.end(v, nil)
	if !s.stored() || s.disk != (saved{change: 3, count: 4, digest: 8}) {
		t.Fatalf("%+v after the second save", s.disk)
	}
}

func TestFailedSaveWaitsForTheTimer(t *testing.T) {
	var s saves
	s.change()
	s.end(s.begin(7, 1), errors.New("away"))
	if s.due() || s.stored() || s.disk != (saved{}) {
		t.Fatalf("%+v is told after a failure, due %t", s.disk, s.due())
	}
	s.change()
	if s.due() {
		t.Fatal("a change does not wait for the timer")
	}
	s.retry()
	if !s.due() {
		t.Fatal("the timer tries nothing")
	}
	v := s.begin(8, 2)
	s.retry() // fires for something else
	if s.due() || s.stored() {
		t.Fatal("the timer starts a second save")
	}
	s.end(v, nil)
	if !s.stored() || s.disk.change != 2 {
		t.Fatalf("%+v is on disk", s.disk)
	}
}

func TestSaveUnderWayIsWaitedForWhateverItsResult(t *testing.T) {
	for _, err := range []error{nil, errors.New("away")} {
		var s saves
		if s.wait() != nil {
			t.Fatal("something is waited for")
		}
		s.change()
		v := s.begin(7, 1)
		one, other := s.wait(), s.wait()
		s.end(v, err)
		for _, ended := range []<-chan struct{}{one, other} {
			select {
			case <-ended:
			default:
				t.Fatal("who waits is not told")
			}
		}
		if s.wait() != nil {
			t.Fatal("what has ended is waited for")
		}
	}
}

func TestKeptSetIsAsGoodAsStored(t *testing.T) {
	var s saves
	s.change()
	s.keep(7, 1)
	if s.due() || !s.stored() || s.disk != (saved{change: 1, count: 1, digest: 7}) {
		t.Fatalf("%+v, due %t", s.disk, s.due())
	}
}

func TestProgressIsListedOnceAndAgainWhenItChangesWhileItIsWritten(t *testing.T) {
	var p progressPhase
	want := func(what string, listed, list bool, phase progressPhase, busy bool) {
		t.Helper()
		if listed != list || p != phase || p.busy() != busy {
			t.Fatalf("%s: listed %t, phase %d, busy %t; want %t, %d, %t", what, listed, p, p.busy(), list, phase, busy)
		}
	}
	want("touched", p.touch(), true, progressListed, false)
	want("touched again", p.touch(), false, progressListed, false)
	p.write()
	want("being written", false, false, progressWriting, true)
	want("touched meanwhile", p.touch(), true, progressStale, true)
	want("touched again", p.touch(), false, progressStale, true)
	p.written()
	want("written, and stale", false, false, progressListed, false)
	p.write()
	p.written()
	want("written", false, false, progressStored, false)
	p.touch()
	p.drop()
	want("dropped", p.touch(), true, progressListed, false)
}

func TestAnswersLeaveInOrderOnceTheirChangeIsStored(t *testing.T) {
	var o pendingAnswers
	if o.next(9) != nil || !o.none() {
		t.Fatal("an answer is pending")
	}
	o.add(1, "north", []string{"a"})
	o.add(2, "north", []string{"b"})
	o.add(3, "north", []string{"c"})
	if a := o.next(0); a != nil {
		t.Fatalf("%+v leaves before its change is stored", a)
	}
	a := o.next(1)
	if a == nil || a.lost || !slices.Equal(a.objects, []string{"a"}) {
		t.Fatalf("%+v leaves first", a)
	}
	o.pop()
	if a := o.next(1); a != nil {
		t.Fatalf("%+v leaves before its change is stored", a)
	}
	o.lose(2) // the third change has not been tried yet
	if a = o.next(1); a == nil || !a.lost || a.objects[0] != "b" {
		t.Fatalf("%+v leaves, want b as lost", a)
	}
	o.pop()
	if a = o.next(2); a != nil {
		t.Fatalf("%+v leaves before its change is stored", a)
	}
	if a = o.next(3); a == nil || a.lost || a.objects[0] != "c" {
		t.Fatalf("%+v leaves last", a)
	}
	o.pop()
	if !o.none() || o.answers != nil {
		t.Fatalf("%+v is pending", o.answers)
	}
}

func TestManyAnswersEndWithTheDigestOfTheLastChange(t *testing.T) {
	var o pendingAnswers
	for i := range 3 * maxAnswers {
		o.add(uint32(i+1), "north", []string{"a"})
	}
	for i := range maxAnswers {
		if a := o.next(maxAnswers + 1); a == nil || a.change != uint32(i+1) || len(a.objects) != 1 {
			t.Fatalf("answer %d is %+v", i, a)
		}
		o.pop()
	}
	if a := o.next(3*maxAnswers - 1); a != nil {
		t.Fatalf("%+v leaves before the last change is stored", a)
	}
	if a := o.next(3 * maxAnswers); a == nil || a.objects != nil || a.group != "" {
		t.Fatalf("%+v, want the digest alone", a)
	}
	o.pop()
	if !o.none() {
		t.Fatalf("%+v is pending beside", o.answers)
	}
}

func version(v object.Version) *current {
	return &current{State: object.State{Version: v, Known: true}}
}

func unknown(v object.Version) *current { return &current{State: object.State{Version: v}} }

func TestRegistrationIsSentWhatItDoesNotHave(t *testing.T) {
	const now = second(100)
	me := session.Client{Recipient: "unit-1", Device: "main"}
	mine := version(3)
	mine.Origin = object.Origin{Recipient: "unit-1"}
	for name, c := range map[string]struct {
		r    reg
		st   *current
		want bool
	}{
		"never told":                          {reg{}, version(1), true},
		"acknowledged":                        {reg{acked: 3}, version(3), false},
		"a newer one acknowledged":            {reg{acked: 4}, version(3), false},
		"an older one acknowledged":           {reg{acked: 2}, version(3), true},
		"acknowledged, but asked for":         {reg{acked: 3, wanted: true}, version(3), true},
		"sent on the session before":          {reg{sent: 3}, version(3), true},
		"just sent":                           {reg{sent: 3, told: toldVersion, due: now + 1}, version(3), false},
		"sent, and time is up":                {reg{sent: 3, told: toldVersion, due: now}, version(3), true},
		"sent to who need not acknowledge it": {reg{sent: 3, told: toldVersion}, version(3), false},
		"a newer one sent":                    {reg{sent: 4, told: toldVersion, due: now}, version(3), false},
		"an older one sent":                   {reg{sent: 2, told: toldVersion, due: now + 1}, version(3), true},
		"its own change":                      {reg{}, mine, false},
		"its own change, asked for":           {reg{wanted: true}, mine, true},
		"unknown, never told":                 {reg{}, unknown(3), true},
		"unknown, although acknowledged":      {reg{acked: 3}, unknown(3), true},
		"unknown, told as such":               {reg{sent: 3, told: toldUnknown}, unknown(3), false},
		"unknown, told before that":           {reg{sent: 3, told: toldVersion, due: now + 1}, unknown(3), true},
		"unknown, a newer one sent":           {reg{sent: 4, told: toldVersion}, unknown(3), false},
		"unknown, an older one sent":          {reg{sent: 2, told: toldUnknown}, unknown(3), true},
		"known after a newer unknown":         {reg{sent: 4, told: toldUnknown}, version(3), false},
		"the version told as unknown":         {reg{sent: 3, told: toldUnknown}, version(3), false},
	} {
		if got := c.r.needs(c.st, &me, now); got != c.want {
			t.Errorf("%s: needed %t, want %t", name, got, c.want)
		}
	}
}

func TestRegistrationWaitsForItsAcknowledgement(t *testing.T) {
	var r reg
	r.ask()
	if r.wrote(version(3), true, 100) || r.wanted || r.due != 100+backoff(1) {
		t.Fatalf("%+v after the first time", r)
	}
	if !r.wrote(version(3), true, 200) || r.due != 200+backoff(2) {
		t.Fatalf("%+v after the second time", r)
	}
	if r.wrote(version(4), true, 300) || r.due != 300+backoff(1) {
		t.Fatalf("%+v after a newer version", r)
	}
	if !r.ack(3) || r.due == 0 {
		t.Fatalf("%+v: the acknowledgement of an older version ends the wait", r)
	}
	if !r.ack(4) || r.due != 0 || r.attempt != 0 {
		t.Fatalf("%+v waits for what is acknowledged", r)
	}
	if r.ack(4) || r.ack(2) || r.acked != 4 {
		t.Fatalf("%+v: an acknowledgement counts twice", r)
	}
	r.ask()
	if r.acked != 0 || r.wrote(version(4), true, 400) {
		t.Fatalf("%+v: what was asked for counts as redelivery", r)
	}
}

func TestObserversAreNotWaitedFor(t *testing.T) {
	var r reg
	if r.wrote(version(3), false, 100); r.due != 0 {
		t.Errorf("%+v waits for an observer", r)
	}
	if r.wrote(unknown(3), true, 100); r.due != 0 || r.told != toldUnknown {
		t.Errorf("%+v waits for what cannot be acknowledged", r)
	}
}

func TestRegistrationAfterAResetIsSentNothingOlder(t *testing.T) {
	r := reg{id: 5, acked: 4, sent: 4, told: toldVersion, due: 9, attempt: 3}
	if got := r.renewed(); got != (reg{id: 5, sent: 4, told: toldVersion, wanted: true}) {
		t.Errorf("%+v", got)
	}
}

// countingPeer is a peer that counts the frames that it receives.
type countingPeer struct{ frames int }

func (p *countingPeer) Format() frame.Format { return frame.JSON }

func (p *countingPeer) Send(frame.ServerKind, []byte, []byte) bool { p.frames++; return true }

func (*countingPeer) Cork()   {}
func (*countingPeer) Uncork() {}

func (*countingPeer) Queued() int { return 0 }

func TestRequestedStateFollowsItsAnswer(t *testing.T) {
	peer := &countingPeer{}
	c := &Client{svc: &Service{}, id: objectstore.ClientID{Device: "main"}}
	l := &liveSession{c: c, peer: peer, format: peer.Format(), started: true}
	r, w, st := &reg{}, &watched{name: name{key: object.Key{Group: "north", Object: "a"}}}, version(1)
	refused := func(when string) {
		t.Helper()
		if r.ask(); c.offer(l, r, w, st, 1) || peer.frames != 0 {
			t.Fatalf("%s it is sent", when)
		}
	}
	c.saves.change()
	refused("before the change is stored")
	c.pending.add(1, "north", []string{"a"})
	c.saves.end(c.saves.begin(0, 1), nil)
	refused("before the answer, which may leave now,")
	c.pending.pop()
	if !c.offer(l, r, w, st, 1) || peer.frames != 1 {
		t.Fatal("after the answer it is not sent")
	}
}

package storetest

import (
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

func (e *env) expire() time.Time {
	e.Helper()
	next, err := e.s.Expire(e.Context(), e.clock.Now())
	if err != nil {
		e.Fatalf("expire: %v", err)
	}
	return next
}

func (e *env) due() time.Time {
	e.Helper()
	next, err := e.s.Due(e.Context(), e.clock.Now())
	if err != nil {
		e.Fatalf("due: %v", err)
	}
	return next
}

var timeCases = []testCase{
	{"NothingIsReadOnceItHasExpired", []Ability{Status}, func(e *env) {
		e.stored(e.note("short", ttl(10*time.Second)), "r")
		e.stored(e.note("long"), "r")
		e.clock.Advance(10*time.Second - time.Millisecond)
		e.wantPending("r", "short", "long")
		e.clock.Advance(time.Millisecond)
		e.wantPending("r", "long")
		e.wantStatus("r", "short", notification.Expired)
	}},
	{"ExpireEndsWhatIsOverdueAndTellsWhenToComeAgain", []Ability{Status}, func(e *env) {
		if next := e.expire(); !next.IsZero() {
			e.Errorf("an empty store wants to be called at %s", next)
		}
		start := e.clock.Now()
		e.stored(e.note("a", ttl(10*time.Second)), "r")
		e.stored(e.note("b", ttl(20*time.Second)), "r", "s")
		e.stored(e.note("later", sendAfter(time.Second, 4*time.Second)), "s")
		if next := e.expire(); next.IsZero() || next.After(start.Add(5*time.Second)) {
			e.Errorf("next %s, want no later than the first expiry", next)
		}
		e.clock.Advance(10 * time.Second)
		next := e.expire()
		for ; !next.IsZero() && !next.After(e.clock.Now()); next = e.expire() {
		}
		if !next.After(e.clock.Now()) || next.After(start.Add(20*time.Second)) {
			e.Errorf("next %s, want by %s", next, start.Add(20*time.Second))
		}
		told := map[string]bool{}
		for _, s := range e.rec.All().Settled {
			if s.As != notification.Expired || s.Category != "C" {
				e.Errorf("told %+v", s)
			}
			told[s.Recipient+s.ID] = true
		}
		if len(told) != 2 || !told["ra"] || !told["slater"] {
			e.Errorf("expired %v, want a of r and later of s", told)
		}
		e.wantPending("r", "b")
		e.reopen()
		e.clock.Advance(10 * time.Second)
		for next := e.expire(); !next.IsZero() && !next.After(e.clock.Now()); next = e.expire() {
		}
		e.wantStatus("s", "b", notification.Expired)
		if st := e.s.Stats(); st.Pending != 0 || st.Scheduled != 0 {
			e.Errorf("stats %+v, want nothing left", st)
		}
	}},
	{"ExpiryGoesThroughABacklogInSlices", nil, func(e *env) {
		for i := range 3 {
			var to []string
			for j := range 700 {
				to = append(to, fmt.Sprint("r", j))
			}
			e.stored(e.note(fmt.Sprint("n", i), ttl(time.Second)), to...)
		}
		e.clock.Advance(time.Second)
		calls := 0
		for next := e.expire(); !next.IsZero() && !next.After(e.clock.Now()); next = e.expire() {
			calls++
		}
		if n := len(e.rec.All().Settled); n != 2100 {
			e.Errorf("%d expired after %d calls, want 2100", n, calls)
		}
	}},
	{"AnAckSoonAfterExpiryCountsIfItHadBeenDelivered", []Ability{Status}, func(e *env) {
		for _, id := range []string{"marked", "told", "never", "late", "swept"} {
			e.stored(e.note(id, ttl(10*time.Second)), "r")
		}
		pos := map[string]int64{}
		for _, it := range e.rec.All().Stored {
			pos[it.N.ID] = it.Pos
		}
		at := e.clock.Advance(5 * time.Second)
		for _, id := range []string{"marked", "late", "swept"} {
			e.s.Mark([]mailbox.Mark{{App: App, Recipient: "r", ID: id, Pos: pos[id], Attempts: 1, DeliveredAt: at}})
		}
		e.reopen() // which writes the marks; one that is being written may be lost
		e.clock.Advance(6 * time.Second)
		e.ends("r", "marked", notification.Acked, mailbox.SettleDone) // not swept yet
		e.wantStatus("r", "marked", notification.Acked)
		e.expire()
		e.clock.Advance(20 * time.Second)
		e.ends("r", "swept", notification.Acked, mailbox.SettleDone)
		e.wantStatus("r", "swept", notification.Acked)
		e.ends("r", "swept", notification.Acked, mailbox.SettleAlready)
		q := &mailbox.Settle{Recipient: "r", ID: "told", As: notification.Acked, DeliveredAt: at}
		if got := e.settleWith(q); got != mailbox.SettleDone {
			e.Errorf("an ack that tells of the delivery: outcome %d, want done", got)
		}
		e.ends("r", "never", notification.Acked, mailbox.SettleLate)
		e.wantStatus("r", "never", notification.Expired)
		e.clock.Advance(40 * time.Second)
		e.ends("r", "late", notification.Acked, mailbox.SettleLate)
		e.wantStatus("r", "late", notification.Expired)
	}},
	{"AnOverdueOneCannotBeAckedBeforeItIsSweptEither", []Ability{Status}, func(e *env) {
		e.stored(e.note("x", ttl(time.Second)), "r")
		e.clock.Advance(time.Second)
		e.ends("r", "x", notification.Acked, mailbox.SettleLate)
		e.wantStatus("r", "x", notification.Expired)
		e.expire()
		if n := len(e.rec.All().Settled); n != 1 {
			e.Errorf("told of %d endings, want one", n)
		}
	}},
	{"AScheduledOneGetsItsSeqWhenItBecomesDue", []Ability{Status}, func(e *env) {
		start := e.clock.Now()
		e.stored(e.note("later", sendAfter(10*time.Second, time.Minute)), "r")
		e.stored(e.note("sooner", sendAfter(5*time.Second, time.Minute)), "r", "s")
		e.stored(e.note("now"), "r")
		e.wantPending("r", "now")
		e.wantStatus("r", "later", notification.Scheduled)
		if st := e.s.Stats(); st.Pending != 1 || st.Scheduled != 3 {
			e.Errorf("stats %+v, want 1 pending and 3 scheduled", st)
		}
		if next := e.due(); !next.Equal(start.Add(5 * time.Second)) {
			e.Errorf("next due %s, want %s", next, start.Add(5*time.Second))
		}
		e.clock.Advance(5 * time.Second)
		if next := e.due(); !next.Equal(start.Add(10 * time.Second)) {
			e.Errorf("next due %s, want %s", next, start.Add(10*time.Second))
		}
		told := e.rec.All().Due
		if len(told) != 2 || told[0].N.ID != "sooner" || told[0].Seq == 0 || told[0].N.Content.Title != "T" {
			e.Fatalf("told of %+v", told)
		}
		e.stored(e.note("after"), "r")
		e.clock.Advance(5 * time.Second)
		if next := e.due(); !next.IsZero() {
			e.Errorf("next due %s, want none", next)
		}
		check := func() {
			e.Helper()
			for i, it := range e.wantPending("r", "now", "sooner", "after", "later") {
				if it.Seq != uint64(i+1) {
					e.Errorf("%s has seq %d, want %d", it.N.ID, it.Seq, i+1)
				}
			}
		}
		check()
		e.reopen()
		check()
	}},
	{"OverdueAfterDowntimeIsSentUnlessExpired", []Ability{Status}, func(e *env) {
		e.stored(e.note("gone", sendAfter(time.Second, time.Second)), "r")
		e.stored(e.note("late", sendAfter(time.Second, time.Hour)), "r")
		e.clock.Advance(time.Minute)
		e.reopen()
		e.due()
		e.wantPending("r", "late")
		e.wantStatus("r", "gone", notification.Expired)
		if st := e.s.Stats(); st.Scheduled != 0 {
			e.Errorf("%d scheduled, want none", st.Scheduled)
		}
	}},
	{"SeqDoesNotRestartAfterScheduledOnesBecameDue", []Ability{Crash}, func(e *env) {
		e.stored(e.note("x", sendAfter(time.Second, time.Hour)), "r")
		for i := range 5 {
			e.stored(e.note(fmt.Sprint("n", i)), "r")
		}
		e.reopen()
		e.clock.Advance(time.Second)
		e.due()
		e.acked("r", "x")
		s := e.s
		if e.o.Crash != nil {
			s = e.o.Crash()
		}
		res, err := s.Pending(e.Context(), []mailbox.PendingQuery{{App: App, Recipient: "r"}})
		if err != nil || res[0].LastSeq != 6 {
			e.Errorf("last seq %d, %v; want 6", res[0].LastSeq, err)
		}
	}},
}
